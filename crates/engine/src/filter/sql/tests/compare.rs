//! How SQL92 filters compare values of different types, and what an absent property gives.

use super::*;

const NONE: &[(&str, &str)] = &[];

#[test]
fn numeric_text_counts_as_a_number() {
    check(&[
        ("a = 5", &[("a", "5")], Yes),
        ("a = 5", &[("a", "+5")], Yes),
        ("a = 5", &[("a", "005")], Yes),
        ("a <> 5", &[("a", "6")], Yes),
        ("a > 5", &[("a", "10")], Yes),
        ("a >= 5", &[("a", "5")], Yes),
        ("a < 5", &[("a", "-5")], Yes),
        ("a <= -5", &[("a", "-5")], Yes),
        ("5 < a", &[("a", "6")], Yes),
        ("5 = a", &[("a", "5")], Yes),
        ("1.5 = a", &[("a", "1.50")], Yes),
        ("a > 1.5", &[("a", "2")], Yes),
        ("a > 3.1E10", &[("a", "3.1415E10")], Yes),
        ("a = 1.5", &[("a", " 1.5 ")], Yes),
        ("a = 1.5", &[("a", "1.5f")], Yes),
        ("a = 1.5", &[("a", "+1.5D")], Yes),
        ("1 < 2", NONE, Yes),
        ("1 = 1.0", NONE, Yes),
        ("'5' = 5", NONE, Yes),
    ]);
}

#[test]
fn fractional_property_against_integer_literal_is_not_delivered() {
    const A: &[(&str, &str)] = &[("a", "1.5")];
    check(&[
        ("a > 1", A, Fails),
        ("NOT (a > 1)", A, Fails),
        ("a < 1", A, Fails),
        ("a = 1", A, Fails),
        ("a <> 1", A, Fails),
        ("a BETWEEN 1 AND 2", A, Fails),
        ("a > 3000000000", A, Fails),
        ("a > 1.0", A, Yes),
        ("a BETWEEN 1.0 AND 2.0", A, Yes),
        ("a > 1", &[("a", "2.0")], Fails),
        ("a > 1", &[("a", "2e0")], Fails),
    ]);
}

#[test]
fn property_is_read_with_the_width_of_the_literal() {
    check(&[
        ("a > 1", &[("a", "2147483647")], Yes),
        ("a > 1", &[("a", "2147483648")], Fails),
        ("a > 1L", &[("a", "2147483648")], Fails),
        ("a > 1.0", &[("a", "2147483648")], Yes),
        ("a >= 2147483648", &[("a", "2147483648")], Yes),
        ("a < 2147483648", &[("a", "1")], Yes),
        ("a = 9223372036854775807", &[("a", "9223372036854775807")], Yes),
        ("a > 2147483648", &[("a", "9223372036854775808")], Fails),
        ("a < -2147483648", &[("a", "-9223372036854775808")], Yes),
    ]);
}

#[test]
fn long_and_double_meet_as_doubles() {
    check(&[
        ("9007199254740993 = 9007199254740992.0", NONE, Yes),
        ("9007199254740993 = 9007199254740992", NONE, No),
        ("1 < 1.5", NONE, Yes),
        ("2147483648 > 1", NONE, Yes),
    ]);
}

#[test]
fn doubles_are_ordered_as_java_orders_them() {
    check(&[
        ("a > 1.5", &[("a", "NaN")], Yes),
        ("a < 1.5", &[("a", "NaN")], No),
        ("a > 1.5", &[("a", "-NaN")], Yes),
        ("a >= b AND a <= b", &[("a", "NaN"), ("b", "-NaN")], Yes),
        ("a > 1e308", &[("a", "Infinity")], Yes),
        ("a < 0.0", &[("a", "-Infinity")], Yes),
        ("a > 1e308", &[("a", "1e999")], Yes),
        ("a = 0.0", &[("a", "-0.0")], No),
        ("a < 0.0", &[("a", "-0.0")], Yes),
    ]);
}

