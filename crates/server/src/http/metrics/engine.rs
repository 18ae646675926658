//! Metrics of the broker and its storage.

use std::fmt::Display;

use super::{Sources, catalogue, catalogue::Family, survey::Survey, text::Text, traffic::STORAGE};
use crate::{
    shard::{Clock, Counters, SystemClock},
    shards::ServedShard,
    tls::Tls,
};

/// 4 for reading and 2 for writing.
const READ_AND_WRITE: u8 = 6;
const MICROS: f64 = 1e6;

/// Metrics of one shard.
pub(super) fn write(text: &mut Text, served: &ServedShard, survey: Option<&Survey>) {
    let counters = served.handle.counters();
    broker(text, served, survey);
    storage(text, counters, survey);
    shard(text, counters, survey);
    log(text, counters, survey);
    gauge_if_known(text, catalogue::SURVEY_AGE, survey.map(|survey| survey.taken.elapsed().as_secs_f64()));
    gauge_if_known(text, catalogue::SURVEY_TIME, survey.map(|survey| survey.shard_time.as_secs_f64()));
    gauge_if_known(text, catalogue::SERIES_LEFT_OUT, survey.map(|survey| survey.left_out));
    text.family(catalogue::UPTIME).put(&[], counters.running_for().as_secs_f64());
}

/// Metrics of the process.
pub(super) fn write_node(text: &mut Text, sources: &Sources) {
    let mut samples = text.family(catalogue::PROXY_UP);
    if sources.grpc.is_some() {
        samples.put(&["local"], 1);
    }
    resources(text, sources);
    text.family(catalogue::BUILD_INFO).put(&[env!("CARGO_PKG_VERSION")], 1);
}

/// A gauge without labels; no sample if its value is not known.
fn gauge_if_known(text: &mut Text, family: &'static Family, value: Option<impl Display>) {
    let mut samples = text.family(family);
    if let Some(value) = value {
        samples.put(&[], value);
    }
}

fn broker(text: &mut Text, served: &ServedShard, survey: Option<&Survey>) {
    text.family(catalogue::BROKER_PERMISSION).put(&[], READ_AND_WRITE);
    let census = survey.map(|survey| survey.overview.census);
    gauge_if_known(text, catalogue::TOPIC_NUMBER, census.map(|census| census.topics));
    gauge_if_known(text, catalogue::GROUP_NUMBER, census.map(|census| census.groups));
    text.family(catalogue::WATERMARK).put(&["shard"], served.handle.queued().0);
}

fn storage(text: &mut Text, counters: &Counters, survey: Option<&Survey>) {
    let mut samples = text.family(catalogue::STORAGE_SIZE);
    if let Some(usage) = survey.and_then(|survey| survey.overview.usage) {
        samples.put(&STORAGE, usage.total.saturating_sub(usage.free));
    }
    let mut samples = text.family(catalogue::RESERVE_TIME);
    if let Some((now, oldest)) = survey.and_then(|survey| Some((survey.now, survey.oldest?))) {
        samples.put(&STORAGE, now.since(oldest).as_millis());
    }
    text.family(catalogue::FLUSH_BEHIND).put(&STORAGE, counters.flush_behind());
    text.family(catalogue::DISPATCH_BEHIND).put(&STORAGE, counters.apply_behind());
}

