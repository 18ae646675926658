//! JSON in the layout of the Java library that mqadmin uses: one value per line, tabs, no blank after a colon.

use serde_json::Value;

pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let entries = map.iter().map(|(key, value)| (Some(key), value));
            nested(out, ('{', '}'), entries, depth);
        }
        Value::Array(list) if !list.is_empty() => {
            nested(out, ('[', ']'), list.iter().map(|value| (None, value)), depth);
        }
        other => out.push_str(&other.to_string()),
    }
}

fn nested<'a>(
    out: &mut String,
    brackets: (char, char),
    entries: impl Iterator<Item = (Option<&'a String>, &'a Value)>,
    depth: usize,
) {
    out.push(brackets.0);
    for (index, (key, value)) in entries.enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"\t".repeat(depth + 1));
        if let Some(key) = key {
            out.push_str(&Value::from(key.as_str()).to_string());
            out.push(':');
        }
        write(out, value, depth + 1);
    }
    out.push('\n');
    out.push_str(&"\t".repeat(depth));
    out.push(brackets.1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_on_lines_of_their_own() {
        let value = serde_json::json!({ "a": [1, "x"], "b": {}, "c": { "d": true } });
        assert_eq!(
            pretty(&value),
            "{\n\t\"a\":[\n\t\t1,\n\t\t\"x\"\n\t],\n\t\"b\":{},\n\t\"c\":{\n\t\t\"d\":true\n\t}\n}"
        );
    }
}
