//! Where the secret of a user comes from. It is never a flag: other users of the machine see those.

use std::{io::BufRead, path::PathBuf};

use anyhow::Context;
use clap::Args;

use crate::credentials;

#[derive(Debug, Args)]
pub struct Source {
    /// Read the secret from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "secret_stdin")]
    secret_file: Option<PathBuf>,
    /// Read the secret from the first line of standard input
    #[arg(long)]
    secret_stdin: bool,
}

#[derive(Debug)]
pub struct Chosen {
    pub secret: String,
    /// Nobody knows it yet, so it has to be printed.
    pub is_new: bool,
}

impl Source {
    pub fn choose(&self) -> anyhow::Result<Chosen> {
        if let Some(file) = &self.secret_file {
            return Ok(Chosen { secret: credentials::read(file)?, is_new: false });
        }
        if self.secret_stdin {
            let secret = first_line(std::io::stdin().lock())?;
            return Ok(Chosen { secret, is_new: false });
        }
        Ok(Chosen { secret: credentials::random_secret()?, is_new: true })
    }
}

fn first_line(mut input: impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line).context("cannot read the secret from standard input")?;
    let secret = line.trim();
    anyhow::ensure!(!secret.is_empty(), "standard input holds no secret in its first line");
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_secret() {
        assert_eq!(first_line(&b" a secret \nanother\n"[..]).unwrap(), "a secret");
        assert!(first_line(&b"\nanother\n"[..]).is_err());
        assert!(first_line(&b""[..]).is_err());
    }

    #[test]
    fn a_secret_that_is_not_given_is_made() {
        let none = Source { secret_file: None, secret_stdin: false };
        let (one, other) = (none.choose().unwrap(), none.choose().unwrap());
        assert!(one.is_new && one.secret != other.secret);
    }
}
