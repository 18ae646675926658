//! Fetching: one long poll at a time for each topic and broker, as long as there is room.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::core::{Core, Phase};
use tracing::Instrument as _;

use crate::{Backoff, BuildError, Filter, RouteError, route::Place, trace, transport::Fetch};

/// How often routes are looked at for brokers that came or went.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whether servers make this topic themselves, with its first message: one of dead letters or retries.
fn is_made_by_servers(topic: &str) -> bool {
    topic.starts_with("%DLQ%") || topic.starts_with("%RETRY%")
}

/// Checks that every topic is there, but for those that servers make: they are read from when they are there.
pub(crate) async fn check_topics(
    client: &crate::Client,
    subscriptions: &[(String, Filter)],
) -> Result<(), BuildError> {
    let mut faults = Vec::new();
    for (topic, _) in subscriptions.iter().filter(|(topic, _)| !is_made_by_servers(topic)) {
        match client.route(topic).await {
            Ok(route) if route.provisional => faults.push(format!("there is no topic {topic}")),
            Ok(_) => {}
            Err(RouteError::UnknownTopic { .. }) => faults.push(format!("there is no topic {topic}")),
            Err(RouteError::Call { error, .. }) => return Err(error.into()),
        }
    }
    BuildError::check(faults)
}

/// Keeps one fetcher for each topic and broker, until nothing is to be fetched any more.
pub(super) async fn fetch_all(core: Arc<Core>) {
    let mut fetchers = JoinSet::new();
    let mut known: HashMap<(String, String), AbortHandle> = HashMap::new();
    while core.phase() == Phase::Running {
        for (topic, filter) in &core.settings.subscriptions {
            // A topic that is gone has none; its fetchers say so.
            let Ok(route) = core.client.route(topic).await else { continue };
            for place in route.brokers() {
                let key = (topic.clone(), place.queue.broker.clone());
                if known.get(&key).is_none_or(AbortHandle::is_finished) {
                    let fetcher = fetch(core.clone(), place.clone(), filter.clone());
                    known.insert(key, fetchers.spawn(fetcher));
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = core.stopping() => {}
        }
        while fetchers.try_join_next().is_some() {}
    }
    // A poll that is on its way may bring messages, which then go back at once.
    while fetchers.join_next().await.is_some() {}
    core.flush(Instant::now() + core.client.timeout()).await;
}

/// The place of a broker in the latest route.
fn current(core: &Core, place: &Place) -> Option<Place> {
    let route = core.client.known_route(&place.queue.topic)?;
    route.brokers().into_iter().find(|known| known.queue.broker == place.queue.broker).cloned()
}

async fn fetch(core: Arc<Core>, mut place: Place, filter: Filter) {
    let backoff = Backoff::of_connections();
    let mut failed = 0;
    while core.phase() == Phase::Running {
        let room = core.room();
        if room == 0 {
            wait_for_room(&core).await;
            continue;
        }
        let settings = &core.settings;
        let fetch = Fetch {
            from: &place,
            filter: &filter,
            max: room.min(settings.batch),
            invisible: settings.invisible,
            wait: settings.wait,
            from_start: settings.from_start,
            fifo: settings.fifo,
        };
        let span = trace::receive(&settings.group, &place.queue.topic, settings.wait);
        match core.session.receive(&fetch).instrument(span.clone()).await {
            Ok(fetched) => {
                span.record("messaging.batch.message_count", fetched.len());
                failed = 0;
                // The server's time began a little earlier. Renewal comes at half time, so that this does not count.
                core.put(fetched, &filter, Instant::now() + settings.invisible);
            }
            Err(error) => {
                failed += 1;
                tracing::debug!(%error, topic = place.queue.topic, "a receive failed");
                if !error.retryable() || error.code().is_some_and(crate::ServerCode::is_unknown_topic) {
                    core.refuse(Some(error));
                    drop(core.client.refresh_route(&place.queue.topic).await);
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.wait(failed)) => {}
                    () = core.stopping() => {}
                }
            }
        }
        match current(&core, &place) {
            Some(now) => place = now,
            // The broker has left the route.
            None if failed == 0 => return,
            None => {}
        }
    }
}

async fn wait_for_room(core: &Core) {
    let hungry = core.hungry.notified();
    tokio::pin!(hungry);
    hungry.as_mut().enable();
    if core.room() == 0 && core.phase() == Phase::Running {
        hungry.await;
    }
}