#[test]
fn text_that_is_no_number_fails_against_a_number() {
    for text in [
        "abc", "", " ", "1x", "--1", "+-1", "- 1", "nan", "inf", "infinity", "NaNf", ".", "1e", "0x10",
        "1_0", "e5", "d",
    ] {
        for expression in
            ["a > 1", "a = 1", "a <> 1", "1 <> a", "a > 1.5", "a <> 1.5", "a NOT BETWEEN 1 AND 2"]
        {
            assert_eq!(outcome(expression, &[("a", text)]), Fails, "{expression} with {text:?}");
        }
    }
    check(&[
        ("a = 1", &[("a", " 1")], Fails),
        ("a = 1", &[("a", "1L")], Fails),
        ("a > -'x'", &[("a", "1")], Null),
    ]);
}

#[test]
fn two_properties_are_ordered_as_numbers_and_equal_as_text() {
    check(&[
        ("a > b", &[("a", "10"), ("b", "9.5")], Yes),
        ("a >= b", &[("a", "1"), ("b", "1.0")], Yes),
        ("a = b", &[("a", "1"), ("b", "1.0")], No),
        ("a = b", &[("a", "x"), ("b", "x")], Yes),
        ("a > b", &[("a", "b"), ("b", "a")], Fails),
        ("a > b", &[("a", "1"), ("b", "x")], Fails),
        ("a BETWEEN low AND high", &[("a", "2"), ("low", "1"), ("high", "3.5")], Yes),
        ("a BETWEEN low AND high", &[("a", "2"), ("low", "up"), ("high", "low")], Fails),
    ]);
}

#[test]
fn text_equality_is_exact() {
    check(&[
        ("a = 'x'", &[("a", "x")], Yes),
        ("a = 'x'", &[("a", "X")], No),
        ("a = 'x'", &[("a", "x ")], No),
        ("a <> 'x'", &[("a", "y")], Yes),
        ("a = '5'", &[("a", "5.0")], No),
        ("TAGS = '''''tag'''''", &[("TAGS", "''tag''")], Yes),
    ]);
}

#[test]
fn text_against_a_boolean_is_true_only_when_it_says_true() {
    check(&[
        ("a = TRUE", &[("a", "true")], Yes),
        ("a = TRUE", &[("a", "TRUE")], Yes),
        ("a = TRUE", &[("a", "1")], No),
        ("a = FALSE", &[("a", "false")], Yes),
        ("a = FALSE", &[("a", "anything")], Yes),
        ("a <> TRUE", &[("a", "no")], Yes),
        ("TRUE = a", &[("a", "true")], Yes),
        ("FALSE <> a", &[("a", "true")], Yes),
        ("'true' = TRUE", NONE, Yes),
        ("(a = 'x') = TRUE", &[("a", "x")], Yes),
        ("(a = 'x') = (b = 'x')", &[("a", "y"), ("b", "y")], Yes),
        ("(a = 'x') = 1", &[("a", "x")], No),
        ("1 = (a = 'x')", &[("a", "x")], No),
    ]);
}

#[test]
fn absent_property_compares_as_null() {
    check(&[
        ("a = 'x'", NONE, Null),
        ("a <> 'x'", NONE, Null),
        ("a > 1", NONE, Null),
        ("1 > a", NONE, Null),
        ("a BETWEEN 1 AND 2", NONE, Null),
        ("a NOT BETWEEN 1 AND 2", NONE, Null),
        ("a IN ('x')", NONE, Null),
        ("a NOT IN ('x')", NONE, Null),
        // Null on the right alone is a plain mismatch, and two nulls are equal.
        ("'x' = a", NONE, No),
        ("'x' <> a", NONE, Yes),
        ("b = a", &[("b", "x")], No),
        ("a = b", NONE, Yes),
        ("a <> b", NONE, No),
    ]);
}

