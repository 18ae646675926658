//! Connected clients.

use super::{
    Sources, catalogue,
    groups::{is_system_group, truth},
    text::Text,
};
use crate::statistics::ClientCounts;

pub(super) fn write(text: &mut Text, sources: &Sources) {
    let grpc = sources.grpc.as_ref().map(|grpc| ("grpc", grpc.client_counts()));
    let remoting = sources.remoting.as_ref().map(|remoting| ("remoting", remoting.client_counts()));
    let (mut producers, mut consumers): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (protocol, (of_producers, of_consumers)) in grpc.into_iter().chain(remoting) {
        let rows = |counts: ClientCounts| counts.kinds().into_iter().map(move |counted| (protocol, counted));
        producers.extend(rows(of_producers));
        consumers.extend(rows(of_consumers));
    }
    let mut samples = text.family(catalogue::PRODUCER_CONNECTIONS);
    for (protocol, (kind, count)) in &producers {
        samples.put(&[&kind.language, &kind.version, protocol], count);
    }
    let mut samples = text.family(catalogue::CONSUMER_CONNECTIONS);
    for (protocol, (kind, count)) in &consumers {
        let group = kind.group.as_deref().unwrap_or_default();
        let system = truth(is_system_group(group));
        samples.put(&[group, &kind.language, &kind.version, kind.mode, protocol, system], count);
    }
}
