//! Offline verification: reads every byte that the log has a checksum for, and changes nothing.

use std::sync::Arc;

use crate::{
    Error, Index, Position, SegmentId,
    checkpoint::{self, Checkpoint},
    error::io_error,
    frame::Fault,
    names,
    recovery::{self, Found, Listing},
    scan::{self, Break, Checks, Scan, Until, Window},
    segment_file::{self, HEADER_BYTES, TRAILER_BYTES, Trailer},
    storage::{Storage, StorageFile, read_part},
};

/// What a directory holds, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub segments: Vec<SegmentReport>,
    pub checkpoints: Vec<CheckpointReport>,
    /// Files of interrupted work that the next open removes.
    pub leftovers: Vec<String>,
    pub problems: Vec<Problem>,
}

impl Report {
    /// Whether nothing durable is damaged. A torn tail is no damage.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn frames(&self) -> u64 {
        self.segments.iter().map(|segment| segment.frames).sum()
    }
}

/// One segment whose header could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    pub file: String,
    pub id: SegmentId,
    /// First and last good frame; `first > last` if there is none.
    pub first: Index,
    pub last: Index,
    pub frames: u64,
    /// Bytes of good frames.
    pub bytes: u64,
    pub sealed: bool,
    pub index: IndexState,
    /// Bytes after the last good frame that were never durable; the next open cuts them.
    pub torn_bytes: u64,
}

/// Whether a segment has its index beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    Missing,
    Present,
    Damaged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    pub file: String,
    pub at: Index,
    pub good: bool,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: byte {offset}: {what}")]
pub struct Problem {
    pub file: String,
    pub offset: u64,
    /// The same place as an address in the log, for a segment file.
    pub position: Option<Position>,
    pub what: String,
}

/// Verifies the log of a directory. Takes its lock, because a log in use has no defined end.
pub fn check(storage: &dyn Storage) -> Result<Report, Error> {
    let _lock = storage.lock()?;
    let listing = Listing::read(storage)?;
    let mut report = Report { leftovers: listing.temporaries.clone(), ..Report::default() };
    let found = find_segments(storage, &listing, &mut report)?;
    for at in 0..found.len() {
        check_segment(storage, &listing, &found[at..], &mut report)?;
        check_sequence(&found[at..], &mut report);
    }
    for at in listing.checkpoints.iter().copied() {
        check_checkpoint(storage, at, &mut report)?;
    }
    for base in listing.indexes.iter().filter(|base| !listing.segments.contains(base)) {
        report.leftovers.push(names::index(*base));
    }
    Ok(report)
}

impl Report {
    fn problem(&mut self, file: String, base: u64, position: u64, what: impl Into<String>) {
        let offset = position.saturating_sub(base);
        self.problems.push(Problem { file, offset, position: Some(Position(position)), what: what.into() });
    }

    fn sidecar_problem(&mut self, file: String, what: impl Into<String>) {
        self.problems.push(Problem { file, offset: 0, position: None, what: what.into() });
    }
}

fn find_segments(storage: &dyn Storage, listing: &Listing, report: &mut Report) -> Result<Vec<Found>, Error> {
    let newest = listing.segments.last().copied();
    let mut found = Vec::new();
    for base in listing.segments.iter().copied() {
        let name = names::segment(base);
        let read = |err| io_error(format!("reading {name}"), err);
        let file: Arc<dyn StorageFile> = storage.open(&name).map_err(read)?;
        let bytes = read_part(file.as_ref(), 0, HEADER_BYTES as usize).map_err(read)?;
        match segment_file::Header::parse(&bytes) {
            Ok(header) if header.base == base => found.push(Found { header, file }),
            Ok(_) => report.problem(name, base, base, "segment header names another position"),
            Err(segment_file::Fault::Version(version)) => {
                report.problem(name, base, base, format!("unknown format version {version}"));
            }
            Err(segment_file::Fault::Damaged) => {
                let unfinished = Some(base) == newest
                    && (base == 0 || !found.is_empty())
                    && recovery::is_zero_after_header(file.as_ref()).map_err(read)?;
                if unfinished {
                    report.leftovers.push(name);
                } else {
                    report.problem(name, base, base, "segment header is damaged");
                }
            }
        }
    }
    Ok(found)
}

