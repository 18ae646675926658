//! Keeps the queues of a reader: those it named, its share of them, or all.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    core::{Core, Phase, Sharing},
    puller::pull_queue,
    slots::Change,
};
use crate::Queue;

const INTERVAL: Duration = Duration::from_secs(20);
/// Between two rounds, also when members change quickly, and while a round did not come out as it should.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Runs until the reader stops; then its queues go.
pub(super) async fn manage(core: Arc<Core>) {
    let mut membership = core.client.net().membership();
    let mut pullers = Pullers::default();
    while core.phase() == Phase::Running {
        let began = Instant::now();
        if let Some(membership) = &mut membership {
            membership.mark_unchanged();
        }
        let interval = match target(&core).await {
            Some(queues) => {
                apply(&core, &queues, &mut pullers).await;
                match core.settings.sharing {
                    Sharing::Balanced(_) => INTERVAL,
                    // The routes are looked at for brokers that came or went.
                    Sharing::All | Sharing::Assigned(_) => INTERVAL_MIN,
                }
            }
            None => INTERVAL_MIN,
        };
        tokio::select! {
            () = core.stopping() => {}
            () = tokio::time::sleep_until(began + interval) => {}
            () = changes(membership.as_mut()) => {
                tokio::select! {
                    () = tokio::time::sleep_until(began + INTERVAL_MIN) => {}
                    () = core.stopping() => {}
                }
            }
        }
    }
    apply(&core, &[], &mut pullers).await;
    core.phase.send_replace(Phase::Stopped);
}

async fn changes(membership: Option<&mut watch::Receiver<u64>>) {
    if let Some(membership) = membership
        && membership.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The queues that are to be this reader's; `None` if that cannot be said now, and all stays as it is.
async fn target(core: &Core) -> Option<Vec<Queue>> {
    if let Sharing::Assigned(queues) = &core.settings.sharing {
        return Some(queues.clone());
    }
    let mut target = Vec::new();
    for (topic, _) in &core.settings.subscriptions {
        let route = core.client.route(topic).await.ok()?;
        let queues: Vec<Queue> = route.readable.iter().map(|place| place.queue.clone()).collect();
        match &core.settings.sharing {
            Sharing::Balanced(allocation) => {
                let address = route.addresses.first()?;
                let members = match core.session.members(address).await {
                    Ok(members) => members,
                    Err(error) => {
                        tracing::debug!(%error, "the members of a group are not known");
                        return None;
                    }
                };
                let own = core.client.net().client_id();
                if !members.iter().any(|member| member == own) {
                    // The broker has not heard of this one yet, or has forgotten it.
                    core.client.net().heartbeat(&route.addresses).await;
                    return None;
                }
                match allocation.allocate(own, &queues, &members) {
                    Ok(mine) => target.extend(mine),
                    Err(error) => {
                        tracing::error!(%error, "queues cannot be shared out");
                        return None;
                    }
                }
            }
            _ => target.extend(queues),
        }
    }
    Some(target)
}

async fn apply(core: &Arc<Core>, target: &[Queue], pullers: &mut Pullers) {
    let Change { added, removed } = core.slots().change_to(target);
    core.slots().withhold(&removed);
    core.changed.notify_waiters();
    core.announce(&removed, &added).await;
    for queue in &removed {
        core.slots().remove(queue);
        pullers.end(queue);
    }
    for queue in added {
        core.slots().add(queue.clone());
        pullers.start(core, queue);
    }
    core.changed.notify_waiters();
}

/// One task for each queue.
#[derive(Debug, Default)]
struct Pullers {
    tasks: JoinSet<()>,
    known: HashMap<Queue, AbortHandle>,
}

impl Pullers {
    fn start(&mut self, core: &Arc<Core>, queue: Queue) {
        while self.tasks.try_join_next().is_some() {}
        let task = self.tasks.spawn(pull_queue(core.clone(), queue.clone()));
        self.known.insert(queue, task);
    }

    fn end(&mut self, queue: &Queue) {
        if let Some(task) = self.known.remove(queue) {
            task.abort();
        }
    }
}
