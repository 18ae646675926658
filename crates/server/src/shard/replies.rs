use std::collections::{BTreeMap, VecDeque};

use redstart_engine::{Outcome, SendReceipt, Ticket};

use super::{budget::Permit, handle::SendFailure, request::SendReply};

/// Callers that wait for their decision to be durable. Tickets grow, and outcomes come in their order.
#[derive(Default)]
pub(super) struct Replies {
    waiting: VecDeque<(Ticket, Waiting)>,
    /// Senders of a duplicate, who get the answer of the first.
    duplicates: BTreeMap<Ticket, Vec<SendReply>>,
}

enum Waiting {
    /// A batch has one outcome for each of its messages.
    Send {
        expected: usize,
        receipts: Vec<SendReceipt>,
        reply: SendReply,
        _permit: Permit,
    },
    Change(Box<dyn FnOnce(Outcome) + Send>),
}

impl Replies {
    pub fn add_send(&mut self, ticket: Ticket, expected: usize, reply: SendReply, permit: Permit) {
        let receipts = Vec::with_capacity(expected);
        self.waiting.push_back((ticket, Waiting::Send { expected, receipts, reply, _permit: permit }));
    }

    pub fn add_duplicate(&mut self, of: Ticket, reply: SendReply) {
        self.duplicates.entry(of).or_default().push(reply);
    }

    pub fn add_change(&mut self, ticket: Ticket, answer: Box<dyn FnOnce(Outcome) + Send>) {
        self.waiting.push_back((ticket, Waiting::Change(answer)));
    }

    /// Answers everyone whose decision has an outcome.
    pub fn settle(&mut self, outcomes: Vec<(Ticket, Outcome)>) {
        for (ticket, outcome) in outcomes {
            self.settle_one(ticket, outcome);
        }
    }

    fn settle_one(&mut self, ticket: Ticket, outcome: Outcome) {
        // A refused batch overtakes frames that are on their way; everything else comes in order.
        let Ok(at) = self.waiting.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else { return };
        let result = match (&mut self.waiting[at].1, outcome) {
            (Waiting::Send { expected, receipts, .. }, Outcome::Stored(receipt)) => {
                receipts.push(receipt);
                if receipts.len() < *expected {
                    return;
                }
                Ok(std::mem::take(receipts))
            }
            (Waiting::Send { .. }, Outcome::Refused(why)) => Err(SendFailure::Log(why)),
            (Waiting::Send { .. }, Outcome::Done) => return,
            (Waiting::Change(_), outcome) => {
                if let Some((_, Waiting::Change(answer))) = self.waiting.remove(at) {
                    answer(outcome);
                }
                return;
            }
        };
        for reply in self.duplicates.remove(&ticket).unwrap_or_default() {
            drop(reply.send(result.clone()));
        }
        if let Some((_, Waiting::Send { reply, .. })) = self.waiting.remove(at) {
            // The caller may have lost interest; the message is stored all the same.
            drop(reply.send(result));
        }
    }
}
