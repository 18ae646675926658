//! Text in the manner of Java's `.properties`: `key=value`, one a line.

use std::collections::BTreeMap;

use crate::remoting::refusal::Refusal;

const LINES_MAX: usize = 1000;
const BYTES_MAX: usize = 64 << 10;

pub(crate) fn read(body: &[u8]) -> Result<BTreeMap<String, String>, Refusal> {
    if body.len() > BYTES_MAX {
        let why = format!("the settings have {} bytes, the limit is {BYTES_MAX}", body.len());
        return Err(Refusal::invalid(why));
    }
    let text = std::str::from_utf8(body).map_err(|_| Refusal::invalid("the settings are no text"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    let mut all = BTreeMap::new();
    for line in lines {
        let (key, value) = line
            .split_once(['=', ':'])
            .ok_or_else(|| Refusal::invalid(format!("{line:?} is not of the form key=value")))?;
        all.insert(key.trim().to_owned(), value.trim().to_owned());
        if all.len() > LINES_MAX {
            return Err(Refusal::invalid(format!("more than {LINES_MAX} settings in one request")));
        }
    }
    if all.is_empty() {
        return Err(Refusal::invalid("the request names no setting"));
    }
    Ok(all)
}

pub(super) fn write(settings: &[(&'static str, String)]) -> String {
    settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_what_is_none_is_refused() {
        let read_text = |text: &str| read(text.as_bytes());
        let found = read_text("# note\n a = 1 \nb=x=y\n\n").unwrap();
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, [("a", "1"), ("b", "x=y")]);
        for bad in ["", "# only a note", "word", &"a=1\n".repeat(20_000)] {
            assert!(read_text(bad).is_err(), "{bad:.20}");
        }
        assert!(read(&[0xff, b'=']).is_err());
    }
}
