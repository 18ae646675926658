//! Who is connected.

use super::{
    Sources, catalogue,
    groups::{is_system_group, truth},
    text::Text,
};
use crate::statistics::Crowd;

pub(super) fn write(text: &mut Text, sources: &Sources) {
    let grpc = sources.grpc.as_ref().map(|grpc| ("grpc", grpc.crowds()));
    let remoting = sources.remoting.as_ref().map(|remoting| ("remoting", remoting.crowds()));
    let (mut producers, mut consumers): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (protocol, (makers, takers)) in grpc.into_iter().chain(remoting) {
        let of = |crowd: Crowd| crowd.kinds().into_iter().map(move |kind| (protocol, kind));
        producers.extend(of(makers));
        consumers.extend(of(takers));
    }
    let mut samples = text.family(catalogue::PRODUCER_CONNECTIONS);
    for (protocol, (alike, count)) in &producers {
        samples.put(&[&alike.language, &alike.version, protocol], count);
    }
    let mut samples = text.family(catalogue::CONSUMER_CONNECTIONS);
    for (protocol, (alike, count)) in &consumers {
        let group = alike.group.as_deref().unwrap_or_default();
        let system = truth(is_system_group(group));
        samples.put(&[group, &alike.language, &alike.version, alike.mode, protocol, system], count);
    }
}
