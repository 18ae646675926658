//! Members of groups as heartbeats announce them: joining, leaving, changes of subscriptions, bounds.

use std::sync::atomic::Ordering;

use redstart_wire::remoting::body::{ConsumerData, ProducerData, Subscription};
use tokio::sync::mpsc;

use super::{member::CONNECTION_BYTES_MAX, *};
use crate::remoting::peer::Outgoing;

fn peer() -> (Arc<Peer>, mpsc::Receiver<Outgoing>) {
    let (outbox, outgoing) = mpsc::channel(16);
    let address = "127.0.0.1:1".parse().unwrap();
    let account = crate::ByteBudget::default().account(usize::MAX);
    (Arc::new(Peer::new(address, address, outbox, account)), outgoing)
}

fn beat(client: &str, topics: &[(&str, i64)]) -> Heartbeat {
    let subscription = |(topic, version): &(&str, i64)| Subscription {
        topic: (*topic).to_owned(),
        sub_string: "a".to_owned(),
        sub_version: *version,
        ..Subscription::default()
    };
    Heartbeat {
        client_id: client.to_owned(),
        producer_data_set: vec![ProducerData { group_name: "p".to_owned() }],
        consumer_data_set: vec![ConsumerData {
            group_name: "g".to_owned(),
            subscription_data_set: topics.iter().map(subscription).collect(),
            ..ConsumerData::default()
        }],
        ..Heartbeat::default()
    }
}

fn say(members: &Members, heartbeat: &Heartbeat, peer: &Arc<Peer>, now: Instant) -> bool {
    let from = Sender { peer, language: Language::default(), version: 0 };
    members.heartbeat(heartbeat, &from, now).unwrap().changed
}

fn told(outgoing: &mut mpsc::Receiver<Outgoing>) -> usize {
    std::iter::from_fn(|| outgoing.try_recv().ok()).count()
}

#[test]
fn a_change_of_members_or_topics_is_told_and_nothing_else() {
    let members = Members::default();
    let ((one, mut to_one), (two, mut to_two)) = (peer(), peer());
    let say = |heartbeat: &Heartbeat, peer| say(&members, heartbeat, peer, Instant::now());
    say(&beat("1", &[("t", 1)]), &one);
    say(&beat("2", &[("t", 1)]), &two);
    assert_eq!((told(&mut to_one), told(&mut to_two)), (2, 1));
    say(&beat("1", &[("t", 2)]), &one);
    assert_eq!(told(&mut to_one), 0, "a newer version of the same topics");
    say(&beat("1", &[("t", 2), ("u", 1)]), &one);
    assert_eq!((told(&mut to_one), told(&mut to_two)), (1, 1));
    assert_eq!(members.consumer_ids("g").unwrap(), ["1", "2"]);
    members.disconnected(&two);
    assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
    assert_eq!((told(&mut to_one), members.producers("p").len()), (1, 1));
    members.leave(&one, "1", Some("p"), Some("g"));
    assert_eq!(members.consumer_ids("g"), None);
    assert!(members.producer("1").is_none());
}

