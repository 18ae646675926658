//! Random conditions against the model, and random text against the parser.

use super::model::{Object, Thrown, Tree};
use super::*;
use proptest::prelude::*;

const NAMES: [&str; 4] = ["a", "b", "TAGS", "missing_$1"];
const TEXTS: [&str; 20] = [
    "1",
    "2",
    "-2",
    "1.5",
    "2.0",
    "abc",
    "ab",
    "true",
    "TRUE",
    "false",
    "NaN",
    "-Infinity",
    "inf",
    "3000000000",
    "9223372036854775808",
    " 7 ",
    "1e3f",
    "it's",
    "",
    "-0.0",
];
const INTEGERS: [i64; 7] = [0, 1, 2, 7, 1000, 3_000_000_000, i64::MAX];
const FLOATS: [f64; 6] = [0.0, 0.5, 1.5, 2.0, 1e3, 3e9];
const SIGNS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const SEARCHES: [&str; 6] =
    ["CONTAINS", "STARTSWITH", "ENDSWITH", "NOT CONTAINS", "NOT STARTSWITH", "NOT ENDSWITH"];

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> + Clone {
    proptest::sample::select(values)
}

fn text() -> impl Strategy<Value = String> + Clone {
    one_of(&TEXTS).prop_map(str::to_owned)
}

/// What may be compared; mostly what the language admits there.
fn leaf() -> impl Strategy<Value = Tree> + Clone {
    prop_oneof![
        6 => one_of(&NAMES).prop_map(Tree::Name),
        2 => one_of(&INTEGERS).prop_map(Tree::Integer),
        2 => one_of(&FLOATS).prop_map(Tree::Float),
        2 => text().prop_map(Tree::Text),
        1 => any::<bool>().prop_map(Tree::Bool),
        1 => Just(Tree::Null),
    ]
}

fn number() -> impl Strategy<Value = Tree> + Clone {
    prop_oneof![
        4 => one_of(&NAMES).prop_map(Tree::Name),
        2 => one_of(&INTEGERS).prop_map(Tree::Integer),
        2 => one_of(&FLOATS).prop_map(Tree::Float),
        1 => one_of(&INTEGERS).prop_map(|value| Tree::Minus(Tree::Integer(value).into())),
    ]
}

fn compare((sign, left, right): (&'static str, Tree, Tree)) -> Tree {
    Tree::Compare(sign, left.into(), right.into())
}

fn tree() -> impl Strategy<Value = Tree> {
    let name = one_of(&NAMES).prop_map(Tree::Name);
    let simple = prop_oneof![
        3 => (one_of(&SIGNS), number(), number()).prop_map(compare),
        3 => (one_of(&SIGNS[..2]), leaf(), leaf()).prop_map(compare),
        2 => (one_of(&["BETWEEN", "NOT BETWEEN"]), number(), number(), number())
            .prop_map(|(word, v, l, h)| Tree::Between(word, v.into(), l.into(), h.into())),
        1 => (one_of(&["IN", "NOT IN"]), name, prop::collection::vec(text(), 1..6))
            .prop_map(|(word, name, items)| Tree::In(word, name.into(), items)),
        1 => leaf(),
    ];
    simple.prop_recursive(6, 48, 3, |inner| {
        let null = (one_of(&["IS NULL", "IS NOT NULL"]), inner.clone());
        let search = (one_of(&SEARCHES), inner.clone(), text());
        let range = (one_of(&["BETWEEN", "NOT BETWEEN"]), inner.clone(), number(), number());
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::And(l.into(), r.into())),
            3 => (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::Or(l.into(), r.into())),
            2 => inner.clone().prop_map(|operand| Tree::Not(operand.into())),
            1 => inner.clone().prop_map(|operand| Tree::Minus(operand.into())),
            1 => null.prop_map(|(word, operand)| Tree::IsNull(word, operand.into())),
            1 => search.prop_map(|(word, subject, needle)| Tree::Search(word, subject.into(), needle)),
            1 => range.prop_map(|(word, v, l, h)| Tree::Between(word, v.into(), l.into(), h.into())),
            1 => (one_of(&SIGNS), inner.clone(), inner).prop_map(compare),
        ]
    })
}

/// Writes a tree with no more parentheses than it needs, words in varying case, and blanks and comments
/// between.
struct Printer {
    out: String,
    dice: u32,
}

impl Printer {
    fn print(tree: &Tree, seed: u32) -> String {
        let mut printer = Self { out: String::new(), dice: seed };
        printer.tree(tree, 0);
        printer.out
    }

