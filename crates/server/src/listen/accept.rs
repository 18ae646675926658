//! The accept loop of every port.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{Accepted, Activity, Listener, Port};
use crate::throttle::Throttle;

/// Pause after a failed accept; the usual cause is that no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

static FAILED: Throttle = Throttle::new();
static REFUSED: Throttle = Throttle::new();

/// Accepts connections until `stop`, each with a task of its own, and returns the tasks that still run. The task of an idle connection
/// can be aborted at any time, when a new connection needs its slot.
pub(crate) async fn accept<C>(
    mut listener: Listener,
    port: &Port,
    stop: impl Future<Output = ()>,
    serve: impl Fn(Accepted, Arc<Activity>) -> C,
) -> JoinSet<()>
where
    C: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return tasks,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => {
                let Some(slot) = port.slot().await else {
                    log_refusal(port);
                    continue;
                };
                let (id, connection) = (slot.id, serve(connection, slot.activity.clone()));
                let task = tasks.spawn(async move {
                    connection.await;
                    drop(slot);
                });
                port.set_task(id, task);
            }
            Err(error) => {
                if let Some(repeated) = FAILED.permit() {
                    tracing::warn!(port = port.name, %error, repeated, "cannot accept a connection");
                }
                port.close_one_idle();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn log_refusal(port: &Port) {
    if let Some(repeated) = REFUSED.permit() {
        let (open, limit) = (port.open.count(), port.limits.connections_max);
        tracing::warn!(
            port = port.name,
            open,
            limit,
            repeated,
            "refused a connection: the limit is reached and no connection is idle"
        );
    }
}
