//! `redstart check`: verifies the data directory of a stopped broker.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use redstart_engine::IndexCheck;
use redstart_log::{
    FsStorage, ReadError, SegmentId, Storage,
    check::{self, IndexState, Problem, Report, SegmentReport, check},
};

use redstart_commands::stdout;

use crate::shard_dirs;

/// Exit codes: 0 for sound data, 1 for damage, 2 if the directory could not be checked.
const DAMAGED: u8 = 1;
const UNCHECKED: u8 = 2;

/// Reads every byte that has a checksum and prints a report. Changes nothing without `accept_loss`.
pub fn run(dir: &Path, accept_loss: bool) -> anyhow::Result<ExitCode> {
    let all = match shards_of(dir) {
        Ok(all) => all,
        Err(error) => return Ok(unchecked(&error)),
    };
    let mut sound = true;
    for shard in all {
        match inspect(&shard, accept_loss) {
            Ok((aside, report)) => {
                let aside: String =
                    aside.iter().map(|name| format!("  {name:<32}put aside as {name}.lost\n")).collect();
                stdout::print(&format!("{aside}{}", described(&shard, &report)))?;
                sound &= report.is_sound();
            }
            Err(error) => return Ok(unchecked(&error)),
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { DAMAGED.into() })
}

fn unchecked(error: &anyhow::Error) -> ExitCode {
    eprintln!("redstart: {error:#}");
    UNCHECKED.into()
}

fn inspect(shard: &Path, accept_loss: bool) -> anyhow::Result<(Vec<String>, Report)> {
    let storage = FsStorage::open(shard).with_context(|| format!("cannot open {}", shard.display()))?;
    let aside = if accept_loss { check::accept_loss(&storage)? } else { Vec::new() };
    let unchecked = || format!("cannot check {}", shard.display());
    let mut report = check(&storage).with_context(unchecked)?;
    check_indexes(&storage, &mut report).with_context(unchecked)?;
    Ok((aside, report))
}

/// Checks the indexes and reports missing ones. The index of the newest sealed segment may not have been written yet.
fn check_indexes(storage: &dyn Storage, report: &mut Report) -> anyhow::Result<()> {
    let newest = report.segments.iter().rposition(|segment| segment.sealed);
    for at in 0..report.segments.len() {
        let SegmentReport { id, sealed, index, .. } = report.segments[at];
        let file = format!("{:020}.idx", id.0);
        let problem = match index {
            IndexState::Missing if sealed && Some(at) != newest => {
                let what = "the file is missing; the next start rebuilds the index".to_owned();
                Problem { file, offset: 0, position: None, what }
            }
            IndexState::Missing | IndexState::Damaged => continue,
            IndexState::Present => match check_index(storage, id) {
                Ok(()) => continue,
                Err(ReadError::Corrupt { file, offset, what, .. }) => {
                    report.segments[at].index = IndexState::Damaged;
                    Problem { file, offset, position: None, what: what.to_owned() }
                }
                Err(error) => return Err(error.into()),
            },
        };
        report.problems.push(problem);
    }
    Ok(())
}

fn check_index(storage: &dyn Storage, id: SegmentId) -> Result<(), ReadError> {
    let index = check::index(storage, id)?;
    let mut check = IndexCheck::new(id, index.len());
    while let Some((at, len)) = check.next() {
        check.feed(&index.read(at, len)?).map_err(|fault| index.corrupt(fault.at, fault.what))?;
    }
    Ok(())
}

/// The directories of the logs: `shard-0` and so on in the data directory, or the given directory itself. Creates nothing.
fn shards_of(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let unread = || format!("cannot read {}", dir.display());
    let held = shard_dirs::held(dir).with_context(unread)?;
    if !held.is_empty() {
        return Ok(held.into_iter().map(|number| shard_dirs::of(dir, number)).collect());
    }
    let names = dir.read_dir().with_context(unread)?;
    let is_segment = |name: &str| name.len() == 24 && name.ends_with(".log");
    let mut names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if !names.any(|name| is_segment(&name)) {
        bail!("{} contains no data of a broker: give the directory of the setting `data_dir`", dir.display());
    }
    Ok(vec![dir.to_owned()])
}

fn described(dir: &Path, report: &Report) -> String {
    let mut out = format!("{}\n", dir.display());
    for segment in &report.segments {
        let _ = writeln!(out, "  {:<32}{}", segment.file, described_segment(segment));
    }
    for checkpoint in &report.checkpoints {
        let state = if checkpoint.good { "good" } else { "damaged" };
        let _ = writeln!(out, "  {:<32}of frame {}, {state}", checkpoint.file, checkpoint.at);
    }
    for leftover in &report.leftovers {
        let _ = writeln!(out, "  {leftover:<32}left over; the next start removes it");
    }
    for problem in &report.problems {
        let _ = writeln!(out, "  PROBLEM {problem}");
    }
    let indexes = |state| report.segments.iter().filter(|segment| segment.index == state).count();
    let good = report.checkpoints.iter().filter(|checkpoint| checkpoint.good).count();
    let _ = writeln!(
        out,
        "{} segments with {} frames; indexes: {} good, {} damaged; checkpoints: {good} good, {} damaged",
        report.segments.len(),
        report.frames(),
        indexes(IndexState::Present),
        indexes(IndexState::Damaged),
        report.checkpoints.len() - good,
    );
    let _ = match report.problems.len() {
        0 => writeln!(out, "sound"),
        problems => writeln!(out, "DAMAGED: {problems} problems"),
    };
    out
}

fn described_segment(segment: &SegmentReport) -> String {
    let frames = match segment.frames {
        0 => "no frames".to_owned(),
        frames => format!("{frames} frames, {} to {}, {} bytes", segment.first, segment.last, segment.bytes),
    };
    let index = match segment.index {
        IndexState::Present => "index good",
        IndexState::Missing => "no index yet",
        IndexState::Damaged => "index damaged",
    };
    let torn = match segment.torn_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} bytes of an unfinished write, which the next start cuts"),
    };
    format!("{frames}, {index}{torn}")
}
