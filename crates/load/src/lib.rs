//! `redstart bench`: a load generator for every server that speaks RocketMQ's protocols.

mod consume;
mod driver;
mod grpc;
mod load;
mod produce;
mod remoting;
mod report;
mod rpc;
mod usage;
mod workload;
mod workloads;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use redstart_client::{Credentials, Tls};

use driver::Protocol;
use redstart_commands::{access, blocking::block_on};
use remoting::Serialization;

/// Largest number of topics in one load.
const TOPICS_MAX: usize = 1000;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send messages at a rate, or as fast as the server accepts them
    Produce(produce::Arguments),
    /// Receive as the official clients do: over gRPC with an acknowledgement for each message, over Remoting by pulling
    Consume(consume::Arguments),
    /// Send at a rate and measure the time until each message is received
    RoundTrip(consume::RoundTrip),
    /// Run a standard workload of the OpenMessaging benchmark: send and receive at once
    Workload(workload::Arguments),
}

/// Options of every load on given topics.
#[derive(Debug, Clone, Args)]
pub struct Common {
    #[command(flatten)]
    target: Target,
    /// Topic; it must exist, unless --create is given
    #[arg(long, default_value = "bench")]
    topic: String,
    /// Number of topics; the second and further ones are named TOPIC-1, TOPIC-2, …
    #[arg(long, default_value_t = 1)]
    topics: usize,
    /// Create missing topics
    #[arg(long)]
    create: bool,
    /// Queues of a topic that --create creates
    #[arg(long, default_value_t = 8)]
    queues: u32,
    /// Connections; each is a separate client
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Measure until this many messages are counted, without warm-up and without a time limit
    #[arg(long, value_name = "MESSAGES", conflicts_with_all = ["seconds", "warm_up"])]
    until: Option<u64>,
}

/// The server, the duration and the report of a load.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Protocol: of 5.x clients (grpc) or of 4.x clients (remoting)
    #[arg(long, value_enum, default_value_t = Protocol::Grpc)]
    protocol: Protocol,
    /// Address of the gRPC port, or of the name server for Remoting [default: 127.0.0.1:8081 or 127.0.0.1:9876]
    #[arg(long)]
    server: Option<String>,
    /// Address of the name server, for creating topics when the load is gRPC [default: 127.0.0.1:9876]
    #[arg(long)]
    namesrv: Option<String>,
    #[command(flatten)]
    access: access::Flags,
    /// Encoding of Remoting headers: JSON, which is Java's default, or binary
    #[arg(long, value_enum, default_value_t = Serialization::Json)]
    serialization: Serialization,
    /// Duration of the measurement in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Duration of the warm-up in seconds
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Process id of the server, to report its CPU time and memory; may be given several times
    #[arg(long = "server-pid", value_name = "PID")]
    server_pids: Vec<u32>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Target {
    /// The server that the load goes to.
    fn server(&self) -> anyhow::Result<Server> {
        self.reach(self.protocol, self.server.as_deref())
    }

    /// The name server that creates topics.
    fn name_server(&self) -> anyhow::Result<Server> {
        match self.protocol {
            Protocol::Grpc => self.reach(Protocol::Remoting, self.namesrv.as_deref()),
            Protocol::Remoting => self.server(),
        }
    }

    /// The server at this address, else at the context's, else at the default one.
    fn reach(&self, protocol: Protocol, address: Option<&str>) -> anyhow::Result<Server> {
        let access = self.access.resolve()?;
        let (of_context, tls) = match protocol {
            Protocol::Grpc => (access.grpc, access.tls.map(|tls| tls.for_http2())),
            Protocol::Remoting => (access.namesrv, access.tls),
        };
        // Loads use one name server.
        let of_context = of_context.as_deref().and_then(|addresses| addresses.split(';').next());
        let address = address.or(of_context).unwrap_or(protocol.default_server()).to_owned();
        Ok(Server { address, credentials: access.credentials, tls })
    }
}

/// A server, and the user that requests to it are signed by. Every request is signed; calls of one second over gRPC
/// share a signature, for all that they sign is the second.
#[derive(Debug, Clone)]
pub struct Server {
    pub address: String,
    pub credentials: Option<Credentials>,
    pub tls: Option<Tls>,
}

impl Common {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.target.seconds > 0, "--seconds must be at least 1");
        ensure!(self.until != Some(0), "--until must be at least 1");
        ensure!((1..=TOPICS_MAX).contains(&self.topics), "--topics must be from 1 to {TOPICS_MAX}");
        ensure!(self.queues > 0, "--queues must be at least 1");
        Ok(())
    }

    fn topic_names(&self) -> Vec<String> {
        let further = (1..self.topics).map(|n| format!("{}-{n}", self.topic));
        std::iter::once(self.topic.clone()).chain(further).collect()
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.until.is_some() { 0 } else { self.target.warm_up })
    }

    fn measured(&self) -> Duration {
        Duration::from_secs(self.target.seconds)
    }
}

pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the load generator")?;
    match command {
        Command::Produce(arguments) => block_on(&runtime, produce::run(arguments))?,
        Command::Consume(arguments) => block_on(&runtime, consume::run(arguments))?,
        Command::RoundTrip(arguments) => block_on(&runtime, consume::round_trip(arguments))?,
        Command::Workload(arguments) => block_on(&runtime, workload::run(arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}
