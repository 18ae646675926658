//! The texts by which pop clients know what they were given and how to give it back.
//!
//! A client builds the handle of each message itself, out of the answer's fields, and sends it with its ack: eight fields
//! with one blank between: start offset of the batch, pop time, invisible time, revive queue, mark of the topic, broker
//! name, queue id, queue offset. (A ninth may follow.)

/// What a handle says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopHandle {
    pub start_offset: i64,
    pub pop_time: i64,
    pub invisible_time: i64,
    pub revive_queue: i32,
    pub mark: u8,
    pub broker: String,
    pub queue_id: i32,
    pub queue_offset: i64,
}

impl PopHandle {
    pub fn read(text: &str) -> Option<PopHandle> {
        let mut fields = text.split(' ');
        let mut next = || fields.next();
        Some(PopHandle {
            start_offset: next()?.parse().ok()?,
            pop_time: next()?.parse().ok()?,
            invisible_time: next()?.parse().ok()?,
            revive_queue: next()?.parse().ok()?,
            mark: next()?.parse().ok()?,
            broker: next()?.to_owned(),
            queue_id: next()?.parse().ok()?,
            queue_offset: next()?.parse().ok()?,
        })
    }

    pub fn text(&self) -> String {
        let PopHandle {
            start_offset,
            pop_time,
            invisible_time,
            revive_queue,
            mark,
            broker,
            queue_id,
            queue_offset,
        } = self;
        format!(
            "{start_offset} {pop_time} {invisible_time} {revive_queue} {mark} {broker} {queue_id} {queue_offset}"
        )
    }
}

/// The offsets of one answer, queue by queue, in the order of its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PopOffsets(Vec<(i32, Vec<i64>)>);

impl PopOffsets {
    pub fn add(&mut self, queue: i32, offset: i64) {
        match self.0.iter_mut().find(|(known, _)| *known == queue) {
            Some((_, offsets)) => offsets.push(offset),
            None => self.0.push((queue, vec![offset])),
        }
    }

    /// `0 queue start;…`: where each queue's batch begins.
    pub fn start_info(&self) -> String {
        self.info(|offsets| offsets.iter().min().copied().unwrap_or_default().to_string())
    }

    /// `0 queue offset,offset;…`
    pub fn message_info(&self) -> String {
        self.info(|offsets| offsets.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
    }

    fn info(&self, of: impl Fn(&[i64]) -> String) -> String {
        let items = self.0.iter().map(|(queue, offsets)| format!("0 {queue} {}", of(offsets)));
        items.collect::<Vec<_>>().join(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_comes_back_and_nonsense_is_none() {
        let text = "100 1700000000000 60000 3 0 broker-a 2 105";
        let handle = PopHandle::read(text).unwrap();
        assert_eq!((handle.queue_offset, handle.mark), (105, 0));
        assert_eq!(handle.text(), text);
        assert_eq!(PopHandle::read(&format!("{text} 77")).unwrap(), handle, "a ninth field is ignored");
        for bad in ["", "1 2 3", "a b c d e f g h", "1 2 3 4 5 b 6", "99999999999999999999 1 1 1 0 b 1 1"] {
            assert_eq!(PopHandle::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn each_queue_is_named_once() {
        let mut offsets = PopOffsets::default();
        for (queue, offset) in [(1, 10), (0, 5), (1, 12)] {
            offsets.add(queue, offset);
        }
        assert_eq!(offsets.start_info(), "0 1 10;0 0 5");
        assert_eq!(offsets.message_info(), "0 1 10,12;0 0 5");
    }
}
