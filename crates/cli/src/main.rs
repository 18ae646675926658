//! The `redstart` binary.

mod check;
mod serve;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "redstart", version, about = "A message broker for RocketMQ clients in one binary")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker (the default)
    Serve(serve::Arguments),
    /// Verify a data directory offline: frames, indexes, checkpoints
    Check {
        /// The data directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command.unwrap_or(Command::Serve(serve::Arguments::default())) {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check { dir } => check::run(&dir),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("redstart: {error:#}");
            ExitCode::FAILURE
        }
    }
}
