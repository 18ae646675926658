//! The answers that clients get when a decision is durable or refused.

use std::time::Duration;

use redstart_engine::{
    GroupId, GroupName, Outcome, QueueKey, QueueOffset, SendReceipt, Ticket, TopicName, Visibility,
};

use crate::{
    oracle::{
        Checked, Model, configs, dedup,
        model::{End, Fate},
        turn::Acked,
        visibility,
    },
    world::World,
};

/// The request behind a ticket.
#[derive(Debug, Clone)]
pub enum Proposed {
    /// Messages, and how many of them have been answered.
    Send {
        numbers: Vec<usize>,
        answered: usize,
    },
    End {
        number: usize,
        commit: bool,
    },
    Recall {
        number: usize,
    },
    Config {
        name: String,
    },
    SendBack {
        at: usize,
    },
    Forward,
}

/// A fact on its way to the log.
#[derive(Debug, Clone)]
pub enum Note {
    Subscribed { group: GroupId, queue: QueueKey },
    Delivered { group: GroupId, queue: QueueKey, offset: QueueOffset, attempt: u16, life: u32 },
    Acked { group: GroupId, queue: QueueKey, offset: QueueOffset, life: u32 },
    Changed { group: GroupId, queue: QueueKey, offset: QueueOffset },
}

impl Model {
    /// The frame with this fact is durable.
    pub fn durable(&mut self, note: &Note) {
        let (group, queue, offset) = match note {
            Note::Subscribed { group, queue } => {
                if let Some(subscription) = self.subscriptions.get_mut(&(*group, queue.topic)) {
                    subscription.durable = true;
                }
                return;
            }
            Note::Delivered { group, queue, offset, .. }
            | Note::Acked { group, queue, offset, .. }
            | Note::Changed { group, queue, offset } => (*group, *queue, *offset),
        };
        let turn = self.turn(group, queue, offset);
        turn.outstanding = turn.outstanding.saturating_sub(1);
        match note {
            Note::Delivered { attempt, life, .. } if *life == turn.life && !turn.rewound => {
                turn.low = turn.low.max((*attempt).min(turn.high));
            }
            Note::Acked { life, .. } if *life == turn.life && turn.acked == Acked::Pending => {
                turn.acked = Acked::Durable;
            }
            _ => {}
        }
    }
}

impl World {
    pub fn acknowledged(&mut self, outcomes: Vec<(Ticket, Outcome)>) -> Checked {
        for (ticket, outcome) in outcomes {
            let Some(mut proposed) = self.tickets.remove(&ticket) else { continue };
            match (&mut proposed, outcome) {
                (Proposed::Send { numbers, answered }, Outcome::Stored(receipt)) => {
                    self.stored(numbers[*answered], receipt)?;
                    *answered += 1;
                    if *answered < numbers.len() {
                        self.tickets.insert(ticket, proposed);
                    }
                }
                (Proposed::End { number, commit }, _) => {
                    self.model.messages[*number].end = Some(End::Acknowledged { commit: *commit });
                }
                (Proposed::Recall { number }, _) => {
                    self.model.messages[*number].recall = Some(Fate::Stored);
                    let place = self.model.messages[*number].place;
                    crate::oracle::ensure(place.is_none(), visibility::RECALLED, || {
                        format!("message {number:X} is at {place:?}, and its recall was acknowledged")
                    })?;
                }
                (Proposed::Config { name }, _) => self.model.configs.acknowledged(name, ticket),
                (Proposed::SendBack { at }, _) => self.model.sent_back[*at].fate = Fate::Stored,
                (Proposed::Forward | Proposed::Send { .. }, _) => {}
            }
        }
        Ok(())
    }

    fn stored(&mut self, number: usize, receipt: SendReceipt) -> Checked {
        let known = &mut self.model.messages[number];
        known.fate = Fate::Stored;
        known.receipt = Some(receipt);
        visibility::check_receipt(known, receipt.visibility)?;
        let window = self.dedup_window(number);
        if let Some(window) = window {
            dedup::check_stored(&self.model, number, &receipt, window)?;
        }
        if let Visibility::Visible(offset) = receipt.visibility {
            crate::oracle::places::check_once(&mut self.model, number, receipt.queue, offset)?;
        }
        Ok(())
    }

    fn dedup_window(&mut self, number: usize) -> Option<Duration> {
        let name = self.model.messages[number].topic_name.clone();
        self.engine().topic(&name)?.config.dedup_window
    }

    /// The log refused the frame. `certain` when nothing of it can have happened.
    pub fn refused(&mut self, ticket: Ticket, _: &Outcome, certain: bool) {
        let Some(proposed) = self.tickets.remove(&ticket) else { return };
        let fate = if certain { Fate::Refused } else { Fate::Unknown };
        match proposed {
            Proposed::Send { numbers, .. } => {
                for number in numbers {
                    self.model.messages[number].fate = fate;
                }
            }
            Proposed::End { number, commit } => {
                let end = if certain { End::Open } else { End::Unknown { commit } };
                self.model.messages[number].end = Some(end);
            }
            Proposed::Recall { number } => self.model.messages[number].recall = Some(fate),
            Proposed::Config { name } if certain => self.model.configs.refused(&name, ticket),
            Proposed::SendBack { at } => self.model.sent_back[at].fate = fate,
            Proposed::Config { .. } | Proposed::Forward => {}
        }
    }

    /// After a restart, what is in force is one of the things that may be.
    pub fn check_configs(&mut self) -> Checked {
        for name in self.model.configs.names() {
            let found = match name.strip_prefix("group ") {
                Some(group) => {
                    let group = GroupName::new(group).ok();
                    group
                        .and_then(|name| self.engine().group(&name))
                        .and_then(|view| configs::text(&view.config))
                }
                None => {
                    let topic = TopicName::new(name.as_str()).ok();
                    topic
                        .and_then(|name| self.engine().topic(&name))
                        .and_then(|view| configs::text(&view.config))
                }
            };
            self.model.configs.restarted(&name, found)?;
        }
        Ok(())
    }
}
