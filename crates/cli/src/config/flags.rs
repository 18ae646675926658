//! Command-line flags, one for each row of the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource, value_parser};

use super::{
    Error,
    kind::Notation,
    settings::{SETTINGS, Setting},
    values::{Given, Source},
};

const FILE: &str = "config";

/// The settings given on the command line, and the configuration file if one was named.
#[derive(Debug, Default, Clone)]
pub struct Flags {
    pub file: Option<PathBuf>,
    given: Vec<(&'static Setting, String)>,
}

impl Flags {
    pub(super) fn values(&self) -> Result<Vec<(&'static Setting, Given)>, Error> {
        let given = self.given.iter().map(|(setting, text)| {
            let source = Source::Flag { flag: setting.flag() };
            if setting.accepts(text) {
                return Ok((*setting, Given { text: text.clone(), source }));
            }
            let (place, name) = ("command line".to_owned(), source.to_string());
            Err(Error::Value { place, name, value: text.clone(), accepted: setting.accepted.to_owned() })
        });
        given.collect()
    }
}

fn argument(setting: &'static Setting) -> Arg {
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let meaning = setting.meaning().trim_end_matches('.');
    let argument = Arg::new(setting.key)
        .long(setting.flag())
        .help(format!("{meaning}{default}"))
        .help_heading("Settings")
        .allow_hyphen_values(true)
        .action(ArgAction::Set);
    match setting.notation {
        // `--flag` alone means `--flag=true`.
        Notation::Bool => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
        }
        Notation::Number | Notation::Text => argument.value_name("VALUE"),
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let file =
            Arg::new(FILE).long(FILE).value_name("FILE").value_parser(value_parser!(PathBuf)).help(
                "Configuration file [default: redstart.toml in the working directory, if there is one]",
            );
        SETTINGS.iter().fold(command.arg(file), |command, setting| command.arg(argument(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>(FILE).cloned();
        let typed = |setting: &&Setting| matches.value_source(setting.key) == Some(ValueSource::CommandLine);
        let text =
            |setting: &'static Setting| Some((setting, matches.get_one::<String>(setting.key)?.clone()));
        self.given = SETTINGS.iter().filter(typed).filter_map(text).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        let command = Flags::augment_args(Command::new("redstart").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let values =
            Flags::from_arg_matches(&matches).unwrap().values().map_err(|error| error.to_string())?;
        Ok(values.into_iter().map(|(setting, given)| (setting.key, given.text)).collect())
    }

    #[test]
    fn every_setting_has_a_flag() {
        let found = read(&["--grpc-port", "1", "--flush=async", "--auto-create-topics"]).unwrap();
        let expected = [("grpc_port", "1"), ("flush", "async"), ("auto_create_topics", "true")];
        assert_eq!(found, expected.map(|(key, text)| (key, text.to_owned())));
        assert_eq!(
            read(&["--auto-create-groups=false"]).unwrap(),
            [("auto_create_groups", "false".to_owned())]
        );
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = "command line: `--flush` is \"now\"; it must be sync or async";
        assert_eq!(read(&["--flush", "now"]).unwrap_err(), wrong);
        let unknown = read(&["--flsh", "sync"]).unwrap_err();
        assert!(unknown.contains("--flsh") && unknown.contains("'--flush'"), "{unknown}");
    }
}
