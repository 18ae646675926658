//! `redstart mqadmin`: RocketMQ's administration tool, with its commands, options and output.

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

use crate::{access, similar::closest, stdout};
use context::{Context, Outcome};
use parse::Given;
use table::Spec;

const NAMESRV_VARIABLE: &str = "NAMESRV_ADDR";
const NAMESRV_DEFAULT: &str = "127.0.0.1:9876";

/// Runs a command. `words` are its name and its options.
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
    // A closed pipe, as with `head`, is not an error.
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

/// A tip for a word that is not a command of `redstart`, if names of mqadmin's commands contain it.
pub fn suggestion(word: &str) -> Option<String> {
    let wanted = word.to_ascii_lowercase();
    let named = |spec: &&Spec| wanted.len() > 2 && spec.name.to_ascii_lowercase().contains(&wanted);
    let mut names: Vec<&str> = table::all().filter(named).map(|spec| spec.name).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("mqadmin has that command: redstart mqadmin {one}")),
        many => Some(format!("mqadmin has such commands: redstart mqadmin {}", many.join(" | "))),
    }
}

fn execute(spec: &Spec, given: Given) -> anyhow::Result<ExitCode> {
    for word in &given.stray {
        eprintln!("mqadmin {}: {word:?} belongs to no option and is ignored", spec.name);
    }
    let variable = std::env::var(NAMESRV_VARIABLE).ok().filter(|names| !names.trim().is_empty());
    let access = access::of_mqadmin()?;
    let names = given.get("n").map(str::to_owned).or(variable).or(access.namesrv);
    let guessed = names.is_none();
    let admin = Admin::new(names.as_deref().unwrap_or(NAMESRV_DEFAULT));
    let admin = admin.with_credentials(access.credentials).with_tls(access.tls);
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

/// Prints an error on one line. A closed pipe, as with `head`, is not an error.
fn end(name: &str, outcome: Outcome, guessed: bool) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if stdout::is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    let hint = match error.downcast_ref() {
        Some(admin::Error::NoNameServer { .. }) if guessed => {
            format!(": neither -n nor {NAMESRV_VARIABLE} was given")
        }
        _ => String::new(),
    };
    eprintln!("mqadmin {name}: {}{hint}", describe(&error).replace('\n', " "));
    ExitCode::FAILURE
}

/// The text of an error, with the server's code in mqadmin's notation if there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_mqadmin_are_suggested() {
        let users = suggestion("user").unwrap();
        for name in ["createUser", "listUser", "deleteUser"] {
            assert!(users.contains(name), "{users}");
        }
        let one = "mqadmin has that command: redstart mqadmin updateTopicPerm";
        assert_eq!(suggestion("updatetopicperm").as_deref(), Some(one));
        assert_eq!(suggestion("xyzzy"), None);
    }
}
