//! Brokers: lists, run-time information, replication status.

use std::{collections::BTreeMap, time::Duration};

use redstart_client::admin::Broker;
use redstart_wire::remoting::{Command, code};
use serde_json::Value;

use super::{
    context::{Context, Outcome, say},
    text::{millisecond, now},
};

const HOUR_MS: f64 = 3_600_000.0;
/// Seconds between two reports when `-i` has no number.
pub const INTERVAL_SECONDS: u64 = 3;

/// Waits for the interval of `-i`; returns `false` without `-i`, which means one report only.
pub async fn again(c: &Context) -> anyhow::Result<bool> {
    if !c.has("i") {
        return Ok(false);
    }
    // The report must be visible before the wait for the next one.
    c.flush()?;
    tokio::time::sleep(Duration::from_secs(c.number_or("i", INTERVAL_SECONDS)?)).await;
    Ok(true)
}

pub async fn list(c: &Context) -> Outcome {
    loop {
        let mut brokers = match c.get("c").filter(|cluster| !cluster.is_empty()) {
            Some(cluster) => c.of_cluster(cluster).await?,
            None => c.admin.brokers().await?,
        };
        brokers.sort();
        if c.has("m") {
            totals(c, &brokers).await?;
        } else {
            overview(c, &brokers).await?;
        }
        if !again(c).await? {
            return Ok(());
        }
    }
}

async fn totals(c: &Context, brokers: &[Broker]) -> Outcome {
    say!(
        c,
        "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}",
        "#Cluster Name",
        "#Broker Name",
        "#InTotalYest",
        "#OutTotalYest",
        "#InTotalToday",
        "#OutTotalToday"
    );
    for broker in brokers {
        let info = c.admin.runtime_info(&broker.address).await.unwrap_or_default();
        let count = |name: &str| info.get(name).and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
        let put =
            ["msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow"].map(count);
        let got =
            ["msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow"].map(count);
        say!(
            c,
            "{:<16}  {:<32} {:>14} {:>14} {:>14} {:>14}",
            broker.cluster,
            broker.name,
            put[1] - put[0],
            got[1] - got[0],
            put[2] - put[1],
            got[2] - got[1]
        );
    }
    Ok(())
}

async fn overview(c: &Context, brokers: &[Broker]) -> Outcome {
    say!(
        c,
        "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:<11}  {:<12}  {:<8}  {:<10}",
        "#Cluster Name",
        "#Broker Name",
        "#BID",
        "#Addr",
        "#Version",
        "#InTPS(LOAD)",
        "#OutTPS(LOAD)",
        "#Timer(Progress)",
        "#PCWait(ms)",
        "#Hour",
        "#SPACE",
        "#ACTIVATED"
    );
    for broker in brokers {
        let info = match c.admin.runtime_info(&broker.address).await {
            Ok(info) => info,
            Err(error) => {
                eprintln!("mqadmin clusterList: {error}");
                BTreeMap::new()
            }
        };
        say!(c, "{}", row(broker, &info, now()));
    }
    Ok(())
}

fn row(broker: &Broker, info: &BTreeMap<String, String>, now: i64) -> String {
    let text = |name: &str| info.get(name).map_or("", String::as_str);
    let or_n = |name: &str| info.get(name).map_or("N", String::as_str);
    let number = |name: &str| text(name).parse::<f64>().unwrap_or(0.0);
    // Rates over the last 10 s, 60 s and 10 min.
    let rate = |name: &str| text(name).split(' ').next().and_then(|rate| rate.parse().ok()).unwrap_or(0.0);
    let (sent, read): (f64, f64) = (rate("putTps"), rate("getTransferredTps"));
    let in_load = format!(
        "{sent:9.2}({},{}ms)",
        text("sendThreadPoolQueueSize"),
        text("sendThreadPoolQueueHeadWaitTimeMills")
    );
    let out_load = format!(
        "{read:9.2}({},{}ms|{},{}ms)",
        text("pullThreadPoolQueueSize"),
        text("pullThreadPoolQueueHeadWaitTimeMills"),
        or_n("ackThreadPoolQueueSize"),
        or_n("ackThreadPoolQueueHeadWaitTimeMills")
    );
    let timer = format!(
        "{:.0}-{:.0}({:.1}w, {:.1}, {:.1})",
        number("timerReadBehind"),
        number("timerOffsetBehind"),
        number("timerCongestNum") / 10_000.0,
        number("timerEnqueueTps"),
        number("timerDequeueTps")
    );
    let hours = text("earliestMessageTimeStamp").parse::<i64>().map_or(0.0, |at| (now - at) as f64 / HOUR_MS);
    format!(
        "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {in_load:>16}  {out_load:>30}  {timer:<22}  {:>11}  {:<12}  {:<8}  {:>10}",
        broker.cluster,
        broker.name,
        broker.id,
        broker.address,
        text("brokerVersionDesc"),
        text("pageCacheLockTimeMills"),
        format!("{hours:.2}"),
        format!("{:.4}", number("commitLogDiskRatio")),
        text("brokerActive").eq_ignore_ascii_case("true")
    )
}

