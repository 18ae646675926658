//! The owner's chores: indexes, checkpoints, retention.

use redstart_engine::{IndexError, JobDone, RetireError};
use redstart_log::{Error as LogError, Usage};

use crate::{
    oracle::{Checked, Violation},
    world::{IN_STEP, World},
};

impl World {
    pub fn seal(&mut self) -> Checked {
        for job in [self.engine().seal(), self.engine().make_spare_again()].into_iter().flatten() {
            self.say(format!("job {job:?}"));
            self.jobs.push(job);
        }
        self.perhaps_run()
    }

    pub fn checkpoint(&mut self) -> Checked {
        // A checkpoint needs a quiet moment.
        if self.rng.one_in(2) {
            self.settle()?;
        }
        let job = self.engine().checkpoint();
        self.take_checkpoint(job);
        self.perhaps_run()
    }

    /// A checkpoint that takes several steps goes on while other things happen.
    pub fn encode_checkpoint(&mut self) {
        let job = self.engine().encode_checkpoint();
        self.take_checkpoint(job);
    }

    fn take_checkpoint(&mut self, job: Option<redstart_engine::Job>) {
        if let Some(job) = job {
            self.say(format!("job {job:?}"));
            self.jobs.push(job);
        }
    }

    fn perhaps_run(&mut self) -> Checked {
        if self.rng.one_in(2) { self.run_some_job() } else { Ok(()) }
    }

    pub fn run_some_job(&mut self) -> Checked {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let at = self.rng.index(self.jobs.len());
        let done = self.jobs.swap_remove(at).run();
        self.say(format!("done: {}", outcome(&done)));
        match self.engine().job_done(done) {
            Ok(()) | Err(RetireError::Log(LogError::NoSpace(_))) => Ok(()),
            Err(RetireError::Log(_)) => self.fail(),
            Err(error) => Err(Violation::new(IN_STEP, error.to_string())),
        }
    }

    /// Reads what the engine's own work waits for.
    pub fn read_for_engine(&mut self) -> Checked {
        loop {
            let parts = self.engine().take_own_reads();
            if parts.is_empty() {
                return Ok(());
            }
            for part in parts {
                let done = self.engine().warm(part).run();
                self.say(format!("done: {}", outcome(&done)));
                let read = self.engine().job_done(done);
                read.map_err(|error| Violation::new(IN_STEP, error.to_string()))?;
            }
        }
    }

    pub fn retire(&mut self) -> Checked {
        let now = self.now;
        let retired = self.engine().retire(now);
        self.model.forced |= self.engine().retiring().is_some_and(|retiring| retiring.forced);
        match retired {
            Ok(None) => self.read_for_engine(),
            Ok(Some(retired)) => {
                self.storage.fail_read(0);
                self.say(format!("retire: {retired:?}"));
                self.segments_removed += 1;
                self.model.forced |= retired.forced;
                self.observe(crate::observe::Depth::Everything)
            }
            Err(RetireError::Log(error)) => {
                self.say(format!("retire: {error}"));
                self.fail()
            }
            Err(RetireError::Index(_)) if self.index_damaged => {
                self.heal();
                Ok(())
            }
            Err(RetireError::Index(IndexError::Read(_)) | RetireError::Fetch(_)) if self.reads_failed => {
                Ok(())
            }
            Err(error) => Err(Violation::new(IN_STEP, error.to_string())),
        }
    }

    /// Says that the volume is nearly full, for a while.
    pub fn fill_disk(&mut self) -> Checked {
        self.engine().set_usage(Usage { total: 100, free: 14 });
        self.say("the disk is filling");
        for _ in 0..3 {
            self.retire()?;
            self.settle()?;
        }
        self.engine().set_usage(Usage { total: 100, free: 90 });
        Ok(())
    }
}

fn outcome(done: &JobDone) -> String {
    match done {
        JobDone::IndexWritten { segment, result } => {
            format!("index of {segment}: {:?}", result.as_ref().map(Vec::len).map_err(ToString::to_string))
        }
        JobDone::SpareMade { result } => {
            format!("spare: {:?}", result.as_ref().map(drop).map_err(ToString::to_string))
        }
        JobDone::ManifestSynced { result } => {
            format!("manifest: {:?}", result.as_ref().map_err(ToString::to_string))
        }
        JobDone::CheckpointSaved { at, result } => {
            format!("checkpoint at {at}: {:?}", result.as_ref().map_err(ToString::to_string))
        }
        JobDone::IndexBuilt { segment, result } => {
            let built = result.as_ref().map(|_| ()).map_err(ToString::to_string);
            format!("index of {segment} built again: {built:?}")
        }
        JobDone::Read(warmed) => format!("read {}: {} bytes", warmed.part(), warmed.bytes()),
    }
}
