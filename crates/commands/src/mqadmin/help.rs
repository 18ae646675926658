//! Help in the layout of commons-cli, which mqadmin uses.

use std::fmt::Write as _;

use super::option::Opt;

const WIDTH: usize = 110;
const GAP: usize = 3;

/// The usage of a command and its options.
pub fn command(name: &str, options: &[Opt]) -> String {
    let mut out = String::new();
    wrap(&mut out, "usage: ".len(), &usage(name, options));
    let heads: Vec<String> = options.iter().map(head).collect();
    let column = heads.iter().map(String::len).max().unwrap_or_default() + GAP;
    for (option, head) in options.iter().zip(&heads) {
        wrap(&mut out, column, &format!("{head:<column$}{}", option.about));
    }
    out
}

fn usage(name: &str, options: &[Opt]) -> String {
    let mut parts = Vec::new();
    let mut groups = Vec::new();
    for option in options {
        if option.group == 0 {
            let form = form(option);
            parts.push(if option.required { form } else { format!("[{form}]") });
        } else if groups.contains(&option.group) {
            // Printed with the first option of its group. commons-cli leaves an empty place for it.
            parts.push(String::new());
        } else {
            groups.push(option.group);
            let members = options.iter().filter(|other| other.group == option.group);
            parts.push(members.map(form).collect::<Vec<_>>().join(" | "));
        }
    }
    format!("usage: mqadmin {name} {}", parts.join(" "))
}

fn form(option: &Opt) -> String {
    let dash = if option.short.is_empty() { "--" } else { "-" };
    format!("{dash}{}{}", option.key(), if option.value { " <arg>" } else { "" })
}

fn head(option: &Opt) -> String {
    let value = if option.value { " <arg>" } else { "" };
    if option.short.is_empty() {
        format!("    --{}{value}", option.long)
    } else {
        format!(" -{},--{}{value}", option.short, option.long)
    }
}

/// Wraps a text at blanks; continuation lines are indented by `indent`.
fn wrap(out: &mut String, indent: usize, text: &str) {
    let mut rest = text.trim_end().to_owned();
    loop {
        let len = rest.chars().count();
        if len <= WIDTH {
            let _ = writeln!(out, "{}", rest.trim_end());
            return;
        }
        let limit = rest.char_indices().nth(WIDTH).map_or(rest.len(), |(at, _)| at);
        let blank = if rest[limit..].starts_with(' ') { Some(limit) } else { rest[..limit].rfind(' ') };
        let cut = blank.filter(|blank| *blank >= indent).unwrap_or(limit);
        let _ = writeln!(out, "{}", rest[..cut].trim_end());
        rest = format!("{:indent$}{}", "", rest[cut..].trim_start());
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::option::{self, switch, value},
        *,
    };

    #[test]
    fn usage_and_columns_are_those_of_commons_cli() {
        let options = option::all(&[
            value("b", "brokerAddr", "address").one_of(1),
            value("c", "clusterName", "name").one_of(1),
            value("t", "topic", "topic name").required(),
            value("", "attributes", "changes"),
            switch("m", "moreStats", "more"),
        ]);
        let text = command("updateTopic", &options);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "usage: mqadmin updateTopic [--attributes <arg>] -b <arg> | -c <arg>  [-h] [-m] [-n <arg>] -t <arg>"
        );
        assert_eq!(lines[1], "    --attributes <arg>    changes");
        assert_eq!(lines[2], " -b,--brokerAddr <arg>    address");
        assert_eq!(lines[5], " -m,--moreStats           more");
    }

    #[test]
    fn long_texts_are_broken_within_the_width() {
        let words = "word ".repeat(60);
        let mut out = String::new();
        wrap(&mut out, 20, &format!("{:<20}{words}", " -x,--long <arg>"));
        assert!(out.lines().count() > 2);
        for (n, line) in out.lines().enumerate() {
            assert!(line.len() <= WIDTH, "{line:?}");
            assert!(n == 0 || line.starts_with(&" ".repeat(20)), "{line:?}");
        }
        let mut out = String::new();
        wrap(&mut out, 4, &"x".repeat(300));
        assert_eq!(out.matches('x').count(), 300, "a word without blanks is cut");
    }
}