#[test]
fn a_producer_is_one_from_its_first_half_message_and_once() {
    let members = Members::default();
    let (one, _outgoing) = peer();
    let from = Sender { peer: &one, language: Language::default(), version: 0 };
    for _ in 0..2 {
        members.sent_half("p", &from, Instant::now());
    }
    let known =
        || -> Vec<String> { members.producers("p").into_iter().map(|member| member.client_id).collect() };
    assert_eq!(known(), ["127.0.0.1:1"]);
    say(&members, &beat("1", &[]), &one, Instant::now());
    members.sent_half("p", &from, Instant::now());
    assert_eq!(known(), ["1"], "its heartbeat tells its id");
    members.disconnected(&one);
    assert!(known().is_empty());
    assert_eq!(members.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn an_older_version_does_not_replace_a_newer_one() {
    let members = Members::default();
    let (one, _outgoing) = peer();
    for version in [5, 3] {
        say(&members, &beat("1", &[("t", version)]), &one, Instant::now());
    }
    assert_eq!(members.subscription("g", "t", &one).unwrap().subscription.sub_version, 5);
    assert_eq!(members.subscription("g", "u", &one).unwrap_err(), NoSubscription::OtherTopics);
    assert_eq!(members.subscription("x", "u", &one).unwrap_err(), NoSubscription::NoConsumers);
}

#[test]
fn a_short_heartbeat_renews_only_what_is_known_by_its_fingerprint() {
    let members = Members::default();
    let (one, _outgoing) = peer();
    let mut heartbeat = Heartbeat { heartbeat_fingerprint: 7, ..beat("1", &[("t", 1)]) };
    let say = |heartbeat: &Heartbeat| say(&members, heartbeat, &one, Instant::now());
    assert!(say(&heartbeat));
    assert!(!say(&heartbeat), "the broker has it");
    heartbeat.without_sub = true;
    heartbeat.consumer_data_set[0].subscription_data_set.clear();
    assert!(!say(&heartbeat));
    assert!(members.subscription("g", "t", &one).is_ok(), "subscriptions stay");
    heartbeat.heartbeat_fingerprint = 8;
    assert!(say(&heartbeat));
}

#[test]
fn who_comes_back_on_another_connection_is_not_removed_with_the_old_one() {
    let members = Members::default();
    let ((old, _a), (new, _b)) = (peer(), peer());
    say(&members, &beat("1", &[("t", 1)]), &old, Instant::now());
    say(&members, &beat("1", &[("t", 1)]), &new, Instant::now());
    members.disconnected(&old);
    assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
}

#[test]
fn a_heartbeat_that_outlives_its_connection_leaves_nobody_behind() {
    let members = Members::default();
    let ((one, mut to_one), (two, _to_two)) = (peer(), peer());
    say(&members, &beat("1", &[("t", 1)]), &one, Instant::now());
    told(&mut to_one);
    two.disconnected();
    members.disconnected(&two);
    say(&members, &beat("2", &[("t", 1)]), &two, Instant::now());
    assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
    assert_eq!(members.producers("p").len(), 1);
    assert_eq!(told(&mut to_one), 0);
}

#[test]
fn who_is_silent_for_two_minutes_is_forgotten_and_the_others_are_told() {
    let members = Members::default();
    let ((one, mut to_one), (two, _to_two)) = (peer(), peer());
    let start = Instant::now();
    let later = |millis| start + Duration::from_millis(millis);
    say(&members, &beat("1", &[("t", 1)]), &one, start);
    say(&members, &beat("2", &[("t", 1)]), &two, start);
    say(&members, &beat("1", &[("t", 1)]), &one, later(30_000));
    told(&mut to_one);
    members.expire(later(120_000));
    assert_eq!(members.consumer_ids("g").unwrap(), ["1", "2"], "to the last millisecond");
    assert_eq!(told(&mut to_one), 0);
    members.expire(later(120_001));
    assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
    assert_eq!(told(&mut to_one), 1);
    assert!(members.producer("2").is_none(), "it produces no more either");
    members.expire(later(150_001));
    assert_eq!(members.consumer_ids("g"), None);
}

#[test]
fn what_clients_say_of_themselves_is_bounded_by_connection_and_given_back() {
    let members = Members::default();
    let (one, _outgoing) = peer();
    let from = Sender { peer: &one, language: Language::default(), version: 0 };
    let large = |client: usize| {
        let mut heartbeat = beat(&client.to_string(), &[]);
        let tags = vec!["t".repeat(1000); 500];
        let wanted = Subscription { topic: "t".to_owned(), tags_set: tags, ..Subscription::default() };
        heartbeat.consumer_data_set[0].subscription_data_set = vec![wanted];
        heartbeat
    };
    let taken = (0..300).take_while(|n| members.heartbeat(&large(*n), &from, Instant::now()).is_ok()).count();
    assert!((4..10).contains(&taken), "{taken} clients of half a megabyte each");
    assert!(members.bytes.load(Ordering::Relaxed) <= CONNECTION_BYTES_MAX);
    assert!(members.heartbeat(&large(0), &from, Instant::now()).is_ok(), "one that is known is renewed");
    let (other, _outgoing) = peer();
    let from = Sender { peer: &other, ..from };
    assert!(members.heartbeat(&large(1000), &from, Instant::now()).is_ok(), "another connection has its own");
    let long =
        Heartbeat { producer_data_set: vec![ProducerData { group_name: "p".repeat(300) }], ..large(1001) };
    assert!(members.heartbeat(&long, &from, Instant::now()).is_err());
    members.disconnected(&one);
    members.disconnected(&other);
    assert_eq!(members.bytes.load(Ordering::Relaxed), 0);
    assert_eq!(one.member_bytes.load(Ordering::Relaxed), 0);
}

/// A short heartbeat renews as well as a long one.
#[test]
fn a_short_heartbeat_keeps_its_client() {
    let members = Members::default();
    let (one, _outgoing) = peer();
    let start = Instant::now();
    let later = |seconds| start + Duration::from_secs(seconds);
    let mut heartbeat = Heartbeat { heartbeat_fingerprint: 7, ..beat("1", &[("t", 1)]) };
    say(&members, &heartbeat, &one, start);
    heartbeat.without_sub = true;
    say(&members, &heartbeat, &one, later(100));
    members.expire(later(200));
    assert_eq!(members.consumer_ids("g").unwrap(), ["1"]);
}
