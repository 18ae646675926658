//! How much a producer may have on its way.

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::SendError;

/// Bounds of messages and bytes that wait for their answers.
#[derive(Debug)]
pub(crate) struct Limit {
    messages: Semaphore,
    messages_max: u32,
    bytes: Semaphore,
    bytes_max: u32,
}

/// Counts some messages and their bytes as on their way, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit<'a> {
    _messages: SemaphorePermit<'a>,
    _bytes: SemaphorePermit<'a>,
}

impl Limit {
    pub fn new(messages: u32, bytes: u32) -> Limit {
        Limit {
            messages: Semaphore::new(messages as usize),
            messages_max: messages,
            bytes: Semaphore::new(bytes as usize),
            bytes_max: bytes,
        }
    }

    /// Waits for room. What is larger than the whole limit takes all of it, and goes alone.
    pub async fn take(
        &self,
        messages: usize,
        bytes: usize,
        deadline: Instant,
    ) -> Result<InFlightPermit<'_>, SendError> {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX).min(self.messages_max);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max);
        if let (Ok(_messages), Ok(_bytes)) =
            (self.messages.try_acquire_many(messages), self.bytes.try_acquire_many(bytes))
        {
            return Ok(InFlightPermit { _messages, _bytes });
        }
        let began = Instant::now();
        let both = async {
            let messages = self.messages.acquire_many(messages).await.map_err(|_| SendError::ShutDown)?;
            let bytes = self.bytes.acquire_many(bytes).await.map_err(|_| SendError::ShutDown)?;
            Ok(InFlightPermit { _messages: messages, _bytes: bytes })
        };
        let late = |_| SendError::Backpressure { messages: self.on_their_way(), within: began.elapsed() };
        tokio::time::timeout_at(deadline, both).await.map_err(late)?
    }

    pub fn on_their_way(&self) -> usize {
        (self.messages_max as usize).saturating_sub(self.messages.available_permits())
    }

    /// Waits until nothing is on its way, or the time is over; what is left then. Nothing is taken any more.
    pub async fn close(&self, deadline: Instant) -> usize {
        let all = self.messages.acquire_many(self.messages_max);
        let left = match tokio::time::timeout_at(deadline, all).await {
            Ok(_) => 0,
            Err(_) => self.on_their_way(),
        };
        self.messages.close();
        self.bytes.close();
        left
    }

    pub fn is_closed(&self) -> bool {
        self.messages.is_closed()
    }
}

/// A limit that makes sense.
pub(crate) fn faults(messages: u32, bytes: u32, faults: &mut Vec<String>) {
    const BYTES_MIN: u32 = 1 << 10;
    if messages == 0 {
        faults.push("at least one message must be allowed on its way".to_owned());
    }
    if bytes < BYTES_MIN {
        faults.push(format!("{bytes} bytes on their way are too few, the least is {BYTES_MIN}"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_and_bytes_are_bounded_and_the_wait_ends() {
        let soon = || Instant::now() + Duration::from_millis(50);
        let limit = Limit::new(2, 10_000);
        let one = limit.take(1, 9000, soon()).await.expect("room");
        let error = limit.take(1, 2000, soon()).await.expect_err("too many bytes");
        assert_eq!(error, SendError::Backpressure { messages: 1, within: Duration::from_millis(50) });
        let two = limit.take(1, 1000, soon()).await.expect("room");
        assert!(limit.take(1, 0, soon()).await.is_err(), "too many messages");
        drop(one);
        drop(limit.take(1, 9000, soon()).await.expect("room again"));
        drop(two);
        drop(limit.take(5, 99_999, soon()).await.expect("what is larger than the limit goes alone"));
        assert_eq!(limit.on_their_way(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_waits_for_what_is_on_its_way() {
        let soon = || Instant::now() + Duration::from_millis(50);
        let limit = Limit::new(2, 10_000);
        let permit = limit.take(1, 1, soon()).await.expect("room");
        assert_eq!(limit.close(soon()).await, 1, "one is left");
        assert_eq!(limit.take(1, 1, soon()).await.expect_err("closed"), SendError::ShutDown);
        drop(permit);
        let limit = Limit::new(2, 10_000);
        assert_eq!(limit.close(soon()).await, 0);
        assert!(limit.is_closed());
    }
}
