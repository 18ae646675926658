//! Which queues of a topic are whose. Every member of a group computes it alone, so all must compute the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use md5::{Digest, Md5};

use crate::Queue;

/// Points on the ring for each client.
const VIRTUAL_NODES: usize = 10;

type ByFunction = dyn Fn(&str, &[Queue], &[String]) -> Vec<Queue> + Send + Sync;
type MachineRoomOf = dyn Fn(&str) -> String + Send + Sync;

/// How the members of a group share out the queues of a topic: Java's six strategies, or a function.
///
/// All members must use the same one. Otherwise some queues are read twice and others not at all.
///
/// ```
/// use redstart_client::{Allocation, Queue};
///
/// let queues: Vec<Queue> = (0..8).map(|id| Queue::new("orders", "broker-a", id)).collect();
/// let members = ["A", "B", "C"].map(str::to_owned);
/// let mine = Allocation::Averagely.allocate("C", &queues, &members)?;
/// assert_eq!(mine, &queues[6..]);
/// # Ok::<_, redstart_client::AllocationError>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Allocation {
    /// Neighbouring queues, the first members one more where it does not divide: `AVG`.
    #[default]
    Averagely,
    /// One queue each in turn: `AVG_BY_CIRCLE`.
    ByCircle,
    /// These queues, whatever there is: `CONFIG`.
    Fixed(Vec<Queue>),
    /// Averagely the queues of brokers in these machine rooms, whose names have the form `room@broker`: `MACHINE_ROOM`.
    MachineRoom(BTreeSet<String>),
    /// Queues go to members of the same machine room, and those of rooms without a member to all: `MACHINE_ROOM_NEARBY`.
    Nearby {
        /// How queues are shared out within a room.
        within: Box<Allocation>,
        /// The rooms of brokers and members.
        rooms: MachineRooms,
    },
    /// By a ring of hashes: few queues move when a member comes or goes: `CONSISTENT_HASH`.
    ConsistentHash,
    /// A function of the application; see [`Allocation::by`].
    Function(AllocationFunction),
}

/// The machine rooms of brokers and members.
#[derive(Clone)]
pub struct MachineRooms {
    of_broker: Arc<MachineRoomOf>,
    of_member: Arc<MachineRoomOf>,
}

impl MachineRooms {
    /// The room of a broker by its name, and that of a member by its client id.
    pub fn new(
        of_broker: impl Fn(&str) -> String + Send + Sync + 'static,
        of_member: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> MachineRooms {
        MachineRooms { of_broker: Arc::new(of_broker), of_member: Arc::new(of_member) }
    }
}

impl fmt::Debug for MachineRooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineRooms").finish_non_exhaustive()
    }
}

/// An allocation by a function of the application.
#[derive(Clone)]
pub struct AllocationFunction {
    name: String,
    function: Arc<ByFunction>,
}

/// Why queues cannot be shared out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// A broker or a member is in no machine room.
    #[error("the machine room of {who} is not known")]
    NoRoom {
        /// The broker's name or the member's client id.
        who: String,
    },
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for AllocationFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Allocation {
    /// A function of the own client id, the queues and the client ids of all members, both sorted.
    pub fn by(
        name: impl Into<String>,
        function: impl Fn(&str, &[Queue], &[String]) -> Vec<Queue> + Send + Sync + 'static,
    ) -> Allocation {
        Allocation::Function(AllocationFunction { name: name.into(), function: Arc::new(function) })
    }

    /// RocketMQ's name of the strategy.
    pub fn name(&self) -> String {
        match self {
            Allocation::Averagely => "AVG".to_owned(),
            Allocation::ByCircle => "AVG_BY_CIRCLE".to_owned(),
            Allocation::Fixed(_) => "CONFIG".to_owned(),
            Allocation::MachineRoom(_) => "MACHINE_ROOM".to_owned(),
            Allocation::Nearby { within, .. } => format!("MACHINE_ROOM_NEARBY-{}", within.name()),
            Allocation::ConsistentHash => "CONSISTENT_HASH".to_owned(),
            Allocation::Function(function) => function.name.clone(),
        }
    }

    /// The queues of one member. None, if it is not among the members.
    pub fn allocate(
        &self,
        member: &str,
        queues: &[Queue],
        members: &[String],
    ) -> Result<Vec<Queue>, AllocationError> {
        let (mut queues, mut members) = (queues.to_vec(), members.to_vec());
        queues.sort();
        members.sort();
        members.dedup();
        let Some(index) = members.iter().position(|known| known == member) else {
            return Ok(Vec::new());
        };
        Ok(match self {
            Allocation::Averagely => averagely(&queues, members.len(), index),
            Allocation::ByCircle => queues.into_iter().skip(index).step_by(members.len()).collect(),
            Allocation::Fixed(fixed) => fixed.clone(),
            Allocation::MachineRoom(rooms) => machine_room(&queues, rooms, members.len(), index),
            Allocation::Nearby { within, rooms } => nearby(within, rooms, member, &queues, &members)?,
            Allocation::ConsistentHash => consistent_hash(member, &queues, &members),
            Allocation::Function(AllocationFunction { function, .. }) => function(member, &queues, &members),
        })
    }
}

