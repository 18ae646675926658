//! The `redstart` binary.

mod admin;
mod banner;
mod bench;
mod check;
mod config;
mod health;
mod logging;
mod mqadmin;
mod pages;
mod serve;
mod similar;
mod startup;
mod stdout;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand};

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
    Serve(config::Flags),
    /// Print the settings in force, with their meaning and where each comes from
    Config(config::Arguments),
    /// Ask a running broker whether it is ready; takes the flags that it was started with
    Health(config::Flags),
    /// Load a RocketMQ-compatible server and measure it
    #[command(subcommand)]
    Bench(bench::Command),
    /// RocketMQ's operator's tool: `redstart mqadmin help`
    #[command(disable_help_flag = true)]
    Mqadmin {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Verify a data directory offline: frames, indexes, checkpoints
    Check {
        /// The data directory
        dir: PathBuf,
        /// Go on without data that is missing: what is left counts from here on
        #[arg(long)]
        accept_loss: bool,
    },
    #[command(flatten)]
    Admin(admin::Command),
    /// Print a script that completes commands and options in a shell
    Completions { shell: clap_complete::Shell },
}

fn main() -> ExitCode {
    // No command means `serve`, with its flags.
    let serving = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && !matches!(&*text, "-h" | "--help" | "-V" | "--version")
    };
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.first().and_then(|path| Path::new(path).file_stem()).is_some_and(|name| name == "mqadmin") {
        arguments.insert(1, "mqadmin".into());
    }
    if arguments.get(1).is_none_or(serving) {
        arguments.insert(1, "serve".into());
    }
    let arguments = Arguments::parse_from(arguments);
    let result = match arguments.command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Config(arguments) => config::run(&arguments),
        Command::Health(flags) => health::run(&flags),
        Command::Bench(command) => bench::run(&command),
        Command::Mqadmin { words } => mqadmin::run(&words),
        Command::Check { dir, accept_loss } => check::run(&dir, accept_loss),
        Command::Admin(command) => admin::run(command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "redstart", &mut script);
            stdout::print(&String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("redstart: {error:#}");
            ExitCode::FAILURE
        }
    }
}