fn check_segment(
    storage: &dyn Storage,
    listing: &Listing,
    found: &[Found],
    report: &mut Report,
) -> Result<(), Error> {
    let Some((this, rest)) = found.split_first() else {
        return Ok(());
    };
    let base = this.header.base;
    let name = names::segment(base);
    let read = |err| io_error(format!("reading {name}"), err);
    let goal = rest.first().map(|next| next.header.base.saturating_sub(TRAILER_BYTES));
    let until = goal.map_or(Until::END, |position| Until { position, index: u64::MAX });
    let mut window = Window::new(this.file.as_ref()).map_err(read)?;
    let scan = scan::scan(&mut window, &this.header, until, Checks::Full).map_err(read)?;
    let mut torn_bytes = 0;
    if goal != Some(scan.end) {
        torn_bytes = check_tail(this, rest, &scan, &mut window, report)?;
    }
    let index = index_state(storage, listing, base, report)?;
    report.segments.push(SegmentReport {
        file: name,
        id: SegmentId(base),
        first: Index(this.header.first),
        last: Index(scan.last),
        frames: (scan.last + 1).saturating_sub(this.header.first),
        bytes: scan.end - base - HEADER_BYTES,
        sealed: is_sealed(this, scan.end)?,
        index,
        torn_bytes,
    });
    Ok(())
}

/// Tells a torn tail from damage, as recovery does.
fn check_tail(
    this: &Found,
    rest: &[Found],
    scan: &Scan,
    window: &mut Window<'_>,
    report: &mut Report,
) -> Result<u64, Error> {
    let base = this.header.base;
    let name = names::segment(base);
    let what = scan.stop.unwrap_or(Fault::Damaged("frames run into the next segment")).what();
    let broken = Break { position: scan.end, index: scan.last + 1 };
    let beyond = scan::look_beyond(window, &this.header, scan.end - base, broken)
        .map_err(|err| io_error(format!("reading {name}"), err))?;
    let mut damaged = beyond.witness.is_some() || recovery::has_trailer_after(this, broken)?;
    for later in rest {
        damaged = damaged || recovery::is_witness(later, broken)?;
    }
    if damaged {
        report.problem(name, base, scan.end, what);
        return Ok(0);
    }
    Ok(beyond.bytes)
}

fn check_sequence(found: &[Found], report: &mut Report) {
    let [_, next, ..] = found else {
        return;
    };
    let Some(this) = report.segments.last() else {
        return;
    };
    if this.sealed && this.last.0 + 1 != next.header.first {
        let base = next.header.base;
        report.problem(names::segment(base), base, base, "the segment before it is missing");
    }
}

fn is_sealed(found: &Found, end: u64) -> Result<bool, Error> {
    let base = found.header.base;
    let bytes = read_part(found.file.as_ref(), end - base, TRAILER_BYTES as usize)
        .map_err(|err| io_error(format!("reading {}", names::segment(base)), err))?;
    Ok(Trailer::parse(&bytes).is_ok_and(|trailer| trailer.base == base && trailer.end == end))
}

fn index_state(
    storage: &dyn Storage,
    listing: &Listing,
    base: u64,
    report: &mut Report,
) -> Result<IndexState, Error> {
    if !listing.indexes.contains(&base) {
        return Ok(IndexState::Missing);
    }
    match recovery::index_is_whole(storage, base) {
        Ok(true) => return Ok(IndexState::Present),
        Ok(false) => report.sidecar_problem(names::index(base), "index is damaged"),
        Err(Error::UnknownVersion { file, found, .. }) => {
            report.sidecar_problem(file, format!("unknown format version {found}"));
        }
        Err(err) => return Err(err),
    }
    Ok(IndexState::Damaged)
}

fn check_checkpoint(storage: &dyn Storage, at: u64, report: &mut Report) -> Result<(), Error> {
    let file = names::checkpoint(at);
    let last = report.segments.last().map_or(0, |segment| segment.last.0);
    let problem = match checkpoint::read(storage, at) {
        Ok(Checkpoint::Good(_)) if at > last => Some("its frames are missing from the log".to_owned()),
        Ok(Checkpoint::Good(_)) => None,
        Ok(Checkpoint::Damaged) => Some("checkpoint is damaged".to_owned()),
        Err(Error::UnknownVersion { found, .. }) => Some(format!("unknown format version {found}")),
        Err(err) => return Err(err),
    };
    report.checkpoints.push(CheckpointReport { file: file.clone(), at: Index(at), good: problem.is_none() });
    if let Some(what) = problem {
        report.sidecar_problem(file, what);
    }
    Ok(())
}