fn averagely(queues: &[Queue], members: usize, index: usize) -> Vec<Queue> {
    let rest = queues.len() % members;
    let size = if queues.len() <= members { 1 } else { queues.len() / members + usize::from(index < rest) };
    let start = if index < rest { index * size } else { index * size + rest };
    queues.iter().skip(start).take(size).cloned().collect()
}

fn machine_room(queues: &[Queue], rooms: &BTreeSet<String>, members: usize, index: usize) -> Vec<Queue> {
    let in_room = |queue: &&Queue| {
        let mut parts = queue.broker.split('@');
        let (room, name, more) = (parts.next(), parts.next(), parts.next());
        name.is_some() && more.is_none() && room.is_some_and(|room| rooms.contains(room))
    };
    let kept: Vec<&Queue> = queues.iter().filter(in_room).collect();
    let (each, rest) = (kept.len() / members, kept.len() % members);
    let own = kept.iter().skip(each * index).take(each);
    let more = (rest > index).then(|| kept.get(each * members + index)).flatten();
    own.chain(more).map(|queue| (*queue).clone()).collect()
}

fn nearby(
    within: &Allocation,
    rooms: &MachineRooms,
    member: &str,
    queues: &[Queue],
    members: &[String],
) -> Result<Vec<Queue>, AllocationError> {
    let known = |room: String, who: &str| match room.is_empty() {
        true => Err(AllocationError::NoRoom { who: who.to_owned() }),
        false => Ok(room),
    };
    let mut queues_of: BTreeMap<String, Vec<Queue>> = BTreeMap::new();
    for queue in queues {
        let room = known((rooms.of_broker)(&queue.broker), &queue.broker)?;
        queues_of.entry(room).or_default().push(queue.clone());
    }
    let mut members_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in members {
        let room = known((rooms.of_member)(one), one)?;
        members_of.entry(room).or_default().push(one.clone());
    }
    let own = known((rooms.of_member)(member), member)?;
    let mut mine = Vec::new();
    if let (Some(queues), Some(members)) = (queues_of.remove(&own), members_of.get(&own)) {
        mine.extend(within.allocate(member, &queues, members)?);
    }
    for (_, queues) in queues_of.iter().filter(|(room, _)| !members_of.contains_key(*room)) {
        mine.extend(within.allocate(member, queues, members)?);
    }
    Ok(mine)
}

