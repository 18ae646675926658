use std::{io, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use redstart_engine::{Job, JobDone};

/// The thread that writes indexes and checkpoints. The engine hands out few jobs at a time, so the channels are short.
/// A job that panics ends the thread: then `done` is disconnected, and the shard ends with a reason.
#[derive(Debug)]
pub(super) struct BackgroundJobs {
    jobs: Option<Sender<Job>>,
    pub done: Receiver<JobDone>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundJobs {
    pub fn start() -> io::Result<BackgroundJobs> {
        let (jobs, incoming) = unbounded::<Job>();
        let (report, done) = unbounded();
        let work = move || {
            for job in incoming {
                if report.send(job.run()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("shard-jobs".to_owned()).spawn(work)?;
        Ok(BackgroundJobs { jobs: Some(jobs), done, thread: Some(thread) })
    }

    pub fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the owner finds `done` disconnected.
            drop(jobs.send(job));
        }
    }

    /// Ends the thread after its last job; what it has done stays in the channel.
    pub fn finish(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
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
        let panicking = Job::SaveCheckpoint {
            at: redstart_log::Index(1),
            state: Vec::new(),
            store: std::sync::Arc::new(Panicking),
        };
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
