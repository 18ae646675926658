//! Settings from the configuration file: keys at the top level of a TOML document.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    Error,
    alias::Unit,
    error::hint_for_key,
    kind::Notation,
    settings::{SETTINGS, Setting},
    values::{Given, Source},
};

/// Read from the working directory when no file is named.
pub const DEFAULT_FILE: &str = "redstart.toml";
const BYTES_MAX: u64 = 1 << 20;

/// The file that was named, or the default one if it exists.
pub fn choose(named: Option<&Path>) -> Option<PathBuf> {
    let default = || Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists());
    named.map(Path::to_owned).or_else(default)
}

pub fn load(file: &Path) -> Result<Vec<(&'static Setting, Given)>, Error> {
    let unreadable = |source| Error::Unreadable { file: file.to_owned(), source };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    opened.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        let what = format!("is over the limit of {BYTES_MAX} bytes");
        return Err(Error::Syntax { place: file.display().to_string(), what });
    }
    parse(file, &text)
}

fn parse(file: &Path, text: &str) -> Result<Vec<(&'static Setting, Given)>, Error> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let place = |at: usize| format!("{}:{}", file.display(), line(at));
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Error::Syntax { place: place(at), what: error.message().replace('\n', " ") }
    })?;
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut found: Vec<(&'static Setting, Given)> = Vec::new();
    let mut names: Vec<(&'static str, String)> = Vec::new();
    for (name, value) in entries {
        let (at, name) = (name.span().start, name.get_ref().to_string());
        let Some((setting, unit)) = known(&name) else {
            if let DeValue::Table(_) = value.get_ref() {
                let what = format!("[{name}]: keys must be at the top level, not in a table");
                return Err(Error::Syntax { place: place(at), what });
            }
            return Err(Error::UnknownKey { place: place(at), hint: hint_for_key(&name), key: name });
        };
        if let Some((_, other)) = names.iter().find(|(key, _)| *key == setting.key) {
            return Err(Error::Twice { place: place(at), name, other: other.clone() });
        }
        let given = translate(setting, unit, value.get_ref()).ok_or_else(|| Error::Value {
            place: place(at),
            name: name.clone(),
            value: shown(text, value.span()),
            accepted: unit.accepted(setting.accepted),
        })?;
        names.push((setting.key, name));
        let source = Source::File { file: file.to_owned(), line: line(at) };
        found.push((setting, Given { text: given, source }));
    }
    Ok(found)
}

/// The setting with this key, or with this name in RocketMQ; and the unit of its value under that name.
pub fn known(name: &str) -> Option<(&'static Setting, Unit)> {
    SETTINGS.iter().find_map(|setting| {
        let alias = || setting.aliases.iter().find(|alias| alias.name == name).map(|alias| alias.unit);
        let unit = if setting.key == name { Some(Unit::Same) } else { alias() };
        unit.map(|unit| (setting, unit))
    })
}

/// The value as text, if it has the right type and the setting accepts it.
fn translate(setting: &Setting, unit: Unit, value: &DeValue<'_>) -> Option<String> {
    let text = match (value, setting.notation) {
        (DeValue::String(text), _) => text.to_string(),
        (DeValue::Boolean(value), Notation::Bool) => value.to_string(),
        (DeValue::Integer(number), Notation::Number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string()
        }
        _ => return None,
    };
    unit.translate(&text).filter(|text| setting.accepts(text))
}

/// The value as written in the file, without quotes and cut to one line.
fn shown(text: &str, span: std::ops::Range<usize>) -> String {
    const CHARS_MAX: usize = 100;
    let written = text.get(span).unwrap_or_default().lines().next().unwrap_or_default();
    let bare = written.strip_prefix(['"', '\'']).and_then(|rest| rest.strip_suffix(['"', '\'']));
    bare.unwrap_or(written).chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(&'static str, String, usize)>, String> {
        let found = parse(Path::new("redstart.toml"), text).map_err(|error| error.to_string())?;
        let row = |(setting, given): (&'static Setting, Given)| match given.source {
            Source::File { line, .. } => (setting.key, given.text, line),
            other => panic!("{other:?}"),
        };
        Ok(found.into_iter().map(row).collect())
    }

    #[test]
    fn keys_are_read_with_their_lines() {
        let found = read(
            "# note\nflush = \"async\"\n\ngrpc_port = 9_000\nauto_create_topics = true\nretention = '7d'\n",
        );
        let expected = [
            ("flush", "async".to_owned(), 2),
            ("grpc_port", "9000".to_owned(), 4),
            ("auto_create_topics", "true".to_owned(), 5),
            ("retention", "7d".to_owned(), 6),
        ];
        assert_eq!(found.unwrap(), expected);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn names_and_units_of_rocketmq_are_accepted() {
        let text = "brokerClusterName = \"c\"\nfileReservedTime = 48\ntransactionTimeOut = 6000\nflushDiskType = \"ASYNC_FLUSH\"\n";
        let found: Vec<_> = read(text).unwrap().into_iter().map(|(key, text, _)| (key, text)).collect();
        let expected = [
            ("cluster_name", "c"),
            ("retention", "48h"),
            ("transaction_check_after", "6000ms"),
            ("flush", "async"),
        ];
        assert_eq!(found, expected.map(|(key, text)| (key, text.to_owned())));
    }

    #[test]
    fn an_error_names_its_line() {
        let accepted = "a port from 0 to 65535, 0 for any that is free";
        for (text, error) in [
            ("flsh = \"sync\"", "redstart.toml:1: unknown key `flsh`; did you mean `flush`?".to_owned()),
            ("\n[broker]\nflush = 1", "redstart.toml:2: [broker]: keys must be at the top level, not in a table".to_owned()),
            ("\nflush = \"fsync\"", "redstart.toml:2: `flush` is \"fsync\"; it must be sync or async".to_owned()),
            ("flush = true", "redstart.toml:1: `flush` is \"true\"; it must be sync or async".to_owned()),
            ("grpc_port = 70000", format!("redstart.toml:1: `grpc_port` is \"70000\"; it must be {accepted}")),
            ("grpc_port = [1]", format!("redstart.toml:1: `grpc_port` is \"[1]\"; it must be {accepted}")),
            ("data_dir = 5", "redstart.toml:1: `data_dir` is \"5\"; it must be a path".to_owned()),
            (
                "auto_create_topics = \"yes\"",
                "redstart.toml:1: `auto_create_topics` is \"yes\"; it must be true or false".to_owned(),
            ),
            (
                "flush = \"sync\"\nflushDiskType = \"SYNC_FLUSH\"",
                "redstart.toml:2: `flushDiskType` and `flush` are the same setting; keep one of them".to_owned(),
            ),
            (
                "flushDiskType = \"sync\"",
                "redstart.toml:1: `flushDiskType` is \"sync\"; it must be SYNC_FLUSH or ASYNC_FLUSH".to_owned(),
            ),
            (
                "fileReservedTime = 0",
                "redstart.toml:1: `fileReservedTime` is \"0\"; it must be a number of hours for a time from 1m to 3650d, such as 72h".to_owned(),
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), error, "{text}");
        }
        for (text, place) in [("flush = \n", "redstart.toml:1: "), ("a = 1\nflush sync", "redstart.toml:2: ")]
        {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(place) && !error.contains('\n'), "{error}");
        }
        let twice = read("flush = \"sync\"\nflush = \"sync\"\n").unwrap_err();
        assert!(twice.starts_with("redstart.toml:2: "), "{twice}");
    }
}
