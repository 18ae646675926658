//! Commands that destroy or move something ask first.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;

use crate::failure::Failure;

#[derive(Debug, Args)]
pub struct Consent {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Returns when the operator has agreed to `what`, which completes the sentence "This will …".
    pub fn ask(&self, what: &str) -> anyhow::Result<()> {
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        self.ask_on(what, terminal.then(|| (std::io::stdin().lock(), std::io::stderr())))
    }

    fn ask_on(&self, what: &str, terminal: Option<(impl BufRead, impl Write)>) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let Some((mut input, mut out)) = terminal else {
            let failure = Failure::new("notConfirmed", format!("this would {what}"));
            return Err(failure
                .with_hint("nothing was done: there is no terminal to ask on, and no --yes")
                .into());
        };
        write!(out, "This will {what}. Continue? [y/N] ")?;
        out.flush()?;
        let mut answer = String::new();
        input.read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new("notConfirmed", "nothing was done").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(yes: bool, typed: Option<&str>) -> (Result<(), String>, String) {
        let mut shown = Vec::new();
        let terminal = typed.map(|typed| (typed.as_bytes(), &mut shown));
        let asked = Consent { yes }.ask_on("delete topic t", terminal);
        (asked.map_err(|error| error.to_string()), String::from_utf8(shown).unwrap())
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for typed in ["y\n", "YES\n", " yes "] {
            let (asked, shown) = ask(false, Some(typed));
            assert_eq!((asked, shown.as_str()), (Ok(()), "This will delete topic t. Continue? [y/N] "));
        }
        for typed in ["", "\n", "n\n", "yep\n"] {
            assert_eq!(ask(false, Some(typed)).0, Err("nothing was done".to_owned()), "{typed:?}");
        }
    }

    #[test]
    fn without_a_terminal_only_the_flag_counts() {
        assert_eq!(ask(true, None), (Ok(()), String::new()));
        let why = ask(false, None).0.unwrap_err();
        assert!(why.starts_with("this would delete topic t; nothing was done"), "{why}");
    }
}
