//! Errors of the configuration, with suggestions for misspelt names.

use std::{fmt::Display, path::PathBuf};

use super::{
    alias::NEEDLESS,
    settings::{SETTINGS, Setting, VARIABLE_PREFIX},
};
use redstart_commands::similar::similar;

/// Why the broker does not start with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the configuration {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    #[error("{place}: {what}")]
    Syntax { place: String, what: String },
    #[error("{place}: unknown key `{key}`{hint}")]
    UnknownKey { place: String, key: String, hint: String },
    #[error("unknown environment variable {name}{hint}")]
    UnknownVariable { name: String, hint: String },
    #[error("{place}: `{name}` is {value:?}; it must be {accepted}")]
    Value { place: String, name: String, value: String, accepted: String },
    #[error("{place}: `{name}` and `{other}` are the same setting; keep one of them")]
    Twice { place: String, name: String, other: String },
    #[error("{0}")]
    Together(String),
}

/// The hint for an unknown key: why it is not needed, or the closest known one.
pub fn hint_for_key(key: &str) -> String {
    if let Some((_, why)) = NEEDLESS.iter().find(|(name, _)| *name == key) {
        return format!(": remove it, {why}");
    }
    let aliases = SETTINGS.iter().flat_map(|setting| setting.aliases).map(|alias| alias.name);
    hint(similar(key, SETTINGS.iter().map(|setting| setting.key).chain(aliases)).first())
}

pub fn hint_for_variable(name: &str) -> String {
    // Compare without the prefix: with it, all variables look similar.
    let key = name.strip_prefix(VARIABLE_PREFIX).unwrap_or(name);
    let near = similar(key, SETTINGS.iter().map(|setting| setting.key)).first().copied();
    hint(near.and_then(|near| SETTINGS.iter().find(|setting| setting.key == near)).map(Setting::variable))
}

/// Suggests a name, or the command that lists all of them.
fn hint(name: Option<impl Display>) -> String {
    match name {
        Some(name) => format!("; did you mean `{name}`?"),
        None => "; `redstart config` lists all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_name_is_suggested_for_a_misspelt_one() {
        for (wrong, right) in [
            ("flsh", "flush"),
            ("Flush", "flush"),
            ("grpc-port", "grpc_port"),
            ("data", "data_dir"),
            ("fileReservedTimes", "fileReservedTime"),
            ("retention_hours", "retention"),
        ] {
            assert_eq!(hint_for_key(wrong), format!("; did you mean `{right}`?"));
        }
        assert_eq!(hint_for_key("zzz"), "; `redstart config` lists all");
        assert_eq!(hint_for_key("brokerId"), ": remove it, there is one broker");
        assert_eq!(hint_for_variable("REDSTART_FLSH"), "; did you mean `REDSTART_FLUSH`?");
        assert_eq!(hint_for_variable("REDSTART_ZZZ"), "; `redstart config` lists all");
    }
}