    fn roll(&mut self, sides: u32) -> u32 {
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.dice >> 16) % sides
    }

    fn raw(&mut self, token: &str) {
        self.out.push_str(token);
        let blank = [" ", " ", " ", "\n", "\t ", " /* it's */ ", " -- 'so\n"][self.roll(7) as usize];
        self.out.push_str(blank);
    }

    fn words(&mut self, words: &str) {
        for word in words.split(' ') {
            match self.roll(3) {
                0 => self.raw(&word.to_lowercase()),
                _ => self.raw(word),
            }
        }
    }

    fn quoted(&mut self, text: &str) {
        self.raw(&format!("'{}'", text.replace('\'', "''")));
    }

    /// `level` is how tightly the surroundings bind: 0 `OR`, 1 `AND`, 2 `=`, 3 `<` and predicates, 4 signs.
    fn tree(&mut self, tree: &Tree, level: u32) {
        let own = match tree {
            Tree::Or(..) => 0,
            Tree::And(..) => 1,
            Tree::IsNull(..) | Tree::Compare("=" | "<>", ..) => 2,
            Tree::Compare(..) | Tree::Between(..) | Tree::In(..) | Tree::Search(..) => 3,
            _ => 4,
        };
        if own < level || self.roll(16) == 0 {
            self.raw("(");
            self.bare(tree, own);
            self.raw(")");
        } else {
            self.bare(tree, own);
        }
    }

    fn bare(&mut self, tree: &Tree, own: u32) {
        match tree {
            Tree::Null => self.words("NULL"),
            Tree::Bool(value) => self.words(if *value { "TRUE" } else { "FALSE" }),
            Tree::Integer(value) => self.raw(&value.to_string()),
            Tree::Float(value) => self.raw(&format!("{value:?}")),
            Tree::Text(text) => self.quoted(text),
            Tree::Name(name) => self.raw(name),
            Tree::Minus(operand) => {
                self.raw("-");
                self.tree(operand, 4);
            }
            Tree::Not(operand) => {
                self.words("NOT");
                self.tree(operand, 4);
            }
            Tree::And(left, right) => self.binary("AND", left, right, own),
            Tree::Or(left, right) => self.binary("OR", left, right, own),
            Tree::Compare(sign, left, right) => self.binary(sign, left, right, own),
            Tree::IsNull(word, operand) => {
                self.tree(operand, own);
                self.words(word);
            }
            Tree::Between(word, value, low, high) => {
                self.tree(value, own);
                self.words(word);
                self.binary("AND", low, high, 4);
            }
            Tree::In(word, subject, items) => {
                self.tree(subject, own);
                self.words(word);
                self.raw("(");
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.raw(",");
                    }
                    self.quoted(item);
                }
                self.raw(")");
            }
            Tree::Search(word, subject, needle) => {
                self.tree(subject, own);
                self.words(word);
                self.quoted(needle);
            }
        }
    }

    fn binary(&mut self, word: &str, left: &Tree, right: &Tree, own: u32) {
        self.tree(left, own);
        self.words(word);
        self.tree(right, (own + 1).min(4));
    }
}

fn judged(tree: &Tree, bag: &Bag<'_>) -> Outcome {
    match tree.test(bag) {
        Ok(Some(Object::Boolean(true))) => Yes,
        Ok(Some(Object::Boolean(false))) => No,
        Ok(_) => Null,
        Err(Thrown) => Fails,
    }
}

/// Pieces that make token soup likely to get somewhere.
const PIECES: [&str; 34] = [
    "a",
    "b",
    "TAGS",
    "1",
    "2.5",
    "1e3",
    "9223372036854775808",
    "'x'",
    "''",
    "'",
    "(",
    ")",
    "(",
    ")",
    ",",
    "=",
    "<>",
    "<",
    ">=",
    "+",
    "-",
    "--",
    "/*",
    "*/",
    "\n",
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "IS",
    "NULL",
    "CONTAINS",
    "é",
];

fn survives(expression: &str) -> Result<(), TestCaseError> {
    match parser::parse(expression) {
        Ok(condition) => {
            for properties in [&[][..], &[("a", "1"), ("b", "x")]] {
                let _ = eval::truth(&condition, &Bag(properties));
            }
        }
        Err(error) => {
            let at = error.position().expect("every refusal of short text has a position");
            prop_assert!(expression.is_char_boundary(at), "{error} in {expression:?}");
            let _ = error.to_string();
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn printed_condition_is_read_back_with_the_same_meaning(
        tree in tree(),
        seed: u32,
        values in prop::collection::vec(prop::option::of(one_of(&TEXTS)), 3),
    ) {
        let expression = Printer::print(&tree, seed);
        let parsed = parser::parse(&expression);
        let whole = Tree::Not(tree.clone().into());
        prop_assert_eq!(parsed.is_ok(), whole.is_valid(), "{}: {:?}", expression, parsed);
        let properties: Vec<_> =
            NAMES.into_iter().zip(&values).filter_map(|(name, value)| Some((name, (*value)?))).collect();
        if parsed.is_ok() {
            prop_assert_eq!(
                outcome(&expression, &properties),
                judged(&tree, &Bag(&properties)),
                "{} with {:?}", expression, properties
            );
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused_without_panic(expression in "\\PC{0,60}|[ -~\\n]{0,60}") {
        survives(&expression)?;
    }

    #[test]
    fn token_soup_is_accepted_or_refused_without_panic(
        pieces in prop::collection::vec((one_of(&PIECES), one_of(&["", " "])), 0..30),
    ) {
        let expression: String = pieces.iter().flat_map(|(piece, blank)| [*piece, *blank]).collect();
        survives(&expression)?;
    }

    #[test]
    fn any_property_text_is_judged_without_panic(value in "\\PC{0,20}|[0-9+.eE-]{0,12}") {
        for expression in ["a > 1", "a > 1.5", "a = 3000000000", "a > a", "a = TRUE", "NOT a", "-a IS NULL"] {
            outcome(expression, &[("a", &value)]);
        }
    }
}
