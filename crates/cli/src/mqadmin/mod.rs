//! `redstart mqadmin`: RocketMQ's operator's tool, with its commands, its options and its output.

mod accounts;
mod auth;
mod clients;
mod cluster;
mod context;
mod controller;
mod export;
mod groups;
mod help;
mod json;
mod lite;
mod message;
mod monitor;
mod names;
mod offsets;
mod option;
mod parse;
mod progress;
mod query;
mod read;
mod send;
mod settings;
mod special;
mod table;
mod text;
mod topic_views;
mod topics;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use redstart_client::admin::{self, Admin};
use redstart_wire::remoting::code;

use crate::{similar::closest, stdout};
use context::{Context, Outcome};
use parse::Given;
use table::Spec;

const NAMESRV_VARIABLE: &str = "NAMESRV_ADDR";
const NAMESRV_DEFAULT: &str = "127.0.0.1:9876";

/// Runs the command that `words` are, the name of the program not included.
pub fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    match words {
        [] => return show(&overview()),
        [help] if help == "help" || help == "-h" || help == "--help" => return show(&overview()),
        [help, name] if help == "help" => {
            return match table::find(name) {
                Some(spec) => show(&help::command(spec.name, &option::all(spec.options))),
                None => unknown(name),
            };
        }
        _ => {}
    }
    let (name, words) = (&words[0], &words[1..]);
    let Some(spec) = table::find(name) else { return unknown(name) };
    let options = option::all(spec.options);
    if words.iter().any(|word| word == "-h" || word == "--help") {
        return show(&help::command(spec.name, &options));
    }
    match parse::parse(&options, words) {
        Ok(given) => execute(spec, given),
        Err(problem) => {
            eprintln!("mqadmin {}: {problem}", spec.name);
            eprint!("{}", help::command(spec.name, &options));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn show(text: &str) -> anyhow::Result<ExitCode> {
    // Whoever reads it may have seen enough and gone.
    drop(io::stdout().write_all(text.as_bytes()));
    Ok(ExitCode::SUCCESS)
}

fn overview() -> String {
    let mut text = "The most commonly used mqadmin commands are:\n".to_owned();
    for spec in table::all() {
        text.push_str(&format!("   {:<35} {}\n", spec.name, spec.about));
    }
    text.push_str("\nSee 'mqadmin help <command>' for more information on a specific command.\n");
    text
}

fn unknown(name: &str) -> anyhow::Result<ExitCode> {
    let meant = closest(name, table::all().map(|spec| spec.name));
    let meant = meant.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
    eprintln!("The sub command {name} not exist.{meant}");
    Ok(ExitCode::FAILURE)
}

fn execute(spec: &Spec, given: Given) -> anyhow::Result<ExitCode> {
    for word in &given.stray {
        eprintln!("mqadmin {}: {word:?} belongs to no option and is ignored", spec.name);
    }
    let variable = std::env::var(NAMESRV_VARIABLE).ok().filter(|names| !names.trim().is_empty());
    let names = given.get("n").map(str::to_owned).or(variable);
    let guessed = names.is_none();
    let admin = Admin::new(names.as_deref().unwrap_or(NAMESRV_DEFAULT));
    // One command, one thread: there is little to do at the same time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let context = Context::new(given, admin);
    let outcome = runtime.block_on((spec.run)(&context));
    let outcome = outcome.and(context.flush().map_err(Into::into));
    runtime.shutdown_background();
    Ok(end(spec.name, outcome, guessed))
}

/// Says in one line why a command failed. Whoever reads the output may have seen enough and gone: that is no failure.
fn end(name: &str, outcome: Outcome, guessed: bool) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if stdout::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    let hint = match error.downcast_ref() {
        Some(admin::Error::NoNameServer { .. }) if guessed => {
            format!(": -n and {NAMESRV_VARIABLE} say where to look; neither was given")
        }
        _ => String::new(),
    };
    eprintln!("mqadmin {name}: {}{hint}", describe(&error).replace('\n', " "));
    ExitCode::FAILURE
}

/// With the server's code where it gave one, in the form that mqadmin's users know.
fn describe(error: &anyhow::Error) -> String {
    let known = error.downcast_ref::<admin::Error>();
    if let Some(admin::Error::Refused { address, code, remark, .. }) = known {
        return format!("CODE: {code}  DESC: {remark} BROKER: {address}");
    }
    let code = known.and_then(|error| match error {
        admin::Error::NoMessage { .. } => Some(code::NO_MESSAGE),
        other => other.code(),
    });
    match code {
        Some(code) => format!("CODE: {code}  DESC: {error:#}"),
        None => format!("{error:#}"),
    }
}
