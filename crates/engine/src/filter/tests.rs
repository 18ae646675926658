use super::limits::{EXPRESSION_BYTES_MAX, TAGS_MAX};
use super::*;

struct Bag<'a>(&'a [(&'a str, &'a str)]);

impl Properties for Bag<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

fn tagged<'a>(property: &'a [(&'a str, &'a str); 1]) -> Bag<'a> {
    Bag(property)
}

#[test]
fn tag_hash_equals_java_string_hash_code() {
    let cases = [
        ("", 0),
        ("TagA", 2598919),
        ("标签", 857175),
        // Outside the basic plane a character is two UTF-16 units.
        ("😀", 1772899),
        ("Aa", 2112),
        ("BB", 2112),
        // Long enough to wrap into negative numbers.
        ("polygenelubricants", i32::MIN),
    ];
    for (tag, hash) in cases {
        assert_eq!(tag_hash(tag), hash, "{tag}");
    }
}

#[test]
fn empty_or_star_selects_every_message() {
    for expression in ["", "*", "  ", " * "] {
        let filter = Filter::tags(expression).unwrap();
        assert!(matches!(filter, Filter::All), "{expression:?}");
        assert_eq!(filter.expression(), "*");
        assert_eq!(filter.by_tag_hash(tag_hash("any")), Verdict::Match);
        assert!(filter.matches(&Bag(&[])));
    }
}

#[test]
fn tag_lists_are_trimmed_and_deduplicated() {
    let cases: [(&str, &[&str]); 9] = [
        ("A", &["A"]),
        ("A||B", &["A", "B"]),
        (" B || A ||\tA\n", &["A", "B"]),
        ("A||||B||", &["A", "B"]),
        ("A|B", &["A|B"]),
        ("A|||B", &["A", "|B"]),
        ("A||*", &["*", "A"]),
        ("two words", &["two words"]),
        ("a||A", &["A", "a"]),
    ];
    for (expression, tags) in cases {
        let filter = Filter::tags(expression).unwrap();
        assert_eq!(filter.expression(), expression);
        let Filter::Tags(set) = filter else { panic!("{expression:?} is no tag set") };
        assert_eq!(set.iter().collect::<Vec<_>>(), tags, "{expression:?}");
    }
}

#[test]
fn tag_lists_that_name_nothing_or_too_much_are_refused() {
    let many = |count: usize| (0..count).map(|i| format!("t{i}")).collect::<Vec<_>>().join("||");
    let long = "x".repeat(EXPRESSION_BYTES_MAX + 1);
    let cases = [
        ("||".to_owned(), Error::NoTags),
        (" || ||".to_owned(), Error::NoTags),
        (many(TAGS_MAX + 1), Error::TooManyTags { count: TAGS_MAX + 1, limit: TAGS_MAX }),
        (long, Error::TooLong { len: EXPRESSION_BYTES_MAX + 1, limit: EXPRESSION_BYTES_MAX }),
    ];
    for (expression, error) in cases {
        assert_eq!(Filter::tags(&expression).unwrap_err(), error);
    }
    assert!(Filter::tags(&many(TAGS_MAX)).is_ok());
}

#[test]
fn tag_match_is_exact_and_case_sensitive() {
    let filter = Filter::tags("A||B").unwrap();
    assert!(filter.matches(&tagged(&[(TAGS, "A")])));
    assert!(filter.matches(&tagged(&[(TAGS, "B")])));
    assert!(!filter.matches(&tagged(&[(TAGS, "a")])));
    assert!(!filter.matches(&tagged(&[(TAGS, "A ")])));
    assert!(!filter.matches(&tagged(&[("KEYS", "A")])));
    assert!(!filter.matches(&Bag(&[])));
}

#[test]
fn shared_hash_is_settled_by_the_literal_tag() {
    let filter = Filter::tags("Aa").unwrap();
    assert_eq!(filter.by_tag_hash(tag_hash("other")), Verdict::No);
    assert_eq!(filter.by_tag_hash(tag_hash("BB")), Verdict::NeedsProperties);
    assert!(!filter.matches(&tagged(&[(TAGS, "BB")])));
    assert!(filter.matches(&tagged(&[(TAGS, "Aa")])));
}

#[test]
fn message_without_tag_is_ruled_out_by_its_hash() {
    assert_eq!(Filter::tags("A").unwrap().by_tag_hash(tag_hash("")), Verdict::No);
}

#[test]
fn sql_always_needs_properties() {
    let filter = Filter::sql("TAGS = 'A' AND n > 1").unwrap();
    assert_eq!(filter.expression(), "TAGS = 'A' AND n > 1");
    assert_eq!(filter.by_tag_hash(tag_hash("B")), Verdict::NeedsProperties);
    assert!(filter.matches(&Bag(&[(TAGS, "A"), ("n", "2")])));
    assert!(!filter.matches(&Bag(&[(TAGS, "A"), ("n", "1")])));
}

#[test]
fn properties_may_be_a_trait_object() {
    let bag: &dyn Properties = &Bag(&[("a", "x")]);
    assert!(Filter::sql("a = 'x'").unwrap().matches(bag));
}

#[test]
fn errors_tell_where_and_what() {
    let error = Filter::sql("a = 1 AND").unwrap_err();
    assert_eq!(error.position(), Some(9));
    assert_eq!(
        error.to_string(),
        "syntax error at column 10: expected a property, a literal or (, found end of expression"
    );
    let error = Filter::sql(&format!("a = 1 {}", "x".repeat(100))).unwrap_err();
    assert!(error.to_string().ends_with(&format!("found `{}…`", "x".repeat(32))), "{error}");
}
