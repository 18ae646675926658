//! Users and access-control lists.

use anyhow::ensure;
use redstart_wire::remoting::body::{Acl, Policy, PolicyEntry, User};

use super::{
    context::{Context, Outcome, say},
    text::list,
};

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// The trimmed items of a comma-separated list.
fn parts(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn user(c: &Context) -> anyhow::Result<User> {
    Ok(User {
        username: c.text("u")?.to_owned(),
        password: owned(c.get("p")),
        user_type: owned(c.get("t")),
        user_status: owned(c.get("s")),
    })
}

pub async fn create_user(c: &Context) -> Outcome {
    let user = user(c)?;
    for address in c.brokers().await? {
        c.admin.create_user(&address, &user).await?;
        say!(c, "create user to {address} success.");
    }
    Ok(())
}

pub async fn update_user(c: &Context) -> Outcome {
    let user = user(c)?;
    for address in c.brokers().await? {
        c.admin.update_user(&address, &user).await?;
        say!(c, "update user to {address} success.");
    }
    Ok(())
}

pub async fn delete_user(c: &Context) -> Outcome {
    for address in c.brokers().await? {
        c.admin.delete_user(&address, c.text("u")?).await?;
        say!(c, "delete user to {address} success.");
    }
    Ok(())
}

fn show_users(c: &Context, users: &[User]) -> Outcome {
    say!(c, "{:<16}  {:<22}  {:<22}  {:<22}", "#UserName", "#Password", "#UserType", "#UserStatus");
    for user in users {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
        say!(
            c,
            "{:<16}  {:<22}  {:<22}  {:<22}",
            user.username,
            text(&user.password),
            text(&user.user_type),
            text(&user.user_status)
        );
    }
    Ok(())
}

pub async fn get_user(c: &Context) -> Outcome {
    for address in c.masters().await? {
        if let Some(user) = c.admin.user(&address, c.text("u")?).await? {
            return show_users(c, &[user]);
        }
    }
    Ok(())
}

pub async fn list_users(c: &Context) -> Outcome {
    for address in c.masters().await? {
        let users = c.admin.users(&address, c.get("f")).await?;
        if !users.is_empty() {
            show_users(c, &users)?;
            if !c.has("b") {
                say!(c, "get user from {address} success.");
            }
            break;
        }
    }
    Ok(())
}

pub async fn copy_users(c: &Context) -> Outcome {
    let (from, to) = (c.text("f")?, c.text("t")?);
    let mut users = Vec::new();
    match c.get("u").filter(|names| !names.is_empty()) {
        Some(names) => {
            for name in parts(names) {
                users.extend(c.admin.user(from, &name).await?);
            }
        }
        None => users = c.admin.users(from, None).await?,
    }
    for user in users {
        match c.admin.user(to, &user.username).await? {
            None => c.admin.create_user(to, &user).await?,
            Some(_) => c.admin.update_user(to, &user).await?,
        }
        say!(c, "copy user of {} from {from} to {to} success.", user.username);
    }
    Ok(())
}

/// One policy entry for each resource, with the same actions, source addresses and decision.
fn acl(c: &Context) -> anyhow::Result<Acl> {
    let entry = |resource: String| {
        Ok(PolicyEntry {
            resource,
            actions: parts(c.text("a")?),
            source_ips: c.get("i").map(parts),
            decision: c.text("d")?.to_owned(),
        })
    };
    let entries = parts(c.text("r")?).into_iter().map(entry).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(!entries.is_empty(), "the option -r names no resource");
    Ok(Acl { subject: Some(c.text("s")?.to_owned()), policies: vec![Policy { policy_type: None, entries }] })
}

pub async fn create_acl(c: &Context) -> Outcome {
    let acl = acl(c)?;
    for address in c.brokers().await? {
        c.admin.create_acl(&address, c.text("s")?, &acl).await?;
        say!(c, "create acl to {address} success.");
    }
    Ok(())
}

pub async fn update_acl(c: &Context) -> Outcome {
    let acl = acl(c)?;
    for address in c.brokers().await? {
        c.admin.update_acl(&address, c.text("s")?, &acl).await?;
        say!(c, "update acl to {address} success.");
    }
    Ok(())
}

pub async fn delete_acl(c: &Context) -> Outcome {
    for address in c.brokers().await? {
        c.admin.delete_acl(&address, c.text("s")?, c.get("r")).await?;
        say!(c, "delete acl to {address} success.");
    }
    Ok(())
}

fn show_acls(c: &Context, acls: &[Acl]) -> Outcome {
    let row = |cells: [&str; 6]| {
        let [subject, kind, resource, actions, hosts, decision] = cells;
        format!("{subject:<16}  {kind:<10}  {resource:<22}  {actions:<20}  {hosts:<24}  {decision:<10}")
    };
    say!(c, "{}", row(["#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision"]));
    for acl in acls {
        let subject = acl.subject.as_deref().unwrap_or("null");
        if acl.policies.is_empty() {
            say!(c, "{}", row([subject, "", "", "", "", ""]));
        }
        for policy in &acl.policies {
            let kind = policy.policy_type.as_deref().unwrap_or("null");
            for entry in &policy.entries {
                let hosts = entry.source_ips.as_ref().map_or_else(|| "null".to_owned(), |hosts| list(hosts));
                say!(
                    c,
                    "{}",
                    row([subject, kind, &entry.resource, &list(&entry.actions), &hosts, &entry.decision])
                );
            }
        }
    }
    Ok(())
}

pub async fn get_acl(c: &Context) -> Outcome {
    for address in c.masters().await? {
        if let Some(acl) = c.admin.acl(&address, c.text("s")?).await? {
            show_acls(c, &[acl])?;
        }
    }
    Ok(())
}

pub async fn list_acls(c: &Context) -> Outcome {
    for address in c.masters().await? {
        let acls = c.admin.acls(&address, c.get("s"), c.get("r")).await?;
        if !acls.is_empty() {
            show_acls(c, &acls)?;
        }
    }
    Ok(())
}

pub async fn copy_acls(c: &Context) -> Outcome {
    let (from, to) = (c.text("f")?, c.text("t")?);
    let mut acls = Vec::new();
    match c.get("s").filter(|subjects| !subjects.is_empty()) {
        Some(subjects) => {
            for subject in parts(subjects) {
                acls.extend(c.admin.acl(from, &subject).await?);
            }
        }
        None => acls = c.admin.acls(from, None, None).await?,
    }
    for acl in acls {
        let subject = acl.subject.clone().unwrap_or_default();
        match c.admin.acl(to, &subject).await? {
            None => c.admin.create_acl(to, &subject, &acl).await?,
            Some(_) => c.admin.update_acl(to, &subject, &acl).await?,
        }
        say!(c, "copy acl of {subject} from {from} to {to} success.");
    }
    Ok(())
}
