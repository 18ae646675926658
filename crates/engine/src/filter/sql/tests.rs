mod compare;
mod limits;
mod logic;
mod model;
mod random;
mod syntax;

use super::super::{Error, Properties};
use super::value::Failed;
use super::{eval, parser};
use Outcome::{Error as Fails, No, Null, Yes};

/// What a condition comes to. Only `Yes` delivers; the rest differ in what `NOT` and `OR` make of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Yes,
    No,
    Null,
    Error,
}

struct Bag<'a>(&'a [(&'a str, &'a str)]);

impl Properties for Bag<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

fn outcome(expression: &str, properties: &[(&str, &str)]) -> Outcome {
    let condition = parser::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    match eval::truth(&condition, &Bag(properties)) {
        Ok(Some(true)) => Yes,
        Ok(Some(false)) => No,
        Ok(None) => Null,
        Err(Failed) => Fails,
    }
}

fn refusal(expression: &str) -> Error {
    match parser::parse(expression) {
        Ok(condition) => panic!("{expression} parses as {condition:?}"),
        Err(error) => error,
    }
}

/// Expression, properties, and what the one comes to given the other.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Outcome);

fn check(cases: &[Case<'_>]) {
    for (expression, properties, expected) in cases {
        assert_eq!(outcome(expression, properties), *expected, "{expression} with {properties:?}");
    }
}
