//! Lists and maps in JSON with a bound on their length, which holds while they are read: a short text can name very many values.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// A list of at most `MAX` values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounded<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Bounded<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX} values")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = from.next_element()? {
                    if values.len() == MAX {
                        return Err(A::Error::custom(format_args!("a list of more than {MAX} values")));
                    }
                    values.push(value);
                }
                Ok(Bounded(values))
            }
        }

        from.deserialize_seq(List(PhantomData))
    }
}

/// Pairs of texts, at most `MAX`, no name twice, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pairs<const MAX: usize>(pub Vec<(String, String)>);

impl<'de, const MAX: usize> Deserialize<'de> for Pairs<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map<const MAX: usize>;

        impl<'de, const MAX: usize> Visitor<'de> for Map<MAX> {
            type Value = Pairs<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MAX} texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                while let Some(pair) = from.next_entry()? {
                    if pairs.len() == MAX {
                        return Err(A::Error::custom(format_args!("an object of more than {MAX} texts")));
                    }
                    pairs.push(pair);
                }
                pairs.sort_unstable();
                if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
                    return Err(A::Error::custom(format_args!("the name {:?} is there twice", twice[0].0)));
                }
                Ok(Pairs(pairs))
            }
        }

        from.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_or_map_over_its_bound_is_refused_while_it_is_read() {
        assert_eq!(serde_json::from_str("[1,2]").ok(), Some(Bounded::<u8, 2>(vec![1, 2])));
        let endless = format!("[{}", "1,".repeat(100_000));
        let error = serde_json::from_str::<Bounded<u8, 2>>(&endless).unwrap_err().to_string();
        assert!(error.contains("more than 2 values"), "{error}");
        let read = serde_json::from_str::<Pairs<2>>(r#"{"b":"2","a":"1"}"#).unwrap();
        assert_eq!(read.0, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        for (text, why) in [
            (r#"{"a":"1","b":"2","c":"3"}"#, "more than 2 texts"),
            (r#"{"a":"1","a":"2"}"#, "twice"),
            (r#"{"a":1}"#, "string"),
        ] {
            let error = serde_json::from_str::<Pairs<2>>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
