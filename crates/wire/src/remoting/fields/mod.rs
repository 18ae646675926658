//! A command's fields: names and values in one text, so that a command with a dozen of them costs two allocations.

mod json;
mod read;
mod value;

use std::fmt::{self, Display, Write};

pub use read::FieldError;
pub(super) use read::{Found, truth};
pub use value::FieldValue;

/// Fields of one command; the protocol's own commands have some twenty.
const FIELDS_MAX: usize = 4096;

/// An answer has room for so many fields, and so many bytes in them, from the first on.
const FIELDS_USUAL: usize = 8;
const TEXT_USUAL: usize = 256;

/// Names and their values.
#[derive(Clone, Default)]
pub struct Fields {
    text: String,
    places: Vec<Place>,
}

/// Where in the text a name begins, where its value, and where that ends.
#[derive(Debug, Clone, Copy)]
struct Place {
    name: u32,
    value: u32,
    end: u32,
}

/// More fields than any command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {FIELDS_MAX} fields")]
pub struct TooManyFields;

impl Fields {
    pub(super) fn with_capacity(fields: usize, bytes: usize) -> Fields {
        Fields { text: String::with_capacity(bytes), places: Vec::with_capacity(fields) }
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.places.len() * size_of::<Place>()
    }

    /// The value of a name; the last one, should a peer have sent several.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.places.iter().rev().find(|place| self.is_named(place, name)).map(|place| self.value(place))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.places.iter().map(|place| (self.name(place), self.value(place)))
    }

    /// Sets a field, in place of one with that name.
    pub fn insert(&mut self, name: &str, value: impl Display) {
        self.remove(name);
        let begin = self.begin(name);
        // Writing into a text fails only if the value itself does, and those given here do not.
        let _ = write!(self.text, "{value}");
        self.end(begin);
    }

    /// Adds a field that is known not to be there yet, without a look at the others.
    pub fn add(&mut self, name: &str, value: impl FieldValue) {
        let begin = self.begin(name);
        value.append_to(&mut self.text);
        self.end(begin);
    }

    /// Removes the field, and any other one of that name.
    pub fn remove(&mut self, name: &str) {
        while let Some(at) = self.places.iter().position(|place| self.is_named(place, name)) {
            self.places.remove(at);
        }
    }

    /// Adds a field that a peer sent; the peer may have sent another one of that name.
    pub(super) fn push(&mut self, name: &str, value: &str) -> Result<(), TooManyFields> {
        if self.places.len() >= FIELDS_MAX {
            return Err(TooManyFields);
        }
        self.add(name, value);
        Ok(())
    }

    fn begin(&mut self, name: &str) -> (usize, usize) {
        if self.places.capacity() == 0 {
            self.places.reserve(FIELDS_USUAL);
            self.text.reserve(TEXT_USUAL);
        }
        let begin = self.text.len();
        self.text.push_str(name);
        (begin, self.text.len())
    }

    fn end(&mut self, (name, value): (usize, usize)) {
        self.places.push(Place { name: name as u32, value: value as u32, end: self.text.len() as u32 });
    }

    fn is_named(&self, place: &Place, name: &str) -> bool {
        let (begin, end) = (place.name as usize, place.value as usize);
        end - begin == name.len() && self.text.as_bytes().get(begin..end) == Some(name.as_bytes())
    }

    fn name(&self, place: &Place) -> &str {
        &self.text[place.name as usize..place.value as usize]
    }

    fn value(&self, place: &Place) -> &str {
        &self.text[place.value as usize..place.end as usize]
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        let within = |one: &Fields, two: &Fields| one.iter().all(|(name, _)| one.get(name) == two.get(name));
        within(self, other) && within(other, self)
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_set_once_and_read_by_name() {
        let mut fields = Fields::default();
        fields.insert("a", 1);
        fields.insert("ab", "x");
        fields.insert("a", true);
        assert_eq!((fields.get("a"), fields.get("ab"), fields.get("b")), (Some("true"), Some("x"), None));
        assert_eq!(fields.len(), 2);
        fields.add("b", -7_i64);
        assert_eq!(fields.get("b"), Some("-7"));
        fields.remove("b");
        fields.remove("a");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("ab", "x")]);
    }

    #[test]
    fn of_two_with_one_name_the_later_counts_and_there_is_an_end_to_them() {
        let mut fields = Fields::default();
        fields.push("a", "1").unwrap();
        fields.push("a", "2").unwrap();
        assert_eq!(fields.get("a"), Some("2"));
        let mut same = Fields::default();
        same.insert("a", 2);
        assert_eq!(fields, same);
        for _ in fields.len()..FIELDS_MAX {
            fields.push("b", "").unwrap();
        }
        assert_eq!(fields.push("b", ""), Err(TooManyFields));
        let names: Vec<String> = (0..=FIELDS_MAX).map(|n| format!("\"{n}\":1")).collect();
        assert!(serde_json::from_str::<Fields>(&format!("{{{}}}", names.join(","))).is_err());
    }
}
