//! The `redstart` binary.

mod bench;
mod check;
mod files;
mod serve;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Requests allocate on one thread and free on another; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "redstart", version, about = "A message broker for RocketMQ clients in one binary")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the broker (the default)
    Serve(serve::Arguments),
    /// Load a RocketMQ-compatible server and measure it
    #[command(subcommand)]
    Bench(bench::Command),
    /// Verify a data directory offline: frames, indexes, checkpoints
    Check {
        /// The data directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    // No command means `serve`, with its flags.
    let serving = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && !matches!(&*text, "-h" | "--help" | "-V" | "--version")
    };
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(serving) {
        arguments.insert(1, "serve".into());
    }
    let arguments = Arguments::parse_from(arguments);
    let result = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Bench(command) => bench::run(&command),
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
