//! Messages of a group's retry topic that come with a receive of another topic. The reference reads the whole retry topic each
//! time: a message there belongs to the topic it was sent to, and is nothing to receives of others.

use redstart_engine::*;

use super::{
    check::{Check, Harness, Next},
    ops::From,
    progress::{Flight, LEVELS, Place, Progress, Rules},
    reference::*,
};

impl Reference {
    /// The topic whose receives get a message from a retry topic; none when it is deleted, or the message was sent to the retry
    /// topic itself.
    fn home_in_retry_topic(&self, message: usize) -> Option<usize> {
        let home = self.stored[message].topic;
        let topic = &self.topics[home];
        (topic.alive && !topic.name.is_retry()).then_some(home)
    }

    /// The retry topic that receives of `topic` by the group look into.
    pub fn retry_topic(&self, group: usize, topic: usize) -> Option<usize> {
        self.topic(&self.groups[group].name.retry_topic()).filter(|retry| *retry != topic)
    }
}

/// What a message of the retry topic is to a receive.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Offer {
    /// In flight with its time over, or passed over by a receive of another topic.
    Due,
    New,
    None,
}

fn offer(progress: &Progress, offset: usize, rules: &Rules) -> Offer {
    match &progress.places[offset] {
        Place::Flight(flight)
            if !flight.ending
                && flight.visible_at <= rules.now
                && u32::from(flight.attempt) < rules.attempts_max =>
        {
            Offer::Due
        }
        Place::Ahead if offset < progress.cursors[0] => Offer::Due,
        Place::Ahead => Offer::New,
        Place::Flight(_) | Place::Done => Offer::None,
    }
}

impl Harness {
    /// Judges the messages that came out of the retry topic, and takes them over.
    pub fn judge_retries(
        &mut self,
        group: usize,
        topic: usize,
        retry: usize,
        max: usize,
        rules: &Rules,
        given: &[Delivery],
    ) -> Result<Next, String> {
        self.subscribe(group, retry, From::Earliest);
        self.check_deliveries(group, retry, given)?;
        let homes: Vec<Option<usize>> = self
            .reference
            .entries(retry, 0)
            .iter()
            .map(|entry| self.reference.home_in_retry_topic(entry.message))
            .collect();
        let before: Vec<u16> = self.reference.entries(retry, 0).iter().map(|entry| entry.attempt).collect();
        let subscription = self.reference.subscriptions.entry((group, retry)).or_default();
        subscription.by_topic = true;
        let progress = self.reference.progress_mut(group, retry, 0);
        (progress.ordered, progress.pulled) = (false, false);
        let end = homes.len();
        let offers: Vec<Offer> = (0..end).map(|offset| offer(progress, offset, rules)).collect();
        let ours = |offset: usize, wanted: Offer| homes[offset] == Some(topic) && offers[offset] == wanted;
        let full = given.len() == max;
        if given.len() > max {
            return Err(format!("{} retries, {max} were asked for", given.len()));
        }
        // What is due comes first, in any order; then what is new, in its order.
        let offsets: Vec<usize> = given.iter().map(|delivery| delivery.receipt.offset.0 as usize).collect();
        let due = offsets.iter().take_while(|offset| ours(**offset, Offer::Due)).count();
        let all_due = (0..end).filter(|offset| ours(*offset, Offer::Due)).count();
        let new: Vec<usize> = (0..end).filter(|offset| ours(*offset, Offer::New)).collect();
        let expected_new = if due < all_due { &[][..] } else { &new[..new.len().min(max - due)] };
        if offsets[due..] != *expected_new || (!full && due < all_due) {
            return Err(format!("retries {offsets:?}, of {all_due} due and {new:?} new: {offers:?}"));
        }
        for (delivery, offset) in given.iter().zip(&offsets) {
            let counted = progress.flight(*offset).map_or(0, |flight| flight.attempt);
            let attempt = counted.max(before[*offset]) + 1;
            if delivery.attempt != attempt {
                return Err(format!("attempt {attempt} was expected: {delivery:?}"));
            }
            progress.places[*offset] = Place::Flight(Flight {
                receipt: delivery.receipt,
                visible_at: rules.visible_at,
                attempt,
                attempt_id: None,
                given_back: false,
                ending: false,
            });
        }
        // What belongs to no topic any more is done when a receive has met it.
        let orphan = |offset: usize, met: Offer| homes[offset].is_none() && offers[offset] == met;
        let orphans: Vec<usize> = (0..end).filter(|offset| orphan(*offset, Offer::Due)).collect();
        if full && !orphans.is_empty() {
            // Whether it has met these depends on when they became due.
            return Ok(Next::Stop);
        }
        let cursor = match full {
            false => end.max(progress.cursors[0]),
            true => expected_new.last().map_or(progress.cursors[0], |last| last + 1),
        };
        let passed = (progress.cursors[0]..cursor).filter(|offset| orphan(*offset, Offer::New));
        for offset in passed.chain(orphans).collect::<Vec<_>>() {
            progress.places[offset] = Place::Done;
        }
        progress.used |= !given.is_empty() || cursor != progress.cursors[0];
        progress.cursors = [cursor; LEVELS];
        Ok(Next::Go)
    }

    /// A receive that waits is told when one of its retries is visible again.
    pub fn check_next_retry(
        &self,
        group: usize,
        topic: usize,
        retry: usize,
        found: Option<Timestamp>,
    ) -> Check {
        let Some(progress) = self.reference.progress(group, retry, 0) else { return Ok(()) };
        let entries = self.reference.entries(retry, 0);
        let is_its =
            |offset: usize| self.reference.home_in_retry_topic(entries[offset].message) == Some(topic);
        let flights = progress.flights().filter(|(offset, flight)| is_its(*offset) && !flight.ending);
        let next = flights.map(|(_, flight)| flight.visible_at).filter(|at| *at > self.reference.now).min();
        match next {
            Some(next) if found.is_none_or(|found| found.0 > next) => {
                Err(format!("next visible {found:?}, a retry is at {next}"))
            }
            _ => Ok(()),
        }
    }
}
