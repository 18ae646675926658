//! Makes up what disks do.

use redstart_engine::{Engine, Filter, Pull, QueueKey, fetch};
use redstart_log::{Position, Storage, sim::SimStorage};

use crate::{
    ops::Op,
    oracle::{Checked, Violation, content, ensure},
    world::{Ending, World},
};

pub const REPORTED: &str = "damage before the durable tail is reported, never served";
/// Where the version is in the header of an index or a checkpoint.
const VERSION_AT: u64 = 7;

impl World {
    pub fn inject(&mut self, fault: Op) -> Checked {
        match fault {
            Op::FailWrite => {
                self.say("the next write fails");
                self.storage.fail_write(1);
                self.settle()?;
                // Nothing was written: the moment has passed.
                self.storage.fail_write(0);
                Ok(())
            }
            Op::FailSync => {
                self.say("the next sync fails");
                self.storage.fail_sync(1);
                self.settle()?;
                self.storage.fail_sync(0);
                Ok(())
            }
            Op::FailRead => self.fail_a_read(),
            Op::NoSpace => self.run_out_of_space(),
            Op::FillDisk => self.fill_disk(),
            Op::DamageCheckpoint => self.damage_checkpoint(),
            Op::DamageIndex => self.damage_index(),
            Op::FlipBit => self.flip_bit(),
            _ => Ok(()),
        }
    }

    /// One read of the engine fails. Nothing may be taken for gone because of it.
    fn fail_a_read(&mut self) -> Checked {
        let n = self.rng.between(1, 4);
        self.say(format!("read {n} from now fails"));
        (self.read_fails, self.reads_failed) = (true, true);
        self.storage.fail_read(n);
        let op = self.rng.of([Op::Tick, Op::Pop, Op::Pop, Op::Retire, Op::Forward]);
        let done = self.perform(op);
        self.storage.fail_read(0);
        self.read_fails = false;
        done
    }

    fn run_out_of_space(&mut self) -> Checked {
        let room = self.rng.of([0, 0, 100, 2_000]);
        self.say(format!("the disk has {room} bytes left"));
        self.storage.no_space_after(Some(room));
        for _ in 0..self.rng.between(3, 15) {
            self.step()?;
        }
        self.storage.no_space_after(None);
        self.say("the disk has room again");
        Ok(())
    }

    /// A byte of an index or a checkpoint, but not its version: another version stops a start, damaged or not.
    fn byte_of(&mut self, len: u64) -> u64 {
        match self.rng.below(len) {
            VERSION_AT => VERSION_AT + 1,
            at => at,
        }
    }

    fn files(&self, prefix: &str, suffix: &str) -> Vec<String> {
        let mut names = self.storage.list().unwrap_or_default();
        names.retain(|name| name.starts_with(prefix) && name.ends_with(suffix));
        names.sort();
        names
    }

    /// The newest checkpoint goes bad while the process is down. The one before it must do.
    fn damage_checkpoint(&mut self) -> Checked {
        self.settle()?;
        self.stop(Ending::Clean)?;
        let all = self.files("checkpoint-", "");
        let good = all.iter().filter(|name| !self.damaged.contains(*name)).count();
        let whole = !self.files(&format!("{:020}", 0), ".log").is_empty();
        if let Some(newest) = all.last().filter(|_| good >= 2 || whole).cloned() {
            let len = self.storage.content(&newest).map_or(0, |content| content.len() as u64);
            let (at, bit) = (self.byte_of(len), self.rng.below(8) as u8);
            self.storage.flip_bit(&newest, at, bit);
            self.say(format!("bit {bit} of byte {at} of {newest} flips"));
            self.damaged.insert(newest);
        }
        self.come_back()
    }

