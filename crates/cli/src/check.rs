use std::{path::Path, process::ExitCode};

use anyhow::{Context, bail};
use redstart_log::{
    FsStorage,
    check::{IndexState, check},
};

/// Reads every byte that has a checksum, changes nothing, and says what it found.
pub fn run(dir: &Path) -> anyhow::Result<ExitCode> {
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let storage = FsStorage::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    let report = check(&storage).with_context(|| format!("cannot check {}", dir.display()))?;
    for segment in &report.segments {
        let index = match segment.index {
            IndexState::Present => "index present",
            IndexState::Missing => "no index",
            IndexState::Damaged => "index damaged",
        };
        println!(
            "{}: frames {} to {}, {} bytes, {index}{}",
            segment.file,
            segment.first,
            segment.last,
            segment.bytes,
            if segment.torn_bytes > 0 { ", torn tail" } else { "" }
        );
    }
    for checkpoint in &report.checkpoints {
        println!("{}: {}", checkpoint.file, if checkpoint.good { "good" } else { "damaged" });
    }
    for problem in &report.problems {
        println!("PROBLEM {problem}");
    }
    println!(
        "{} segments, {} frames, {} problems",
        report.segments.len(),
        report.frames(),
        report.problems.len()
    );
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
