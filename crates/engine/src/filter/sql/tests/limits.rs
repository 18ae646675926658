use super::super::super::Filter;
use super::super::super::limits::{EXPRESSION_BYTES_MAX, SQL_DEPTH_MAX, SQL_IN_ITEMS_MAX, SQL_TERMS_MAX};
use super::*;

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

fn in_list(items: usize) -> String {
    format!("a IN ({})", vec!["'x'"; items].join(","))
}

#[test]
fn overlong_text_is_refused_unread() {
    for expression in [
        nested("(", "a = 1", ")", 100_000),
        nested("NOT ", "a", "", 250_000),
        in_list(250_000),
        format!("a = '{}'", "x".repeat(1 << 20)),
        " ".repeat(1 << 20),
        "'".repeat(EXPRESSION_BYTES_MAX + 1),
    ] {
        let error = Filter::sql(&expression).unwrap_err();
        assert_eq!(error, Error::TooLong { len: expression.len(), limit: EXPRESSION_BYTES_MAX });
    }
    let full = format!("a = '{}'", "x".repeat(EXPRESSION_BYTES_MAX - "a = ''".len()));
    assert!(Filter::sql(&full).is_ok());
}

#[test]
fn nesting_is_accepted_to_the_limit_and_refused_beyond() {
    let shapes = [
        ("(", "a = 1", ")"),
        ("NOT ", "TRUE", ""),
        ("(NOT ", "a", ")"),
        ("NOT(", "a", ")"),
        ("+", "a = 1", ""),
    ];
    for (open, inner, close) in shapes {
        let per_level = open.matches(['(', '+', 'N']).count();
        let fits = nested(open, inner, close, (SQL_DEPTH_MAX - 1) / per_level);
        assert!(Filter::sql(&fits).is_ok(), "{fits}");
        let exceeds = nested(open, inner, close, SQL_DEPTH_MAX + 1);
        let error = Filter::sql(&exceeds).unwrap_err();
        assert!(matches!(error, Error::TooDeep { limit: SQL_DEPTH_MAX, .. }), "{exceeds}: {error}");
        let hostile = nested(open, inner, close, EXPRESSION_BYTES_MAX / 8);
        assert!(matches!(Filter::sql(&hostile).unwrap_err(), Error::TooDeep { .. }), "{open}");
    }
}

#[test]
fn operators_applied_to_one_another_count_as_nesting() {
    for suffix in [" IS NULL", " = a", " <> TRUE", " CONTAINS 'x'"] {
        assert!(Filter::sql(&format!("a{}", suffix.repeat(SQL_DEPTH_MAX / 2 - 1))).is_ok());
        let hostile = format!("a{}", suffix.repeat(2000));
        assert!(matches!(Filter::sql(&hostile).unwrap_err(), Error::TooDeep { .. }), "{suffix}");
    }
}

#[test]
fn long_chains_are_not_deep() {
    for word in [" AND ", " OR "] {
        assert!(Filter::sql(&vec!["a = 1"; 1000].join(word)).is_ok());
    }
}

#[test]
fn terms_are_bounded() {
    let error = Filter::sql(&vec!["a=1"; 2000].join(" OR ")).unwrap_err();
    assert!(matches!(error, Error::TooManyTerms { limit: SQL_TERMS_MAX, at } if at > 9000), "{error}");
    let lists = vec![in_list(SQL_IN_ITEMS_MAX); 4].join(" OR ");
    assert!(matches!(Filter::sql(&lists).unwrap_err(), Error::TooManyTerms { .. }));
}

#[test]
fn in_list_is_bounded() {
    assert!(Filter::sql(&in_list(SQL_IN_ITEMS_MAX)).is_ok());
    let error = Filter::sql(&in_list(SQL_IN_ITEMS_MAX + 1)).unwrap_err();
    assert_eq!(error, Error::TooManyItems { at: 2, limit: SQL_IN_ITEMS_MAX });
}

#[test]
fn deepest_accepted_condition_runs_on_a_small_stack() {
    let parentheses = nested("(", "a = 'x'", ")", SQL_DEPTH_MAX);
    let nots = nested("NOT (", "a = 'x'", ")", SQL_DEPTH_MAX / 2);
    let ranges = nested("-(", "a", " BETWEEN 1 AND 2)", SQL_DEPTH_MAX / 2 - 2) + " IS NULL";
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            for (expression, expected) in [(parentheses, true), (nots, true), (ranges, false)] {
                let filter = Filter::sql(&expression).unwrap();
                assert_eq!(filter.matches(&Bag(&[("a", "x")])), expected, "{expression}");
            }
        })
        .unwrap()
        .join()
        .unwrap();
}