    /// A stored index goes bad while the process is down. It can be built again.
    fn damage_index(&mut self) -> Checked {
        self.settle()?;
        self.stop(Ending::Clean)?;
        let all = self.files("", ".idx");
        if let Some(name) = self.rng.pick(&all).cloned() {
            self.index_damaged = true;
            let len = self.storage.content(&name).map_or(0, |content| content.len() as u64);
            let at = self.byte_of(len);
            if self.rng.one_in(2) {
                self.storage.truncate_file(&name, at);
                self.say(format!("{name} is cut to {at} bytes"));
            } else {
                let bit = self.rng.below(8) as u8;
                self.storage.flip_bit(&name, at, bit);
                self.say(format!("bit {bit} of byte {at} of {name} flips"));
            }
        }
        self.come_back()
    }

    /// A bit of what is durable flips, on a copy of the disk that is opened beside the real one.
    fn flip_bit(&mut self) -> Checked {
        let copy = self.storage.snapshot();
        let segments = self.engine().log().segments();
        let oldest = segments.first().map_or(0, |segment| segment.id.0);
        if self.witnessed <= oldest {
            return Ok(());
        }
        let at = self.rng.between(oldest, self.witnessed - 1);
        let Some(segment) = segments.iter().rev().find(|segment| segment.id.0 <= at) else { return Ok(()) };
        let (name, bit) = (format!("{:020}.log", segment.id.0), self.rng.below(8) as u8);
        copy.flip_bit(&name, at - segment.id.0, bit);
        let in_frames = at < segment.end.0;
        self.say(format!("on a copy, bit {bit} at position {at} flips"));
        match self.try_open(&copy) {
            Err(cause) => {
                self.say(format!("reported: {cause}"));
                Ok(())
            }
            Ok((engine, log)) => {
                self.check_damaged(&engine, Position(at))?;
                drop((engine, log));
                if in_frames { self.check_found(&copy, &name) } else { Ok(()) }
            }
        }
    }

    /// All that is there is as it was, but for what is reported.
    fn check_damaged(&self, engine: &Engine, at: Position) -> Checked {
        for (key, log) in &self.model.queues {
            let Some(name) = engine
                .topic_names()
                .into_iter()
                .chain(engine.lite_topic_names())
                .find(|name| engine.topic(name).is_some_and(|view| view.id == key.topic))
            else {
                continue;
            };
            let end = engine
                .topic(&name)
                .and_then(|view| view.queues.get(key.queue.0 as usize).map(|queue| queue.2));
            ensure(log.min >= log.next || end.is_some_and(|end| end.0 >= log.next), REPORTED, || {
                format!("position {at}: {name} {} ends at {end:?}, was at {}", key.queue, log.next)
            })?;
            self.check_damaged_queue(engine, *key, &name)?;
        }
        Ok(())
    }

    fn check_damaged_queue(
        &self,
        engine: &Engine,
        key: QueueKey,
        name: &redstart_engine::TopicName,
    ) -> Checked {
        let reader = engine.reader();
        let mut offset = redstart_engine::QueueOffset(0);
        loop {
            let pull = Pull {
                topic: name,
                queue: key.queue,
                offset,
                max: 32,
                bytes_max: 1 << 20,
                filter: &Filter::All,
            };
            let Ok(pulled) = engine.pull(&pull) else { return Ok(()) };
            for message in &pulled.messages {
                let Ok(fetched) = fetch(&*reader, message.position, message.size) else { continue };
                let view = fetched.message().map_err(|error| Violation::new(REPORTED, error.to_string()))?;
                content::check(&self.model, &view, name)?;
            }
            if pulled.next == offset {
                return Ok(());
            }
            offset = pulled.next;
        }
    }

    /// A check of the whole log finds the damage.
    fn check_found(&self, copy: &SimStorage, name: &str) -> Checked {
        let report = redstart_log::check::check(copy);
        let found = match &report {
            Ok(report) => report.problems.iter().any(|problem| format!("{problem:?}").contains(name)),
            Err(_) => true,
        };
        ensure(found, REPORTED, || format!("a check of {name} finds nothing: {report:?}"))
    }
}
