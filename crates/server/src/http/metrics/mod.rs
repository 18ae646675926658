//! `/metrics`: everything that is counted, for Prometheus.
//!
//! [`catalogue`] is the list of metrics; each of the other modules writes those of its subject. Counters are read where
//! they are; what only the shard knows comes from a [`survey`].

mod catalogue;
mod clients;
mod engine;
mod groups;
mod process;
mod survey;
mod text;
mod traffic;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Mutex;

use super::router::{Answer, Answering, Part, Request, content, text as line};
use crate::throttle::Throttle;
use crate::{grpc, remoting, shard::ShardHandle, statistics::Live};
use survey::Survey;
use text::Text;

static NOT_WRITTEN: Throttle = Throttle::new();

pub use catalogue::{FAMILIES, Family, Kind, Scope};

/// Whoever asks again within this time gets the same answer.
const INTERVAL: Duration = Duration::from_secs(1);
/// A survey that kept the shard for a time is good for so many times that time.
const REST: u32 = 50;
/// The shard has this long for its answers; one that does not answer leaves the last ones, for a while.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(5);
const SURVEY_AGE_MAX: Duration = Duration::from_secs(120);

/// Where the numbers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    pub shard: ShardHandle,
    pub grpc: Option<grpc::View>,
    pub remoting: Option<remoting::View>,
    pub http: Option<Live>,
}

/// The metrics of a broker. Shared by those who fill and those who show them.
#[derive(Debug, Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cluster: String,
    broker: String,
    interval: Duration,
    sources: OnceLock<Sources>,
    /// Held while metrics are gathered: two at a time would only do the same work twice.
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    text: Option<(Instant, Bytes)>,
    survey: Option<Arc<Survey>>,
}

impl Metrics {
    pub fn new(cluster: &str, broker: &str) -> Metrics {
        Metrics::fresh_after(cluster, broker, INTERVAL)
    }

    /// Gathered anew for whoever asks after this time.
    pub fn fresh_after(cluster: &str, broker: &str, interval: Duration) -> Metrics {
        let shared = Shared {
            cluster: cluster.to_owned(),
            broker: broker.to_owned(),
            interval,
            sources: OnceLock::new(),
            cache: Mutex::default(),
        };
        Metrics { shared: Arc::new(shared) }
    }

    /// Until then only the process is measured. The first call counts.
    pub fn attach(&self, sources: Sources) {
        let _ = self.shared.sources.set(sources);
    }

    pub fn page(&self) -> impl Part + use<> {
        Page(self.clone())
    }
}

#[derive(Debug)]
struct Page(Metrics);

impl Part for Page {
    fn path(&self) -> &'static str {
        "/metrics"
    }

    fn answer(&self, _: Request) -> Answering<'_> {
        Box::pin(self.0.shared.answer())
    }
}

impl Shared {
    async fn answer(self: &Arc<Self>) -> Answer {
        let mut cache = self.cache.lock().await;
        if let Some((at, text)) = &cache.text
            && at.elapsed() < self.interval
        {
            return content(StatusCode::OK, text::CONTENT_TYPE, text.clone());
        }
        if let Some(sources) = self.sources.get() {
            self.look(&sources.shard, &mut cache).await;
        }
        let (this, survey) = (self.clone(), cache.survey.clone());
        // Many thousands of lines take their time, and so does the list of open files.
        match tokio::task::spawn_blocking(move || this.write(survey.as_deref())).await {
            Ok(text) => {
                let text = Bytes::from(text);
                cache.text = Some((Instant::now(), text.clone()));
                content(StatusCode::OK, text::CONTENT_TYPE, text)
            }
            Err(error) => {
                if let Some(repeated) = NOT_WRITTEN.permit() {
                    tracing::warn!(%error, repeated, "metrics could not be written");
                }
                line(StatusCode::INTERNAL_SERVER_ERROR, "metrics could not be written")
            }
        }
    }

    /// Asks the shard, unless what it said last is good enough.
    async fn look(&self, shard: &ShardHandle, cache: &mut Cache) {
        let good_for = |survey: &Survey| self.interval.max(survey.shard_time * REST);
        if cache.survey.as_ref().is_some_and(|survey| survey.taken.elapsed() < good_for(survey)) {
            return;
        }
        let asked = Survey::take(shard, cache.survey.as_deref());
        match tokio::time::timeout(SURVEY_TIMEOUT, asked).await {
            Ok(Ok(survey)) => cache.survey = Some(Arc::new(survey)),
            Ok(Err(error)) => tracing::debug!(%error, "the shard was not surveyed"),
            Err(_) => tracing::debug!("the shard did not answer in time"),
        }
        cache.survey.take_if(|survey| survey.taken.elapsed() > SURVEY_AGE_MAX);
    }

    fn write(&self, survey: Option<&Survey>) -> String {
        let mut text = Text::new(&self.cluster, &self.broker);
        if let Some(sources) = self.sources.get() {
            traffic::write(&mut text, sources.shard.counters().statistics(), survey);
            groups::write(&mut text, survey);
            clients::write(&mut text, sources);
            engine::write(&mut text, sources, survey);
        }
        process::write(&mut text);
        text.finish()
    }
}
