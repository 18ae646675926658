//! `redstart bench`: a load generator for any server that the RocketMQ clients can use.

mod consume;
mod grpc;
mod load;
mod produce;
mod report;
mod rpc;
mod usage;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send messages as fast as the server takes them, or at a rate
    Produce(produce::Arguments),
    /// Receive and acknowledge, one call for each acknowledgement, as the official clients do
    Consume(consume::Arguments),
    /// Send at a rate and measure the time until each message is received
    RoundTrip(consume::RoundTrip),
}

/// What every load has in common.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Address of the gRPC port
    #[arg(long, default_value = "127.0.0.1:8081")]
    server: String,
    /// The topic; it must exist
    #[arg(long, default_value = "bench")]
    topic: String,
    /// Connections, each a client of its own
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long to warm up before, in seconds
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Process of the server, to report its CPU time and memory; may be given several times
    #[arg(long = "server-pid", value_name = "PID")]
    server_pids: Vec<u32>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.seconds > 0, "--seconds must be at least 1");
        Ok(())
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up)
    }

    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the load generator")?;
    match command {
        Command::Produce(arguments) => runtime.block_on(produce::run(arguments))?,
        Command::Consume(arguments) => runtime.block_on(consume::run(arguments))?,
        Command::RoundTrip(arguments) => runtime.block_on(consume::round_trip(arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}