pub async fn status(c: &Context) -> Outcome {
    for address in c.brokers().await? {
        for (name, value) in c.admin.runtime_info(&address).await? {
            if c.has("b") {
                say!(c, "{name:<32}: {value}");
            } else {
                say!(c, "{address:<24} {name:<32}: {value}");
            }
        }
    }
    Ok(())
}

pub async fn ha_status(c: &Context) -> Outcome {
    loop {
        for address in c.masters().await? {
            let status = c.admin.ask_json(&address, Command::request(code::GET_BROKER_HA_STATUS)).await?;
            c.print(format_args!("{}", ha(&address, &status)))?;
        }
        if !again(c).await? {
            return Ok(());
        }
    }
}

fn ha(address: &str, status: &Value) -> String {
    let none = Vec::new();
    let number = |value: &Value, name: &str| value[name].as_i64().unwrap_or(0);
    let kilobytes = |value: &Value| value["transferredByteInSecond"].as_f64().unwrap_or(0.0) / 1024.0;
    if !status["master"].as_bool().unwrap_or(false) {
        let client = &status["haClientRuntimeInfo"];
        return format!(
            "\n#MasterAddr\t{}\n#CommitLogMaxOffset\t{}\n#TransferSpeed(KB/s)\t{:.2}\n#LastReadTime\t{}\n#LastWriteTime\t{}\n\
             #MasterFlushOffset\t{}\n",
            client["masterAddr"].as_str().unwrap_or("null"),
            number(client, "maxOffset"),
            kilobytes(client),
            millisecond(number(client, "lastReadTimestamp")),
            millisecond(number(client, "lastWriteTimestamp")),
            number(client, "masterFlushOffset")
        );
    }
    let slaves = status["haConnectionInfo"].as_array().unwrap_or(&none);
    let mut out = format!(
        "\n#MasterAddr\t{address}\n#MasterCommitLogMaxOffset\t{}\n#SlaveNum\t{}\n#InSyncSlaveNum\t{}\n",
        number(status, "masterCommitLogMaxOffset"),
        slaves.len(),
        number(status, "inSyncSlaveNums")
    );
    out.push_str(&format!(
        "{:<32}  {:<16} {:>16} {:>16} {:>16} {:>16}\n",
        "#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere"
    ));
    for slave in slaves {
        out.push_str(&format!(
            "{:<32}  {:<16} {:>16} {:>16.2} {:>16} {:>16}\n",
            slave["addr"].as_str().unwrap_or_default(),
            number(slave, "slaveAckOffset"),
            number(slave, "diff"),
            kilobytes(slave),
            if slave["inSync"].as_bool().unwrap_or(false) { "OK" } else { "Fall Behind" },
            number(slave, "transferFromWhere")
        ));
    }
    out
}

pub async fn epochs(c: &Context) -> Outcome {
    loop {
        let brokers: Vec<String> = match c.get("b") {
            Some(name) => {
                let all = c.admin.brokers().await?;
                let of_name: Vec<String> = all
                    .into_iter()
                    .filter(|broker| broker.name == name)
                    .map(|broker| broker.address)
                    .collect();
                anyhow::ensure!(!of_name.is_empty(), "the name server knows no broker {name}");
                of_name
            }
            None => c.brokers().await?,
        };
        for address in brokers {
            let cache = c.admin.ask_json(&address, Command::request(code::GET_BROKER_EPOCH_CACHE)).await?;
            let field = |name: &str| cache[name].as_str().unwrap_or("null").to_owned();
            say!(
                c,
                "\n#clusterName\t{}\n#brokerName\t{}\n#brokerAddr\t{address}\n#brokerId\t{}",
                field("clusterName"),
                field("brokerName"),
                cache["brokerId"]
            );
            let epochs = cache["epochList"].as_array().cloned().unwrap_or_default();
            for (index, epoch) in epochs.iter().enumerate() {
                let last = index + 1 == epochs.len();
                let end = if last { &cache["maxOffset"] } else { &epoch["endOffset"] };
                say!(
                    c,
                    "#Epoch: EpochEntry{{epoch={}, startOffset={}, endOffset={end}}}",
                    epoch["epoch"],
                    epoch["startOffset"]
                );
            }
        }
        if !again(c).await? {
            return Ok(());
        }
    }
}
