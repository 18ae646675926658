use std::{io, sync::Arc, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use redstart_engine::{Job, JobDone};

/// The threads that write indexes and checkpoints and make segments. The engine hands out few jobs at a time, so the
/// channels are short. A job that panics ends its thread: then `done` is disconnected, and the shard ends with a reason.
#[derive(Debug)]
pub(super) struct BackgroundJobs {
    /// Indexes and checkpoints, which may take seconds.
    files: Lane,
    /// The next segment, which must be there before the active one is full.
    segments: Lane,
    pub done: Receiver<JobDone>,
}

/// A thread that runs jobs one after the other.
#[derive(Debug)]
struct Lane {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Where a thread reports its jobs. All reports end when one thread panics.
struct Report(Arc<Mutex<Option<Sender<JobDone>>>>);

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
    fn start(name: &str, report: Report) -> io::Result<Lane> {
        let (jobs, incoming) = unbounded::<Job>();
        let work = move || {
            for job in incoming {
                if !report.send(job.run()) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Lane { jobs: Some(jobs), thread: Some(thread) })
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the owner finds `done` disconnected.
            drop(jobs.send(job));
        }
    }

    fn finish(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl BackgroundJobs {
    pub fn start() -> io::Result<BackgroundJobs> {
        let (report, done) = unbounded();
        let report = Arc::new(Mutex::new(Some(report)));
        let files = Lane::start("shard-jobs", Report(report.clone()))?;
        let segments = Lane::start("shard-segments", Report(report))?;
        Ok(BackgroundJobs { files, segments, done })
    }

    pub fn give(&self, job: Job) {
        match job {
            Job::MakeSpare { .. } => self.segments.give(job),
            _ => self.files.give(job),
        }
    }

    /// Ends the threads after their last jobs; what they have done stays in the channel.
    pub fn finish(&mut self) {
        self.files.finish();
        self.segments.finish();
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
