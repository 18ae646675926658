//! A limit on HTTP/2 control frames (pings, settings, resets), which make work for the server and carry no call. They cost
//! credit; calls and bytes that the server writes earn it. A peer without credit is disconnected.

use std::time::Instant;

const FRAME_HEADER_LEN: usize = 9;
/// Most credit that a peer has; it begins with this.
const CREDIT_MAX: i64 = 10_000;
const CREDIT_PER_SECOND: i64 = 100;
/// Clients measure the bandwidth with pings while data comes in: written bytes earn the credit for those.
const BYTES_PER_CREDIT: usize = 64;

/// The peer has used up its credit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sends too many HTTP/2 control frames")]
pub(super) struct TooManyControlFrames;

/// Counts the frames that a peer sends.
///
/// Frame header: length u24, type u8, flags u8, stream u32, all big-endian; then `length` bytes.
#[derive(Debug)]
pub(super) struct FrameRateGuard {
    header: [u8; FRAME_HEADER_LEN],
    header_len: usize,
    /// Payload bytes of the current frame that have not come yet.
    payload: usize,
    credit: i64,
    paid_until: Instant,
    written: usize,
}

impl FrameRateGuard {
    pub fn new(now: Instant) -> FrameRateGuard {
        FrameRateGuard {
            header: [0; FRAME_HEADER_LEN],
            header_len: 0,
            payload: 0,
            credit: CREDIT_MAX,
            paid_until: now,
            written: 0,
        }
    }

    /// Counts bytes from the peer. The clock is read only when the credit is used up.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        clock: impl Fn() -> Instant,
    ) -> Result<(), TooManyControlFrames> {
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            let taken = (FRAME_HEADER_LEN - self.header_len).min(bytes.len());
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
            self.header_len += taken;
            bytes = &bytes[taken..];
            if self.header_len == FRAME_HEADER_LEN {
                self.header_len = 0;
                let [a, b, c, kind, ..] = self.header;
                self.payload = u32::from_be_bytes([0, a, b, c]) as usize;
                self.charge(worth(kind, self.payload), &clock)?;
            }
        }
        Ok(())
    }

    /// Counts bytes that were written to the peer.
    pub fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        let earned = self.written / BYTES_PER_CREDIT;
        self.written %= BYTES_PER_CREDIT;
        self.credit = self.credit.saturating_add(earned as i64).min(CREDIT_MAX);
    }

    fn charge(&mut self, worth: i64, clock: impl Fn() -> Instant) -> Result<(), TooManyControlFrames> {
        self.credit = (self.credit + worth).min(CREDIT_MAX);
        if self.credit >= 0 {
            return Ok(());
        }
        let now = clock();
        let seconds = now.saturating_duration_since(self.paid_until).as_secs_f64();
        self.paid_until = now;
        self.credit += (seconds * CREDIT_PER_SECOND as f64) as i64;
        self.credit = self.credit.min(CREDIT_MAX);
        if self.credit < 0 { Err(TooManyControlFrames) } else { Ok(()) }
    }
}

fn worth(kind: u8, len: usize) -> i64 {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    match kind {
        DATA if len > 0 => 5,
        HEADERS => 5,
        // More than a call earns: calls that are begun and cancelled use credit up.
        RST_STREAM => -20,
        SETTINGS => -5,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PING: u8 = 6;

    fn frame(kind: u8, len: usize) -> Vec<u8> {
        let mut frame = (len as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0, 0, 0, 0, 1]);
        frame.extend(vec![0xff; len]);
        frame
    }

    /// How many rounds of frames it takes until one is refused.
    fn refused_after(frames: &[Vec<u8>], max: usize) -> Option<usize> {
        let start = Instant::now();
        let mut guard = FrameRateGuard::new(start);
        (0..max).find(|_| frames.iter().any(|frame| guard.read(frame, || start).is_err()))
    }

    #[test]
    fn floods_run_out_of_credit_and_calls_do_not() {
        assert_eq!(refused_after(&[frame(PING, 8)], 1_000_000), Some(10_000));
        assert_eq!(refused_after(&[frame(4, 0)], 1_000_000), Some(2_000));
        let (headers, data, reset) = (frame(1, 30), frame(0, 100), frame(3, 4));
        assert_eq!(refused_after(&[headers.clone(), reset], 1_000_000), Some(666));
        assert_eq!(refused_after(&[headers.clone(), data.clone(), frame(0, 0)], 100_000), None);
        assert_eq!(refused_after(&[headers, data, frame(PING, 8), frame(8, 4), frame(8, 4)], 100_000), None);
    }

    #[test]
    fn where_the_bytes_are_cut_makes_no_difference() {
        let start = Instant::now();
        let stream: Vec<u8> =
            (0..3_000).flat_map(|n| frame(if n % 3 == 0 { PING } else { 4 }, n % 7)).collect();
        let outcome = |step: usize| {
            let mut guard = FrameRateGuard::new(start);
            let failed = stream.chunks(step).position(|bytes| guard.read(bytes, || start).is_err());
            failed.map(|_| guard.credit)
        };
        let whole = outcome(stream.len());
        assert!(whole.is_some());
        for step in [1, 2, 8, 9, 10, 17, 4096] {
            assert_eq!(outcome(step), whole, "in steps of {step}");
        }
    }

    #[test]
    fn time_and_what_is_written_pay() {
        let start = Instant::now();
        let mut guard = FrameRateGuard::new(start);
        let ping = frame(PING, 8);
        for n in 0..200_000_u64 {
            let now = start + Duration::from_millis(n * 10);
            guard.read(&ping, || now).expect("a hundred in a second");
        }
        let mut guard = FrameRateGuard::new(start);
        for _ in 0..200_000 {
            guard.wrote(200);
            guard.read(&ping, || start).expect("a probe for what was written");
        }
    }
}
