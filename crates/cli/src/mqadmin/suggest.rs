//! What somebody may have meant.

/// The known name that is nearest to `name`, when it is near enough to be a slip.
pub fn closest(name: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let wanted = name.to_lowercase();
    let limit = (wanted.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .map(|known| (distance(&wanted, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= limit && wanted.chars().count() > 1)
        .min()
        .map(|(_, known)| known)
}

/// Letters to add, remove or change to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = ["updateTopic", "topicList", "deleteTopic"];
        assert_eq!(closest("updateTopics", known), Some("updateTopic"));
        assert_eq!(closest("listTopic", known), None);
        assert_eq!(closest("topiclst", known), Some("topicList"));
        assert_eq!(closest("x", known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
