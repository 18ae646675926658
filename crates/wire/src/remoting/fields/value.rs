use std::fmt::{self, Write};

/// What can be a field's value. Texts, truth values and integers are written without the formatter, which takes longer
/// than all else there is to adding a field; `format_args!` makes a value of anything that has to go through it.
pub trait FieldValue {
    fn append_to(&self, text: &mut String);
}

impl FieldValue for str {
    fn append_to(&self, text: &mut String) {
        text.push_str(self);
    }
}

impl FieldValue for String {
    fn append_to(&self, text: &mut String) {
        text.push_str(self);
    }
}

impl FieldValue for bool {
    fn append_to(&self, text: &mut String) {
        text.push_str(if *self { "true" } else { "false" });
    }
}

impl FieldValue for fmt::Arguments<'_> {
    fn append_to(&self, text: &mut String) {
        // Writing into a text fails only if the value itself does, and those given here do not.
        let _ = text.write_fmt(*self);
    }
}

impl<T: FieldValue + ?Sized> FieldValue for &T {
    fn append_to(&self, text: &mut String) {
        T::append_to(self, text);
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl FieldValue for $integer {
            fn append_to(&self, text: &mut String) {
                text.push_str(itoa::Buffer::new().format(*self));
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64 isize usize);

#[cfg(test)]
mod tests {
    use crate::remoting::Command;

    #[test]
    fn values_are_written_as_the_formatter_writes_them() {
        let command = Command::default()
            .and("text", "é")
            .and("owned", "x".to_owned())
            .and("yes", true)
            .and("least", i64::MIN)
            .and("most", u64::MAX)
            .and("formatted", format_args!("{:02}-{}", 7, 'c'));
        let formatted = Command::default()
            .with_field("text", "é")
            .with_field("owned", "x")
            .with_field("yes", true)
            .with_field("least", i64::MIN)
            .with_field("most", u64::MAX)
            .with_field("formatted", "07-c");
        assert_eq!(command, formatted);
    }
}
