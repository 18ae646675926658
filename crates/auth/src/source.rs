//! Source addresses of rules: the forms that operators write, and whether a connection's address is among them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TEXT_LEN_MAX: usize = 200;
const SOURCES_MAX: usize = 100;

/// Addresses that a rule is for. An address inside IPv6 (`::ffff:10.0.0.1`) is the IPv4 address, in the rule and in the
/// connection.
///
/// | form | example |
/// |---|---|
/// | any | `*` |
/// | address | `10.0.0.1`, `fe80::1` |
/// | network | `10.0.0.0/8`, `2001:db8::/32` |
/// | range of one part, as RocketMQ writes it | `10.0.1-20.*`, `10.0.0.5-9`, `10.0.*`, `2001:db8:0:*` |
/// | several last parts | `10.0.0.{1,2,7}` |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePattern {
    text: Box<str>,
    forms: Vec<Form>,
}

/// The lowest and highest value of every part. A network is one too: it ends inside one part and leaves the rest free.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Any,
    V4([(u8, u8); 4]),
    V6([(u16, u16); 8]),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    #[error("{0:?} is no IP address, no network such as 10.0.0.0/8 and no range such as 10.0.0.1-20")]
    Text(String),
    #[error("{0} source addresses, the limit is {SOURCES_MAX}")]
    TooMany(usize),
}

/// The addresses of one rule; none means any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources(Vec<SourcePattern>);

impl Sources {
    pub fn read<S: AsRef<str>>(texts: &[S]) -> Result<Sources, InvalidSource> {
        if texts.len() > SOURCES_MAX {
            return Err(InvalidSource::TooMany(texts.len()));
        }
        texts.iter().map(|text| SourcePattern::read(text.as_ref())).collect::<Result<_, _>>().map(Sources)
    }

    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.is_empty() || self.0.iter().any(|source| source.contains(address))
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|source| source.text.as_ref())
    }
}

