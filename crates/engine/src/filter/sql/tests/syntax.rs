//! What the grammar of SQL92 filters accepts and refuses.

use super::*;

const A: &[(&str, &str)] = &[("a", "5"), ("b", "it's"), ("t", "true")];

#[test]
fn well_formed_conditions_are_accepted() {
    check(&[
        ("a = 5", A, Yes),
        ("a=5", A, Yes),
        ("a = 5L", A, Yes),
        ("a = 5l", A, Yes),
        ("a > 0", A, Yes),
        ("a > 0L", A, Yes),
        ("a > .5", A, Yes),
        ("a = 5.", A, Yes),
        ("a = 5.0", A, Yes),
        ("a = 00.5e1", A, Yes),
        ("a = 5E0", A, Yes),
        ("a = 50e-1", A, Yes),
        ("a < 5.E+10", A, Yes),
        ("a > 0.0", A, Yes),
        ("a = +5", A, Yes),
        ("a > -5", A, Yes),
        ("a = - -5", A, Yes),
        ("a >= 9223372036854775807", A, No),
        ("b = 'it''s'", A, Yes),
        ("b <> ''''", A, Yes),
        ("b = ''", A, No),
        ("'日本' = '日本'", A, Yes),
        ("(((a))) = ((5))", A, Yes),
        ("(a) IN ('5')", A, Yes),
        ("+a IN ('5')", A, Yes),
        ("_a IS NULL AND $1 IS NULL AND a_$9Z IS NULL", A, Yes),
        ("TRUE", A, Yes),
        ("FALSE", A, No),
        ("NULL", A, Null),
        ("NULL IS NULL", A, Yes),
        ("a IS NULL IS NULL", A, No),
        ("a = 5 = TRUE", A, Yes),
        ("a IN ('4','5')", A, Yes),
        ("a IN('4' , '5' )", A, Yes),
        ("\t a\n=\r\x0c5 ", A, Yes),
    ]);
}

#[test]
fn keywords_ignore_case_and_property_names_do_not() {
    check(&[
        ("a Is nOt nUlL aNd NoT (a bEtWeEn 1 And 2) oR fAlSe", A, Yes),
        ("t = tRuE", A, Yes),
        ("A IS NULL", A, Yes),
        ("a in ('5')", A, Yes),
        ("b contains 's' and b startswith 'it' and b endswith '''s'", A, Yes),
        // A keyword inside a longer name is just a name.
        ("nothing IS NULL AND isnull IS NULL AND in_ IS NULL AND ORDER IS NULL", A, Yes),
    ]);
}

#[test]
fn comments_are_skipped() {
    check(&[
        ("a -- the value\n = 5", A, Yes),
        ("a = 5 -- to the end", A, Yes),
        ("a /* one */ = /**/ 5 /* * / ** */", A, Yes),
        ("--\n--\r/* -- */a = 5", A, Yes),
        ("b <> '-- no /* comment'", A, Yes),
        ("a /* '*/ = 5", A, Yes),
    ]);
}

#[test]
fn precedence_is_or_and_equality_comparison_unary() {
    check(&[
        ("TRUE OR TRUE AND FALSE", A, Yes),
        ("(TRUE OR TRUE) AND FALSE", A, No),
        ("FALSE AND TRUE OR TRUE", A, Yes),
        ("TRUE = a > 4", A, Yes),
        ("a > 4 = TRUE", A, Yes),
        ("a BETWEEN 1 AND 9 AND FALSE", A, No),
        ("NOT FALSE AND FALSE", A, No),
        // `NOT` takes the property alone: a condition never equals a number, and null stays null.
        ("NOT a = 1", A, No),
        ("NOT a IS NULL", A, No),
        ("NOT x IS NULL", A, Yes),
        ("NOT (a = 1)", A, Yes),
    ]);
}

