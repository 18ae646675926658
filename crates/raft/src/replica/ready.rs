//! What `raft` gives out: written, sent and applied in the order that makes it safe.

use protobuf::Message as _;
use raft::{
    StateRole,
    eraftpb::{ConfChangeV2, Entry, EntryType, Message},
};

use super::{Failure, Replica};
use crate::{
    catch_up::CatchUp,
    config::Moment,
    message::Place,
    planted::{self, planted},
    vote_file::Vote,
};

/// What waits until the log is durable up to a frame.
#[derive(Debug)]
pub(super) struct Unpersisted {
    number: u64,
    last: u64,
    since: Moment,
    messages: Vec<Message>,
}

impl Replica {
    /// Does everything that `raft` has given out, until there is no more.
    pub(super) fn drive(&mut self) -> Result<(), Failure> {
        while self.raw.has_ready() {
            let mut ready = self.raw.ready();
            let remembered = self.file.stored();
            if ready.hs().is_some_and(|state| (state.term, state.vote) != (remembered.term, remembered.vote))
            {
                self.save()?;
            }
            self.write(ready.take_entries())?;
            for read in ready.take_read_states() {
                self.heartbeat_answered(&read.request_ctx);
            }
            let messages = ready.take_messages();
            self.send(messages);
            let messages = ready.take_persisted_messages();
            let (number, last, since) = (ready.number(), self.appended().0, self.now);
            let committed = ready.take_committed_entries();
            self.raw.advance_append_async(ready);
            self.unpersisted.push_back(Unpersisted { number, last, since, messages });
            self.apply(&committed)?;
            self.persist();
        }
        self.draw_patience_for_role();
        Ok(())
    }

    /// Writes frames: those of the leader where it has them, those that `raft` has made itself at the end.
    fn write(&mut self, entries: Vec<Entry>) -> Result<(), Failure> {
        for entry in entries {
            let index = entry.index;
            if entry.index <= self.appended().0 {
                if self.raw.store().recent(entry.index).is_some_and(|held| held.term == entry.term) {
                    self.raw.mut_store().last = index;
                    continue;
                }
                self.cut(entry.index - 1)?;
            }
            let store = self.raw.mut_store();
            match Place::of(&entry) {
                Some(place) => {
                    let place = planted::place(&self.config, place, store.log.as_ref());
                    store.copy(entry, place)?;
                }
                None => {
                    if entry.entry_type == EntryType::EntryNormal {
                        // A leader begins with a segment of its own. So a segment that was full once never gets frames of
                        // another leader, who knows nothing of the one that followed.
                        store.log.roll()?;
                    }
                    let timestamp = store.last_timestamp_ms();
                    store.append(entry.term, timestamp, entry.entry_type, entry.data)?;
                }
            }
            self.raw.mut_store().last = index;
        }
        Ok(())
    }

    /// Drops the frames after `last`: the leader has others.
    fn cut(&mut self, last: u64) -> Result<(), Failure> {
        if planted!(self.config, KeepConflictingTail) {
            return Ok(());
        }
        // So that what waits for these frames is true when it is sent.
        self.flusher.flush()?;
        self.unpersisted.iter_mut().for_each(|waiting| waiting.last = 0);
        self.raw.mut_store().truncate(last)?;
        Ok(())
    }

    fn send(&mut self, messages: Vec<Message>) {
        for mut message in messages {
            let store = self.raw.store();
            for entry in &mut message.entries {
                if entry.context.is_empty()
                    && let Some(written) = store.recent(entry.index)
                {
                    entry.context = written.context.clone();
                }
            }
            self.outbox.push(message);
        }
    }

    /// Tells `raft` what is durable by now, and sends what waited for that.
    pub(super) fn persist(&mut self) {
        let durable = planted::durable(&self.config, self.durable().0, self.log());
        let mut number = None;
        while let Some(waiting) = self.unpersisted.front()
            && waiting.last <= durable
        {
            number = Some(waiting.number);
            if let Some(waiting) = self.unpersisted.pop_front() {
                self.send(waiting.messages);
            }
        }
        if let Some(number) = number {
            self.raw.on_persist_ready(number);
        }
    }

    /// Since when something waits for the disk.
    pub(super) fn waits_for_disk_since(&self) -> Option<Moment> {
        self.unpersisted.front().map(|waiting| waiting.since)
    }

    /// Takes note of committed frames. Changes of the members take effect.
    fn apply(&mut self, committed: &[Entry]) -> Result<(), Failure> {
        let Some(last) = committed.last() else { return Ok(()) };
        let mut members_changed = false;
        for entry in committed {
            self.bytes_since_save += entry.data.len() as u64;
            if entry.entry_type == EntryType::EntryConfChangeV2 {
                let mut change = ConfChangeV2::default();
                change.merge_from_bytes(&entry.data).map_err(raft::Error::from)?;
                let members = self.raw.apply_conf_change(&change)?;
                self.raw.mut_store().memberships.push((entry.index, members));
                members_changed = true;
            }
        }
        self.raw.mut_store().committed = last.index;
        self.raw.advance_apply_to(last.index);
        self.raw.mut_store().forget(last.index);
        self.place_checkpoint()?;
        if members_changed || self.bytes_since_save >= self.config.floor_bytes {
            self.save()?;
        }
        let raft = &mut self.raw.raft;
        if raft.state == StateRole::Leader && !raft.promotable() {
            // It has committed its own removal.
            raft.become_follower(raft.term, raft::INVALID_ID);
        }
        Ok(())
    }

    /// Gives the checkpoint that this member was sent to its log, once it can be used.
    fn place_checkpoint(&mut self) -> Result<(), Failure> {
        let committed = self.raw.store().committed;
        if let Some(awaited) = self.awaited.take_if(|awaited| awaited.usable_at.0 <= committed) {
            // A start must not come back to before.
            self.save()?;
            self.log().checkpoints().save(awaited.checkpoint, &awaited.state)?;
            CatchUp::complete(self.storage.as_ref())?;
        }
        Ok(())
    }

    /// Writes the vote file.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let oldest = self.log().segments().first().map_or(1, |oldest| oldest.first.0);
        let mut vote = Vote {
            member: self.raw.raft.id,
            term: self.raw.raft.term,
            vote: self.raw.raft.vote,
            commit: self.raw.store().committed,
            memberships: self.raw.store().memberships.clone(),
        };
        vote.forget_before(oldest);
        self.raw.mut_store().memberships.clone_from(&vote.memberships);
        self.file.save(vote, &self.config)?;
        self.bytes_since_save = 0;
        Ok(())
    }

    /// A majority has answered the heartbeats that were sent with this context.
    fn heartbeat_answered(&mut self, context: &[u8]) {
        if let Ok(sent) = context.try_into().map(u64::from_le_bytes) {
            let sent = if planted!(self.config, LeaseFromAnswer) { self.now } else { Moment(sent) };
            self.lease.answered(self.raw.raft.term, sent, self.config.timing.lease);
        }
    }

    /// Sends heartbeats. Once a frame of the own term is committed, the answers of a majority prolong the lease.
    pub(super) fn send_heartbeats(&mut self) {
        if self.raw.raft.commit_to_current_term() {
            self.raw.read_index(self.now.0.to_le_bytes().to_vec());
        } else {
            self.raw.ping();
        }
    }

    /// Whether frames wait to become durable.
    pub(super) fn has_undurable_frames(&self) -> bool {
        self.appended() > self.durable()
    }
}
