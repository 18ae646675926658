//! Which queue a message goes to.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use super::faults::Faults;
use crate::{
    Message, Queue, java,
    random::{random_below, random_u64},
    route::Place,
};

/// Chooses a queue by a function: gets the queues that can be written to, sorted by broker and number, and returns the place of
/// one of them.
pub type ChooseQueue = dyn Fn(&[Queue], &Message) -> Option<usize> + Send + Sync;

/// How a producer chooses the queue of a message that has no message group. Over Remoting only: behind gRPC the server chooses.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Selector {
    /// The queues in turn, from a random one on. An attempt after a failed one goes to another broker.
    #[default]
    RoundRobin,
    /// Any queue.
    Random,
    /// By the hash of [`Message::shard_by`], as Java's `SelectMessageQueueByHash`; messages without a key in turn.
    Hash,
    /// In turn among the queues whose broker is named `room@name` with one of these rooms.
    MachineRoom {
        /// The rooms.
        rooms: Vec<String>,
        /// Whether a send fails when no queue is in these rooms. Otherwise all queues are used then.
        strict: bool,
    },
    /// By a function of the application.
    By(Arc<ChooseQueue>),
}

impl Selector {
    /// By a function over the queues and the message.
    ///
    /// ```
    /// # use redstart_client::Selector;
    /// let first = Selector::by(|queues, _message| (!queues.is_empty()).then_some(0));
    /// # drop(first);
    /// ```
    pub fn by(choose: impl Fn(&[Queue], &Message) -> Option<usize> + Send + Sync + 'static) -> Selector {
        Selector::By(Arc::new(choose))
    }

    /// The name for errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Selector::RoundRobin => "round robin",
            Selector::Random => "random",
            Selector::Hash => "hash",
            Selector::MachineRoom { .. } => "machine room",
            Selector::By(_) => "a function",
        }
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts through the queues, from a random start.
#[derive(Debug)]
pub(crate) struct Turn(AtomicU32);

impl Turn {
    pub fn new() -> Turn {
        Turn(AtomicU32::new(random_u64() as u32))
    }

    #[cfg(test)]
    fn at(start: u32) -> Turn {
        Turn(AtomicU32::new(start))
    }

    /// As Java: add one, drop the sign.
    fn next(&self) -> usize {
        (self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & 0x7FFF_FFFF) as usize
    }
}

/// What speaks for and against a queue in one attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    /// The broker of the failed attempt before this one.
    pub last_broker: Option<&'a str>,
    /// Brokers that are left out; `None` if isolation is off.
    pub faults: Option<&'a Faults>,
    pub now: Instant,
}

impl Selector {
    /// The place of the chosen queue.
    pub(crate) fn choose(
        &self,
        places: &[Place],
        message: &Message,
        turn: &Turn,
        attempt: Attempt<'_>,
    ) -> Option<usize> {
        if places.is_empty() {
            return None;
        }
        // One queue for a message group: its order would be lost otherwise.
        if let Some(group) = &message.group {
            return Some(java::index_of(java::string_hash(group), places.len()));
        }
        match self {
            Selector::RoundRobin => Some(in_turn(places, turn, attempt, |_| true)),
            Selector::Random => Some(random_below(places.len())),
            Selector::Hash => Some(match &message.shard {
                Some(key) => java::index_of(key.hash(), places.len()),
                None => in_turn(places, turn, attempt, |_| true),
            }),
            Selector::MachineRoom { rooms, strict } => {
                let in_rooms = |place: &Place| {
                    let room = place.queue.broker.split_once('@').map(|(room, _)| room);
                    room.is_some_and(|room| rooms.iter().any(|known| known == room))
                };
                match places.iter().any(in_rooms) {
                    true => Some(in_turn(places, turn, attempt, in_rooms)),
                    false if *strict => None,
                    false => Some(in_turn(places, turn, attempt, |_| true)),
                }
            }
            Selector::By(choose) => {
                let queues: Vec<Queue> = places.iter().map(|place| place.queue.clone()).collect();
                choose(&queues, message).filter(|chosen| *chosen < places.len())
            }
        }
    }
}

