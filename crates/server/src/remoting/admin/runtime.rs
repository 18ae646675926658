//! The broker's runtime information and statistics, as `mqadmin` shows them.

use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{GroupName, Timestamp, TopicName};
use redstart_wire::remoting::{
    body::{HaStatus, KeyValues, Statistic, StatisticsData},
    code,
};

use crate::{
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
    shard::{Clock, SystemClock},
    statistics::{Meter, Span, Sum},
};

/// The release whose protocol is spoken here.
const VERSION: &str = "V5_3_1";
/// RocketMQ's histogram of send times. The counts are in the metrics; here the buckets are empty.
const PUT_TIMES: &str = "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 \
    [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0";

pub(crate) async fn runtime_info(request: &Request) -> Result<Answer, Refusal> {
    let (extent, held) = request.ask(|engine, _| (engine.extent(), engine.deferred())).await?;
    let context = &request.context;
    let statistics = context.shard.counters().statistics();
    let now = SystemClock.now();
    let (queued, queue_max) = context.shard.queued();
    let rates = |meter: &Meter| {
        let spans = [Span::TenSeconds, Span::Minute, Span::TenMinutes];
        spans.map(|span| meter.over(span, now).per_second())
    };
    let (got, missed) = (rates(&statistics.got), rates(&statistics.empty_receives));
    let all = [0, 1, 2].map(|span| got[span] + missed[span]);
    let mornings = statistics.day_starts.counts();
    let (put_count, put_bytes) = (statistics.put.count(), statistics.put.bytes());
    let used = extent.usage.map_or(0.0, |usage| 1.0 - usage.free as f64 / usage.total.max(1) as f64);
    let capacity = extent
        .usage
        .map_or_else(String::new, |usage| format!("Total : {} B, Free : {} B.", usage.total, usage.free));
    let mut table: BTreeMap<String, String> = BTreeMap::new();
    let mut put = |key: &str, value: &dyn ToString| drop(table.insert(key.to_owned(), value.to_string()));
    put("brokerActive", &true);
    put("brokerVersionDesc", &VERSION);
    put("brokerVersion", &redstart_wire::remoting::VERSION);
    put("bootTimestamp", &context.node.started.0);
    put("startAcceptSendRequestTimeStamp", &context.node.started.0);
    put("runtime", &running(now.since(context.node.started)));
    put("putTps", &words(rates(&statistics.put)));
    put("getFoundTps", &words(got));
    put("getMissTps", &words(missed));
    put("getTotalTps", &words(all));
    put("getTransferredTps", &words(got));
    put("putMessageTimesTotal", &put_count);
    put("putMessageSizeTotal", &put_bytes);
    put("putMessageAverageSize", &(put_bytes as f64 / put_count.max(1) as f64));
    put("putMessageFailedTimes", &0);
    put("msgPutTotalTodayNow", &put_count);
    put("msgPutTotalTodayMorning", &mornings.put_today);
    put("msgPutTotalYesterdayMorning", &mornings.put_yesterday);
    put("msgGetTotalTodayNow", &statistics.got.count());
    put("msgGetTotalTodayMorning", &mornings.got_today);
    put("msgGetTotalYesterdayMorning", &mornings.got_yesterday);
    // All requests share one queue to the shard.
    for pool in ["send", "pull", "ack", "query", "litePull"] {
        put(&format!("{pool}ThreadPoolQueueSize"), &queued);
        put(&format!("{pool}ThreadPoolQueueCapacity"), &queue_max);
        put(&format!("{pool}ThreadPoolQueueHeadWaitTimeMills"), &0);
    }
    put("pageCacheLockTimeMills", &0);
    // rocketmq-exporter shows nothing of a broker that lacks one of these keys.
    put("getTransferedTps", &words(got));
    put("dispatchMaxBuffer", &0);
    put("putMessageEntireTimeMax", &0);
    put("getMessageEntireTimeMax", &0);
    put("remainTransientStoreBufferNumbs", &0);
    put("putMessageDistributeTime", &PUT_TIMES);
    put("dispatchBehindBytes", &0);
    put("earliestMessageTimeStamp", &extent.oldest.unwrap_or(now).0);
    put("commitLogMinOffset", &extent.start.0);
    put("commitLogMaxOffset", &extent.end.0);
    put("commitLogDiskRatio", &used);
    put("consumeQueueDiskRatio", &used);
    put("commitLogDirCapacity", &capacity);
    put("remainHowManyDataToCommit", &0);
    put("remainHowManyDataToFlush", &0);
    put("timerReadBehind", &0);
    put("timerOffsetBehind", &0);
    put("timerCongestNum", &held.delayed);
    put("timerEnqueueTps", &0.0);
    put("timerDequeueTps", &0.0);
    put("openTransactions", &held.transactions);
    Ok(Answer::json(&KeyValues { table }))
}

fn words(numbers: [f64; 3]) -> String {
    numbers.map(|number| format!("{number:.4}")).join(" ")
}

fn running(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("[ {days} days, {hours} hours, {minutes} minutes, {} seconds ]", seconds % 60)
}

/// One count over the last minute, hour and day.
pub(crate) fn statistics(request: &Request) -> Result<Answer, Refusal> {
    let (name, key) = (request.required("statsName")?, request.required("statsKey")?);
    let statistics = request.context.shard.counters().statistics();
    let now = SystemClock.now();
    let over = |span: Span| -> Option<Statistic> {
        let sum = match name {
            "TOPIC_PUT_NUMS" | "TOPIC_PUT_SIZE" => {
                statistics.of_topic(&TopicName::new(key).ok()?, span, now)?
            }
            "GROUP_GET_NUMS" | "GROUP_GET_SIZE" => of_group(request, key, span, now)?,
            "BROKER_PUT_NUMS" if key == request.context.node.config.cluster => statistics.put.over(span, now),
            "BROKER_GET_NUMS" if key == request.context.node.config.cluster => statistics.got.over(span, now),
            _ => return None,
        };
        let (sum, tps) = match name.ends_with("_SIZE") {
            true => (sum.bytes, sum.bytes_per_second()),
            false => (sum.messages, sum.per_second()),
        };
        Some(Statistic { sum, tps, avgpt: 0.0 })
    };
    let data = || {
        Some(StatisticsData {
            stats_minute: over(Span::Minute)?,
            stats_hour: over(Span::Hour)?,
            stats_day: over(Span::Day)?,
        })
    };
    let unknown = || Refusal::new(code::SYSTEM_ERROR, format!("The stats <{name}> <{key}> not exist"));
    Ok(Answer::json(&data().ok_or_else(unknown)?))
}

/// The key is `topic@group`.
fn of_group(request: &Request, key: &str, span: Span, now: Timestamp) -> Option<Sum> {
    let (topic, group) = key.split_once('@')?;
    let (topic, group) = (TopicName::new(topic).ok()?, GroupName::new(group).ok()?);
    request.context.shard.counters().statistics().of_group(&topic, &group, span, now)
}

/// Retention removes old messages and their queue entries: there is nothing to clean.
pub(crate) fn cleaned() -> Result<Answer, Refusal> {
    Ok(Answer::ok())
}

/// The broker has no replicas.
pub(crate) async fn ha_status(request: &Request) -> Result<Answer, Refusal> {
    let end = request.ask(|engine, _| engine.extent().end).await?;
    Ok(Answer::json(&HaStatus { master: true, master_commit_log_max_offset: end.0, ..HaStatus::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_written_as_tools_read_them() {
        assert_eq!(running(Duration::from_secs(93_784)), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
        assert_eq!(words([1.0, 0.25, 0.0]), "1.0000 0.2500 0.0000");
    }
}
