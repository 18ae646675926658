use std::path::PathBuf;

use super::{alias::NEEDLESS, settings::SETTINGS};

/// A configuration that the broker does not start with.
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

/// What to write instead of a key that is not known.
pub fn hint_for_key(key: &str) -> String {
    if let Some((_, why)) = NEEDLESS.iter().find(|(name, _)| *name == key) {
        return format!(": remove it, {why}");
    }
    let aliases = SETTINGS.iter().flat_map(|setting| setting.aliases).map(|alias| alias.name);
    let names = SETTINGS.iter().map(|setting| setting.key).chain(aliases);
    hint(key, names.map(str::to_owned))
}

pub fn hint_for_variable(name: &str) -> String {
    hint(name, SETTINGS.iter().map(|setting| setting.variable()))
}

/// The likeliest of the names, if one is likely.
fn hint(wrong: &str, names: impl Iterator<Item = String>) -> String {
    const ALIKE: f64 = 0.8;
    let wrong = wrong.to_ascii_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&wrong, &name.to_ascii_lowercase());
    let nearest = names
        .map(|name| (likeness(&name), name))
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((_, name)) => format!("; did you mean `{name}`?"),
        None => "; `redstart config` lists all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_own() {
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
    }
}
