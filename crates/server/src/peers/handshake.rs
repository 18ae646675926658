//! How two nodes begin a connection: each says who it is, and proves that it knows the secret of the cluster.
//!
//! | who | what it sends |
//! |---|---|
//! | the node that dials | its hello |
//! | the node that accepts | 1, its hello, its proof; or 0 and a sentence that says why not |
//! | the node that dials | its proof |
//! | the node that accepts | 1; or 0 and a sentence |
//!
//! A proof is an HMAC-SHA256, keyed with the secret, over the role of the prover and both hellos. These hold a nonce of each node, so that
//! no proof can be used twice, and both nodes' numbers, clusters and directories, so that none can be used for another link. What follows
//! on the connection is not encrypted.
//!
//! Each of the four is a length (u16) and so many bytes. The bytes of a hello, all integers little endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 7 | `rspeer` and a zero |
//! | 7 | 1 | version, 1 |
//! | 8 | 1 | purpose: 1 for messages of replicas, 2 to relay a client |
//! | 9 | 12 | the number of the node that it is for, that of its sender, its sender's incarnation (u32 each) |
//! | 21 | 8 | the number of the sender's data directory |
//! | 29 | 32 | nonce |
//! | 61 | 2 | the port of the sender's broker |
//! | 63 | 1+n | name of the cluster |
//! | | 1+n | the host that the sender advertises |

use std::{io, net::SocketAddr, path::Path, time::Duration};

use bytes::{Buf, Bytes};
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Config, Face, KnownPeers};

const MAGIC: &[u8; 7] = b"rspeer\0";
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
/// The longest part of a handshake.
const PART_BYTES_MAX: usize = 1024;
/// For the whole handshake.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);
const SECRET_BYTES_MIN: usize = 16;
const DIALS: &[u8] = b"redstart peer dials";
const ACCEPTS: &[u8] = b"redstart peer accepts";
const YES: u8 = 1;
const NO: u8 = 0;

/// What the nodes of a cluster know and others do not.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The file has no secret that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("the secret has {0} characters, and {SECRET_BYTES_MIN} is the least that it can have")]
    Short(usize),
}

impl Secret {
    /// The first line of a file.
    pub fn read(file: &Path) -> Result<Secret, SecretError> {
        let text = std::fs::read_to_string(file)?;
        Secret::new(text.lines().next().unwrap_or_default().trim())
    }

    pub fn new(text: &str) -> Result<Secret, SecretError> {
        match text.len() {
            short @ ..SECRET_BYTES_MIN => Err(SecretError::Short(short)),
            _ => Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))),
        }
    }

    fn prove(&self, role: &[u8], hellos: [&[u8]; 2]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.0, &transcript(role, hellos));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    fn verify(&self, role: &[u8], hellos: [&[u8]; 2], proof: &[u8]) -> bool {
        hmac::verify(&self.0, &transcript(role, hellos), proof).is_ok()
    }
}

/// Lengths keep the parts apart.
fn transcript(role: &[u8], hellos: [&[u8]; 2]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in [role, hellos[0], hellos[1]] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Replication,
    Relay,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub purpose: Purpose,
    /// The node that it is for.
    pub to: u32,
    pub node: u32,
    pub incarnation: u32,
    pub directory: u64,
    nonce: [u8; NONCE_BYTES],
    pub cluster: String,
    pub face: Face,
}

/// Why two nodes do not talk.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the handshake took longer than {} s", TIME_MAX.as_secs())]
    TooLong,
    #[error("{0}")]
    Refused(String),
    /// Said by the other node.
    #[error("it says: {0}")]
    RefusedThere(String),
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Failure {
        Failure::TooLong
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused(why.into()))
}

