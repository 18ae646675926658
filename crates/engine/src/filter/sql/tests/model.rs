//! A second reading of the language, written for plainness: owned values, two operands at a time, ranges
//! spelled out as comparisons, and Java's conversions step by step.

use super::super::super::Properties;
use super::Bag;
use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Name(&'static str),
    Minus(Box<Tree>),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    /// This and what follows begins with the operator as written, `NOT` included.
    IsNull(&'static str, Box<Tree>),
    Compare(&'static str, Box<Tree>, Box<Tree>),
    Between(&'static str, Box<Tree>, Box<Tree>, Box<Tree>),
    In(&'static str, Box<Tree>, Vec<String>),
    Search(&'static str, Box<Tree>, String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Double(f64),
    String(String),
}

/// An exception thrown while a message is looked at.
#[derive(Debug, PartialEq)]
pub(super) struct Thrown;

type Evaluated = Result<Option<Object>, Thrown>;

impl Tree {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::Text(_))
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Integer(_) | Self::Float(_))
    }

    fn yields_boolean(&self) -> bool {
        !matches!(self, Self::Integer(_) | Self::Float(_) | Self::Text(_) | Self::Name(_) | Self::Minus(_))
    }

    fn may_be_condition(&self) -> bool {
        self.yields_boolean() || matches!(self, Self::Name(_))
    }

    fn may_be_ordered(&self) -> bool {
        if self.is_literal() { self.is_number() } else { !self.yields_boolean() }
    }

    /// Whether the language admits this tree.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Name(_) => true,
            Self::Minus(operand) | Self::IsNull(_, operand) | Self::Search(_, operand, _) => {
                operand.is_valid()
            }
            Self::Not(operand) => operand.is_valid() && operand.may_be_condition(),
            Self::And(left, right) | Self::Or(left, right) => {
                [left, right].iter().all(|side| side.is_valid() && side.may_be_condition())
            }
            Self::Compare("=" | "<>", left, right) => {
                let null = [left, right].iter().any(|side| matches!(***side, Self::Null));
                let mixed = matches!(**left, Self::Bool(_)) && right.is_literal() && !right.yields_boolean();
                left.is_valid() && right.is_valid() && !null && !mixed
            }
            Self::Compare(_, left, right) => {
                [left, right].iter().all(|side| side.is_valid() && side.may_be_ordered())
            }
            Self::Between(word, value, low, high) => {
                let reversed = *word == "BETWEEN"
                    && low.is_number()
                    && high.is_number()
                    && low.run(&Bag(&[])).and_then(|low| compare_to(low, high.run(&Bag(&[]))?))
                        == Ok(Some(Ordering::Greater));
                [value, low, high].iter().all(|side| side.is_valid() && side.may_be_ordered()) && !reversed
            }
            Self::In(_, subject, _) => matches!(**subject, Self::Name(_)),
        }
    }

    /// What the tree comes to where a condition is asked for.
    pub(super) fn test(&self, bag: &Bag<'_>) -> Evaluated {
        match (self, self.run(bag)?) {
            (Self::Name(_), Some(_)) => Ok(Some(Object::Boolean(false))),
            (_, outcome) => Ok(outcome),
        }
    }

    fn run(&self, bag: &Bag<'_>) -> Evaluated {
        Ok(match self {
            Self::Null => None,
            Self::Bool(value) => Some(Object::Boolean(*value)),
            Self::Integer(value) => Some(i32::try_from(*value).map_or(Object::Long(*value), Object::Integer)),
            Self::Float(value) => Some(Object::Double(*value)),
            Self::Text(text) => Some(Object::String(text.clone())),
            Self::Name(name) => bag.get(name).map(|text| Object::String(text.to_owned())),
            Self::Minus(operand) => match operand.run(bag)? {
                Some(Object::Integer(value)) => Some(Object::Integer(-value)),
                Some(Object::Long(value)) => Some(Object::Long(-value)),
                Some(Object::Double(value)) => Some(Object::Double(-value)),
                _ => None,
            },
            Self::Not(operand) => not(operand.test(bag)?),
            Self::And(left, right) => both(left.test(bag)?, || right.test(bag))?,
            Self::Or(left, right) => not(both(not(left.test(bag)?), || right.test(bag).map(not))?),
            Self::IsNull(word, operand) => {
                Some(Object::Boolean(operand.run(bag)?.is_none() == (*word == "IS NULL")))
            }
            Self::Compare("=", left, right) => equals(left.run(bag)?, right.run(bag)?)?,
            Self::Compare("<>", left, right) => not(equals(left.run(bag)?, right.run(bag)?)?),
            Self::Compare(sign, left, right) => match left.run(bag)? {
                None => None,
                left => compare_to(left, right.run(bag)?)?.map(|ordering| {
                    Object::Boolean(match *sign {
                        "<" => ordering.is_lt(),
                        "<=" => ordering.is_le(),
                        ">" => ordering.is_gt(),
                        _ => ordering.is_ge(),
                    })
                }),
            },
            Self::Between(word, value, low, high) => {
                let compare =
                    |sign, bound: &Tree| Box::new(Self::Compare(sign, value.clone(), bound.clone().into()));
                match *word {
                    "BETWEEN" => Self::And(compare(">=", low), compare("<=", high)).run(bag)?,
                    _ => Self::Or(compare("<", low), compare(">", high)).run(bag)?,
                }
            }
            Self::In(word, subject, items) => subject.run(bag)?.map(|value| {
                let present = items.iter().any(|item| Object::String(item.clone()) == value);
                Object::Boolean(present == (*word == "IN"))
            }),
            Self::Search(_, _, needle) if needle.is_empty() => Some(Object::Boolean(false)),
            Self::Search(word, subject, needle) => {
                let Some(Object::String(text)) = subject.run(bag)? else {
                    return Ok(Some(Object::Boolean(false)));
                };
                let present = match word.trim_start_matches("NOT ") {
                    "CONTAINS" => text.contains(needle),
                    "STARTSWITH" => text.starts_with(needle),
                    _ => text.ends_with(needle),
                };
                Some(Object::Boolean(present != word.starts_with("NOT")))
            }
        })
    }
}