/// Where Java places a text on its ring: the first four bytes of the MD5 digest.
fn ring_place(text: &str) -> u32 {
    let digest: [u8; 16] = Md5::digest(text).into();
    digest.iter().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn consistent_hash(member: &str, queues: &[Queue], members: &[String]) -> Vec<Queue> {
    let mut ring: BTreeMap<u32, &str> = BTreeMap::new();
    for one in members {
        for node in 0..VIRTUAL_NODES {
            ring.insert(ring_place(&format!("{one}-{node}")), one);
        }
    }
    let owner = |queue: &Queue| {
        let Queue { topic, broker, id } = queue;
        // The text that Java's `MessageQueue.toString` makes.
        let key = format!("MessageQueue [topic={topic}, brokerName={broker}, queueId={id}]");
        let hash = ring_place(&key);
        ring.range(hash..).chain(&ring).next().map(|(_, owner)| *owner)
    };
    queues.iter().filter(|queue| owner(queue) == Some(member)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(broker: &str, count: i32) -> Vec<Queue> {
        (0..count).map(|id| Queue::new("T", broker, id)).collect()
    }

    fn members(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn ids(allocation: &Allocation, queues: &[Queue], all: &[&str]) -> Vec<Vec<i32>> {
        let members = members(all);
        let of = |member: &&str| allocation.allocate(member, queues, &members).expect("rooms are known");
        all.iter().map(|member| of(member).iter().map(|queue| queue.id).collect()).collect()
    }

    #[test]
    fn eight_queues_of_three_members_are_shared_out_as_java_does() {
        let rooms = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let three = ["A", "B", "C"];
        for (allocation, broker, expected) in [
            (Allocation::Averagely, "broker-a", [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]),
            (Allocation::ByCircle, "broker-a", [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]),
            (
                Allocation::MachineRoom(rooms(&["room1"])),
                "room1@broker-a",
                [vec![0, 1, 6], vec![2, 3, 7], vec![4, 5]],
            ),
            (Allocation::ConsistentHash, "broker-a", [vec![0, 1, 5, 6, 7], vec![3], vec![2, 4]]),
            (Allocation::Fixed(queues("x", 2)), "broker-a", [vec![0, 1], vec![0, 1], vec![0, 1]]),
            (Allocation::MachineRoom(rooms(&["room2"])), "room1@broker-a", [vec![], vec![], vec![]]),
            (Allocation::MachineRoom(rooms(&["room1"])), "room1@a@b", [vec![], vec![], vec![]]),
        ] {
            assert_eq!(ids(&allocation, &queues(broker, 8), &three), expected, "{allocation:?} {broker}");
        }
        let two = ids(&Allocation::Averagely, &queues("broker-a", 2), &three);
        assert_eq!(two, [vec![0], vec![1], vec![]]);
        let none = Allocation::Averagely.allocate("D", &queues("broker-a", 8), &members(&three));
        assert_eq!(none, Ok(Vec::new()), "who is not a member has nothing");
    }

    #[test]
    fn a_room_keeps_its_queues_while_it_has_a_member() {
        let room = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
        let allocation = Allocation::Nearby {
            within: Box::new(Allocation::Averagely),
            rooms: MachineRooms::new(room, room),
        };
        assert_eq!(allocation.name(), "MACHINE_ROOM_NEARBY-AVG");
        let all: Vec<Queue> = ["r1@b", "r2@b", "r3@b"].iter().flat_map(|broker| queues(broker, 4)).collect();
        let of = |member: &str, members: &[String]| {
            let mine = allocation.allocate(member, &all, members).expect("rooms are known");
            mine.iter().map(|queue| format!("{}{}", &queue.broker[..2], queue.id)).collect::<Vec<_>>()
        };
        let some = members(&["r1@x", "r1@y", "r2@z"]);
        assert_eq!(of("r1@x", &some), ["r10", "r11", "r30", "r31"]);
        assert_eq!(of("r1@y", &some), ["r12", "r13", "r32"]);
        assert_eq!(of("r2@z", &some), ["r20", "r21", "r22", "r23", "r33"]);
        let nowhere = MachineRooms::new(room, |_| String::new());
        let allocation = Allocation::Nearby { within: Box::new(Allocation::Averagely), rooms: nowhere };
        let error = allocation.allocate("r1@x", &all, &some).expect_err("no room");
        assert_eq!(error, AllocationError::NoRoom { who: "r1@x".to_owned() });
    }

    #[test]
    fn every_queue_has_exactly_one_reader() {
        let room = |name: &str| if name.contains('1') { "one".to_owned() } else { "two".to_owned() };
        let nearby =
            |within| Allocation::Nearby { within: Box::new(within), rooms: MachineRooms::new(room, room) };
        let rooms: BTreeSet<String> = BTreeSet::from(["r1".to_owned(), "r2".to_owned()]);
        for allocation in [
            Allocation::Averagely,
            Allocation::ByCircle,
            Allocation::MachineRoom(rooms),
            Allocation::ConsistentHash,
            nearby(Allocation::Averagely),
            nearby(Allocation::ConsistentHash),
            Allocation::by(
                "first",
                |me, queues, members| {
                    if members[0] == me { queues.to_vec() } else { Vec::new() }
                },
            ),
        ] {
            for count in 0..20 {
                for readers in 1..12 {
                    let all: Vec<Queue> =
                        ["r1@b1", "r2@b"].iter().flat_map(|broker| queues(broker, count)).collect();
                    let members: Vec<String> = (0..readers).map(|n| format!("10.0.0.{n}@{n}")).collect();
                    let mut given: Vec<Queue> = members
                        .iter()
                        .flat_map(|one| allocation.allocate(one, &all, &members).expect("rooms are known"))
                        .collect();
                    given.sort();
                    assert_eq!(given, all, "{allocation:?} with {readers} readers");
                }
            }
        }
    }
}