impl Hello {
    fn of(config: &Config, purpose: Purpose, to: u32) -> io::Result<Hello> {
        let mut nonce = [0; NONCE_BYTES];
        let no_random = |_| io::Error::other("the system gives no random bytes");
        SystemRandom::new().fill(&mut nonce).map_err(no_random)?;
        let identity = &config.identity;
        Ok(Hello {
            purpose,
            to,
            node: identity.member.node,
            incarnation: identity.member.incarnation,
            directory: identity.directory,
            nonce,
            cluster: identity.cluster.clone(),
            face: config.face.clone(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[VERSION]].concat();
        out.push(match self.purpose {
            Purpose::Replication => 1,
            Purpose::Relay => 2,
        });
        for number in [self.to, self.node, self.incarnation] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.directory.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.face.broker_port.to_le_bytes());
        put_text(&mut out, &self.cluster);
        put_text(&mut out, &self.face.host);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Hello, Failure> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else { return refused("it does not speak as a peer") };
        let Some((&VERSION, rest)) = rest.split_first() else {
            return refused(format!(
                "its version of the peer protocol is {} and not {VERSION}",
                rest.first().copied().unwrap_or_default()
            ));
        };
        read_hello(rest).map_or_else(|| refused("its hello cannot be read"), Ok)
    }
}

fn read_hello(mut rest: &[u8]) -> Option<Hello> {
    let purpose = match rest.try_get_u8().ok()? {
        1 => Purpose::Replication,
        2 => Purpose::Relay,
        _ => return None,
    };
    let mut number = || rest.try_get_u32_le().ok();
    let (to, node, incarnation) = (number()?, number()?, number()?);
    let directory = rest.try_get_u64_le().ok()?;
    let nonce = *rest.split_off(..NONCE_BYTES)?.first_chunk()?;
    let broker_port = rest.try_get_u16_le().ok()?;
    let (cluster, host) = (text(&mut rest)?, text(&mut rest)?);
    let face = Face { host, broker_port };
    rest.is_empty().then_some(Hello { purpose, to, node, incarnation, directory, nonce, cluster, face })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = text.len().min(usize::from(u8::MAX));
    out.push(length as u8);
    out.extend_from_slice(&text.as_bytes()[..length]);
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(rest.try_get_u8().ok()?);
    String::from_utf8(rest.split_off(..length)?.to_vec()).ok()
}

/// Which client a connection relays: the port that it dialled, where, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayOpen {
    pub port: RelayedPort,
    /// The address that the client dialled.
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// The ports whose clients are relayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RelayedPort {
    Grpc,
    NameService,
    Broker,
}

impl RelayedPort {
    pub const ALL: [RelayedPort; 3] = [RelayedPort::Grpc, RelayedPort::NameService, RelayedPort::Broker];

    fn number(self) -> u8 {
        match self {
            RelayedPort::Grpc => 1,
            RelayedPort::NameService => 2,
            RelayedPort::Broker => 3,
        }
    }
}

impl RelayOpen {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.port.number()];
        put_text(&mut out, &self.local.to_string());
        put_text(&mut out, &self.remote.to_string());
        out
    }

    fn decode(mut rest: &[u8]) -> Option<RelayOpen> {
        let number = rest.try_get_u8().ok()?;
        let port = RelayedPort::ALL.into_iter().find(|port| port.number() == number)?;
        let (local, remote) = (text(&mut rest)?.parse().ok()?, text(&mut rest)?.parse().ok()?);
        rest.is_empty().then_some(RelayOpen { port, local, remote })
    }

    pub(super) async fn send(&self, stream: &mut TcpStream) -> Result<(), Failure> {
        Ok(write_part(stream, &[&self.encode()]).await?)
    }

    pub(super) async fn receive(stream: &mut TcpStream) -> Result<RelayOpen, Failure> {
        let bytes = read_part(stream).await?;
        RelayOpen::decode(&bytes).map_or_else(|| refused("it does not say whom it relays"), Ok)
    }
}

