//! Suggestions for misspelt names.

const SHOWN_MAX: usize = 3;

/// The names closest to the typed one: a few letters apart, or one contained in the other.
pub fn similar<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    let mut close: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let within =
                typed.len() >= 3 && (lower.contains(&typed) || typed.contains(&lower) && lower.len() >= 3);
            let contained = || within.then(|| strsim::osa_distance(&typed, &lower));
            Some((distance(&typed, &lower).or_else(contained)?, name))
        })
        .collect();
    close.sort_unstable();
    close.truncate(SHOWN_MAX);
    close.into_iter().map(|(_, name)| name).collect()
}

/// The closest name, if it differs by a few letters only.
pub fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let near = |name: &'a str| Some((distance(&typed, &name.to_lowercase())?, name));
    names.into_iter().filter_map(near).filter(|_| typed.chars().count() > 1).min().map(|(_, name)| name)
}

/// The number of letters to insert, delete, replace or transpose, if it is small.
fn distance(typed: &str, name: &str) -> Option<usize> {
    let limit = (typed.chars().count() / 3).clamp(1, 4);
    Some(strsim::osa_distance(typed, name)).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
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
    fn only_a_misspelt_name_has_a_closest_one() {
        let known = ["updateTopic", "topicList", "deleteTopic"];
        assert_eq!(closest("updateTopics", known), Some("updateTopic"));
        assert_eq!(closest("listTopic", known), None);
        assert_eq!(closest("topiclst", known), Some("topicList"));
        assert_eq!(closest("x", known), None);
    }
}
