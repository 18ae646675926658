//! Checkpoint files: reading, checking and forgetting them.

use std::{collections::BTreeSet, io};

use bytes::Bytes;

use crate::{
    Error, Index,
    error::io_error,
    names, sidecar,
    storage::{Storage, read_part},
};

/// How many checkpoints are kept.
pub(crate) const KEPT: usize = 2;

/// A checkpoint as it was read.
pub(crate) enum Checkpoint {
    Good(Bytes),
    Damaged,
}

pub(crate) fn header(at: Index, state: &[u8]) -> sidecar::Header {
    sidecar::Header {
        kind: sidecar::Kind::Checkpoint,
        of: at.0,
        body_bytes: state.len() as u64,
        body_crc: crc32c::crc32c(state),
    }
}

/// Reads and checks the whole checkpoint.
pub(crate) fn read(storage: &dyn Storage, at: u64) -> Result<Checkpoint, Error> {
    let name = names::checkpoint(at);
    let content = Bytes::from(storage.read(&name).map_err(|err| io_error(format!("reading {name}"), err))?);
    let Some(header) = parse(&content, at, &name)? else {
        return Ok(Checkpoint::Damaged);
    };
    let body = content.slice(sidecar::HEADER_BYTES..);
    let good = body.len() as u64 == header.body_bytes && crc32c::crc32c(&body) == header.body_crc;
    Ok(if good { Checkpoint::Good(body) } else { Checkpoint::Damaged })
}

/// The frame of the newest checkpoint whose header is good, 0 if there is none. The body does not matter here:
/// that there was a checkpoint proves that the frames before it were durable.
pub(crate) fn newest(storage: &dyn Storage, all: &BTreeSet<u64>) -> Result<u64, Error> {
    for at in all.iter().rev().copied() {
        let name = names::checkpoint(at);
        let read =
            || -> io::Result<Vec<u8>> { read_part(storage.open(&name)?.as_ref(), 0, sidecar::HEADER_BYTES) };
        let bytes = read().map_err(|err| io_error(format!("reading {name}"), err))?;
        if parse(&bytes, at, &name)?.is_some() {
            return Ok(at);
        }
    }
    Ok(0)
}

/// Removes the checkpoints after `last`, newest first. Their removal is durable after a sync of the directory.
pub(crate) fn remove_after(storage: &dyn Storage, all: &BTreeSet<u64>, last: u64) -> Result<(), Error> {
    for at in all.iter().rev().take_while(|at| **at > last) {
        let name = names::checkpoint(*at);
        storage.remove(&name).map_err(|err| io_error(format!("removing {name}"), err))?;
    }
    Ok(())
}

fn parse(bytes: &[u8], at: u64, name: &str) -> Result<Option<sidecar::Header>, Error> {
    match sidecar::Header::parse(bytes, sidecar::Kind::Checkpoint) {
        Ok(header) => Ok(Some(header).filter(|header| header.of == at)),
        Err(sidecar::Fault::Damaged) => Ok(None),
        Err(sidecar::Fault::Version(found)) => {
            Err(Error::UnknownVersion { file: name.to_owned(), found, known: sidecar::VERSION })
        }
    }
}
