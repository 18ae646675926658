//! Settings of brokers and name servers, and clean-up requests to brokers.

use std::collections::BTreeMap;

use redstart_client::admin::{Broker, Cleaning};

use super::{
    context::{Context, Outcome, say},
    text::list,
};

fn show(c: &Context, settings: &BTreeMap<String, String>) -> Outcome {
    for (name, value) in settings {
        say!(c, "{name:<50}=  {value}");
    }
    Ok(())
}

pub async fn broker(c: &Context) -> Outcome {
    if let Some(address) = c.get("b") {
        say!(c, "============{address}============");
        show(c, &c.admin.broker_config(address).await?)?;
        say!(c);
        return Ok(());
    }
    let brokers = of_cluster(c).await?;
    for broker in &brokers {
        let address = &broker.address;
        let master = brokers.iter().find(|other| other.name == broker.name && other.id == 0);
        match master.map(|master| &master.address).filter(|_| broker.id != 0) {
            Some(master) => say!(c, "============My Master: {master}=====Slave: {address}============"),
            None if broker.id == 0 => say!(c, "============Master: {address}============"),
            None => say!(c, "============My Master: NO_MASTER=====Slave: {address}============"),
        }
        show(c, &c.admin.broker_config(address).await?)?;
        say!(c);
    }
    Ok(())
}

async fn of_cluster(c: &Context) -> anyhow::Result<Vec<Broker>> {
    let Some(cluster) = c.get("c") else { anyhow::bail!("either -b or -c is needed") };
    c.of_cluster(cluster).await
}

pub async fn update_broker(c: &Context) -> Outcome {
    let (key, value) = (c.text("k")?, c.text("v")?);
    let addresses = if c.has("a") { c.brokers().await? } else { c.masters().await? };
    for address in addresses {
        c.admin.update_broker_config(&address, key, value).await?;
        say!(c, "update broker config success, {address}");
    }
    Ok(())
}

pub async fn name_servers(c: &Context) -> Outcome {
    for address in c.admin.names() {
        say!(c, "============{address}============");
        show(c, &c.admin.name_config(address).await?)?;
    }
    Ok(())
}

pub async fn update_name_servers(c: &Context) -> Outcome {
    let (key, value) = (c.text("k")?, c.text("v")?);
    c.admin.update_name_config(key, value).await?;
    let named = if c.has("n") { list(c.admin.names()) } else { String::new() };
    say!(c, "update name server config success!{named}\n{key} : {value}");
    Ok(())
}

pub async fn clean_queues(c: &Context) -> Outcome {
    clean(c, Cleaning::Queues).await
}

pub async fn clean_topics(c: &Context) -> Outcome {
    clean(c, Cleaning::Topics).await
}

pub async fn clean_log(c: &Context) -> Outcome {
    clean(c, Cleaning::Log).await
}

/// Asks one broker, a cluster, or all brokers to clean up.
async fn clean(c: &Context, what: Cleaning) -> Outcome {
    let addresses = match c.has("b") || c.has("c") {
        true => c.brokers().await?,
        false => c.admin.brokers().await?.into_iter().map(|broker| broker.address).collect(),
    };
    for address in addresses {
        c.admin.clean(&address, what).await?;
    }
    say!(c, "success");
    Ok(())
}
