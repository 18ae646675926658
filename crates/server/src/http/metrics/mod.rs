//! `/metrics`, for Prometheus.
//!
//! [`catalogue`] is the list of metrics; each of the other modules writes those of its subject. Counters are read where
//! kept; what only the engine knows comes from a [`survey`].

mod catalogue;
mod clients;
mod cluster;
mod engine;
mod groups;
mod process;
mod survey;
mod text;
mod traffic;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::StatusCode;
use hyper::body::Incoming;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::{
    answer::{Answer, content, text as line},
    call::{Call, Right},
    cluster::Cluster,
    refusal::Refusal,
    router::{Answering, Part, Request},
};
use crate::throttle::Throttle;
use crate::{
    grpc, remoting,
    shards::{ServedShard, Shards},
    statistics::LiveCount,
    tls::Tls,
};
use survey::Survey;
use text::Text;

static NOT_WRITTEN: Throttle = Throttle::new();

pub use catalogue::{FAMILIES, Family, Kind, Scope};

/// A request within this time after another gets the same answer.
const INTERVAL: Duration = Duration::from_secs(1);
/// A survey is used again for this many times the time that it took the shard.
const SURVEY_REUSE: u32 = 50;
/// How long a survey may take. After one that took longer the last survey is shown, up to the given age.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(5);
const SURVEY_AGE_MAX: Duration = Duration::from_secs(120);

/// Where the values come from.
#[derive(Debug, Clone)]
pub struct Sources {
    pub shards: Shards,
    pub grpc: Option<grpc::Monitor>,
    pub remoting: Option<remoting::Monitor>,
    pub http: Option<LiveCount>,
    /// `None` while no port speaks TLS.
    pub tls: Option<Tls>,
}

/// The metrics of a broker. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cluster: String,
    broker: String,
    interval: Duration,
    sources: RwLock<Option<Sources>>,
    members: Cluster,
    /// Locked while metrics are gathered, so that concurrent requests share the work.
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    text: Option<(Instant, Bytes)>,
    /// By shard.
    surveys: Vec<Option<Arc<Survey>>>,
}

impl Metrics {
    pub fn new(cluster: &str, broker: &str) -> Metrics {
        Metrics::fresh_after(cluster, broker, INTERVAL)
    }

    /// With another interval in which requests get the same answer.
    pub fn fresh_after(cluster: &str, broker: &str, interval: Duration) -> Metrics {
        let shared = Shared {
            cluster: cluster.to_owned(),
            broker: broker.to_owned(),
            interval,
            sources: RwLock::default(),
            members: Cluster::default(),
            cache: Mutex::default(),
        };
        Metrics { shared: Arc::new(shared) }
    }

    /// Sets where the values come from; before that only the process is measured.
    pub fn attach(&self, sources: Sources) {
        *self.shared.sources.write() = Some(sources);
    }

    /// What shows the cluster of this node; its metrics are written once a page is attached to it.
    pub fn cluster(&self) -> Cluster {
        self.shared.members.clone()
    }

    /// Another node leads, and has the values of the shards.
    pub fn detach(&self) {
        *self.shared.sources.write() = None;
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

    fn right(&self, _: &Request) -> Result<Right, Refusal> {
        Ok(Right::Observe)
    }

    fn answer(&self, _: Call, _: Incoming) -> Answering<'_> {
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
        let sources = self.sources.read().clone();
        if let Some(sources) = &sources {
            let shards = sources.shards.all();
            cache.surveys.resize(shards.len(), None);
            for (shard, survey) in shards.iter().zip(&mut cache.surveys) {
                self.refresh_survey(shard, survey).await;
            }
        }
        let (this, surveys) = (self.clone(), cache.surveys.clone());
        // Many thousands of lines, and the list of open files, take too long for a task.
        match tokio::task::spawn_blocking(move || this.write(sources.as_ref(), &surveys)).await {
            Ok(text) => {
                let text = Bytes::from(text);
                cache.text = Some((Instant::now(), text.clone()));
                content(StatusCode::OK, text::CONTENT_TYPE, text)
            }
            Err(error) => {
                if let Some(repeated) = NOT_WRITTEN.permit() {
                    tracing::warn!(%error, repeated, "cannot write the metrics");
                }
                line(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics")
            }
        }
    }

    /// Takes a new survey of a shard, unless the last one can be used again.
    async fn refresh_survey(&self, shard: &ServedShard, last: &mut Option<Arc<Survey>>) {
        let reuse_for = |survey: &Survey| self.interval.max(survey.shard_time * SURVEY_REUSE);
        if last.as_ref().is_some_and(|survey| survey.taken.elapsed() < reuse_for(survey)) {
            return;
        }
        let asked = Survey::take(&shard.handle, last.as_deref());
        match tokio::time::timeout(SURVEY_TIMEOUT, asked).await {
            Ok(Ok(survey)) => *last = Some(Arc::new(survey)),
            Ok(Err(error)) => tracing::debug!(%error, "cannot survey the shard"),
            Err(_) => tracing::debug!("the survey of the shard took too long"),
        }
        last.take_if(|survey| survey.taken.elapsed() > SURVEY_AGE_MAX);
    }

    fn write(&self, sources: Option<&Sources>, surveys: &[Option<Arc<Survey>>]) -> String {
        let mut text = Text::new(&self.cluster, &self.broker);
        if let Some(sources) = sources {
            let surveyed = || sources.shards.all().iter().zip(surveys.iter().map(Option::as_deref));
            let several = !sources.shards.is_single();
            for (shard, survey) in surveyed() {
                text.of_broker(&shard.broker, several);
                traffic::write(&mut text, shard.handle.counters().statistics(), survey);
                groups::write(&mut text, survey);
            }
            text.of_broker(&self.broker, false);
            clients::write(&mut text, sources);
            for (shard, survey) in surveyed() {
                text.of_broker(&shard.broker, several);
                engine::write(&mut text, shard, survey);
            }
            text.of_broker(&self.broker, false);
            engine::write_node(&mut text, sources);
        }
        cluster::write(&mut text, &self.members);
        process::write(&mut text);
        text.finish()
    }
}
