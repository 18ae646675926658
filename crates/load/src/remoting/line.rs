//! One connection to a broker.

use anyhow::{Context, bail};
use bytes::BytesMut;
use redstart_client::{Credentials, Stream};
use redstart_wire::remoting::{self as wire, Command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::TIMEOUT;
use crate::Server;

const READ_BYTES: usize = 256 << 10;

/// A connection to a broker that a single task reads and writes. Requests are buffered and written together, which keeps the
/// cost of a call far below what the server spends on it.
#[derive(Debug)]
pub struct Line {
    address: String,
    stream: Stream,
    input: BytesMut,
    output: BytesMut,
    credentials: Option<Credentials>,
}

impl Line {
    pub async fn open(server: &Server) -> anyhow::Result<Line> {
        let Server { address, credentials, tls } = server;
        let connecting = tokio::time::timeout(TIMEOUT, Stream::open(address, tls.as_ref())).await;
        let stream = connecting
            .with_context(|| format!("{address} did not answer"))?
            .with_context(|| format!("cannot connect to {address}"))?;
        Ok(Line {
            address: address.clone(),
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            credentials: credentials.clone(),
        })
    }

    /// Buffers a request for the next [`Line::write`].
    pub fn put(&mut self, request: Command) {
        let request = match &self.credentials {
            Some(credentials) => credentials.sign(request),
            None => request,
        };
        wire::encode(&request, &mut self.output);
    }

    pub async fn write(&mut self) -> anyhow::Result<()> {
        self.stream.write_all_buf(&mut self.output).await?;
        // TLS keeps what it has not written yet.
        Ok(self.stream.flush().await?)
    }

    /// Waits for bytes. Cancel-safe: no bytes are lost when the future is dropped.
    pub async fn read(&mut self) -> anyhow::Result<()> {
        self.input.reserve(READ_BYTES);
        if self.stream.read_buf(&mut self.input).await? == 0 {
            bail!("{} closed the connection", self.address);
        }
        Ok(())
    }

    /// The next complete answer in the buffer. Requests of the server are ignored.
    pub fn answer(&mut self) -> anyhow::Result<Option<Command>> {
        while let Some(command) = wire::decode(&mut self.input)? {
            if command.is_response() {
                return Ok(Some(command));
            }
        }
        Ok(None)
    }
}
