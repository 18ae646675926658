//! The log on stderr.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{Config, LogFormat};

const VARIABLE: &str = "RUST_LOG";

/// Starts logging. `RUST_LOG` overrides the setting, to debug a single run without a change of the configuration.
pub fn start(config: &Config) -> anyhow::Result<()> {
    let (levels, named) = match std::env::var(VARIABLE) {
        Ok(levels) if !levels.is_empty() => (levels, VARIABLE),
        _ => (config.log.clone(), "log"),
    };
    let filter: Targets =
        levels.parse().with_context(|| format!("`{named}` is {levels:?}, which are not log levels"))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match config.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}
