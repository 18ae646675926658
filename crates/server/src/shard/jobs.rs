//! The threads that run the engine's slow jobs.

use std::{io, sync::Arc, thread::JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use redstart_engine::{Job, JobDone};

/// Threads that read parts of the log for requests: enough to keep a disk busy, few enough that flushes are not delayed by them.
pub(crate) const READERS: usize = 4;

/// The threads that write indexes and checkpoints, make segments, and read parts of the log for requests. The engine has few jobs
/// under way at a time, which bounds the channels. A job that panics disconnects `done`, and the owner ends with
/// [`super::Failure::BackgroundJobs`].
#[derive(Debug)]
pub(super) struct BackgroundJobs {
    /// Writes indexes and checkpoints, which may take seconds.
    files: JobQueue,
    /// Makes the next segment, which must exist before the active one is full, and syncs the manifest.
    segments: JobQueue,
    /// Reads parts of the log for suspended requests.
    reads: JobQueue,
    pub done: Receiver<JobDone>,
}

/// A channel of jobs and the threads that run them in order.
#[derive(Debug)]
struct JobQueue {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// Sends the results of a thread's jobs. A panic of any thread closes the channel for all of them.
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

impl JobQueue {
    fn start(name: &str, threads: usize, report: &Reports) -> io::Result<JobQueue> {
        let (jobs, incoming) = unbounded::<Job>();
        let mut queue = JobQueue { jobs: Some(jobs), threads: Vec::new() };
        for _ in 0..threads {
            let (incoming, report) = (incoming.clone(), Report(report.clone()));
            let work = move || {
                for job in incoming {
                    if !report.send(job.run()) {
                        return;
                    }
                }
            };
            queue.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        }
        Ok(queue)
    }

    fn run(&self, job: Job) {
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
        let files = JobQueue::start("shard-jobs", 1, &report)?;
        let segments = JobQueue::start("shard-segments", 1, &report)?;
        let reads = JobQueue::start("shard-reads", READERS, &report)?;
        Ok(BackgroundJobs { files, segments, reads, done })
    }

    /// Hands a job to the threads for its kind.
    pub fn run(&self, job: Job) {
        match job {
            Job::MakeSpare { .. } | Job::SyncManifest { .. } => self.segments.run(job),
            Job::Read { .. } => self.reads.run(job),
            _ => self.files.run(job),
        }
    }

    /// Ends the threads after their last jobs, whose results stay in `done`.
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
        jobs.run(panicking);
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
