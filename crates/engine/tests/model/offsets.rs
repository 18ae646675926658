//! Reading by offset and moving a group: the same on both sides.

use redstart_engine::*;

use super::{
    check::{Check, Harness, group_name, same_refusal, topic_name},
    ops::{Choice, To},
    reference::*,
};

impl Harness {
    /// Why a queue cannot be read.
    pub fn expected_queue(&self, topic: usize, queue: u32) -> Vec<&'static str> {
        let Some(topic) = self.reference.topic(&topic_name(topic)) else { return vec!["topic"] };
        let readable = self.reference.topics[topic].config.permission.read;
        let known = queue < self.reference.readable(topic);
        let faults = [("not readable", !readable), ("queue", !known)];
        faults.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    pub fn pull(&mut self, topic: usize, queue: u32, offset: u64, max: usize, choice: Choice) -> Check {
        let (name, filter) = (topic_name(topic), choice.filter());
        let (queue_id, offset) = (QueueId(queue), QueueOffset(offset));
        let pull = Pull { topic: &name, queue: queue_id, offset, max, bytes_max: 1 << 20, filter: &filter };
        let result = self.engine.pull(&pull);
        same_refusal("pull", &self.expected_queue(topic, queue), result.as_ref().err().map(offset_refusal))?;
        let (Ok(pulled), Some(topic)) = (result, self.reference.topic(&name)) else { return Ok(()) };
        let entries = self.reference.entries(topic, queue);
        let (mut next, mut expected) = (offset.0, Vec::new());
        while next < entries.len() as u64 && expected.len() < max {
            let message = &self.reference.stored[entries[next as usize].message].message;
            expected.extend(choice.may_pass(message.tag.as_deref()).then_some(next));
            next += 1;
        }
        let end = entries.len() as u64;
        let status = match (expected.is_empty(), offset.0 == end) {
            _ if offset.0 > end => PullStatus::OffsetMoved,
            (false, _) => PullStatus::Found,
            (true, true) => PullStatus::NoNewMessage,
            (true, false) => PullStatus::NoMatch,
        };
        let found: Vec<u64> = pulled.messages.iter().map(|message| message.offset.0).collect();
        let same =
            (pulled.status, pulled.next.0, pulled.min.0, pulled.end.0) == (status, next.min(end), 0, end);
        if same && found == expected {
            Ok(())
        } else {
            Err(format!("{pulled:?}, expected {status:?} {expected:?}"))
        }
    }

    fn expected_group(&self, group: usize, mut faults: Vec<&'static str>) -> Vec<&'static str> {
        faults.extend(self.reference.lasting_group(&group_name(group)).is_none().then_some("group"));
        faults
    }

    pub fn commit_offset(&mut self, group: usize, topic: usize, queue: u32, offset: u64) -> Check {
        let (by, of) = (group_name(group), topic_name(topic));
        let expected = self.expected_group(group, self.expected_queue(topic, queue));
        let result = self.engine.commit_offset(&by, &of, QueueId(queue), QueueOffset(offset));
        same_refusal("commit offset", &expected, result.as_ref().err().map(offset_refusal))?;
        if let (Ok(()), Some(group), Some(topic)) =
            (result, self.reference.group(&by), self.reference.topic(&of))
        {
            let levels = self.reference.levels(topic, queue);
            let to = offset.min(levels.len() as u64) as usize;
            self.reference.progress_mut(group, topic, queue).commit(to, &levels);
        }
        Ok(())
    }

    /// A pull consumer begins: what is in flight is left behind.
    pub fn pull_from(&mut self, group: usize, topic: usize, queue: u32) -> Check {
        let (by, of) = (group_name(group), topic_name(topic));
        let mut expected = self.expected_queue(topic, queue);
        expected.extend(self.reference.group(&by).is_none().then_some("group"));
        let result = self.engine.pull_from(&by, &of, QueueId(queue));
        same_refusal("pull from", &expected, result.as_ref().err().map(offset_refusal))?;
        let (Ok(found), Some(group), Some(topic)) =
            (result, self.reference.group(&by), self.reference.topic(&of))
        else {
            return Ok(());
        };
        let Some(progress) = self.reference.progress(group, topic, queue) else {
            return if found.is_none_or(|found| found.0 == 0) {
                Ok(())
            } else {
                Err(format!("pull from {found:?}"))
            };
        };
        let from = progress.pulls_from();
        let legal = match found {
            Some(found) => found.0 as usize == from,
            None => !progress.used,
        };
        if !legal {
            return Err(format!("pull from {found:?}, expected {from}: {progress:?}"));
        }
        let levels = self.reference.levels(topic, queue);
        let progress = self.reference.progress_mut(group, topic, queue);
        if found.is_some() && !progress.ordered && !progress.pulled && progress.has_flights(&levels) {
            progress.commit(from, &levels);
        }
        Ok(())
    }

    pub fn reset(&mut self, group: usize, topic: usize, queue: Option<u32>, to: To) -> Check {
        let (by, of) = (group_name(group), topic_name(topic));
        let now = self.reference.now;
        let expected = self.expected_group(group, self.expected_queue(topic, queue.unwrap_or(0)));
        let target = match to {
            To::Offset(offset) => ResetTo::Offset(QueueOffset(offset)),
            To::Ago(ms) => ResetTo::Time(Timestamp(now.saturating_sub(ms))),
            To::Earliest => ResetTo::Earliest,
            To::Latest => ResetTo::Latest,
        };
        let result = self.engine.reset(&by, &of, queue.map(QueueId), target);
        same_refusal("reset", &expected, result.as_ref().err().map(offset_refusal))?;
        let (Ok(found), Some(group), Some(topic)) =
            (result, self.reference.group(&by), self.reference.topic(&of))
        else {
            return Ok(());
        };
        let all: Vec<u32> =
            queue.map_or_else(|| (0..self.reference.readable(topic)).collect(), |queue| vec![queue]);
        let mut expected = Vec::new();
        for queue in all {
            let entries = self.reference.entries(topic, queue);
            let offset = match to {
                To::Offset(offset) => (offset as usize).min(entries.len()),
                To::Ago(ms) => first_at(entries, now.saturating_sub(ms)),
                To::Earliest => 0,
                To::Latest => entries.len(),
            };
            expected.push((QueueId(queue), QueueOffset(offset as u64)));
            let levels = self.reference.levels(topic, queue);
            self.reference.progress_mut(group, topic, queue).reset(offset, &levels);
        }
        if found == expected { Ok(()) } else { Err(format!("reset: {found:?}, expected {expected:?}")) }
    }
}

pub fn offset_refusal(error: &OffsetError) -> &'static str {
    match error {
        OffsetError::UnknownTopic { .. } => "topic",
        OffsetError::UnknownGroup { .. } => "group",
        OffsetError::NotReadable { .. } => "not readable",
        OffsetError::UnknownQueue { .. } => "queue",
        OffsetError::Index(_) => "other",
    }
}

/// The first message that became visible at or after a time.
pub fn first_at(entries: &[Visible], at: u64) -> usize {
    entries.iter().position(|entry| entry.stored_at >= at).unwrap_or(entries.len())
}