#[test]
fn malformed_conditions_are_refused_with_their_position() {
    const OPERAND: &str = "a property, a literal or (";
    const END: &str = "an operator or the end";
    const NUMBER: &str = "a number or a property";
    const TOKEN: &str = "a name, a literal or an operator";
    const PREDICATE: &str = "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH";
    let cases = [
        ("", 0, OPERAND, ""),
        ("  ", 2, OPERAND, ""),
        ("-- nothing", 10, OPERAND, ""),
        ("a =", 3, OPERAND, ""),
        ("a = = 1", 4, OPERAND, "="),
        ("a == 1", 3, OPERAND, "="),
        ("= 1", 0, OPERAND, "="),
        ("a and between 2 and 10", 6, OPERAND, "between"),
        ("a = 1 OR", 8, OPERAND, ""),
        ("a = 1 OR OR b = 1", 9, OPERAND, "OR"),
        ("()", 1, OPERAND, ")"),
        ("(a = 1", 6, "an operator or )", ""),
        ("a = 1)", 5, END, ")"),
        ("a = 1 b = 2", 6, END, "b"),
        ("a LIKE 'x'", 2, END, "LIKE"),
        ("a = 1 2", 6, END, "2"),
        ("a = 1e", 5, END, "e"),
        ("a = 5Lx", 6, END, "x"),
        ("a = 1.5.5", 7, END, ".5"),
        ("a != 1", 2, TOKEN, "!"),
        ("a = 1;", 5, TOKEN, ";"),
        ("a = \"x\"", 4, TOKEN, "\""),
        ("a.b = 1", 1, TOKEN, "."),
        ("a = 1 && b = 1", 6, TOKEN, "&"),
        ("*", 0, TOKEN, "*"),
        ("名 = 1", 0, TOKEN, "名"),
        ("a\u{a0}= 1", 1, TOKEN, "\u{a0}"),
        ("a = --5", 7, OPERAND, ""),
        ("a = 007", 4, "a number without leading zeros", "007"),
        ("a = 01L", 4, "a number without leading zeros", "01L"),
        ("a IS 5", 5, "NULL or NOT", "5"),
        ("a IS NOT 5", 9, "NULL", "5"),
        ("a NOT NULL", 6, PREDICATE, "NULL"),
        ("a NOT = 5", 6, PREDICATE, "="),
        ("a IN '5'", 5, "(", "'5'"),
        ("a IN ()", 6, "text in quotes", ")"),
        ("a IN (5)", 6, "text in quotes", "5"),
        ("a IN ('5',)", 10, "text in quotes", ")"),
        ("a IN ('5' '6')", 10, ", or )", "'6'"),
        ("a IN ('5'", 9, ", or )", ""),
        ("'5' IN ('5')", 0, "a property", "'5'"),
        ("NOT a IN ('5')", 0, "a property", "NOT a"),
        ("a CONTAINS b", 11, "text in quotes", "b"),
        ("a STARTSWITH 5", 13, "text in quotes", "5"),
        ("a NOT ENDSWITH", 14, "text in quotes", ""),
        ("a BETWEEN 1 OR 2", 12, "AND", "OR"),
        ("a BETWEEN 1 AND", 15, OPERAND, ""),
        ("a BETWEEN 'a' AND 'b'", 10, NUMBER, "'a'"),
        ("a BETWEEN 1 AND TRUE", 16, NUMBER, "TRUE"),
        ("a > 'abc'", 4, NUMBER, "'abc'"),
        ("'1' < a", 0, NUMBER, "'1'"),
        ("a > TRUE", 4, NUMBER, "TRUE"),
        ("a >= NULL", 5, NUMBER, "NULL"),
        ("1 < a < 3", 0, NUMBER, "1 < a"),
        ("NOT a > 5", 0, NUMBER, "NOT a"),
        ("a > (b = 1)", 4, NUMBER, "(b = 1)"),
        ("a = NULL", 4, "a value, as only IS tests for null", "NULL"),
        ("NULL <> a", 0, "a value, as only IS tests for null", "NULL"),
        ("TRUE = 'true'", 7, "TRUE, FALSE or a property", "'true'"),
        ("FALSE <> 0", 9, "TRUE, FALSE or a property", "0"),
        ("5", 0, "a condition", "5"),
        ("'x'", 0, "a condition", "'x'"),
        ("-a", 0, "a condition", "-a"),
        ("a = 1 AND ( 5 )", 10, "a condition", "( 5 )"),
        ("NOT 5", 4, "a condition", "5"),
    ];
    for (expression, at, expected, found) in cases {
        assert_eq!(refusal(expression), Error::syntax(at, expected, found), "{expression}");
    }
}

#[test]
fn what_is_opened_must_be_closed() {
    let cases = [
        ("a = 'x", 4, "text"),
        ("a = 'x''", 4, "text"),
        ("'", 0, "text"),
        ("a = 1 /* note", 6, "comment"),
        ("/*/ a = 1", 0, "comment"),
    ];
    for (expression, at, what) in cases {
        assert_eq!(refusal(expression), Error::Unclosed { at, what }, "{expression}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let huge = format!("a > {0}.{0}", "1".repeat(1000));
    for expression in [
        "a > 9223372036854775808",
        "a > -9223372036854775808",
        "a > 100000000000000000000000",
        "a > 1e309",
        "a > 1e-400",
        "a > 0.1e-999999999999",
        &huge,
    ] {
        let at = expression.find(|c: char| c.is_ascii_digit());
        assert_eq!(refusal(expression).position(), at, "{expression}");
        assert!(matches!(refusal(expression), Error::NumberOutOfRange { .. }), "{expression}");
    }
}

#[test]
fn literal_bounds_in_the_wrong_order_are_refused() {
    assert_eq!(refusal("a BETWEEN 10 AND 0"), Error::ReversedRange { at: 10 });
    assert_eq!(refusal("a BETWEEN 1.5 AND 1"), Error::ReversedRange { at: 10 });
    check(&[
        ("a BETWEEN 5 AND 5", A, Yes),
        ("a NOT BETWEEN 10 AND 0", A, Yes),
        // A signed bound is an expression, not a literal.
        ("a BETWEEN 10 AND -10", A, No),
    ]);
}