impl SourcePattern {
    pub fn read(text: &str) -> Result<SourcePattern, InvalidSource> {
        let text = text.trim();
        let bad = || InvalidSource::Text(text.chars().take(TEXT_LEN_MAX).collect());
        if text.len() > TEXT_LEN_MAX {
            return Err(bad());
        }
        let forms = forms(text).filter(|forms| !forms.is_empty()).ok_or_else(bad)?;
        Ok(SourcePattern { text: text.into(), forms })
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.forms.iter().any(|form| match (form, address) {
            (Form::Any, _) => true,
            (Form::V4(parts), IpAddr::V4(address)) => within(parts, address.octets()),
            (Form::V6(parts), IpAddr::V6(address)) => within(parts, address.segments()),
            (Form::V4(_) | Form::V6(_), _) => false,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

fn within<T: PartialOrd, const N: usize>(parts: &[(T, T); N], values: [T; N]) -> bool {
    parts.iter().zip(values).all(|((low, high), value)| *low <= value && value <= *high)
}

fn forms(text: &str) -> Option<Vec<Form>> {
    if text == "*" {
        return Some(vec![Form::Any]);
    }
    if let Some((address, bits)) = text.split_once('/') {
        return Some(vec![network(address.parse().ok()?, decimal(bits)?)?]);
    }
    if let Some((head, list)) = text.strip_suffix('}').and_then(|text| text.split_once('{')) {
        let separator = head.chars().next_back().filter(|last| matches!(last, '.' | ':'))?;
        return list.split(',').map(|last| one(&format!("{head}{}", last.trim()), separator)).collect();
    }
    Some(vec![one(text, if text.contains(':') { ':' } else { '.' })?])
}

/// Digits alone: `parse` would take `+8`, too.
fn decimal(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn one(text: &str, separator: char) -> Option<Form> {
    match text.parse::<IpAddr>() {
        Ok(address) => network(address, if address.is_ipv4() { 32 } else { 128 }),
        Err(_) if separator == ':' => v6_ranges(text).map(Form::V6),
        Err(_) => v4_ranges(text).map(Form::V4),
    }
}

fn network(address: IpAddr, bits: u8) -> Option<Form> {
    match address {
        IpAddr::V4(address) if bits <= 32 => Some(v4_network(address, bits)),
        IpAddr::V6(address) if bits <= 128 => Some(match (address.to_ipv4_mapped(), bits.checked_sub(96)) {
            (Some(inside), Some(bits)) => v4_network(inside, bits),
            _ => v6_network(address, bits),
        }),
        _ => None,
    }
}

fn v4_network(address: Ipv4Addr, bits: u8) -> Form {
    let free = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
    let low = (u32::from(address) & !free).to_be_bytes();
    let high = (u32::from(address) | free).to_be_bytes();
    Form::V4(std::array::from_fn(|part| (low[part], high[part])))
}

fn v6_network(address: Ipv6Addr, bits: u8) -> Form {
    let free = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
    let low = Ipv6Addr::from(u128::from(address) & !free).segments();
    let high = Ipv6Addr::from(u128::from(address) | free).segments();
    Form::V6(std::array::from_fn(|part| (low[part], high[part])))
}

/// `*`, `low-high` or one value.
fn range<T: Copy + PartialOrd>(text: &str, any: (T, T), value: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    if text == "*" {
        return Some(any);
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (value(low)?, value(high)?);
    (low <= high).then_some((low, high))
}

fn v4_ranges(text: &str) -> Option<[(u8, u8); 4]> {
    let any = (0, u8::MAX);
    let parts = text.split('.').map(|part| range(part, any, decimal)).collect::<Option<Vec<_>>>()?;
    filled(parts, text, any)
}

fn v6_ranges(text: &str) -> Option<[(u16, u16); 8]> {
    let any = (0, u16::MAX);
    let value = |text: &str| {
        let hex = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| u16::from_str_radix(text, 16).ok()).flatten()
    };
    let parts = |text: &str| {
        let parts = text.split(':').filter(|_| !text.is_empty());
        parts.map(|part| range(part, any, value)).collect::<Option<Vec<_>>>()
    };
    let Some((head, tail)) = text.split_once("::") else { return filled(parts(text)?, text, any) };
    let (mut all, tail) = (parts(head)?, parts(tail)?);
    let zeros = 8usize.checked_sub(all.len() + tail.len()).filter(|zeros| *zeros > 0)?;
    all.extend(std::iter::repeat_n((0, 0), zeros));
    all.extend(tail);
    all.try_into().ok()
}

/// A text that ends in `*` may leave out the parts after it.
fn filled<T: Copy, const N: usize>(mut parts: Vec<(T, T)>, text: &str, any: (T, T)) -> Option<[(T, T); N]> {
    if text.ends_with('*') && parts.len() < N && parts.len() > 1 {
        parts.resize(N, any);
    }
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contains(pattern: &str, address: &str) -> bool {
        SourcePattern::read(pattern).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn every_form_holds_its_addresses_and_no_others() {
        let cases = [
            ("*", &["10.0.0.1", "::1"][..], &[][..]),
            ("10.0.0.1", &["10.0.0.1", "::ffff:10.0.0.1"], &["10.0.0.2", "::1"]),
            ("::ffff:10.0.0.1", &["10.0.0.1", "::ffff:10.0.0.1"], &["10.0.0.2"]),
            ("10.0.0.0/8", &["10.255.1.2", "::ffff:10.1.1.1"], &["11.0.0.0", "2001:db8::1"]),
            ("10.0.16.0/20", &["10.0.16.0", "10.0.31.255"], &["10.0.32.0", "10.0.15.255"]),
            ("0.0.0.0/0", &["10.0.0.1"], &["::1"]),
            ("::/0", &["::1"], &["10.0.0.1"]),
            ("10.0.0.7/32", &["10.0.0.7"], &["10.0.0.6"]),
            ("::ffff:10.0.0.0/104", &["10.9.9.9"], &["11.0.0.1"]),
            ("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::1"]),
            ("fe80::1", &["fe80::1", "fe80:0:0:0::1"], &["fe80::2"]),
            ("10.0.0.5-9", &["10.0.0.5", "10.0.0.9"], &["10.0.0.4", "10.0.0.10"]),
            ("10.0.1-20.*", &["10.0.1.0", "10.0.20.255"], &["10.0.0.1", "10.0.21.1"]),
            ("10.0.*", &["10.0.1.2"], &["10.1.0.0"]),
            ("10.*.*.*", &["10.1.2.3"], &["11.0.0.0"]),
            ("10.0.0.{1, 2,7}", &["10.0.0.1", "10.0.0.7"], &["10.0.0.3"]),
            ("2001:db8:0:*", &["2001:db8::1"], &["2001:db8:1::1"]),
            ("2001:db8::1-F", &["2001:db8::a"], &["2001:db8::10"]),
            ("fe80::{1,2}", &["fe80::2"], &["fe80::3"]),
        ];
        for (pattern, inside, outside) in cases {
            for address in inside {
                assert!(contains(pattern, address), "{pattern} holds {address}");
            }
            for address in outside {
                assert!(!contains(pattern, address), "{pattern} does not hold {address}");
            }
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("10.0.0.{{{}}}", "1,".repeat(200));
        for bad in [
            "",
            "host",
            "10.0.0",
            "10.0.0.256",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10.0.0.9-5",
            "10.0.0.-5",
            "10.0.0.1-",
            "10.0.0.1-2-3",
            "10.0.0.1.*",
            "fe80::1/129",
            "fe80:::1-2",
            "1:2:3:4:5:6:7:8-9:1",
            "10.0.0.{}",
            "10.0.0{1}",
            "{1}",
            "10.0.0.1,10.0.0.2",
            "1::2::*",
            "12345::*",
            "2001:db8:0:",
            "*.",
            ".*",
            &long,
        ] {
            assert!(SourcePattern::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_addresses_are_all_and_their_number_is_bounded() {
        let none: [&str; 0] = [];
        assert!(Sources::read(&none).unwrap().contain("10.0.0.1".parse().unwrap()));
        assert_eq!(Sources::read(&["10.0.0.1"; 101]), Err(InvalidSource::TooMany(101)));
    }

    proptest! {
        #[test]
        fn a_network_holds_what_shares_its_leading_bits(base: u32, other: u32, bits in 0u8..=32) {
            let pattern = SourcePattern::read(&format!("{}/{bits}", Ipv4Addr::from(base))).unwrap();
            let shared = (base ^ other).leading_zeros() >= u32::from(bits);
            prop_assert_eq!(pattern.contains(IpAddr::V4(other.into())), shared);
        }

        #[test]
        fn a_network_of_ipv6_holds_what_shares_its_leading_bits(base: u128, other: u128, bits in 0u8..=128) {
            prop_assume!(Ipv6Addr::from(base).to_ipv4_mapped().is_none());
            prop_assume!(Ipv6Addr::from(other).to_ipv4_mapped().is_none());
            let pattern = SourcePattern::read(&format!("{}/{bits}", Ipv6Addr::from(base))).unwrap();
            let shared = (base ^ other).leading_zeros() >= u32::from(bits);
            prop_assert_eq!(pattern.contains(IpAddr::V6(other.into())), shared);
        }

        #[test]
        fn an_address_holds_itself(address: IpAddr) {
            prop_assert!(SourcePattern::read(&address.to_string()).unwrap().contains(address));
        }
    }
}
