use std::{io, sync::Arc, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use redstart_engine::{Job, JobDone};

/// Threads that read what requests wait for: enough to keep a disk busy, few enough that flushes of the log get their turn.
pub(crate) const READERS: usize = 4;

/// The threads that write indexes and checkpoints, make segments, and read parts of the log for requests. The engine hands out few jobs at a time, so the
/// channels are short. A job that panics ends its thread: then `done` is disconnected, and the shard ends with a reason.
#[derive(Debug)]
pub(super) struct BackgroundJobs {
    /// Indexes and checkpoints, which may take seconds.
    files: Lane,
    /// Short ones, and the next segment, which must be there before the active one is full.
    segments: Lane,
    /// What requests wait for.
    reads: Lane,
    pub done: Receiver<JobDone>,
}

/// Threads that run jobs in the order of their coming.
#[derive(Debug)]
struct Lane {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// Where a thread reports its jobs. All reports end when one thread panics.
struct Report(Reports);

type Reports = Arc<Mutex<Option<Sender<JobDone>>>>;

impl Report {
    fn send(&self, done: JobDone) -> bool {
        self.0.lock().as_ref().is_some_and(|report| report.send(done).is_ok())
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().take();
        }
    }
}

impl Lane {
    fn start(name: &str, threads: usize, report: &Reports) -> io::Result<Lane> {
        let (jobs, incoming) = unbounded::<Job>();
        let mut lane = Lane { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..threads {
            let (incoming, report) = (incoming.clone(), Report(report.clone()));
            let work = move || {
                for job in incoming {
                    if !report.send(job.run()) {
                        return;
                    }
                }
            };
            lane.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        }
        Ok(lane)
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the owner finds `done` disconnected.
            drop(jobs.send(job));
        }
    }

    fn finish(&mut self) {
        self.jobs = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl BackgroundJobs {
    pub fn start() -> io::Result<BackgroundJobs> {
        let (report, done) = unbounded();
        let report = Arc::new(Mutex::new(Some(report)));
        let files = Lane::start("shard-jobs", 1, &report)?;
        let segments = Lane::start("shard-segments", 1, &report)?;
        let reads = Lane::start("shard-reads", READERS, &report)?;
        Ok(BackgroundJobs { files, segments, reads, done })
    }

    pub fn give(&self, job: Job) {
        match job {
            Job::MakeSpare { .. } | Job::SyncManifest { .. } => self.segments.give(job),
            Job::Read { .. } => self.reads.give(job),
            _ => self.files.give(job),
        }
    }

    /// Ends the threads after their last jobs; what they have done stays in the channel.
    pub fn finish(&mut self) {
        self.files.finish();
        self.segments.finish();
        self.reads.finish();
    }
}

impl Drop for BackgroundJobs {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_panics_is_noticed() {
        let jobs = BackgroundJobs::start().unwrap();
        let panicking =
            Job::SaveCheckpoint { at: redstart_log::Index(1), state: Vec::new(), store: Arc::new(Panicking) };
        jobs.give(panicking);
        assert!(jobs.done.recv().is_err(), "the channel is disconnected");
    }

    struct Panicking;

    impl redstart_log::Checkpoints for Panicking {
        fn save(&self, _: redstart_log::Index, _: &[u8]) -> Result<(), redstart_log::Error> {
            std::panic::resume_unwind(Box::new("a job that panics"))
        }

        fn load(&self) -> Result<redstart_log::StoredCheckpoints, redstart_log::Error> {
            Ok((Vec::new(), Vec::new()))
        }
    }
}
