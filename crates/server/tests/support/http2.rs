//! HTTP/2 by hand, for what no proper client does.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub struct Raw {
    pub stream: TcpStream,
}

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header as a literal that is neither indexed nor compressed.
pub fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        length(&mut bytes, text.len());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// An HPACK integer with a prefix of seven bits.
fn length(bytes: &mut Vec<u8>, mut n: usize) {
    if n < 127 {
        return bytes.push(n as u8);
    }
    bytes.push(127);
    n -= 127;
    while n >= 128 {
        bytes.push((n % 128 + 128) as u8);
        n /= 128;
    }
    bytes.push(n as u8);
}

pub fn call_headers(method: &str) -> Vec<u8> {
    let path = format!("/apache.rocketmq.v2.MessagingService/{method}");
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path.as_str()),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-mq-client-id", "raw"),
    ]
    .iter()
    .flat_map(|(name, value)| literal(name, value))
    .collect()
}

impl Raw {
    /// A TCP connection that has said nothing.
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw { stream: TcpStream::connect(address).await.unwrap() }
    }

    /// One that has opened HTTP/2.
    pub async fn open(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address).await;
        raw.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
        raw
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next frame, or `None` when the server has closed the connection.
    pub async fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).await.ok()?;
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) & 0x7fff_ffff;
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }

    /// Reads until the server closes the connection; `Err` when it does not in time. Says whether it said GOAWAY.
    pub async fn closed(&mut self, within: Duration) -> Result<bool, &'static str> {
        let read = async {
            let mut goaway = false;
            while let Some(frame) = self.frame().await {
                goaway |= frame.kind == GOAWAY;
            }
            goaway
        };
        timeout(within, read).await.map_err(|_| "the connection is still open")
    }

    /// Writes `bytes` again and again until the server cuts the connection off, reading along; `Err` when it does not.
    pub async fn flood(&mut self, bytes: &[u8], within: Duration) -> Result<(), &'static str> {
        let (mut read, mut write) = self.stream.split();
        let writing = async { while write.write_all(bytes).await.is_ok() {} };
        let reading = async {
            let mut sink = vec![0; 64 << 10];
            while read.read(&mut sink).await.is_ok_and(|n| n > 0) {}
        };
        let ended = async {
            tokio::select! {
                () = writing => {}
                () = reading => {}
            }
        };
        timeout(within, ended).await.map_err(|_| "the connection is still open")
    }
}

/// A message as gRPC frames it, with a length of the caller's choice.
pub fn grpc_frame(compressed: u8, len: u32, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![compressed];
    frame.extend(len.to_be_bytes());
    frame.extend(bytes);
    frame
}
