//! Command lines as commons-cli parses them: `-t name`, `-tname`, `-t=name`, `--topic name`, `--topic=name` and `-topic name` are
//! equivalent, and a long name may be abbreviated.

use std::collections::BTreeMap;

use super::option::Opt;
use crate::similar::closest;

/// The options that were given. Values are trimmed, as mqadmin does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Given {
    values: BTreeMap<&'static str, Option<String>>,
    /// Words that belong to no option. mqadmin ignores them without a message.
    pub stray: Vec<String>,
}

impl Given {
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.as_deref()
    }
}

/// Why a command line is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("Unrecognized option: {token}{}", .closest.map(|long| format!(" (did you mean --{long}?)")).unwrap_or_default())]
    Unknown { token: String, closest: Option<&'static str> },
    #[error("Ambiguous option: '{token}' (could be: {names})")]
    Ambiguous { token: String, names: String },
    #[error("Missing argument for option: {option}")]
    NoValue { option: &'static str },
    #[error("The option '{option}' takes no value, and {value:?} was given")]
    Value { option: &'static str, value: String },
    #[error("The option '{second}' was given beside '{first}': only one of them can be")]
    Both { first: &'static str, second: &'static str },
    #[error("Missing required option{}: {names}", if .names.contains(", ") { "s" } else { "" })]
    Missing { names: String },
}

pub fn parse(options: &[Opt], words: &[String]) -> Result<Given, Problem> {
    let mut given = Given::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(token) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            given.stray.push(word.clone());
            continue;
        };
        if token == "-" {
            given.stray.extend(words.by_ref().cloned());
            break;
        }
        let (option, attached) = find(options, token, word)?;
        let value = match attached {
            Some(value) if option.value => Some(value),
            Some(value) => return Err(Problem::Value { option: option.key(), value }),
            None if !option.value => None,
            None => {
                let next = words.as_slice().first().filter(|next| !is_option(options, next));
                let value = next.cloned().ok_or(Problem::NoValue { option: option.key() })?;
                words.next();
                Some(value)
            }
        };
        let value = value.map(|value| unquoted(value.trim()).to_owned());
        given.values.entry(option.key()).or_insert(value);
    }
    check(options, &given)?;
    Ok(given)
}

/// The value without surrounding quotes, which scripts sometimes add twice.
fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(value)
}

/// The option that a token names, and the value attached to it.
fn find<'a>(options: &'a [Opt], token: &str, word: &str) -> Result<(&'a Opt, Option<String>), Problem> {
    let long_only = token.starts_with('-');
    let token = token.trim_start_matches('-');
    let (name, attached) = match token.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (token, None),
    };
    let short = |name: &str| options.iter().find(|option| !option.short.is_empty() && option.short == name);
    if let Some(option) = short(name).filter(|_| !long_only) {
        return Ok((option, attached));
    }
    if let Some(option) = long(options, name)? {
        return Ok((option, attached));
    }
    let first = token.chars().next().map(|letter| letter.len_utf8()).unwrap_or_default();
    match token.get(..first).and_then(short).filter(|option| option.value && !long_only) {
        Some(option) => Ok((option, Some(token[first..].to_owned()))),
        None => Err(Problem::Unknown {
            token: word.to_owned(),
            closest: closest(name, options.iter().map(|option| option.long)),
        }),
    }
}

