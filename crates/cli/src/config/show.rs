//! `redstart config`: the settings with their values as TOML or JSON, and docs/configuration.md.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde_json::{Map, Value, json};

use redstart_commands::stdout;

use super::{
    Flags, Loaded, Setting, alias::Unit, kind::Notation, load, overrides::Overrides, settings::SETTINGS,
};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Print a JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the documentation of all settings, without their values
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    flags: Flags,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let text = match arguments {
        Arguments { markdown: true, .. } => markdown(),
        Arguments { json, flags, .. } => {
            let loaded = load(flags)?;
            let overrides = Overrides::ask(&loaded.config)?;
            if *json { self::json(&loaded, &overrides)? } else { toml(&loaded, &overrides) }
        }
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn toml(loaded: &Loaded, overrides: &Overrides) -> String {
    let file = loaded.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let changes = match overrides {
        Overrides::NotRunning => "not known, the broker is not running".to_owned(),
        Overrides::Unknown { address, why } => format!("not known, {address}: {why}"),
        Overrides::Known { address, values } if values.is_empty() => format!("none at {address}"),
        Overrides::Known { address, values } => {
            format!("{} at {address}, see OVERRIDDEN below", values.len())
        }
    };
    let mut out = format!(
        "# Precedence: flags, environment variables, file, defaults.\n# file: {file}\n# run-time changes (mqadmin updateBrokerConfig): {changes}\n"
    );
    for setting in SETTINGS {
        let given = loaded.values.of(setting);
        let (default, value) = (literal(setting, setting.default), literal(setting, &given.text));
        let changed = overrides.of(setting).map_or_else(String::new, |changed| {
            format!("# OVERRIDDEN at run time by mqadmin updateBrokerConfig: {}\n", literal(setting, changed))
        });
        let _ = write!(
            out,
            "\n# {}\n# default: {default}; from: {}\n{changed}{} = {value}\n",
            setting.meaning(),
            given.source,
            setting.key
        );
    }
    out
}

fn json(loaded: &Loaded, overrides: &Overrides) -> anyhow::Result<String> {
    let one = |setting: &Setting| {
        let given = loaded.values.of(setting);
        json!({
            "value": value(setting, &given.text),
            "default": value(setting, setting.default),
            "source": given.source.to_string(),
            "override": overrides.of(setting).map(|changed| value(setting, changed)),
            "meaning": setting.meaning(),
        })
    };
    let settings: Map<String, Value> =
        SETTINGS.iter().map(|setting| (setting.key.to_owned(), one(setting))).collect();
    let file = loaded.file.as_ref().map(|file| file.display().to_string());
    let broker = match overrides {
        Overrides::NotRunning => json!({ "running": false }),
        Overrides::Known { address, .. } => json!({ "running": true, "address": address }),
        Overrides::Unknown { address, why } => json!({ "running": null, "address": address, "error": why }),
    };
    let report = json!({ "file": file, "broker": broker, "settings": settings });
    let mut text = serde_json::to_string_pretty(&report)?;
    text.push('\n');
    Ok(text)
}

/// The value as a JSON number or boolean if it is one, as text otherwise.
fn value(setting: &Setting, text: &str) -> Value {
    match setting.notation {
        Notation::Bool => text.parse::<bool>().map_or_else(|_| text.into(), Value::from),
        Notation::Number => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        Notation::Text => text.into(),
    }
}

/// The value in TOML. Its notation of strings and numbers is that of JSON, except for DEL, which TOML wants escaped.
fn literal(setting: &Setting, text: &str) -> String {
    value(setting, text).to_string().replace('\u{7f}', "\\u007f")
}

const INTRODUCTION: &str = "# Configuration

<!-- Written by `redstart config --markdown`; a test compares them. -->

Every setting is a flag, an environment variable and a key of a TOML file. They take precedence in this order: flags,
environment variables, the file, defaults. The file is the one that `--config` names, or `redstart.toml` in the working
directory if there is one.

```toml
data_dir = \"/var/lib/redstart\"
listen = \"0.0.0.0\"
auth = true
flush = \"sync\"
retention = \"7d\"
```

A flag is the key with dashes: `--data-dir /var/lib/redstart`. A variable is the key in capitals after `REDSTART_`:
`REDSTART_DATA_DIR=/var/lib/redstart`. The value of a true-or-false flag may be left out: `--auto-create-topics` means
`--auto-create-topics=true`.

The broker does not start with an unknown name, and suggests the right one; nor with a value that is not accepted, even if
another source overrides it. Variables that Kubernetes sets for services named `redstart…` are ignored.

`redstart config` prints every setting with its value and its source, in the form of a configuration file; `--json` prints the
same for programs. It takes the same flags as `redstart serve`.

Times have a unit: `500ms`, `60s`, `5m`, `72h`, `7d`. Sizes are in bytes, or have one: `64KiB`, `256MiB`, `1GiB`.

`mqadmin updateBrokerConfig` changes settings of a running broker: `autoCreateTopicEnable`, `fileReservedTime`,
`transactionTimeOut`, `transactionCheckInterval` and `transactionCheckMax`. Such a change is stored with the messages and
wins over all of the above, also after a restart. The broker logs each one when it starts. `redstart config` asks the running
broker for them and marks the settings concerned (`OVERRIDDEN`; `override` in JSON); `mqadmin getBrokerConfig` shows all values
in force.

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
