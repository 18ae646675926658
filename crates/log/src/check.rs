//! Offline verification: reads every byte that the log has a checksum for, and changes nothing.

use std::sync::Arc;

use crate::{
    Error, Index, IndexScrub, Position, ReadError, SegmentId,
    checkpoint::{self, Checkpoint},
    error::io_error,
    frame::Fault,
    manifest, names,
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
    let manifest = manifest::read(storage)?;
    if manifest == manifest::Found::Damaged {
        report.sidecar_problem(
            names::MANIFEST.to_owned(),
            "no record in it is good; the next start makes another",
        );
    }
    let promised = manifest.record();
    if let Some(promised) = &promised {
        report.missing(recovery::check_oldest(promised, listing.segments.first().copied()));
    }
    let found = find_segments(storage, &listing, promised.as_ref(), &mut report)?;
    for at in 0..found.len() {
        check_segment(storage, &listing, &found[at..], promised.as_ref(), &mut report)?;
        check_sequence(&found[at..], &mut report);
    }
    if listing.segments.is_empty()
        && let Some(promised) = promised.filter(|promised| promised.last > 0)
    {
        report.missing(Err(recovery::missing_file(&promised, promised.tail, promised.end, 0)));
    }
    for at in listing.checkpoints.iter().copied() {
        check_checkpoint(storage, at, &mut report)?;
    }
    for base in listing.indexes.iter().filter(|base| !listing.segments.contains(base)) {
        report.leftovers.push(names::index(*base));
    }
    Ok(report)
}

/// Opens a stored index, for a check of what is in it. Damage around it is [`ReadError::Corrupt`].
pub fn index(storage: &dyn Storage, segment: SegmentId) -> Result<IndexScrub, ReadError> {
    IndexScrub::open(storage, segment.0)
}

/// Suffix of files that are put aside because of a loss. The log does not look at them again.
const LOST: &str = ".lost";

/// Lets a log open whose files are missing or shorter than they were: what is left of it counts from here on. Returns the
/// names of the files that it no longer uses; they are renamed, not removed.
///
/// Those are the manifest, which promises what is gone; the segments before a gap, because a log has none; and the
/// checkpoints of frames that are gone. After a crash in between it can be called again. Damage inside the log stays an error.
pub fn accept_loss(storage: &dyn Storage) -> Result<Vec<String>, Error> {
    let _lock = storage.lock()?;
    let listing = Listing::read(storage)?;
    let manifest = manifest::read(storage)?;
    let mut left = Report::default();
    let found = find_segments(storage, &listing, manifest.record().as_ref(), &mut left)?;
    // Without the manifest the next start could not tell that its creation was not finished.
    let mut aside = left.leftovers;
    if manifest != manifest::Found::Missing {
        aside.push(names::MANIFEST.to_owned());
    }
    let mut last = 0;
    for at in 0..found.len() {
        let mut report = Report::default();
        check_segment(storage, &listing, &found[at..], None, &mut report)?;
        let known = report.problems.len();
        check_sequence(&found[at..], &mut report);
        last = report.segments.last().map_or(0, |segment| segment.last.0);
        if report.problems.len() > known {
            for before in &found[..=at] {
                let base = before.header.base;
                aside.push(names::segment(base));
                aside.extend(listing.indexes.contains(&base).then(|| names::index(base)));
            }
        }
    }
    aside.extend(listing.checkpoints.iter().filter(|at| **at > last).map(|at| names::checkpoint(*at)));
    let mut done = Vec::new();
    for name in aside {
        match storage.rename(&name, &format!("{name}{LOST}")) {
            Ok(()) => done.push(name),
            // A second gap names the segments before the first one again.
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => return Err(io_error(format!("renaming {name}"), err)),
        }
    }
    storage.sync_dir().map_err(|err| io_error("syncing the directory", err))?;
    Ok(done)
}

impl Report {
    fn problem(&mut self, file: String, base: u64, position: u64, what: impl Into<String>) {
        let offset = position.saturating_sub(base);
        self.problems.push(Problem { file, offset, position: Some(Position(position)), what: what.into() });
    }

    /// Takes up data that the manifest promises and that is not there.
    fn missing(&mut self, found: Result<(), Error>) {
        match found {
            Err(Error::Missing { file, offset, position, until, what }) => {
                let what = format!("stored data is missing up to log position {until}: {what}");
                self.problems.push(Problem { file, offset, position: Some(position), what });
            }
            Err(Error::Corrupt { file, offset, position, what }) => {
                self.problems.push(Problem { file, offset, position: Some(position), what: what.to_owned() });
            }
            _ => {}
        }
    }

    fn sidecar_problem(&mut self, file: String, what: impl Into<String>) {
        self.problems.push(Problem { file, offset: 0, position: None, what: what.into() });
    }
}

fn find_segments(
    storage: &dyn Storage,
    listing: &Listing,
    promised: Option<&manifest::Record>,
    report: &mut Report,
) -> Result<Vec<Found>, Error> {
    let newest = listing.segments.last().copied();
    let mut found = Vec::new();
    for base in listing.segments.iter().copied() {
        let name = names::segment(base);
        let read = |err| io_error(format!("reading {name}"), err);
        let file: Arc<dyn StorageFile> = storage.open(&name).map_err(read)?;
        // As recovery does.
        file.set_read_ahead(false);
        let bytes = read_part(file.as_ref(), 0, HEADER_BYTES as usize).map_err(read)?;
        match segment_file::Header::parse(&bytes) {
            Ok(header) if header.base == base => found.push(Found { header, file }),
            Ok(_) => report.problem(name, base, base, "segment header names another position"),
            Err(segment_file::Fault::Version(version)) => {
                report.problem(name, base, base, format!("unknown format version {version}"));
            }
            Err(segment_file::Fault::Damaged) => {
                let len = file.len().map_err(read)?;
                let kept =
                    promised.map_or(Ok(()), |promised| recovery::check_promised_header(promised, base, len));
                if kept.is_err() {
                    report.missing(kept);
                    continue;
                }
                let unfinished = Some(base) == newest
                    && (base == 0 || !found.is_empty())
                    && recovery::is_unfinished(promised, base, file.as_ref()).map_err(read)?;
                if unfinished {
                    report.leftovers.push(name);
                } else {
                    report.problem(name, base, base, recovery::HEADER_DAMAGED);
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
    promised: Option<&manifest::Record>,
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
    let sealed = is_sealed(this, scan.end)?;
    // One that is sealed elsewhere than the next one begins is whole: what is missing is between them.
    if goal != Some(scan.end) && (rest.is_empty() || !sealed) {
        let known = report.problems.len();
        torn_bytes = check_tail(this, rest, &scan, &mut window, report)?;
        if report.problems.len() == known
            && let Some(promised) = promised
        {
            report.missing(recovery::check_tail(promised, this, rest, &scan));
        }
    }
    let index = index_state(storage, listing, base, report)?;
    report.segments.push(SegmentReport {
        file: name,
        id: SegmentId(base),
        first: Index(this.header.first),
        last: Index(scan.last),
        frames: (scan.last + 1).saturating_sub(this.header.first),
        bytes: scan.end - base - HEADER_BYTES,
        sealed,
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
    let end = this.id.0 + HEADER_BYTES + this.bytes;
    if this.sealed && (this.last.0 + 1 != next.header.first || end + TRAILER_BYTES != next.header.base) {
        report.missing(Err(recovery::missing_between(end + TRAILER_BYTES, this.last.0, &next.header)));
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
