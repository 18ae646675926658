use std::{io, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use redstart_engine::{Job, JobDone};

/// The thread that writes indexes and checkpoints. The engine hands out few jobs at a time, so the channels are short.
#[derive(Debug)]
pub(super) struct Clerk {
    jobs: Option<Sender<Job>>,
    pub done: Receiver<JobDone>,
    thread: Option<JoinHandle<()>>,
}

impl Clerk {
    pub fn start() -> io::Result<Clerk> {
        let (jobs, incoming) = unbounded::<Job>();
        let (report, done) = unbounded();
        let work = move || {
            for job in incoming {
                if report.send(job.run()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("shard-clerk".to_owned()).spawn(work)?;
        Ok(Clerk { jobs: Some(jobs), done, thread: Some(thread) })
    }

    pub fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends only after this sender is gone.
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

impl Drop for Clerk {
    fn drop(&mut self) {
        self.finish();
    }
}
