//! The end of a run: the faults are over, consumers take and ack everything. Then nothing may be missing and no caller may
//! still wait.

use std::{collections::BTreeMap, time::Duration};

use redstart_engine::{DLQ_ORIGIN_MESSAGE_ID, Filter, Pull, QueueId, QueueOffset, fetch};

use super::{
    ShardWorld,
    clients::Unacked,
    model::{GROUPS, Group},
};
use crate::oracle::{Checked, Violation, ensure};

pub const DELIVERED: &str = "after the faults everything acknowledged is delivered";
pub const ALL_ANSWERED: &str = "after the faults every caller is answered";
pub const EARNED: &str = "a message becomes a dead letter only after its attempts";

const ROUNDS_MAX: usize = 200;

impl ShardWorld {
    pub(super) fn drain(&mut self) -> Checked {
        self.say("drain");
        self.end_faults();
        self.advance(Duration::from_secs(5))?;
        let mut quiet = 0;
        for round in 0.. {
            ensure(round < ROUNDS_MAX, DELIVERED, || "consumers do not come to an end".to_owned())?;
            self.take_checks()?;
            for number in self.open_transactions() {
                self.end(number, true);
            }
            let before = self.model.deliveries;
            for group in GROUPS {
                self.pop(group, Duration::from_secs(1), Duration::from_secs(30));
            }
            self.advance(Duration::from_secs(2))?;
            let unacked: Vec<Unacked> = std::mem::take(&mut self.clients.unacked);
            unacked.into_iter().for_each(|unacked| self.ack(unacked));
            self.settle()?;
            quiet = if self.model.deliveries == before { quiet + 1 } else { 0 };
            match quiet {
                0 => {}
                // What consumers kept comes back after at most 20 minutes.
                1 | 2 => self.advance(Duration::from_secs(1_300))?,
                _ => break,
            }
        }
        self.advance(Duration::from_secs(310))?;
        let open = &self.clients;
        ensure(open.nothing_is_open(), ALL_ANSWERED, || {
            format!("{} sends, {} pops, {} ends are open", open.sends.len(), open.pops.len(), open.ends.len())
        })?;
        self.check_delivered()
    }

    fn check_delivered(&mut self) -> Checked {
        let log_start = self.log_start();
        let dead = self.dead_letters()?;
        for group in GROUPS {
            for (number, known) in self.model.messages.iter().enumerate() {
                let removed = known.receipt.is_none_or(|receipt| receipt.position.0 < log_start);
                if !known.promised() || !group.wants(known) || removed {
                    continue;
                }
                let turn = self.model.turns.get(&(group, number)).copied().unwrap_or_default();
                let dead = group == Group::Plain && dead.contains_key(&number);
                ensure(turn.acked || dead, DELIVERED, || {
                    format!("{group:?} never acked {number:X}: {turn:?}, {known:?}, log from {log_start}")
                })?;
            }
        }
        let slack = self.model.slack.get(&Group::Plain).copied().unwrap_or(0);
        for number in dead.into_keys() {
            let received = self.model.turns.get(&(Group::Plain, number)).map_or(0, |turn| turn.received);
            ensure(received + slack > Group::Plain.retries_max(), EARNED, || {
                format!("{number:X} is a dead letter after {received} deliveries")
            })?;
        }
        Ok(())
    }

    /// The dead letters of the group with few attempts, by the number of their message.
    fn dead_letters(&mut self) -> Result<BTreeMap<usize, QueueOffset>, Violation> {
        let topic = Group::Plain.name().dead_letter_topic();
        let mut found = BTreeMap::new();
        let reader = self.handle().reader();
        let mut offset = QueueOffset(0);
        loop {
            let pulled = self.shard().with_engine(|engine| {
                let pull = Pull {
                    topic: &topic,
                    queue: QueueId(0),
                    offset,
                    max: 32,
                    bytes_max: 1 << 20,
                    filter: &Filter::All,
                };
                engine.pull(&pull)
            });
            // Without dead letters there is no such topic.
            let Ok(pulled) = pulled else { return Ok(found) };
            for message in &pulled.messages {
                let Ok(fetched) = fetch(&*reader, message.position, message.size) else { continue };
                let Ok(view) = fetched.message() else { continue };
                let id = view.property(DLQ_ORIGIN_MESSAGE_ID).unwrap_or_default();
                found.extend(usize::from_str_radix(id, 16).ok().map(|number| (number, message.offset)));
            }
            if pulled.next == offset {
                return Ok(found);
            }
            offset = pulled.next;
        }
    }
}
