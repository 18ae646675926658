//! Controllers, which elect the masters of Apache's replicated brokers. Redstart has none and refuses these requests.

use anyhow::Context as _;
use redstart_wire::remoting::Command;
use serde_json::Value;

use super::{
    cluster::again,
    context::{Context, Outcome, say},
    text::list,
};

const ELECT_MASTER: i32 = 1002;
const GET_METADATA: i32 = 1005;
const GET_SYNC_STATE: i32 = 1006;
const UPDATE_CONFIG: i32 = 1009;
const GET_CONFIG: i32 = 1010;
const CLEAN_BROKER: i32 = 1011;

fn addresses(c: &Context) -> anyhow::Result<Vec<String>> {
    Ok(c.text("a")?.split(';').map(|address| address.trim().to_owned()).filter(|a| !a.is_empty()).collect())
}

async fn metadata_of(c: &Context) -> anyhow::Result<Command> {
    let addresses = addresses(c)?;
    let first = addresses.first().context("the option -a names no controller")?;
    Ok(c.admin.ask(first, Command::request(GET_METADATA)).await?)
}

/// The address of the leader of the controllers.
async fn leader(c: &Context) -> anyhow::Result<String> {
    let metadata = metadata_of(c).await?;
    Ok(metadata.required("controllerLeaderAddress").context("the controllers have no leader")?.to_owned())
}

pub async fn metadata(c: &Context) -> Outcome {
    let metadata = metadata_of(c).await?;
    let field = |name: &str| metadata.field(name).unwrap_or("null").to_owned();
    say!(c);
    say!(c, "#ControllerGroup\t{}", field("group"));
    say!(c, "#ControllerLeaderId\t{}", field("controllerLeaderId"));
    say!(c, "#ControllerLeaderAddress\t{}", field("controllerLeaderAddress"));
    for peer in
        metadata.field("peers").into_iter().flat_map(|peers| peers.split(';')).filter(|peer| !peer.is_empty())
    {
        say!(c, "#Peer:\t{peer}");
    }
    Ok(())
}

pub async fn config(c: &Context) -> Outcome {
    for address in addresses(c)? {
        let answer = c.admin.ask(&address, Command::request(GET_CONFIG)).await?;
        say!(c, "============{address}============");
        for line in String::from_utf8_lossy(&answer.body).lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = line.split_once('=') {
                say!(c, "{name:<50}=  {value}");
            }
        }
    }
    Ok(())
}

pub async fn update_config(c: &Context) -> Outcome {
    let (key, value) = (c.text("k")?, c.text("v")?);
    let addresses = addresses(c)?;
    for address in &addresses {
        let mut request = Command::request(UPDATE_CONFIG);
        request.body = format!("{key}={value}\n").into();
        c.admin.ask(address, request).await?;
    }
    say!(c, "update controller config success!{}\n{key} : {value}", list(&addresses));
    Ok(())
}

pub async fn sync_state(c: &Context) -> Outcome {
    loop {
        let names: Vec<String> = match (c.get("b"), c.get("c")) {
            (Some(name), _) => vec![name.to_owned()],
            (None, Some(cluster)) => {
                c.of_cluster(cluster).await?.into_iter().map(|broker| broker.name).collect()
            }
            (None, None) => anyhow::bail!("either -b or -c is needed"),
        };
        let mut request = Command::request(GET_SYNC_STATE);
        request.body = serde_json::to_vec(&names)?.into();
        let state = c.admin.ask_json(&leader(c).await?, request).await?;
        for (name, replicas) in state["replicasInfoTable"].as_object().into_iter().flatten() {
            let none = Vec::new();
            let members = |list: &str| replicas[list].as_array().unwrap_or(&none).clone();
            let in_sync = members("inSyncReplicas");
            say!(
                c,
                "\n#brokerName\t{name}\n#MasterBrokerId\t{}\n#MasterAddr\t{}\n#MasterEpoch\t{}\n#SyncStateSetEpoch\t{}\n\
                 #SyncStateSetNums\t{}",
                replicas["masterBrokerId"],
                replicas["masterAddress"].as_str().unwrap_or("null"),
                replicas["masterEpoch"],
                replicas["syncStateSetEpoch"],
                in_sync.len()
            );
            for member in in_sync {
                say!(c, "\nInSyncReplica:\t{}", replica(&member));
            }
            for member in members("notInSyncReplicas") {
                say!(c, "\nNotInSyncReplica:\t{}", replica(&member));
            }
        }
        if !again(c).await? {
            return Ok(());
        }
    }
}

fn replica(member: &Value) -> String {
    format!(
        "ReplicaIdentity{{brokerName='{}', brokerId={}, brokerAddress='{}', alive={}}}",
        member["brokerName"].as_str().unwrap_or("null"),
        member["brokerId"],
        member["brokerAddress"].as_str().unwrap_or("null"),
        member["alive"]
    )
}

pub async fn elect(c: &Context) -> Outcome {
    let (cluster, name) = (c.text("c")?, c.text("bn")?);
    let leader = leader(c).await?;
    let request = Command::request(ELECT_MASTER)
        .with_field("clusterName", cluster)
        .with_field("brokerName", name)
        .with_field("brokerId", c.number::<i64>("b")?)
        .with_field("designateElect", true);
    let answer = c.admin.ask(&leader, request).await?;
    let field = |name: &str| answer.field(name).unwrap_or("null").to_owned();
    say!(c, "\n#ClusterName\t{cluster}\n#BrokerName\t{name}");
    say!(c, "#BrokerMasterAddr\t{}", field("masterAddress"));
    say!(c, "#MasterEpoch\t{}", field("masterEpoch"));
    say!(c, "#SyncStateSetEpoch\t{}", field("syncStateSetEpoch"));
    let members: Value = redstart_wire::remoting::from_slice(&answer.body).unwrap_or_default();
    for (id, address) in members["brokerAddrs"].as_object().into_iter().flatten() {
        say!(c, "\t#Broker\t{id}\t{}", address.as_str().unwrap_or_default());
    }
    Ok(())
}

pub async fn clean(c: &Context) -> Outcome {
    let name = c.text("bn")?;
    let living = c.has("l");
    anyhow::ensure!(
        living || c.has("c"),
        "cleanLivingBroker option is false, clusterName option can not be empty."
    );
    let leader = leader(c).await?;
    let mut request =
        Command::request(CLEAN_BROKER).with_field("brokerName", name).with_field("cleanLivingBroker", living);
    for (option, field) in [("c", "clusterName"), ("b", "brokerControllerIdsToClean")] {
        if let Some(value) = c.get(option) {
            request = request.with_field(field, value);
        }
    }
    c.admin.ask(&leader, request).await?;
    say!(c, "clear broker {name} metadata from controller success! ");
    Ok(())
}
