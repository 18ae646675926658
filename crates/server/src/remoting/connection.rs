use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use redstart_wire::remoting::{Command, code, decode, encode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use super::{Context, admin};

/// Connections of one port at a time.
const CONNECTIONS_MAX: usize = 4096;
/// A connection that says nothing for this long is closed, as RocketMQ does.
const IDLE_MAX: Duration = Duration::from_secs(120);
const WRITE_MAX: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn accept(listener: TcpListener, context: Arc<Context>, mut stopped: watch::Receiver<bool>) {
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
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let (context, mut stopped) = (context.clone(), stopped.clone());
        tokio::spawn(async move {
            tokio::select! {
                result = serve(stream, &context) => if let Err(error) = result {
                    tracing::debug!(%error, "a Remoting connection ended");
                },
                _ = stopped.changed() => {}
            }
            drop(permit);
        });
    }
}

/// Answers one request after the other until the peer goes.
async fn serve(mut stream: TcpStream, context: &Context) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    loop {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(request) = decode(&mut input).map_err(invalid)? {
            // A response has no asker here, and a one-way request wants no answer.
            if request.is_response() {
                continue;
            }
            let answer = answer(context, &request).await;
            if !request.is_one_way() {
                encode(&answer, &mut output);
            }
        }
        if !output.is_empty() {
            tokio::time::timeout(WRITE_MAX, stream.write_all_buf(&mut output)).await??;
        }
        if tokio::time::timeout(IDLE_MAX, stream.read_buf(&mut input)).await?? == 0 {
            return Ok(());
        }
    }
}

async fn answer(context: &Context, request: &Command) -> Command {
    match request.code {
        code::UPDATE_AND_CREATE_TOPIC => admin::put_topic(context, request).await,
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => admin::put_group(context, request).await,
        code::GET_BROKER_CLUSTER_INFO => admin::cluster(context, request),
        other => request
            .answer(code::REQUEST_CODE_NOT_SUPPORTED, Some(format!(" request type {other} not supported"))),
    }
}
