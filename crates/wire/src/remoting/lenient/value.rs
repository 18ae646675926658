use std::borrow::Cow;

/// A value that is neither a list nor an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Truth(bool),
    Integer(i64),
    /// Above what 64 bits with a sign can hold.
    Long(u64),
    Fraction(f64),
    Text(Cow<'a, str>),
}

impl Scalar<'_> {
    /// Nothing, in one of the ways in which that is written.
    pub fn is_nothing(&self) -> bool {
        match self {
            Scalar::Null => true,
            Scalar::Text(text) => is_nothing(text),
            _ => false,
        }
    }

    pub fn integer(&self) -> Option<i128> {
        Some(match self {
            Scalar::Null => 0,
            Scalar::Truth(truth) => i128::from(*truth),
            Scalar::Integer(number) => i128::from(*number),
            Scalar::Long(number) => i128::from(*number),
            // Within its bounds and cut off, as the cast does it.
            Scalar::Fraction(number) => i128::from(*number as i64),
            Scalar::Text(text) if is_nothing(text) => 0,
            Scalar::Text(text) => {
                // Java's tools write thousands with commas.
                let text = text.trim().replace(',', "");
                text.parse::<i64>()
                    .map(i128::from)
                    .or_else(|_| fraction(&text).map(|n| i128::from(n as i64)))
                    .ok()?
            }
        })
    }

    pub fn fraction(&self) -> Option<f64> {
        Some(match self {
            Scalar::Null => 0.0,
            Scalar::Truth(truth) => f64::from(u8::from(*truth)),
            Scalar::Integer(number) => *number as f64,
            Scalar::Long(number) => *number as f64,
            Scalar::Fraction(number) => *number,
            Scalar::Text(text) if is_nothing(text) => 0.0,
            Scalar::Text(text) => fraction(text.trim()).ok()?,
        })
    }

    pub fn truth(&self) -> Option<bool> {
        Some(match self {
            Scalar::Null => false,
            Scalar::Truth(truth) => *truth,
            Scalar::Text(text) if is_nothing(text) => false,
            Scalar::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "y" | "t" | "on" => true,
                "false" | "0" | "n" | "f" | "off" => false,
                _ => return None,
            },
            number => number.integer()? == 1,
        })
    }

    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Scalar::Null => Cow::Borrowed(""),
            Scalar::Truth(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Scalar::Integer(number) => number.to_string().into(),
            Scalar::Long(number) => number.to_string().into(),
            Scalar::Fraction(number) => format!("{number:?}").into(),
            Scalar::Text(text) => Cow::Borrowed(text),
        }
    }
}

fn is_nothing(text: &str) -> bool {
    text.is_empty() || text.eq_ignore_ascii_case("null")
}

/// A number that is written as one: `inf` and `NaN` are none.
fn fraction(text: &str) -> Result<f64, ()> {
    let written = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    text.parse().ok().filter(|number: &f64| written && number.is_finite()).ok_or(())
}
