use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use super::{Context, connection};
use crate::{statistics::Live, stream::Stream};

/// Connections of one port at a time.
const CONNECTIONS_MAX: usize = 10_000;
/// Name-service connections are opened long before they are used.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(120);
/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stopped`; past the limit they are closed at once.
pub(super) async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    context: Arc<Context>,
    open: Live,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a Remoting connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            tracing::warn!(limit = CONNECTIONS_MAX, "too many Remoting connections");
            continue;
        };
        let (tls, context, mut stopped) = (tls.clone(), context.clone(), stopped.clone());
        let here = open.enter();
        tokio::spawn(async move {
            tokio::select! {
                result = serve(stream, tls, context) => if let Err(error) = result {
                    tracing::debug!(%error, "a Remoting connection ended");
                },
                _ = stopped.changed() => {}
            }
            drop((permit, here));
        });
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, context: Arc<Context>) -> io::Result<()> {
    let stream = tokio::time::timeout(FIRST_BYTE_MAX, Stream::open(stream, tls)).await??;
    connection::serve(stream, context).await
}
