//! The values of settings, with their sources.

use std::{fmt, path::PathBuf};

use super::{
    Error,
    kind::Kind,
    settings::{SETTINGS, Setting},
};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag { flag: String },
    File { file: PathBuf, line: usize },
    Variable { name: String },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag { flag } => write!(f, "--{flag}"),
            Source::File { file, line } => write!(f, "{}:{line}", file.display()),
            Source::Variable { name } => f.write_str(name),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value for a setting, in the notation of the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub text: String,
    pub source: Source,
}

/// The given values by setting. Sources are added in the order of their precedence.
#[derive(Debug, Default)]
pub struct Values {
    given: Vec<(&'static str, Given)>,
}

impl Values {
    /// Adds the values of a source, except for settings that an earlier source has set.
    pub fn add(&mut self, values: Vec<(&'static Setting, Given)>) {
        for (setting, given) in values {
            if self.find(setting.key).is_none() {
                self.given.push((setting.key, given));
            }
        }
    }

    fn find(&self, key: &str) -> Option<&Given> {
        self.given.iter().find(|(known, _)| *known == key).map(|(_, given)| given)
    }

    /// The value in force and its source.
    pub fn of(&self, setting: &Setting) -> Given {
        let default = || Given { text: setting.default.to_owned(), source: Source::Default };
        self.find(setting.key).cloned().unwrap_or_else(default)
    }

    pub(super) fn read<T>(&self, key: &str, kind: &Kind<T>) -> Result<T, Error> {
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
        let given = setting.map(|setting| self.of(setting));
        let read = given.as_ref().and_then(|given| (kind.read)(&given.text));
        read.ok_or_else(|| Error::Value {
            place: given.as_ref().map_or_else(String::new, |given| given.source.to_string()),
            name: key.to_owned(),
            value: given.map_or_else(String::new, |given| given.text),
            accepted: kind.accepted.to_owned(),
        })
    }
}
