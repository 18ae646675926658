//! Access control of 4.x brokers. Later releases of mqadmin have no commands for it.

use redstart_wire::remoting::{Command, code};

use super::{
    context::{Context, Outcome, say},
    text::second,
};

pub async fn update(c: &Context) -> Outcome {
    let mut request = Command::request(code::UPDATE_AND_CREATE_ACL_CONFIG);
    for (option, field) in [
        ("a", "accessKey"),
        ("s", "secretKey"),
        ("w", "whiteRemoteAddress"),
        ("i", "defaultTopicPerm"),
        ("u", "defaultGroupPerm"),
        ("t", "topicPerms"),
        ("g", "groupPerms"),
        ("m", "admin"),
    ] {
        if let Some(value) = c.get(option) {
            request = request.with_field(field, value);
        }
    }
    for address in c.masters().await? {
        c.admin.ask(&address, request.clone()).await?;
        say!(c, "create or update plain access config to {address} success.");
    }
    Ok(())
}

pub async fn delete(c: &Context) -> Outcome {
    let key = c.text("a")?;
    for address in c.masters().await? {
        c.admin.ask(&address, Command::request(code::DELETE_ACL_CONFIG).with_field("accessKey", key)).await?;
        say!(c, "delete plain access config account from {address} success.");
        say!(c, "account's accesskey is:{key}");
    }
    Ok(())
}

pub async fn white_addresses(c: &Context) -> Outcome {
    let mut request =
        Command::request(code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG).with_field("globalWhiteAddrs", c.text("g")?);
    if let Some(path) = c.get("p") {
        request = request.with_field("aclFileFullPath", path);
    }
    for address in c.masters().await? {
        c.admin.ask(&address, request.clone()).await?;
        say!(c, "update global white remote addresses to {address} success.");
    }
    Ok(())
}

pub async fn versions(c: &Context) -> Outcome {
    let mut rows = Vec::new();
    for address in c.masters().await? {
        let answer = c.admin.ask(&address, Command::request(code::GET_BROKER_CLUSTER_ACL_INFO)).await?;
        rows.push((address, answer));
    }
    say!(
        c,
        "{:<16}  {:<22}  {:<22}  {:<20}  {:<22}",
        "#Cluster Name",
        "#Broker Name",
        "#Broker Addr",
        "#AclConfigVersionNum",
        "#AclLastUpdateTime"
    );
    for (address, answer) in rows {
        let field = |name: &str| answer.field(name).unwrap_or("null").to_owned();
        let version: serde_json::Value = serde_json::from_str(&field("version")).unwrap_or_default();
        say!(
            c,
            "{:<16}  {:<22}  {:<22}  {:<20}  {:<22}",
            field("clusterName"),
            field("brokerName"),
            address,
            version["counter"].to_string(),
            version["timestamp"].as_i64().map(second).unwrap_or_default()
        );
    }
    say!(c, "get cluster's plain access config version success.");
    Ok(())
}
