//! Names that somebody may have meant.

const SHOWN_MAX: usize = 3;

/// The names closest to what was typed, if any is close: a few letters apart, or one within the other.
pub fn similar<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    let mut close: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = distance(&typed, &lower);
            let within =
                typed.len() >= 3 && (lower.contains(&typed) || typed.contains(&lower) && lower.len() >= 3);
            (distance <= limit || within).then_some((distance, name))
        })
        .collect();
    close.sort_unstable();
    close.truncate(SHOWN_MAX);
    close.into_iter().map(|(_, name)| name).collect()
}

/// Letters to insert, delete, replace or swap with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_what_was_meant() {
        let names = ["orders", "orders-eu", "payments", "audit"];
        for (typed, meant) in [
            ("ordres", vec!["orders"]),
            ("Orders", vec!["orders", "orders-eu"]),
            ("payment", vec!["payments"]),
            ("adit", vec!["audit"]),
            ("xyz", vec![]),
        ] {
            assert_eq!(similar(typed, names), meant, "{typed}");
        }
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("ab", "ba")), (3, 3, 1));
    }
}
