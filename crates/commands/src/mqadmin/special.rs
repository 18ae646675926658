//! Features that only some brokers have: throttled cold reads, containers, RocksDB, timer engines. The requests are sent to every
//! broker; Redstart refuses them.

use anyhow::{Context as _, bail, ensure};
use redstart_wire::remoting::{Command, code};

use super::{
    context::{Context, Outcome, say},
    json,
    text::{now, second},
};

const SWITCH_TIMER_ENGINE: i32 = 5001;
const THIRTY_DAYS_MS: i64 = 30 * 24 * 3600 * 1000;

pub async fn reset_flush_offset(c: &Context) -> Outcome {
    let offset: i64 = c.number("o")?;
    let request = Command::request(code::RESET_MASTER_FLUSH_OFFSET).with_field("masterFlushOffset", offset);
    c.admin.ask(c.text("b")?, request).await?;
    say!(c, "reset master flush offset to {offset} success");
    Ok(())
}

pub async fn read_ahead(c: &Context) -> Outcome {
    let mode = c.text("m")?;
    ensure!(matches!(mode, "0" | "1"), "set the read mode error; 0 is default, 1 random read");
    for address in c.brokers().await? {
        let request = Command::request(code::SET_COMMITLOG_READ_MODE).with_field("READ_AHEAD_MODE", mode);
        let answer = c.admin.ask(&address, request).await?;
        say!(c, " ============{address}============");
        say!(c, "commitLog set readAhead mode rstStr{}", answer.remark.unwrap_or_default());
    }
    Ok(())
}

pub async fn cold_reads(c: &Context) -> Outcome {
    for address in c.brokers().await? {
        let mut info =
            c.admin.ask_json(&address, Command::request(code::GET_COLD_DATA_FLOW_CTR_INFO)).await?;
        say!(c, " ============{address}============");
        for group in info["runtimeTable"].as_object_mut().into_iter().flat_map(|table| table.values_mut()) {
            let Some(group) = group.as_object_mut() else { continue };
            for (name, shown) in
                [("lastColdReadTimeMills", "lastColdReadTimeFormat"), ("createTimeMills", "createTimeFormat")]
            {
                let at = group.remove(name).and_then(|at| at.as_i64()).unwrap_or(0);
                group.insert(shown.to_owned(), second(at).into());
            }
        }
        say!(c, "{}", json::pretty(&info));
    }
    Ok(())
}

pub async fn update_cold_reads(c: &Context) -> Outcome {
    let body = format!("{}={}\n", c.text("g")?, c.text("v")?);
    for address in c.masters().await? {
        let mut request = Command::request(code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG);
        request.body = body.clone().into();
        c.admin.ask(&address, request).await?;
        say!(c, "updateColdDataFlowCtrGroupConfig success, {address}");
    }
    Ok(())
}

pub async fn remove_cold_reads(c: &Context) -> Outcome {
    let group = c.text("g")?.to_owned();
    for address in c.masters().await? {
        let mut request = Command::request(code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG);
        request.body = group.clone().into();
        c.admin.ask(&address, request).await?;
        say!(c, "remove broker cold read threshold success, {address}");
    }
    Ok(())
}

pub async fn add_broker(c: &Context) -> Outcome {
    let container = c.text("c")?;
    let request = Command::request(code::ADD_BROKER).with_field("configPath", c.text("b")?);
    c.admin.ask(container, request).await?;
    say!(c, "add broker to {container} success");
    Ok(())
}

pub async fn remove_broker(c: &Context) -> Outcome {
    let container = c.text("c")?;
    let identity: Vec<&str> = c.text("b")?.split(':').map(str::trim).collect();
    let [cluster, name, id] = identity.as_slice() else {
        bail!("the option -b is clusterName:brokerName:brokerId, not {:?}", c.get("b").unwrap_or_default());
    };
    let id: u64 = id.parse().ok().with_context(|| format!("{id:?} is no broker id"))?;
    let request = Command::request(code::REMOVE_BROKER)
        .with_field("brokerClusterName", cluster)
        .with_field("brokerName", name)
        .with_field("brokerId", id);
    c.admin.ask(container, request).await?;
    say!(c, "remove broker from {container} success");
    Ok(())
}

pub async fn pop_records(c: &Context) -> Outcome {
    // A dry run sends no request. (In Apache 5.5.0, -d has the opposite effect.)
    let dry = c.is_true("d");
    for address in c.brokers().await? {
        let name = c.admin.broker_config(&address).await?.remove("brokerName").unwrap_or_default();
        if !dry {
            c.admin.ask(&address, Command::request(code::POP_ROLLBACK)).await?;
        }
        say!(c, "Export broker records, brokerName={name}, brokerAddr={address}, dryRun={dry}");
    }
    Ok(())
}

pub async fn switch_timer(c: &Context) -> Outcome {
    let engine = match c.text("e")? {
        "R" => "ROCKSDB_TIMELINE",
        "F" => "FILE_TIME_WHEEL",
        other => bail!("switchTimerEngine engineType must be R or F, not {other:?}"),
    };
    for address in c.masters().await? {
        let request = Command::request(SWITCH_TIMER_ENGINE).with_field("E_T", c.text("e")?);
        c.admin.ask(&address, request).await?;
        say!(c, "switchTimerEngine to {engine} success, {address}");
    }
    Ok(())
}

pub async fn rocksdb_config(c: &Context) -> Outcome {
    if !c.has("b") && !c.has("c") {
        return rocksdb_files(c).await;
    }
    say!(c, "Use [rpc mode] call broker to export to json file ");
    let kinds = c.get("t").unwrap_or("topics;subscriptionGroups;consumerOffsets");
    for address in c.masters().await? {
        let request = Command::request(code::EXPORT_ROCKSDB_CONFIG_TO_JSON).with_field("configType", kinds);
        c.admin.ask(&address, request).await?;
    }
    say!(c, "broker export done.");
    Ok(())
}

pub async fn rocksdb_queues(c: &Context) -> Outcome {
    let since: i64 = c.number_or("cf", now() - THIRTY_DAYS_MS)?;
    for broker in c.of_cluster(c.text("c")?).await?.iter().filter(|broker| broker.id == 0) {
        let request = Command::request(code::CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
            .with_field("topic", c.get("t").unwrap_or_default())
            .with_field("checkStoreTime", since);
        let result = c.admin.ask_json(&broker.address, request).await?;
        match result["checkStatus"].as_i64() {
            Some(3) => {
                bail!("{} check error, please check log... errInfo: {}", broker.name, result["checkResult"]);
            }
            _ => say!(c, "{} check doing, please wait and get the result from log... ", broker.name),
        }
    }
    Ok(())
}

pub async fn rocksdb_files(_: &Context) -> Outcome {
    bail!(
        "this reads RocksDB files of Apache's broker; Redstart has none, and its own data is read with `redstart check`"
    )
}

pub async fn compaction_log(_: &Context) -> Outcome {
    bail!(
        "this reads compaction logs of Apache's broker; Redstart has none, and its own data is read with `redstart check`"
    )
}

pub async fn static_topic(_: &Context) -> Outcome {
    bail!(
        "static topics are laid out by Apache's own mqadmin, for its brokers only: with Redstart a topic's queues stay where they are"
    )
}