#[test]
fn is_null_tells_absent_from_present() {
    check(&[
        ("a IS NULL", NONE, Yes),
        ("a IS NOT NULL", NONE, No),
        ("a IS NULL", &[("a", "")], No),
        ("a IS NOT NULL", &[("a", "x")], Yes),
        ("'x' IS NULL", NONE, No),
        ("(a > 1) IS NULL", NONE, Yes),
        ("(a > 1) IS NULL", &[("a", "x")], Fails),
    ]);
}

#[test]
fn between_includes_its_bounds() {
    for (value, inside) in [("1", No), ("2", Yes), ("5", Yes), ("10", Yes), ("11", No)] {
        assert_eq!(outcome("a BETWEEN 2 AND 10", &[("a", value)]), inside, "{value}");
        let outside = if inside == Yes { No } else { Yes };
        assert_eq!(outcome("a NOT BETWEEN 2 AND 10", &[("a", value)]), outside, "{value}");
    }
    check(&[
        ("a BETWEEN b AND 5", &[("a", "6")], No),
        ("a BETWEEN b AND 5", &[("a", "4")], Null),
        ("a NOT BETWEEN b AND 5", &[("a", "6")], Yes),
        ("a NOT BETWEEN b AND 5", &[("a", "4")], Null),
        // The upper bound is not reached, so its type does no harm.
        ("a BETWEEN 1.0 AND 5", &[("a", "0.5")], No),
        ("a BETWEEN 1.0 AND 5", &[("a", "1.5")], Fails),
    ]);
}

#[test]
fn in_compares_text_exactly() {
    check(&[
        ("a IN ('x', 'y')", &[("a", "y")], Yes),
        ("a IN ('x', 'y')", &[("a", "Y")], No),
        ("a NOT IN ('x', 'y')", &[("a", "z")], Yes),
        ("a NOT IN ('x', 'y')", &[("a", "x")], No),
        ("a IN ('5')", &[("a", "5.0")], No),
        ("a IN ('5', '5', '4')", &[("a", "5")], Yes),
        ("a IN ('it''s')", &[("a", "it's")], Yes),
    ]);
}

#[test]
fn search_finds_text_in_its_place() {
    const A: &[(&str, &str)] = &[("a", "axb")];
    check(&[
        ("a CONTAINS 'x'", A, Yes),
        ("a CONTAINS 'xx'", A, No),
        ("a STARTSWITH 'ax'", A, Yes),
        ("a STARTSWITH 'xb'", A, No),
        ("a ENDSWITH 'xb'", A, Yes),
        ("a ENDSWITH 'ax'", A, No),
        ("a NOT CONTAINS 'x'", A, No),
        ("a NOT CONTAINS 'y'", A, Yes),
        ("a NOT STARTSWITH 'x'", A, Yes),
        ("a NOT ENDSWITH 'b'", A, No),
        ("a CONTAINS '.'", A, No),
        ("'axb' CONTAINS 'x'", NONE, Yes),
        ("' ' STARTSWITH ' '", NONE, Yes),
    ]);
}

#[test]
fn search_of_nothing_or_for_nothing_is_false_either_way() {
    for word in ["CONTAINS", "STARTSWITH", "ENDSWITH"] {
        for not in ["", "NOT "] {
            assert_eq!(outcome(&format!("a {not}{word} ''"), &[("a", "x")]), No);
            assert_eq!(outcome(&format!("a {not}{word} 'x'"), NONE), No);
            assert_eq!(outcome(&format!("5 {not}{word} '5'"), NONE), No);
            assert_eq!(outcome(&format!("TRUE {not}{word} 'T'"), NONE), No);
            assert_eq!(outcome(&format!("NOT (a {not}{word} 'x')"), NONE), Yes);
        }
    }
}

#[test]
fn negative_of_a_property_is_null() {
    check(&[
        ("-a < 0", &[("a", "5")], Null),
        ("-a IS NULL", &[("a", "5")], Yes),
        ("+a > 0", &[("a", "5")], Yes),
        ("-(-5) = 5", NONE, Yes),
        ("-1.5 < -1", NONE, Yes),
    ]);
}
