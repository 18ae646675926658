//! JSON as RocketMQ's own library (fastjson) reads it, for every body and for headers that are not of the usual shape.
//!
//! Its rules, beside those of JSON:
//!
//! | where | also accepted |
//! |---|---|
//! | an integer | text, a fraction (cut off), a truth value; one of 32 bits wraps around as in Java |
//! | a truth value | text (`true`, `1`, `Y`, `T`, `on`), a number (1 is true) |
//! | a text | a number, a truth value, an object or an array as it is written |
//! | a list or an object | null and the empty text count as empty |
//! | a member of a struct | null counts as missing |
//! | a key | a number, an object (its text is the key), a bare word, single quotes |
//! | between values | comments, commas too many |
//! | behind the value | anything |

mod scanner;
mod value;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use scanner::{Kind, Scanner};
use value::Scalar;

/// Objects and arrays within each other.
const DEPTH_MAX: usize = 64;

/// Why a text could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why} at byte {at}")]
pub struct JsonError {
    why: String,
    at: usize,
}

impl de::Error for JsonError {
    fn custom<T: std::fmt::Display>(why: T) -> JsonError {
        JsonError { why: why.to_string(), at: 0 }
    }
}

/// Reads a value. Bytes that are no UTF-8 count as U+FFFD, as in Java.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader { scanner: Scanner::new(&text), depth: 0 };
    T::deserialize(&mut reader).map_err(|error| match error.at {
        // Said by a type, which knows no place.
        0 => JsonError { at: reader.scanner.at(), ..error },
        _ => error,
    })
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, why: &str) -> JsonError {
        JsonError { why: why.to_owned(), at: self.scanner.at() }
    }

    /// A value that is no list and no object; those count as the text that they are written with.
    fn scalar(&mut self) -> Result<Scalar<'a>, JsonError> {
        match self.scanner.peek() {
            Some(Kind::Object | Kind::Array) => Ok(Scalar::Text(self.raw()?.into())),
            Some(Kind::Scalar) => self.scanner.scalar().ok_or_else(|| self.error("no value")),
            None => Err(self.error("a value is missing")),
        }
    }

    /// The text of a list or an object.
    fn raw(&mut self) -> Result<&'a str, JsonError> {
        self.scanner.raw(DEPTH_MAX).ok_or_else(|| self.error("a list or an object without an end"))
    }

    fn integer(&mut self) -> Result<i128, JsonError> {
        let scalar = self.scalar()?;
        scalar.integer().ok_or_else(|| self.error("no integer"))
    }

    /// Goes into an object or a list, unless the value there counts as an empty one.
    fn open(&mut self, kind: Kind, what: &str) -> Result<bool, JsonError> {
        match self.scanner.peek() {
            Some(found) if found == kind => {
                if self.depth >= DEPTH_MAX {
                    return Err(self.error("too many values within each other"));
                }
                self.scanner.skip_mark();
                Ok(true)
            }
            Some(Kind::Scalar) => match self.scanner.scalar() {
                Some(scalar) if scalar.is_nothing() => Ok(false),
                _ => Err(self.error(what)),
            },
            // Some libraries write an empty list as an object.
            Some(_) => match self.raw()?.trim_matches(|c: char| "{}[]".contains(c) || c.is_whitespace()) {
                "" => Ok(false),
                _ => Err(self.error(what)),
            },
            None => Err(self.error("a value is missing")),
        }
    }

    fn object<'de, V: Visitor<'de>>(&mut self, nulls: Nulls, visitor: V) -> Result<V::Value, JsonError> {
        let open = self.open(Kind::Object, "no object")?;
        self.depth += 1;
        let mut members = Members { reader: self, open, nulls };
        let value = visitor.visit_map(&mut members)?;
        while members.open && members.key()?.is_some() {
            members.reader.skip()?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn list<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, JsonError> {
        let open = self.open(Kind::Array, "no list")?;
        self.depth += 1;
        let mut items = Items { reader: self, open };
        let value = visitor.visit_seq(&mut items)?;
        while items.more()? {
            items.reader.skip()?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn skip(&mut self) -> Result<(), JsonError> {
        self.scalar().map(drop)
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            let number = self.integer()?;
            let number = <$type>::try_from(number).map_err(|_| self.error("a number out of range"))?;
            visitor.$visit(number)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Reader<'_> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.scanner.peek() {
            Some(Kind::Object) => self.object(Nulls::Kept, visitor),
            Some(Kind::Array) => self.list(visitor),
            Some(Kind::Scalar) | None => match self.scalar()? {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Truth(truth) => visitor.visit_bool(truth),
                Scalar::Integer(number) => visitor.visit_i64(number),
                Scalar::Long(number) => visitor.visit_u64(number),
                Scalar::Fraction(number) => visitor.visit_f64(number),
                Scalar::Text(text) => visitor.visit_str(&text),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        visitor.visit_bool(scalar.truth().ok_or_else(|| self.error("no truth value"))?)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_i32(self.integer()? as i32)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_i64(self.integer()? as i64)
    }

    integers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        let scalar = self.scalar()?;
        visitor.visit_f64(scalar.fraction().ok_or_else(|| self.error("no number"))?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_str(&self.scalar()?.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        if self.scanner.skip_null() {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.object(Nulls::Kept, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        self.object(Nulls::Missing, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.skip()?;
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier i128 u128
    }
}

/// What a member that is null counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Kept,
    Missing,
}

/// The members of an object, one after the other.
struct Members<'r, 'a> {
    reader: &'r mut Reader<'a>,
    open: bool,
    nulls: Nulls,
}

impl<'a> Members<'_, 'a> {
    /// Goes behind the next key and its colon.
    fn key(&mut self) -> Result<Option<std::borrow::Cow<'a, str>>, JsonError> {
        let scanner = &mut self.reader.scanner;
        if scanner.closes(b'}') {
            self.open = false;
            return Ok(None);
        }
        let key = scanner.key(DEPTH_MAX).filter(|_| scanner.colon());
        key.map(Some).ok_or_else(|| self.reader.error("no key with a value"))
    }
}

impl<'de> MapAccess<'de> for &mut Members<'_, '_> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        while self.open {
            let Some(key) = self.key()? else { return Ok(None) };
            if self.nulls == Nulls::Missing && self.reader.scanner.skip_null() {
                continue;
            }
            let key: &str = &key;
            return seed.deserialize(key.into_deserializer()).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        seed.deserialize(&mut *self.reader)
    }
}

/// The items of a list, one after the other.
struct Items<'r, 'a> {
    reader: &'r mut Reader<'a>,
    open: bool,
}

impl Items<'_, '_> {
    fn more(&mut self) -> Result<bool, JsonError> {
        self.open = self.open && !self.reader.scanner.closes(b']');
        Ok(self.open)
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, '_> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        if !self.more()? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }
}

#[cfg(test)]
mod tests;