fn not(value: Option<Object>) -> Option<Object> {
    match value {
        Some(Object::Boolean(value)) => Some(Object::Boolean(!value)),
        _ => None,
    }
}

fn both(left: Option<Object>, right: impl FnOnce() -> Evaluated) -> Evaluated {
    const FALSE: Option<Object> = Some(Object::Boolean(false));
    if left == FALSE {
        return Ok(FALSE);
    }
    let right = right()?;
    Ok(if right == FALSE { FALSE } else { left.and(right) })
}

fn equals(left: Option<Object>, right: Option<Object>) -> Evaluated {
    use Object::{Boolean, String};
    let equal = match (left, right) {
        (None, None) => true,
        (None, Some(_)) => return Ok(None),
        (Some(_), None) => false,
        (Some(String(left)), Some(String(right))) => left == right,
        (Some(Boolean(left)), Some(Boolean(right))) => left == right,
        (Some(Boolean(value)), Some(String(text))) | (Some(String(text)), Some(Boolean(value))) => {
            (text.to_lowercase() == "true") == value
        }
        (Some(Boolean(_)), Some(_)) | (Some(_), Some(Boolean(_))) => false,
        (left, right) => compare_to(left, right)? == Some(Ordering::Equal),
    };
    Ok(Some(Boolean(equal)))
}

/// Converts one side to the other's class, then compares.
fn compare_to(left: Option<Object>, right: Option<Object>) -> Result<Option<Ordering>, Thrown> {
    use Object::{Boolean, Double, Integer, Long, String};
    let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
    Ok(Some(match (left, right) {
        (Boolean(_), _) | (_, Boolean(_)) => return Err(Thrown),
        (String(left), String(right)) => compare_doubles(parse_double(&left)?, parse_double(&right)?),
        (String(left), right @ Integer(_)) => return compare_to(Some(parse_integer(&left)?), Some(right)),
        (String(left), right @ Long(_)) => return compare_to(Some(parse_long(&left)?), Some(right)),
        (String(left), Double(right)) => compare_doubles(parse_double(&left)?, right),
        (left, right @ String(_)) => {
            return Ok(compare_to(Some(right), Some(left))?.map(Ordering::reverse));
        }
        (Integer(left), Integer(right)) => left.cmp(&right),
        (Long(left), Long(right)) => left.cmp(&right),
        (Integer(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Integer(right)) => left.cmp(&right.into()),
        (Double(left), Double(right)) => compare_doubles(left, right),
        (Double(left), Integer(right)) => compare_doubles(left, right.into()),
        (Integer(left), Double(right)) => compare_doubles(left.into(), right),
        (Double(left), Long(right)) => compare_doubles(left, right as f64),
        (Long(left), Double(right)) => compare_doubles(left as f64, right),
    }))
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        // Only zeros of opposite sign are equal without being the same.
        (false, false) => left
            .partial_cmp(&right)
            .filter(|ordering| ordering.is_ne())
            .unwrap_or(right.is_sign_negative().cmp(&left.is_sign_negative())),
    }
}

fn parse_integer(text: &str) -> Result<Object, Thrown> {
    text.parse().map(Object::Integer).map_err(|_| Thrown)
}

fn parse_long(text: &str) -> Result<Object, Thrown> {
    text.parse().map(Object::Long).map_err(|_| Thrown)
}

fn parse_double(text: &str) -> Result<f64, Thrown> {
    let text = text.trim();
    match text.trim_start_matches(['+', '-']) {
        "NaN" => Ok(f64::NAN),
        "Infinity" => text.parse().map_err(|_| Thrown),
        other if other.to_lowercase().contains(['n', 'i']) => Err(Thrown),
        _ => text.trim_end_matches(['f', 'd']).parse().map_err(|_| Thrown),
    }
}
