//! Names that somebody may have meant.

const SHOWN_MAX: usize = 3;

/// The names closest to what was typed, if any is close: a few letters apart, or one within the other.
pub fn similar<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let mut close: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let within =
                typed.len() >= 3 && (lower.contains(&typed) || typed.contains(&lower) && lower.len() >= 3);
            let distance = || within.then(|| strsim::osa_distance(&typed, &lower));
            Some((slip(&typed, &lower).or_else(distance)?, name))
        })
        .collect();
    close.sort_unstable();
    close.truncate(SHOWN_MAX);
    close.into_iter().map(|(_, name)| name).collect()
}

/// The name nearest to what was typed, when it is near enough to be a slip.
pub fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let near = |name: &'a str| Some((slip(&typed, &name.to_lowercase())?, name));
    names.into_iter().filter_map(near).filter(|_| typed.chars().count() > 1).min().map(|(_, name)| name)
}

/// Letters to insert, delete, replace or swap with their neighbour, if they are few.
fn slip(typed: &str, name: &str) -> Option<usize> {
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    Some(strsim::osa_distance(typed, name)).filter(|distance| *distance <= limit)
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
    }

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = ["updateTopic", "topicList", "deleteTopic"];
        assert_eq!(closest("updateTopics", known), Some("updateTopic"));
        assert_eq!(closest("listTopic", known), None);
        assert_eq!(closest("topiclst", known), Some("topicList"));
        assert_eq!(closest("x", known), None);
    }
}
