//! What a command prints: a table or lines for people, the JSON of its fields for scripts.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
};

use clap::ValueEnum;
use serde::Serialize;

use super::time::{Time, TimeFormat};

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Form {
    /// Tables and lines for people
    #[default]
    Table,
    /// Tables with further columns, where a command has them
    Wide,
    /// JSON for scripts
    Json,
}

/// The result of a command.
pub trait View: Serialize {
    fn text(&self, style: Style) -> String;
}

/// How text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    colour: bool,
    /// Show the columns that only `-o wide` has.
    pub wide: bool,
    time: TimeFormat,
}

impl Style {
    fn of_stdout(form: Form, time: TimeFormat) -> Style {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Style { colour: wanted && std::io::stdout().is_terminal(), wide: form == Form::Wide, time }
    }

    #[cfg(test)]
    pub fn coloured() -> Style {
        Style { colour: true, ..Style::default() }
    }

    #[cfg(test)]
    pub fn wide() -> Style {
        Style { wide: true, ..Style::default() }
    }

    pub fn time(self, time: Time) -> String {
        time.text(self.time)
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    style: Style,
}

impl Output {
    pub fn new(form: Form, time: TimeFormat) -> Output {
        Output { json: form == Form::Json, style: Style::of_stdout(form, time) }
    }

    /// Prints the whole result.
    pub fn show(&self, view: &impl View) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(view)? } else { view.text(self.style) };
        self.print(text.trim_end_matches('\n'))
    }

    /// Prints one result of many, each on a line of its own.
    pub fn next(&self, view: &impl View) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string(view)? } else { view.text(self.style) };
        self.print(text.trim_end_matches('\n'))
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Writes bytes unchanged.
    pub fn raw(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }
}

/// `1 queue`, `2 queues`.
pub fn count(number: impl TryInto<i128>, what: &str) -> String {
    let number = number.try_into().unwrap_or(i128::MAX);
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

/// A text on one line. Control characters become blanks, so that no message can send escape sequences to the terminal.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `key=value` for each attribute, separated by blanks.
pub fn attributes(attributes: &BTreeMap<String, String>) -> String {
    attributes.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Lines of `name  value` with aligned values.
pub fn fields(style: Style, fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        format!("{}{}  {}\n", style.dim(name), " ".repeat(width - name.len()), one_line(value))
    };
    fields.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_agrees_with_its_number() {
        assert_eq!(
            [count(0, "queue"), count(1, "queue"), count(2_u64, "queue")],
            ["0 queues", "1 queue", "2 queues"]
        );
        assert_eq!(listed(&["a"]), "a");
        assert_eq!(listed(&["a", "b"]), "a and b");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn values_are_aligned() {
        let lines = [("id", "7".to_owned()), ("stored", "now".to_owned())];
        assert_eq!(fields(Style::default(), &lines), "id      7\nstored  now\n");
        assert!(fields(Style::coloured(), &lines).starts_with("\u{1b}[2mid\u{1b}[0m      7"));
    }
}
