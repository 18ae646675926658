//! The names of the brokers that clients see.

/// The names of `count` brokers. The first is the configured one; a name that ends in `-a` counts on, and any other gets a letter.
pub fn broker_names(configured: &str, count: usize) -> Vec<String> {
    let stem = configured.strip_suffix("-a").unwrap_or(configured);
    let later = (1..count).map(|number| format!("{stem}-{}", letters(number)));
    std::iter::once(configured.to_owned()).chain(later).collect()
}

/// `a` to `z`, then `aa` and so on.
fn letters(number: usize) -> String {
    let digit = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => digit.to_string(),
        high => letters(high - 1) + &digit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_is_the_configured_one_and_all_are_different() {
        assert_eq!(broker_names("broker-a", 3), ["broker-a", "broker-b", "broker-c"]);
        assert_eq!(broker_names("orders", 2), ["orders", "orders-b"]);
        let mut many = broker_names("broker-a", 64);
        assert_eq!(
            (many[25].as_str(), many[26].as_str(), many[63].as_str()),
            ("broker-z", "broker-aa", "broker-bl")
        );
        many.sort_unstable();
        many.dedup();
        assert_eq!(many.len(), 64);
    }
}