/// The next queue in turn: of an available broker other than the last, else of a reachable other one, else of another one, else the
/// next anyway.
fn in_turn(places: &[Place], turn: &Turn, attempt: Attempt<'_>, eligible: impl Fn(&Place) -> bool) -> usize {
    let start = turn.next();
    let find = |wanted: &dyn Fn(&Place) -> bool| {
        let indexes = (0..places.len()).map(|step| (start + step) % places.len());
        indexes.into_iter().find(|index| wanted(&places[*index]))
    };
    let other =
        |place: &Place| eligible(place) && attempt.last_broker.is_none_or(|last| place.queue.broker != last);
    let faults = attempt.faults.filter(|faults| !faults.is_empty());
    let available = faults.and_then(|faults| {
        find(&|place| other(place) && faults.is_available(&place.address, attempt.now))
            .or_else(|| find(&|place| other(place) && faults.is_reachable(&place.address)))
    });
    available.or_else(|| find(&other)).or_else(|| find(&eligible)).unwrap_or(start % places.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::producer::faults::{FaultPolicy, Outcome};

    fn places(of: &[(&str, i32)]) -> Vec<Place> {
        let mut places = Vec::new();
        for (broker, count) in of {
            places.extend((0..*count).map(|id| Place {
                queue: Queue::new("t", *broker, id),
                address: format!("{broker}:1").into(),
            }));
        }
        places
    }

    fn plain() -> Attempt<'static> {
        Attempt { last_broker: None, faults: None, now: Instant::now() }
    }

    fn message() -> Message {
        Message::new("t", "x")
    }

    #[test]
    fn round_robin_goes_through_all_queues_and_wraps_without_a_jump() {
        let (places, turn) = (places(&[("a", 2), ("b", 1)]), Turn::at(u32::MAX));
        let chosen: Vec<usize> =
            (0..6).filter_map(|_| Selector::RoundRobin.choose(&places, &message(), &turn, plain())).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
        assert_eq!(Turn::at(0x7FFF_FFFE).next(), 0x7FFF_FFFF);
        assert_eq!(Turn::at(0x7FFF_FFFF).next(), 0, "the sign is dropped");
        assert_eq!(Selector::RoundRobin.choose(&[], &message(), &turn, plain()), None);
    }

    #[test]
    fn an_attempt_after_a_failed_one_goes_to_another_broker() {
        let places = places(&[("a", 3), ("b", 1)]);
        let attempt = Attempt { last_broker: Some("a"), ..plain() };
        for start in 0..9 {
            let chosen = Selector::RoundRobin.choose(&places, &message(), &Turn::at(start), attempt);
            assert_eq!(chosen, Some(3));
        }
        let one = &places[..3];
        assert!(
            Selector::RoundRobin.choose(one, &message(), &Turn::at(0), attempt).is_some(),
            "unless there is none"
        );
    }

    #[test]
    fn slow_brokers_are_left_out_then_unreachable_ones_and_never_all() {
        let (places, now) = (places(&[("a", 1), ("b", 1), ("c", 1)]), Instant::now());
        let (policy, mut faults) = (FaultPolicy::current(), Faults::default());
        faults.record(&policy, "a:1", Outcome::Answered(Duration::from_secs(5)), now);
        let chosen = |faults: &Faults, last_broker, now| {
            let attempt = Attempt { last_broker, faults: Some(faults), now };
            let turns = (0..6)
                .map(|start| Selector::RoundRobin.choose(&places, &message(), &Turn::at(start), attempt));
            let mut chosen: Vec<usize> = turns.flatten().collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        assert_eq!(chosen(&faults, None, now), [1, 2]);
        assert_eq!(chosen(&faults, Some("b"), now), [2]);
        faults.record(&policy, "b:1", Outcome::Failed, now);
        faults.record(&policy, "c:1", Outcome::Failed, now);
        assert_eq!(chosen(&faults, None, now), [0], "slow is better than not reachable");
        assert_eq!(chosen(&faults, Some("a"), now), [1, 2], "and another broker better than the last");
        assert_eq!(chosen(&faults, None, now + Duration::from_secs(11)), [0, 1, 2]);
    }

    #[test]
    fn a_hash_key_and_a_message_group_have_javas_queue() {
        let (four, eight) = (places(&[("a", 4)]), places(&[("a", 4), ("b", 4)]));
        for (key, of_four, of_eight) in
            [("order-1042", 0, 4), ("customer-6", 1, 1), ("订单", 3, 3), ("polygenelubricants", 0, 0)]
        {
            for (message, selector) in
                [(message().shard_by(key), Selector::Hash), (message().group(key), Selector::Random)]
            {
                let chosen = |places| selector.choose(places, &message, &Turn::new(), plain());
                assert_eq!((chosen(&four), chosen(&eight)), (Some(of_four), Some(of_eight)), "{key}");
            }
        }
        let chosen =
            |key: ShardKey| Selector::Hash.choose(&eight, &message().shard_by(key), &Turn::new(), plain());
        use crate::ShardKey;
        assert_eq!(chosen(ShardKey::Int(-3)), Some(3));
        assert_eq!(chosen(ShardKey::Long((1 << 32) + 4)), Some(5), "4 ^ 1");
        assert!(Selector::Hash.choose(&eight, &message(), &Turn::new(), plain()).is_some());
    }

    #[test]
    fn a_machine_room_is_preferred_or_required() {
        let places = places(&[("hz@a", 2), ("plain", 1), ("sh@b", 1)]);
        let rooms = |rooms: &[&str], strict| Selector::MachineRoom {
            rooms: rooms.iter().map(|room| (*room).to_owned()).collect(),
            strict,
        };
        let chosen = |selector: &Selector| {
            let turns = (0..8).map(|start| selector.choose(&places, &message(), &Turn::at(start), plain()));
            let mut chosen: Vec<usize> = turns.flatten().collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        assert_eq!(chosen(&rooms(&["sh"], true)), [3]);
        assert_eq!(chosen(&rooms(&["hz", "sh"], true)), [0, 1, 3]);
        assert_eq!(chosen(&rooms(&["bj"], true)), [0_usize; 0]);
        assert_eq!(chosen(&rooms(&["bj"], false)), [0, 1, 2, 3]);
    }

    #[test]
    fn a_function_sees_the_queues_in_order_and_may_choose_none() {
        let places = places(&[("a", 2), ("b", 1)]);
        let last = Selector::by(|queues, message| {
            assert_eq!(queues[2], Queue::new("t", "b", 0));
            message.get("wanted").and_then(|wanted| wanted.parse().ok())
        });
        let chosen = |message: &Message| last.choose(&places, message, &Turn::new(), plain());
        assert_eq!(chosen(&message().property("wanted", "2")), Some(2));
        assert_eq!(chosen(&message().property("wanted", "3")), None, "there is no such queue");
        assert_eq!(chosen(&message()), None);
    }
}
