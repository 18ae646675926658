//! The threads that run the engine's slow jobs. All shards of a process share them.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::{Condvar, Mutex};
use redstart_engine::{Job, JobDone};

/// Threads that read parts of the log for requests: enough to keep a disk busy, few enough that flushes are not delayed by them.
pub(crate) const READERS: usize = 4;
/// Threads that write indexes and checkpoints, and that make segments, for several shards: more would only compete for the disk.
const WRITERS_MAX: usize = 2;

/// The threads that write indexes and checkpoints, make segments, and read parts of the log for requests. An engine has few jobs
/// under way at a time, which bounds the channels. Clones share the threads, which end after the last of them.
#[derive(Debug, Clone)]
pub struct JobThreads {
    /// Write indexes and checkpoints, which may take seconds.
    files: Sender<Order>,
    /// Make the next segment, which must exist before the active one is full, and sync the manifest.
    segments: Sender<Order>,
    /// Read parts of the log for suspended requests.
    reads: Sender<Order>,
}

impl JobThreads {
    /// Starts the threads of a process with so many shards.
    pub fn start(shards: usize) -> io::Result<JobThreads> {
        let writers = shards.clamp(1, WRITERS_MAX);
        Ok(JobThreads {
            files: start("shard-jobs", writers)?,
            segments: start("shard-segments", writers)?,
            reads: start("shard-reads", READERS)?,
        })
    }
}

fn start(name: &str, threads: usize) -> io::Result<Sender<Order>> {
    let (orders, incoming) = unbounded::<Order>();
    for _ in 0..threads {
        let incoming = incoming.clone();
        let work = move || incoming.into_iter().for_each(Order::run);
        std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    }
    Ok(orders)
}

/// A job of a shard.
#[derive(Debug)]
struct Order {
    job: Job,
    reports: Arc<Reports>,
}

impl Order {
    fn run(self) {
        let Order { job, reports } = self;
        // Nothing that the job had in its hands is used after a panic: its shard ends.
        let result = catch_unwind(AssertUnwindSafe(|| job.run()));
        reports.ended(result.ok());
    }
}

/// Where the results of a shard's jobs go.
#[derive(Debug)]
struct Reports {
    /// `None` after a job that panicked, and after the last one.
    done: Mutex<Option<Sender<JobDone>>>,
    under_way: Mutex<usize>,
    /// Notified when none is under way.
    idle: Condvar,
}

impl Reports {
    fn ended(&self, result: Option<JobDone>) {
        let mut done = self.done.lock();
        match result {
            // The owner may have ended.
            Some(result) => drop(done.as_ref().map(|done| done.send(result))),
            None => *done = None,
        }
        drop(done);
        let mut under_way = self.under_way.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.idle.notify_all();
        }
    }
}

/// The jobs of one shard. A job that panics disconnects `done`, and the owner ends with [`super::Failure::BackgroundJobs`]; other
/// shards do not notice.
#[derive(Debug)]
pub(super) struct BackgroundJobs {
    threads: JobThreads,
    reports: Arc<Reports>,
    pub done: Receiver<JobDone>,
}

impl BackgroundJobs {
    pub fn new(threads: JobThreads) -> BackgroundJobs {
        let (report, done) = unbounded();
        let reports =
            Reports { done: Mutex::new(Some(report)), under_way: Mutex::new(0), idle: Condvar::new() };
        BackgroundJobs { threads, reports: Arc::new(reports), done }
    }

    /// Hands a job to the threads for its kind.
    pub fn run(&self, job: Job) {
        let threads = match job {
            Job::MakeSpare { .. } | Job::SyncManifest { .. } => &self.threads.segments,
            Job::Read { .. } => &self.threads.reads,
            _ => &self.threads.files,
        };
        *self.reports.under_way.lock() += 1;
        // The threads end after the last sender.
        drop(threads.send(Order { job, reports: self.reports.clone() }));
    }

    /// Waits for the jobs that are under way; their results stay in `done`.
    pub fn finish(&mut self) {
        let mut under_way = self.reports.under_way.lock();
        while *under_way > 0 {
            self.reports.idle.wait(&mut under_way);
        }
        *self.reports.done.lock() = None;
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
        let threads = JobThreads::start(2).unwrap();
        let (jobs, mut others) = (BackgroundJobs::new(threads.clone()), BackgroundJobs::new(threads));
        let panicking =
            Job::SaveCheckpoint { at: redstart_log::Index(1), state: Vec::new(), store: Arc::new(Panicking) };
        jobs.run(panicking);
        assert!(jobs.done.recv().is_err(), "the channel is disconnected");
        // As many as there are threads, so that one of them runs on the thread of the panic.
        for at in 1..=2 {
            let (at, store) = (redstart_log::Index(at), Arc::new(Saving));
            others.run(Job::SaveCheckpoint { at, state: Vec::new(), store });
        }
        others.finish();
        assert_eq!(others.done.iter().count(), 2, "the threads serve other shards");
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

    struct Saving;

    impl redstart_log::Checkpoints for Saving {
        fn save(&self, _: redstart_log::Index, _: &[u8]) -> Result<(), redstart_log::Error> {
            Ok(())
        }

        fn load(&self) -> Result<redstart_log::StoredCheckpoints, redstart_log::Error> {
            Ok((Vec::new(), Vec::new()))
        }
    }
}
