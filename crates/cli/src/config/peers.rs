//! The nodes of a cluster, as a setting lists them.

use std::collections::BTreeMap;

/// The port of a node whose entry has none.
const PORT: u16 = 9880;
/// Votes are counted among all nodes, so that more of them make the cluster slower and not safer.
const NODES_MAX: usize = 16;

/// The nodes by their numbers, with the addresses of their links as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers(pub BTreeMap<u32, String>);

impl Peers {
    pub fn read(text: &str) -> Option<Peers> {
        let mut nodes = BTreeMap::new();
        for entry in text.split(',') {
            let (node, address) = entry.trim().split_once('=')?;
            let node: u32 =
                node.trim().parse().ok().filter(|node| (1..=u32::from(u16::MAX)).contains(node))?;
            if nodes.insert(node, with_port(address.trim())?).is_some() {
                return None;
            }
        }
        (nodes.len() <= NODES_MAX).then_some(Peers(nodes))
    }
}

fn with_port(address: &str) -> Option<String> {
    let (host, port) = match address.rsplit_once(':') {
        // An IPv6 address without a port.
        Some((_, port)) if port.ends_with(']') => (address, PORT),
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (address, PORT),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let known = match is_address {
        Some(ip) => ip.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    known.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_numbers_hosts_and_ports() {
        let read = |text| Peers::read(text).map(|peers| peers.0.into_iter().collect::<Vec<_>>());
        let node = |number: u32, address: &str| (number, address.to_owned());
        for (text, expected) in [
            ("1=a:1,2=b,3=c.d:9", Some(vec![node(1, "a:1"), node(2, "b:9880"), node(3, "c.d:9")])),
            (" 2=[::1] , 1=[::1]:7", Some(vec![node(1, "[::1]:7"), node(2, "[::1]:9880")])),
            ("1=a:1,1=b:1", None),
            ("0=a:1", None),
            ("1=a:0", None),
            ("1=a:70000", None),
            ("1=", None),
            ("1=a b", None),
            ("1=::1", None),
            ("a:1", None),
            ("1=a:1,", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
