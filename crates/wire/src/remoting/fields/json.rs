//! Fields as a JSON object, read without a map in between.

use std::fmt::{self, Display, Write};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::Value;

use super::{FIELDS_MAX, Fields, TooManyFields};
use crate::remoting::json::Cursor;

/// Fields for which there is room from the start.
const USUAL: usize = 16;

impl Fields {
    /// Reads an object of texts, integers and truth values; `None` if anything else is in it.
    pub(in crate::remoting) fn read(cursor: &mut Cursor<'_>) -> Option<Fields> {
        let mut more = cursor.open()?;
        if !more {
            return Some(Fields::default());
        }
        // What is read is never longer than how it is written.
        let mut fields = Fields::with_capacity(USUAL, cursor.remaining());
        while more {
            let name = fields.text.len();
            cursor.string(&mut fields.text)?;
            let value = fields.text.len();
            cursor.expect(b':')?;
            read_value(cursor, &mut fields.text)?;
            if fields.places.len() >= FIELDS_MAX {
                return None;
            }
            fields.end((name, value));
            more = cursor.goes_on()?;
        }
        Some(fields)
    }
}

fn read_value(cursor: &mut Cursor<'_>, text: &mut String) -> Option<()> {
    match cursor.peek()? {
        b'"' => return cursor.string(text),
        b't' => text.push_str(cursor.word("true")?),
        b'f' => text.push_str(cursor.word("false")?),
        _ => text.push_str(cursor.integer()?),
    }
    Some(())
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_any(FieldsVisitor)
    }
}

/// Reads an object, or nothing.
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields")
    }

    fn visit_unit<E>(self) -> Result<Fields, E> {
        Ok(Fields::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::with_capacity(USUAL, 384);
        while let Some(begin) = map.next_key_seed(Text(&mut fields.text))? {
            let Some(value) = map.next_value_seed(Text(&mut fields.text))? else {
                // Without a value it is not there.
                fields.text.truncate(begin.unwrap_or_default());
                continue;
            };
            if fields.places.len() >= FIELDS_MAX {
                return Err(A::Error::custom(TooManyFields));
            }
            fields.end((begin.unwrap_or_default(), value));
        }
        Ok(fields)
    }
}

/// Appends a text and says where it begins; `None` for null. Some clients send numbers and booleans as such.
struct Text<'a>(&'a mut String);

impl Text<'_> {
    fn put(self, value: impl Display) -> Option<usize> {
        let begin = self.0.len();
        let _ = write!(self.0, "{value}");
        Some(begin)
    }
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name or value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<usize>, E> {
        let begin = self.0.len();
        self.0.push_str(text);
        Ok(Some(begin))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<usize>, E> {
        Ok(self.put(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<usize>, E> {
        Ok(self.put(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<usize>, E> {
        Ok(self.put(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<usize>, E> {
        Ok(self.put(Value::from(value)))
    }

    fn visit_unit<E>(self) -> Result<Option<usize>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<usize>, A::Error> {
        Ok(self.put(Value::deserialize(MapAccessDeserializer::new(map))?))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Option<usize>, A::Error> {
        Ok(self.put(Value::deserialize(SeqAccessDeserializer::new(items))?))
    }
}
