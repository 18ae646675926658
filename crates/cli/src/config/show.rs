//! `redstart config`: the settings in force as TOML or JSON, and the table as documentation.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::stdout;

use super::{Flags, Loaded, Setting, alias::Unit, kind::Form, load, settings::SETTINGS};

#[derive(Debug, Args)]
pub struct Arguments {
    /// As a JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// All settings as documentation, without their values
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    flags: Flags,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let text = match arguments {
        Arguments { markdown: true, .. } => markdown(),
        Arguments { json: true, flags, .. } => json(&load(flags)?)?,
        Arguments { flags, .. } => toml(&load(flags)?),
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn toml(loaded: &Loaded) -> String {
    let file = loaded.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let mut out =
        format!("# Flags come before the file, the file before environment variables.\n# file: {file}\n");
    for setting in SETTINGS {
        let given = loaded.values.of(setting);
        let (default, value) = (literal(setting, setting.default), literal(setting, &given.text));
        let _ = write!(
            out,
            "\n# {}\n# default: {default}; from: {}\n{} = {value}\n",
            setting.meaning(),
            given.source,
            setting.key
        );
    }
    out
}

fn json(loaded: &Loaded) -> anyhow::Result<String> {
    let one = |setting: &Setting| {
        let given = loaded.values.of(setting);
        json!({
            "value": value(setting, &given.text),
            "default": value(setting, setting.default),
            "source": given.source.to_string(),
            "meaning": setting.meaning(),
        })
    };
    let settings: Map<String, Value> =
        SETTINGS.iter().map(|setting| (setting.key.to_owned(), one(setting))).collect();
    let file = loaded.file.as_ref().map(|file| file.display().to_string());
    let mut text = serde_json::to_string_pretty(&json!({ "file": file, "settings": settings }))?;
    text.push('\n');
    Ok(text)
}

/// A number or a truth value where it is one, text otherwise.
fn value(setting: &Setting, text: &str) -> Value {
    match setting.form {
        Form::Truth => text.parse::<bool>().map_or_else(|_| text.into(), Value::from),
        Form::Number => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        Form::Text => text.into(),
    }
}

/// The value in TOML, which shares its notation with JSON but for one character.
fn literal(setting: &Setting, text: &str) -> String {
    value(setting, text).to_string().replace('\u{7f}', "\\u007f")
}

const INTRODUCTION: &str = "# Configuration

<!-- Written by `redstart config --markdown`; a test compares them. -->

Every setting is a flag, a key of a TOML file and an environment variable. Flags come before the file, the file before
environment variables, and those before defaults. The file is the one that `--config` names, or `redstart.toml` in the
working directory if there is one.

```toml
data_dir = \"/var/lib/redstart\"
listen = \"0.0.0.0\"
flush = \"sync\"
retention = \"7d\"
```

The flag of a key has dashes, its variable is in capitals after `REDSTART_`: `--data-dir /var/lib/redstart`,
`REDSTART_DATA_DIR=/var/lib/redstart`. A flag for true or false may stand alone: `--auto-create-topics`, or
`--auto-create-topics=false`.

An unknown or misspelt name stops the start, with a suggestion; so does a value that is not accepted, even one that another
source overrules. Variables that Kubernetes sets for services named `redstart…` are left alone.

`redstart config` prints what is in force and where each value comes from, as a file that could be used; `--json` prints the same
for programs. It takes the same flags as `redstart serve`.

Times have a unit: `500ms`, `60s`, `5m`, `72h`, `7d`. Sizes are in bytes, or have one: `64KiB`, `256MiB`, `1GiB`.

What `mqadmin updateBrokerConfig` changes while the broker runs (`autoCreateTopicEnable`, `fileReservedTime`,
`transactionTimeOut`, `transactionCheckInterval`, `transactionCheckMax`) is kept with the messages and comes before
all of this, also after a restart; `mqadmin getBrokerConfig` shows it.

## Settings

| key | default | meaning | accepted |
|---|---|---|---|
";

const ALIASES: &str = "
## RocketMQ's names

In the file these are accepted too, with RocketMQ's units. A setting may be given under one name only.

| RocketMQ | here | unit |
|---|---|---|
";

fn markdown() -> String {
    let mut out = INTRODUCTION.to_owned();
    for setting in SETTINGS {
        let default = match setting.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        let (key, meaning, accepted) = (setting.key, setting.meaning(), setting.accepted);
        let _ = writeln!(out, "| `{key}` | {default} | {meaning} | {accepted} |");
    }
    out.push_str(ALIASES);
    for (setting, alias) in SETTINGS.iter().flat_map(|s| s.aliases.iter().map(move |alias| (s, alias))) {
        let unit = match alias.unit {
            Unit::Same => "",
            Unit::Millis => "milliseconds",
            Unit::Hours => "hours",
            Unit::FlushType => "`SYNC_FLUSH` or `ASYNC_FLUSH`",
        };
        let _ = writeln!(out, "| `{}` | `{}` | {unit} |", alias.name, setting.key);
    }
    out
}
