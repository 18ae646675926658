//! Frames of one connection that wait to be written.

use std::{collections::VecDeque, io, io::IoSlice};

use bytes::{Buf, Bytes, BytesMut};
use redstart_wire::remoting::{encode, encode_head};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::peer::Outgoing;
use crate::{byte_budget::Grant, handover::Handover};

/// With this many unwritten bytes no further answer is produced until the peer reads.
const BYTES_MAX: usize = 256 << 10;
/// A body of this size is written from where it is, instead of being copied after its header.
const LARGE_BODY: usize = 16 << 10;
const SLICES_MAX: usize = 16;

/// Frames that wait to be written; one system call writes many of them.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Headers and large bodies. They are written before `small`.
    parts: VecDeque<Bytes>,
    parts_len: usize,
    /// Small frames, one behind the other.
    small: BytesMut,
    /// Grant for all unwritten bytes.
    grant: Option<Grant>,
    /// Deliveries of frames, each with the number of the byte after its frame: when that is written, they are complete.
    handovers: VecDeque<(u64, Handover)>,
    put: u64,
    written: u64,
    /// Some bytes are written and not flushed: TLS buffers incomplete records.
    unflushed: bool,
}

impl Outbox {
    pub fn put(&mut self, Outgoing { command, grant, handover }: Outgoing) {
        let before = self.len();
        if command.body.len() >= LARGE_BODY {
            encode_head(&command, &mut self.small);
            let head = self.small.split().freeze();
            self.parts_len += head.len() + command.body.len();
            self.parts.extend([head, command.body]);
        } else {
            encode(&command, &mut self.small);
        }
        self.put += (self.len() - before) as u64;
        match &mut self.grant {
            Some(held) => held.merge(grant),
            None => self.grant = Some(grant),
        }
        self.count();
        self.handovers.extend(handover.map(|handover| (self.put, handover)));
    }

    /// Adjusts the grant. It cannot be refused, as the bytes are in memory already; a full outbox stops further requests.
    fn count(&mut self) {
        let len = self.len();
        if let Some(grant) = &mut self.grant {
            grant.resize_anyway(len);
        }
    }

    fn len(&self) -> usize {
        self.parts_len + self.small.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= BYTES_MAX
    }

    /// Nothing is left to write or to flush.
    pub fn is_done(&self) -> bool {
        self.len() == 0 && !self.unflushed
    }

    /// Writes once, as much as the socket takes; returns how much. Cancelling it loses nothing.
    pub async fn write(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<usize> {
        let mut taken = 0;
        if self.len() > 0 {
            let written = if self.parts.is_empty() {
                writer.write(&self.small).await?
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let parts = self.parts.iter().map(|part| &part[..]).chain([&self.small[..]]);
                let count =
                    slices.iter_mut().zip(parts).map(|(slice, part)| *slice = IoSlice::new(part)).count();
                writer.write_vectored(&slices[..count]).await?
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.unflushed = true;
            self.advance(written);
            taken = written;
        }
        if self.len() == 0 {
            writer.flush().await?;
            self.unflushed = false;
        }
        Ok(taken)
    }

    fn advance(&mut self, mut written: usize) {
        self.written += written as u64;
        while let Some(part) = self.parts.front_mut() {
            let taken = written.min(part.len());
            part.advance(taken);
            self.parts_len -= taken;
            written -= taken;
            if !part.is_empty() {
                break;
            }
            self.parts.pop_front();
        }
        self.small.advance(written);
        while let Some((end, handover)) = self.handovers.front_mut()
            && *end <= self.written
        {
            handover.complete();
            self.handovers.pop_front();
        }
        if self.len() == 0 && self.small.capacity() > 2 * BYTES_MAX {
            self.small = BytesMut::new();
        }
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redstart_wire::remoting::{Command, decode};
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::byte_budget::{Account, ByteBudget};

    fn outgoing(opaque: i32, body: usize, account: &Arc<Account>) -> Outgoing {
        let command = Command { opaque, body: vec![7; body].into(), ..Command::default() };
        Outgoing { command, grant: account.try_grant(body).unwrap(), handover: None }
    }

    #[tokio::test]
    async fn frames_come_in_their_order_however_little_is_taken_at_a_time() {
        let account = ByteBudget::new(8 << 20).account(1 << 20);
        let mut outbox = Outbox::default();
        let sizes = [10, LARGE_BODY, 0, 3 * LARGE_BODY, LARGE_BODY - 1, 5];
        for (opaque, size) in (0..).zip(sizes) {
            outbox.put(outgoing(opaque, size, &account));
        }
        assert!(!outbox.is_full() && !outbox.is_done());
        let mut held = account.used();
        assert!(held >= sizes.iter().sum(), "all of it is counted");
        let (mut writer, mut reader) = tokio::io::duplex(1000);
        let mut input = BytesMut::new();
        let mut read = Vec::new();
        while read.len() < sizes.len() {
            if !outbox.is_done() {
                outbox.write(&mut writer).await.unwrap();
            }
            reader.read_buf(&mut input).await.unwrap();
            while let Some(command) = decode(&mut input).unwrap() {
                read.push((command.opaque as usize, command.body.len()));
            }
            assert!(account.used() <= held);
            held = account.used();
        }
        assert_eq!(read, sizes.iter().copied().enumerate().collect::<Vec<_>>());
        while !outbox.is_done() {
            outbox.write(&mut writer).await.unwrap();
        }
        assert_eq!(account.used(), 0, "all is given back");
    }

    #[tokio::test]
    async fn it_is_full_when_the_peer_does_not_read() {
        let account = ByteBudget::new(8 << 20).account(1 << 20);
        let mut outbox = Outbox::default();
        for opaque in 0..2 {
            assert!(!outbox.is_full());
            outbox.put(outgoing(opaque, BYTES_MAX / 2, &account));
        }
        assert!(outbox.is_full());
    }
}
