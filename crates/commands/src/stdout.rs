//! Writes to standard output. A closed pipe, as with `head`, is not an error.

use std::io::{self, Write};

use anyhow::Context;

pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write") {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        written => written,
    }
}

pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
