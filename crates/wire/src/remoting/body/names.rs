//! Enumerations: RocketMQ writes their names, and reads the numbers that other clients write as well.

use serde::{Deserialize, Deserializer};

macro_rules! enumerations {
    ($($read:ident: $($name:literal)*;)*) => {$(
        pub(super) fn $read<'de, D: Deserializer<'de>, T: From<String>>(input: D) -> Result<T, D::Error> {
            read(input, &[$($name),*]).map(T::from)
        }
    )*};
}

enumerations! {
    consume_type: "CONSUME_ACTIVELY" "CONSUME_PASSIVELY" "CONSUME_POP";
    message_model: "BROADCASTING" "CLUSTERING";
    consume_from_where: "CONSUME_FROM_LAST_OFFSET" "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
        "CONSUME_FROM_MIN_OFFSET" "CONSUME_FROM_MAX_OFFSET" "CONSUME_FROM_FIRST_OFFSET" "CONSUME_FROM_TIMESTAMP";
    request_mode: "PULL" "POP";
    filter_type: "SINGLE_TAG" "MULTI_TAG";
    retry_policy: "EXPONENTIAL" "CUSTOMIZED";
}

/// A name as it is written, or the one with that number.
fn read<'de, D: Deserializer<'de>>(input: D, names: &[&str]) -> Result<String, D::Error> {
    let text = String::deserialize(input)?;
    let named = text.parse::<usize>().ok().and_then(|number| names.get(number));
    Ok(named.map_or(text, |name| (*name).to_owned()))
}
