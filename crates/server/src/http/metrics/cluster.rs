//! Metrics of a node that has peers: its replica, its links, and the connections that it relays.

use std::sync::atomic::Ordering;

use super::{catalogue, text::Text};
use crate::http::cluster::{Cluster, ClusterPage};

pub(super) fn write(text: &mut Text, cluster: &Cluster) {
    let page = cluster.page();
    write_node(text, page.as_deref());
    write_peers(text, page.as_deref());
}

fn write_node(text: &mut Text, page: Option<&ClusterPage>) {
    let view = page.map(|page| page.view.lock().clone()).unwrap_or_default();
    let counts = page.map(|page| &page.counts);
    let now = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed) as u64;
    let total = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    for (family, value) in [
        (catalogue::REPLICA_LEADS, u64::from(view.leads)),
        (catalogue::REPLICA_TERM, view.term),
        (catalogue::REPLICA_APPENDED, view.appended),
        (catalogue::REPLICA_COMMITTED, view.committed),
        (catalogue::REPLICA_APPLIED, view.applied),
        (catalogue::REPLICA_ELECTIONS, view.elections_won),
        (catalogue::RELAYED, counts.map_or(0, |counts| now(&counts.relayed_now))),
        (catalogue::RELAYED_TOTAL, counts.map_or(0, |counts| total(&counts.relayed))),
        (catalogue::HELD, counts.map_or(0, |counts| now(&counts.held_now))),
        (catalogue::GIVEN_UP, counts.map_or(0, |counts| total(&counts.given_up))),
    ] {
        let mut samples = text.family(family);
        if page.is_some() {
            samples.put(&[&view.node.to_string()], value);
        }
    }
}

fn write_peers(text: &mut Text, page: Option<&ClusterPage>) {
    let peers = page.map(|page| page.links.views()).unwrap_or_default();
    let view = page.map(|page| page.view.lock().clone()).unwrap_or_default();
    let mut lags = text.family(catalogue::REPLICA_LAG);
    for (node, acknowledged) in &view.acknowledged {
        lags.put(&[&node.to_string()], view.appended.saturating_sub(*acknowledged));
    }
    let mut connected = text.family(catalogue::PEER_CONNECTED);
    for peer in &peers {
        connected.put(&[&peer.node.to_string()], u8::from(peer.connected));
    }
    let mut sent = text.family(catalogue::PEER_SENT);
    for peer in &peers {
        sent.put(&[&peer.node.to_string()], peer.sent_bytes);
    }
    let mut dropped = text.family(catalogue::PEER_DROPPED);
    for peer in &peers {
        dropped.put(&[&peer.node.to_string()], peer.dropped);
    }
}
