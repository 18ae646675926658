//! The `redstart` binary.

mod administrator;
mod banner;
mod check;
mod cluster;
mod config;
mod exposure;
mod front_ends;
mod health;
mod logging;
mod node;
mod pages;
mod rotation;
mod secrets;
mod serve;
mod shard_dirs;
mod startup;
mod transport;
mod unverified_tls;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use redstart_commands::{
    admin,
    failure::{self, Failure},
    mqadmin, stdout,
};
use redstart_load as bench;

/// A request is often freed on another thread than the one that allocated it. This allocator makes that cheap.
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
    /// Print all settings with their values, sources and meanings
    Config(config::Arguments),
    /// Exit with 0 if the broker is ready; takes the same flags as serve
    Health(config::Flags),
    /// Generate load on a RocketMQ-compatible server and measure it
    #[command(subcommand)]
    Bench(bench::Command),
    /// Run a command of RocketMQ's mqadmin; see `redstart mqadmin help`
    #[command(disable_help_flag = true)]
    Mqadmin {
        /// The mqadmin command and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Verify the data directory of a stopped broker: frames, indexes, checkpoints
    Check {
        /// Data directory
        dir: PathBuf,
        /// Accept that data is missing: the broker then starts with what is left
        #[arg(long)]
        accept_loss: bool,
    },
    /// The keys that seal the secrets of users: rotate
    #[command(subcommand)]
    Secrets(rotation::Command),
    #[command(flatten)]
    Admin(admin::Command),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    // Without a command, `serve` is meant.
    let is_flag_of_serve = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        text.starts_with('-') && !matches!(&*text, "-h" | "--help" | "-V" | "--version")
    };
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.first().and_then(|path| Path::new(path).file_stem()).is_some_and(|name| name == "mqadmin") {
        arguments.insert(1, "mqadmin".into());
    }
    if arguments.get(1).is_none_or(is_flag_of_serve) {
        arguments.insert(1, "serve".into());
    }
    let words: Vec<_> = arguments.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let is_mqadmin = words.first().is_some_and(|command| command == "mqadmin");
    let json = !is_mqadmin && failure::wants_json(words.iter().map(AsRef::as_ref));
    let arguments = match Arguments::try_parse_from(&arguments) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(error, words.first().map(AsRef::as_ref), json),
    };
    let result = match arguments.command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Config(arguments) => config::run(&arguments),
        Command::Health(flags) => health::run(&flags),
        Command::Bench(command) => bench::run(&command),
        Command::Mqadmin { words } => mqadmin::run(&words),
        Command::Check { dir, accept_loss } => check::run(&dir, accept_loss),
        Command::Secrets(command) => rotation::run(&command),
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
            failure_of(&error).print(json);
            ExitCode::FAILURE
        }
    }
}

fn failure_of(error: &anyhow::Error) -> Failure {
    match error.is::<config::Error>() {
        true => Failure::new("configuration", format!("{error:#}")),
        false => Failure::of(error),
    }
}

/// Prints why the command line was refused, or the help that it asked for.
fn refuse(mut error: clap::Error, command: Option<&str>, json: bool) -> ExitCode {
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).as_deref() == command
        && let Some(tip) = command.and_then(mqadmin::suggestion)
    {
        // clap compares letters only: it would suggest `serve` for `user`.
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if json && error.use_stderr() {
        Failure::of_usage(&error).print(true);
    } else {
        // Nothing can be reported where the error cannot be printed.
        drop(error.print());
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undocumented(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        let ours = |id: &str| !matches!(id, "help" | "version");
        for argument in command.get_arguments().filter(|argument| ours(argument.get_id().as_str())) {
            if argument.get_help().is_none_or(|help| help.to_string().is_empty()) {
                found.push(format!("{path} {}", argument.get_id()));
            }
        }
        for command in command.get_subcommands() {
            if command.get_about().is_none() {
                found.push(format!("{path} {}", command.get_name()));
            }
            undocumented(command, &path, found);
        }
    }

    #[test]
    fn every_command_and_every_argument_has_a_sentence() {
        let mut found = Vec::new();
        undocumented(&Arguments::command(), "", &mut found);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn options_of_every_command_stand_apart_in_the_help() {
        let mut command = Arguments::command();
        command.build();
        let list = command.find_subcommand("topic").and_then(|topic| topic.find_subcommand("list")).unwrap();
        let heading = |id: &str| {
            let argument = list.get_arguments().find(|argument| argument.get_id() == id);
            argument.and_then(clap::Arg::get_help_heading).map(str::to_owned)
        };
        for id in ["namesrv", "output", "json", "time"] {
            assert_eq!(heading(id).as_deref(), Some("Global options"), "{id}");
        }
        assert_eq!(heading("all"), None);
    }
}
