//! Replies that are sent when a decision has its outcome: when its frame is durable, with `flush = "async"` when it is appended.

use std::collections::{BTreeMap, VecDeque};

use redstart_engine::{Outcome, SendReceipt, Ticket};

use super::{error::SendFailure, pending_bytes::Permit, request::SendReply};

/// The replies that are not sent yet, by ticket. Tickets ascend, so the list is sorted.
#[derive(Default)]
pub(super) struct PendingReplies {
    by_ticket: VecDeque<(Ticket, PendingReply)>,
    /// Replies to senders of a duplicate: they get the result of the first message.
    duplicates: BTreeMap<Ticket, Vec<SendReply>>,
}

enum PendingReply {
    /// A batch has one outcome for each of its messages.
    Send {
        expected: usize,
        receipts: Vec<SendReceipt>,
        reply: SendReply,
        _permit: Permit,
    },
    Change(Box<dyn FnOnce(Outcome) + Send>),
}

impl PendingReplies {
    pub fn add_send(&mut self, ticket: Ticket, expected: usize, reply: SendReply, permit: Permit) {
        let receipts = Vec::with_capacity(expected);
        self.by_ticket.push_back((ticket, PendingReply::Send { expected, receipts, reply, _permit: permit }));
    }

    pub fn add_duplicate(&mut self, of: Ticket, reply: SendReply) {
        self.duplicates.entry(of).or_default().push(reply);
    }

    pub fn add_change(&mut self, ticket: Ticket, answer: Box<dyn FnOnce(Outcome) + Send>) {
        self.by_ticket.push_back((ticket, PendingReply::Change(answer)));
    }

    /// Sends the replies of decisions that have their outcome.
    pub fn resolve(&mut self, outcomes: Vec<(Ticket, Outcome)>) {
        for (ticket, outcome) in outcomes {
            self.resolve_one(ticket, outcome);
        }
    }

    fn resolve_one(&mut self, ticket: Ticket, outcome: Outcome) {
        // Outcomes come in the order of tickets, except that a refused batch overtakes frames that are not durable yet.
        let Ok(at) = self.by_ticket.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else { return };
        let result = match (&mut self.by_ticket[at].1, outcome) {
            (PendingReply::Send { expected, receipts, .. }, Outcome::Stored(receipt)) => {
                receipts.push(receipt);
                if receipts.len() < *expected {
                    return;
                }
                Ok(std::mem::take(receipts))
            }
            (PendingReply::Send { .. }, Outcome::Refused(why)) => Err(SendFailure::Log(why)),
            (PendingReply::Send { .. }, Outcome::Done) => return,
            (PendingReply::Change(_), outcome) => {
                if let Some((_, PendingReply::Change(answer))) = self.by_ticket.remove(at) {
                    answer(outcome);
                }
                return;
            }
        };
        for reply in self.duplicates.remove(&ticket).unwrap_or_default() {
            drop(reply.send(result.clone()));
        }
        if let Some((_, PendingReply::Send { reply, .. })) = self.by_ticket.remove(at) {
            // The caller may have given up; the message is stored all the same.
            drop(reply.send(result));
        }
    }
}
