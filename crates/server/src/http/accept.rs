use std::{collections::VecDeque, time::Duration};

use tokio::{net::TcpStream, sync::watch, task::AbortHandle};

use super::{Http, connection};

/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stopped`. Past the limit the oldest is closed: a scrape takes milliseconds, so it is one
/// that idles or dawdles.
pub(super) async fn accept(http: Http, mut stopped: watch::Receiver<bool>) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = http.listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                make_room(&mut open, http.limits.connections_max);
                open.push_back(admit(&http, stream, stopped.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn make_room(open: &mut VecDeque<AbortHandle>, max: usize) {
    if open.len() < max {
        return;
    }
    open.retain(|connection| !connection.is_finished());
    if open.len() >= max
        && let Some(oldest) = open.pop_front()
    {
        oldest.abort();
    }
}

fn admit(http: &Http, stream: TcpStream, stopped: watch::Receiver<bool>) -> AbortHandle {
    let (router, limits, here) = (http.router.clone(), http.limits.clone(), http.connections.enter());
    let task = tokio::spawn(async move {
        if let Err(error) = connection::serve(stream, router, &limits, stopped).await {
            tracing::debug!(%error, "an HTTP connection ended");
        }
        drop(here);
    });
    task.abort_handle()
}