fn shard(text: &mut Text, counters: &Counters, survey: Option<&Survey>) {
    let times = |text: &mut Text, family, found| {
        text.family(family).distribution(&[], &found, MICROS);
    };
    times(text, catalogue::COMMIT_LATENCY, counters.commit_us().distribution());
    times(text, catalogue::FLUSH_LATENCY, counters.flush_us().distribution());
    text.family(catalogue::FRAME_RECORDS).distribution(&[], &counters.frame_records().distribution(), 1.0);
    text.family(catalogue::FRAME_BYTES).distribution(&[], &counters.frame_bytes().distribution(), 1.0);
    text.family(catalogue::FLUSHES).put(&[], counters.flushes());
    text.family(catalogue::CHECKPOINT_AGE).put(&[], counters.checkpoint_age().as_secs_f64());
    let frames = survey.map(|survey| survey.overview.frames_since_checkpoint);
    gauge_if_known(text, catalogue::CHECKPOINT_FRAMES, frames);
    text.family(catalogue::WAITING).put(&[], counters.waiting_receives());
    text.family(catalogue::RECEIVES_EMPTY).put(&[], counters.statistics().empty_receives.count());
    let (expired, forced) = counters.segments_removed();
    text.family(catalogue::SEGMENTS_REMOVED).put(&["expired"], expired).put(&["disk_full"], forced);
    text.family(catalogue::READ_ERRORS).put(&[], counters.read_errors());
    text.family(catalogue::GIVEN_BACK).put(&[], counters.deliveries_given_back());
    let lost = counters.removed_early();
    text.family(catalogue::REMOVED_EARLY)
        .put(&["finished"], lost.finished)
        .put(&["unconsumed"], lost.unconsumed);
    text.family(catalogue::SCRUBBED).put(&[], counters.scrubbed_bytes());
    let (segments, indexes) = counters.scrub_damage();
    text.family(catalogue::SCRUB_DAMAGE).put(&["segment"], segments).put(&["index"], indexes);
    let clock = SystemClock.state();
    text.family(catalogue::CLOCK_AHEAD).put(&[], clock.wall_ahead_ms as f64 / 1_000.0);
    text.family(catalogue::CLOCK_SUSPICIOUS).put(&[], u8::from(clock.suspicious));
}

fn log(text: &mut Text, counters: &Counters, survey: Option<&Survey>) {
    let overview = survey.map(|survey| &survey.overview);
    let mut samples = text.family(catalogue::PASSED_OVER);
    if let Some(passed) = overview.map(|overview| overview.passed_over) {
        let (damaged, removed) = counters.passed_over_by_pulls();
        samples.put(&["damaged"], passed.damaged + damaged).put(&["removed"], passed.removed + removed);
    }
    gauge_if_known(text, catalogue::LOG_BYTES, overview.map(|overview| overview.log_bytes));
    gauge_if_known(text, catalogue::LOG_SEGMENTS, overview.map(|overview| overview.segments));
    let mut damaged = text.family(catalogue::DAMAGED_SEGMENTS);
    for segment in overview.iter().flat_map(|overview| &overview.lost_segments) {
        damaged.put(&[&segment.0.to_string()], 1);
    }
    let usage = overview.and_then(|overview| overview.usage);
    gauge_if_known(text, catalogue::DISK_SIZE, usage.map(|usage| usage.total));
    gauge_if_known(text, catalogue::DISK_FREE, usage.map(|usage| usage.free));
    gauge_if_known(text, catalogue::DEDUP_KEYS, overview.map(|overview| overview.deferred.dedup_keys));
    gauge_if_known(text, catalogue::LITE_TOPICS, overview.map(|overview| overview.census.lite_topics));
}

/// Bytes of requests and answers under way, and open connections.
fn resources(text: &mut Text, sources: &Sources) {
    let (grpc, remoting) = (sources.grpc.as_ref(), sources.remoting.as_ref());
    // Both front ends share one budget, and so do all shards.
    let network = remoting.map(|remoting| remoting.network_bytes());
    let network = network.or_else(|| grpc.map(|grpc| grpc.network_bytes()));
    let budgets = [("store", Some(sources.shards.first().handle.pending_bytes())), ("network", network)];
    let budgets = || budgets.iter().filter_map(|(name, bytes)| Some((name, (*bytes)?)));
    let mut samples = text.family(catalogue::BUDGET_USED);
    for (name, (used, _)) in budgets() {
        samples.put(&[name], used);
    }
    let mut samples = text.family(catalogue::BUDGET_LIMIT);
    for (name, (_, limit)) in budgets() {
        samples.put(&[name], limit);
    }
    let open = remoting.map(|remoting| remoting.connections());
    let connections = [
        ("grpc", grpc.map(|grpc| grpc.connections())),
        ("remoting", open.map(|(_, broker)| broker)),
        ("namesrv", open.map(|(names, _)| names)),
        ("http", sources.http.as_ref().map(|http| http.count())),
    ];
    let mut samples = text.family(catalogue::CONNECTIONS);
    for (protocol, count) in connections {
        if let Some(count) = count {
            samples.put(&[protocol], count);
        }
    }
    let not_after = sources.tls.as_ref().and_then(Tls::not_after);
    gauge_if_known(text, catalogue::CERTIFICATE_EXPIRY, not_after);
}
