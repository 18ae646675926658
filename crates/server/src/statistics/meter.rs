//! Messages and bytes over the last ten seconds to the last day, from samples of two counters.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redstart_engine::Timestamp;

/// The age that is assumed for a meter without samples; a meter gets its first sample within this time.
const AGE_BEFORE_FIRST_SAMPLE: Duration = Duration::from_secs(10);

/// The time over which a rate is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    TenSeconds,
    Minute,
    TenMinutes,
    Hour,
    Day,
}

impl Span {
    const ALL: [Span; 5] = [Span::TenSeconds, Span::Minute, Span::TenMinutes, Span::Hour, Span::Day];

    fn length(self) -> Duration {
        Duration::from_secs(match self {
            Span::TenSeconds => 10,
            Span::Minute => 60,
            Span::TenMinutes => 600,
            Span::Hour => 3600,
            Span::Day => 24 * 3600,
        })
    }

    /// Time between samples. The start of a span is exact to about a sixth of it, of a day to the hour.
    fn step(self) -> Duration {
        match self {
            Span::TenSeconds => Duration::from_secs(5),
            Span::Day => Duration::from_secs(3600),
            _ => self.length() / 6,
        }
    }
}

/// What was counted over a span, or since the oldest sample if that is more recent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sum {
    pub messages: u64,
    pub bytes: u64,
    /// Never less than 1.
    pub seconds: f64,
}

impl Sum {
    pub fn per_second(&self) -> f64 {
        self.messages as f64 / self.seconds.max(1.0)
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: Timestamp,
    messages: u64,
    bytes: u64,
}

/// Counts messages and their bytes.
#[derive(Debug, Default)]
pub struct Meter {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Oldest first, one list for each span.
    samples: Mutex<[VecDeque<Sample>; Span::ALL.len()]>,
}

impl Meter {
    pub fn add(&self, messages: usize, bytes: usize) {
        self.messages.fetch_add(messages as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Messages since the start.
    pub fn count(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn sample(&self, now: Timestamp) {
        let sample = Sample { at: now, messages: self.count(), bytes: self.bytes() };
        for (span, samples) in Span::ALL.iter().zip(self.samples().iter_mut()) {
            let Some(last) = samples.back() else {
                samples.push_back(Sample { at: now.before(AGE_BEFORE_FIRST_SAMPLE), messages: 0, bytes: 0 });
                continue;
            };
            if now.since(last.at) >= span.step() {
                samples.push_back(sample);
            }
            // The oldest sample that is kept is at the start of the span, or up to one step before it.
            let start = now.before(span.length());
            while samples.get(1).is_some_and(|second| second.at <= start) {
                samples.pop_front();
            }
        }
    }

    pub fn over(&self, span: Span, now: Timestamp) -> Sum {
        let samples = self.samples();
        let [messages, bytes] = [self.count(), self.bytes()];
        let Some(oldest) = samples[span as usize].front() else {
            return Sum { messages, bytes, seconds: AGE_BEFORE_FIRST_SAMPLE.as_secs_f64() };
        };
        Sum {
            messages: messages - oldest.messages,
            bytes: bytes - oldest.bytes,
            seconds: now.since(oldest.at).as_secs_f64().max(1.0),
        }
    }

    /// Whether samples reach back a day.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        let oldest = self.samples()[Span::Day as usize].front().map(|sample| sample.at);
        oldest.is_some_and(|at| now.since(at) >= Span::Day.length())
    }

    fn samples(&self) -> MutexGuard<'_, [VecDeque<Sample>; Span::ALL.len()]> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_over_its_span_and_old_samples_are_dropped() {
        let meter = Meter::default();
        let at = |seconds: u64| Timestamp(1_000_000_000 + seconds * 1000);
        meter.sample(at(0));
        for n in 1..=6000 {
            meter.add(2, 20);
            if n % 10 == 0 {
                meter.sample(at(n));
            }
        }
        let over = |span| meter.over(span, at(6000));
        assert_eq!(over(Span::Minute), Sum { messages: 120, bytes: 1200, seconds: 60.0 });
        assert_eq!(over(Span::TenSeconds).messages, 20);
        let hour = over(Span::Hour);
        assert!((7200..7200 + 1200).contains(&hour.messages), "as far as a step further: {hour:?}");
        assert_eq!(hour.per_second(), 2.0);
        assert_eq!(over(Span::Day).messages, 12_000, "as far as samples reach back");
        assert_eq!(meter.over(Span::Minute, at(6060)).per_second(), 1.0, "silence counts");
        let kept: usize = meter.samples().iter().map(VecDeque::len).sum();
        assert!(kept < 40, "{kept}");
    }

    #[test]
    fn what_was_never_sampled_is_counted_from_the_start() {
        let meter = Meter::default();
        meter.add(3, 30);
        assert_eq!(meter.over(Span::Day, Timestamp(5)).messages, 3);
        meter.sample(Timestamp(1_000_000));
        meter.sample(Timestamp(1_010_000));
        assert_eq!(meter.over(Span::Day, Timestamp(1_020_000)).messages, 3);
    }
}
