use super::*;

/// Conditions that come to true, false and null.
const OPERANDS: [(&str, Option<bool>); 3] = [("TRUE", Some(true)), ("FALSE", Some(false)), ("NULL", None)];

fn shown(truth: Option<bool>) -> Outcome {
    match truth {
        Some(true) => Yes,
        Some(false) => No,
        None => Null,
    }
}

#[test]
fn and_or_not_follow_three_valued_truth_tables() {
    const T: Option<bool> = Some(true);
    const F: Option<bool> = Some(false);
    const N: Option<bool> = None;
    let and = [[T, F, N], [F, F, F], [N, F, N]];
    let or = [[T, T, T], [T, F, N], [T, N, N]];
    let not = [F, T, N];
    for (row, (left, _)) in OPERANDS.iter().enumerate() {
        assert_eq!(outcome(&format!("NOT {left}"), &[]), shown(not[row]), "NOT {left}");
        for (column, (right, _)) in OPERANDS.iter().enumerate() {
            assert_eq!(
                outcome(&format!("{left} AND {right}"), &[]),
                shown(and[row][column]),
                "{left} AND {right}"
            );
            assert_eq!(
                outcome(&format!("{left} OR {right}"), &[]),
                shown(or[row][column]),
                "{left} OR {right}"
            );
        }
    }
}

#[test]
fn chain_equals_its_nesting() {
    for (a, _) in OPERANDS {
        for (b, _) in OPERANDS {
            for (c, _) in OPERANDS {
                for word in ["AND", "OR"] {
                    let flat = outcome(&format!("{a} {word} {b} {word} {c}"), &[]);
                    assert_eq!(flat, outcome(&format!("({a} {word} {b}) {word} {c}"), &[]));
                    assert_eq!(flat, outcome(&format!("{a} {word} ({b} {word} {c})"), &[]));
                }
            }
        }
    }
}

#[test]
fn failure_spoils_the_whole_unless_it_is_not_reached() {
    const A: &[(&str, &str)] = &[("bad", "x"), ("a", "1")];
    check(&[
        ("bad > 1 OR a = 1", A, Fails),
        ("a = 1 OR bad > 1", A, Yes),
        ("bad > 1 AND a = 2", A, Fails),
        ("a = 2 AND bad > 1", A, No),
        ("NULL OR bad > 1", A, Fails),
        ("NOT (bad > 1)", A, Fails),
        ("(bad > 1) CONTAINS ''", A, No),
        ("absent > -(bad > 1)", A, Null),
        ("a > -(bad > 1)", A, Fails),
    ]);
}

#[test]
fn property_alone_is_never_true() {
    check(&[
        ("flag", &[("flag", "true")], No),
        ("flag", &[], Null),
        ("(flag)", &[("flag", "TRUE")], No),
        ("NOT flag", &[("flag", "true")], Yes),
        ("NOT flag", &[], Null),
        ("flag OR a = 'x'", &[("flag", "true"), ("a", "x")], Yes),
        ("flag AND a = 'x'", &[("flag", "true"), ("a", "x")], No),
        ("flag = TRUE", &[("flag", "true")], Yes),
    ]);
}

#[test]
fn documented_examples_select_as_documented() {
    check(&[
        ("a is not null and a = 'hello'", &[("a", "hello")], Yes),
        ("a is not null and a = 'hello'", &[], No),
        ("a is null OR a = 'hello'", &[], Yes),
        ("a is null OR a = 'hello'", &[("a", "abc")], No),
        ("a = TRUE OR b = FALSE", &[("a", "false"), ("b", "true")], No),
        ("a = 3 and b <> 4 And c > 5 AND d <= 4", &[("a", "3"), ("b", "5"), ("c", "6"), ("d", "1")], Yes),
        (
            "(TAGS is not null and TAGS in ('TagA', 'TagB')) and (a between 0 and 3)",
            &[("TAGS", "TagA"), ("a", "2")],
            Yes,
        ),
        (
            "a not in ('4', '4', '5') and b between 3 and 10 and c not contains 'axbc'",
            &[("a", "3"), ("b", "3"), ("c", "axbdc")],
            Yes,
        ),
    ]);
}
