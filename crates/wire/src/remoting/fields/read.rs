//! A request's fields, read as what they should be.

use std::{fmt::Display, str::FromStr};

use super::FieldValue;
use crate::remoting::Command;

/// A field that is not there, or not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    #[error("the field {name} is missing")]
    Missing { name: &'static str },
    #[error("the field {name} is {value:?}, which is no valid number")]
    Number { name: &'static str, value: String },
}

/// What a command has under a name.
#[derive(Debug, Clone, Copy)]
pub(in crate::remoting) struct Found<'a> {
    pub name: &'static str,
    pub value: Option<&'a str>,
}

impl<'a> Found<'a> {
    pub fn required(self) -> Result<&'a str, FieldError> {
        self.filled().ok_or(FieldError::Missing { name: self.name })
    }

    pub fn number<T: FromStr>(self) -> Result<T, FieldError> {
        self.parse(self.required()?)
    }

    pub fn optional_number<T: FromStr>(self) -> Result<Option<T>, FieldError> {
        self.filled().map(|value| self.parse(value)).transpose()
    }

    fn filled(self) -> Option<&'a str> {
        self.value.filter(|value| !value.is_empty())
    }

    fn parse<T: FromStr>(self, value: &str) -> Result<T, FieldError> {
        let value = value.trim();
        let number = value.parse().or_else(|error| whole(value).map_or(Err(error), str::parse));
        number.map_err(|_| FieldError::Number { name: self.name, value: value.to_owned() })
    }
}

/// The part before a fraction of zeros, such as `1.0` has it: what a client writes that keeps numbers as fractions.
fn whole(value: &str) -> Option<&str> {
    let (whole, zeros) = value.split_once('.')?;
    zeros.bytes().all(|byte| byte == b'0').then_some(whole)
}

pub(in crate::remoting) fn truth(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value == "1"
}

impl Command {
    fn found(&self, name: &'static str) -> Found<'_> {
        Found { name, value: self.field(name) }
    }

    pub fn required(&self, name: &'static str) -> Result<&str, FieldError> {
        self.found(name).required()
    }

    /// A number that must be there.
    pub fn number<T: FromStr>(&self, name: &'static str) -> Result<T, FieldError> {
        self.found(name).number()
    }

    /// A number that may be missing; one that cannot be read is an error all the same.
    pub fn number_or<T: FromStr>(&self, name: &'static str, default: T) -> Result<T, FieldError> {
        Ok(self.optional_number(name)?.unwrap_or(default))
    }

    pub fn optional_number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, FieldError> {
        self.found(name).optional_number()
    }

    /// Java's idea of a truth value; `1`, as the C++ client writes it, counts as true as well.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.field(name).map(truth)
    }

    pub fn with_field(mut self, name: &str, value: impl Display) -> Command {
        self.fields.insert(name, value);
        self
    }

    /// Adds a field that is known not to be there yet: cheaper than [`Command::with_field`], which looks for it.
    pub fn and(mut self, name: &str, value: impl FieldValue) -> Command {
        self.fields.add(name, value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        Command::default()
            .with_field("n", "-3")
            .with_field("text", "abc")
            .with_field("empty", "")
            .with_field("yes", "True")
            .with_field("whole", "7.0")
            .with_field("part", "7.5")
    }

    #[test]
    fn what_is_missing_and_what_is_no_number_are_told_apart() {
        let command = command();
        assert_eq!(command.number::<i64>("n"), Ok(-3));
        assert_eq!(
            command.number::<u32>("n"),
            Err(FieldError::Number { name: "n", value: "-3".to_owned() }),
            "a count is never negative"
        );
        assert_eq!(command.number::<i32>("empty"), Err(FieldError::Missing { name: "empty" }));
        assert_eq!(command.number::<i32>("whole"), Ok(7));
        assert!(command.number::<i32>("part").is_err());
        assert_eq!(command.number_or::<i32>("none", 7), Ok(7));
        assert!(command.number_or::<i32>("text", 7).is_err());
        assert_eq!(command.optional_number::<i32>("none"), Ok(None));
        assert_eq!(command.required("text"), Ok("abc"));
        assert_eq!(
            (command.truth("yes"), command.truth("text"), command.truth("none")),
            (Some(true), Some(false), None)
        );
    }
}