/// Begins a connection that this node has dialled. Returns what the other node says of itself.
pub(super) async fn dial(
    stream: &mut TcpStream,
    config: &Config,
    known: &KnownPeers,
    node: u32,
    purpose: Purpose,
) -> Result<Hello, Failure> {
    let own = Hello::of(config, purpose, node)?.encode();
    write_part(stream, &[&own]).await?;
    let answer = read_part(stream).await?;
    let answer = yes(&answer)?;
    let split = answer.len().checked_sub(PROOF_BYTES).and_then(|at| answer.split_at_checked(at));
    let Some((theirs, proof)) = split else { return refused("its hello cannot be read") };
    let hello = Hello::decode(theirs)?;
    if hello.node != node {
        return refused(format!("it is node {} and not node {node}", hello.node));
    }
    check(&hello, config)?;
    if !config.secret.verify(ACCEPTS, [&own, theirs], proof) {
        return refused("it does not know the secret of this cluster");
    }
    check_directory(&hello, known)?;
    write_part(stream, &[&config.secret.prove(DIALS, [&own, theirs])]).await?;
    let answer = read_part(stream).await?;
    yes(&answer)?;
    Ok(hello)
}

/// Begins a connection that this node has accepted. The other node is told why it is refused.
pub(super) async fn accept(
    stream: &mut TcpStream,
    config: &Config,
    known: &KnownPeers,
) -> Result<Hello, Failure> {
    let accepted = try_accept(stream, config, known).await;
    if let Err(Failure::Refused(why)) = &accepted {
        // It may be gone already.
        drop(write_part(stream, &[&[NO], why.as_bytes()]).await);
    }
    accepted
}

async fn try_accept(stream: &mut TcpStream, config: &Config, known: &KnownPeers) -> Result<Hello, Failure> {
    let theirs = read_part(stream).await?;
    let hello = Hello::decode(&theirs)?;
    let own_number = config.identity.member.node;
    if hello.to != own_number {
        return refused(format!("this is node {own_number} and not node {}", hello.to));
    }
    if hello.node == own_number {
        return refused(format!("this is node {own_number} too: two nodes cannot have one number"));
    }
    check(&hello, config)?;
    let own = Hello::of(config, hello.purpose, hello.node)?.encode();
    let proof = config.secret.prove(ACCEPTS, [&theirs, &own]);
    write_part(stream, &[&[YES], &own, &proof]).await?;
    let proof = read_part(stream).await?;
    if !config.secret.verify(DIALS, [&theirs, &own], &proof) {
        return refused("the secret of the cluster is another here");
    }
    check_directory(&hello, known)?;
    write_part(stream, &[&[YES]]).await?;
    Ok(hello)
}

/// What two nodes must agree on, beside the secret.
fn check(hello: &Hello, config: &Config) -> Result<(), Failure> {
    let Config { identity, peers, .. } = config;
    if hello.cluster != identity.cluster {
        return refused(format!("the cluster is {} there and {} here", hello.cluster, identity.cluster));
    }
    if !peers.contains_key(&hello.node) {
        return refused(format!(
            "node {} is not among the peers of node {}",
            hello.node, identity.member.node
        ));
    }
    Ok(())
}

/// Only after the proof: nobody else can make this node remember a directory.
fn check_directory(hello: &Hello, known: &KnownPeers) -> Result<(), Failure> {
    if !known.is_same(hello.node, hello.directory)? {
        return refused(format!(
            "node {} had another data directory before: either it lost its data, or two nodes have one number",
            hello.node
        ));
    }
    Ok(())
}

fn yes(answer: &[u8]) -> Result<&[u8], Failure> {
    match answer.split_first() {
        Some((&YES, rest)) => Ok(rest),
        Some((&NO, why)) => Err(Failure::RefusedThere(String::from_utf8_lossy(why).into_owned())),
        _ => refused("its answer cannot be read"),
    }
}

async fn write_part(stream: &mut TcpStream, parts: &[&[u8]]) -> io::Result<()> {
    let part = parts.concat();
    let length = (part.len().min(PART_BYTES_MAX)) as u16;
    let out = [&length.to_le_bytes(), &part[..usize::from(length)]].concat();
    stream.write_all(&out).await
}

async fn read_part(stream: &mut TcpStream) -> Result<Bytes, Failure> {
    let length = usize::from(stream.read_u16_le().await?);
    if length > PART_BYTES_MAX {
        return refused("it does not speak as a peer");
    }
    let mut part = vec![0; length];
    stream.read_exact(&mut part).await?;
    Ok(part.into())
}

#[cfg(test)]
mod tests;