/// The option with this long name, or the only one with this prefix. A single letter is never an abbreviation.
fn long<'a>(options: &'a [Opt], name: &str) -> Result<Option<&'a Opt>, Problem> {
    if let Some(option) = options.iter().find(|option| option.long == name) {
        return Ok(Some(option));
    }
    let matching: Vec<&Opt> = options.iter().filter(|option| option.long.starts_with(name)).collect();
    match matching.as_slice() {
        _ if name.chars().count() < 2 => Ok(None),
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => Err(Problem::Ambiguous {
            token: name.to_owned(),
            names: several.iter().map(|option| option.long).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Whether a word is an option and not the value of the option before it. Negative numbers are values.
fn is_option(options: &[Opt], word: &str) -> bool {
    let Some(token) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else { return false };
    token.parse::<f64>().is_err() && find(options, token, word).is_ok()
}

fn check(options: &[Opt], given: &Given) -> Result<(), Problem> {
    let mut missing: Vec<String> = Vec::new();
    let groups: std::collections::BTreeSet<u8> =
        options.iter().map(|option| option.group).filter(|group| *group != 0).collect();
    for group in groups {
        let members: Vec<&Opt> = options.iter().filter(|option| option.group == group).collect();
        let chosen: Vec<&&Opt> = members.iter().filter(|option| given.has(option.key())).collect();
        match chosen.as_slice() {
            [] => missing.push(
                members.iter().map(|option| format!("-{}", option.key())).collect::<Vec<_>>().join(" or "),
            ),
            [first, second, ..] => {
                return Err(Problem::Both { first: first.key(), second: second.key() });
            }
            [_] => {}
        }
    }
    let required = options.iter().filter(|option| option.required && !given.has(option.key()));
    missing.extend(required.map(|option| format!("-{}", option.key())));
    if missing.is_empty() { Ok(()) } else { Err(Problem::Missing { names: missing.join(", ") }) }
}

#[cfg(test)]
mod tests {
    use super::{
        super::option::{self, switch, value},
        *,
    };

    fn options() -> Vec<Opt> {
        option::all(&[
            value("b", "brokerAddr", "").one_of(1),
            value("c", "clusterName", "").one_of(1),
            value("t", "topic", "").required(),
            value("bn", "brokerName", ""),
            value("", "attributes", ""),
            switch("m", "moreStats", ""),
        ])
    }

    fn parsed(line: &str) -> Result<Given, Problem> {
        parse(&options(), &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_way_to_write_an_option_is_read() {
        for line in
            ["-t x -c d", "-tx -cd", "-t=x --clusterName=d", "--topic x -clusterName d", "--top x --clu d"]
        {
            let given = parsed(line).expect(line);
            assert_eq!((given.get("t"), given.get("c")), (Some("x"), Some("d")), "{line}");
        }
        let given = parsed("-bn name -b addr -t x -m --attributes +a=b,-c").expect("two letters");
        assert_eq!((given.get("bn"), given.get("b")), (Some("name"), Some("addr")));
        assert_eq!((given.get("attributes"), given.has("m")), (Some("+a=b,-c"), true));
    }

    #[test]
    fn a_negative_number_is_a_value_and_an_option_is_none() {
        assert_eq!(parsed("-t -1 -c d").expect("read").get("t"), Some("-1"));
        assert_eq!(parsed("-t -c d").expect_err("no value"), Problem::NoValue { option: "t" });
        assert_eq!(parsed("-t x -c d more").expect("read").stray, ["more"]);
        assert_eq!(parsed("-t \"x\" -c {\"a\":\"b\"}").expect("read").get("t"), Some("x"));
        assert_eq!(parsed("-t \"x\" -c {\"a\":\"b\"}").expect("read").get("c"), Some("{\"a\":\"b\"}"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let told = |line: &str| parsed(line).expect_err(line).to_string();
        assert_eq!(told("-c d"), "Missing required option: -t");
        assert_eq!(told("-m"), "Missing required options: -b or -c, -t");
        assert_eq!(told("-t x -b a -c d"), "The option 'c' was given beside 'b': only one of them can be");
        assert_eq!(told("-t x -c d --topik y"), "Unrecognized option: --topik (did you mean --topic?)");
        assert_eq!(told("-t x -c d -x"), "Unrecognized option: -x");
        assert_eq!(
            told("-t x -c d --broker y"),
            "Ambiguous option: 'broker' (could be: brokerAddr, brokerName)"
        );
        assert!(told("-t x -c d -m=1").contains("takes no value"));
    }
}
