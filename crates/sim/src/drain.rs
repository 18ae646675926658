//! The end of a run: the disk is well again, time passes, consumers take and ack everything. Then nothing may be missing.

use std::{collections::BTreeSet, time::Duration};

use redstart_engine::{GroupId, Start, TopicId};

use crate::{
    observe::{Depth, READABLE},
    ops::{consume::Ask, filters::FilterKind},
    oracle::{Checked, Violation, ensure, loss},
    world::{Ending, World},
};

pub const RESTS: &str = "a broker without new work comes to rest";
const ROUNDS_MAX: usize = 60;

impl World {
    pub fn drain(&mut self) -> Checked {
        self.say("drain");
        self.settle()?;
        if self.rng.one_in(2) {
            self.restart(Ending::PowerCut)?;
        }
        self.pass(Duration::from_secs(5 * 3600));
        let mut quiet = 0;
        for round in 0.. {
            ensure(round < ROUNDS_MAX, RESTS, || format!("{ROUNDS_MAX} rounds were not enough"))?;
            self.tick()?;
            self.settle()?;
            let got = self.consume_all()?;
            self.settle()?;
            // A tick does a bounded amount of what is due.
            let now = self.now;
            let is_due = self.engine().next_deadline().is_some_and(|at| at <= now);
            self.pass(Duration::from_secs(600));
            quiet = if got == 0 && !is_due { quiet + 1 } else { 0 };
            if quiet == 3 {
                break;
            }
        }
        self.observe(Depth::Everything)?;
        self.check_all()?;
        self.restart(Ending::Clean)?;
        self.open_twice()?;
        self.check_all()
    }

    /// The groups and topics that are there, and consume each other.
    fn subscriptions(&mut self) -> Vec<(redstart_engine::GroupView, redstart_engine::TopicView)> {
        let mut all = Vec::new();
        for group in self.engine().group_names() {
            for topic in self.topics_of(&group) {
                all.extend(self.engine().group(&group).zip(self.engine().topic(&topic)));
            }
        }
        all
    }

    fn consume_all(&mut self) -> Result<usize, Violation> {
        let mut got = 0;
        for (group, topic) in self.subscriptions() {
            for _ in 0..1000 {
                let Some(topic) = self.engine().topic(&topic.name) else { break };
                let ask = Ask {
                    queue: None,
                    max: 32,
                    invisible: Duration::from_secs(60),
                    filter: FilterKind::All,
                    attempt: None,
                    start: Start::Earliest,
                    one_per_group: false,
                    in_order: false,
                    retries: false,
                };
                let receipts = self.pop(&group, &topic, &ask)?;
                got += receipts.len();
                if receipts.is_empty() {
                    break;
                }
                for receipt in receipts {
                    self.ack(receipt)?;
                }
                self.submit()?;
            }
        }
        Ok(got)
    }

    fn check_all(&mut self) -> Checked {
        let mut topics: BTreeSet<TopicId> = BTreeSet::new();
        for name in self.topics() {
            topics.extend(self.engine().topic(&name).map(|view| view.id));
        }
        loss::check_stored(&self.model, &topics)?;
        for (group, topic) in self.subscriptions() {
            loss::check_delivered(&self.model, &topics, group.id, topic.id)?;
            self.check_caught_up(group.id, &group.name, &topic.name)?;
        }
        Ok(())
    }

    fn check_caught_up(
        &mut self,
        id: GroupId,
        group: &redstart_engine::GroupName,
        topic: &redstart_engine::TopicName,
    ) -> Checked {
        let progress = self.engine().progress(group, topic);
        let progress = progress.map_err(|error| Violation::new(READABLE, error.to_string()))?;
        for queue in progress {
            ensure(queue.lag() == 0 && queue.in_flight == 0, RESTS, || {
                format!("group {group} ({}) in {topic}: {queue:?}", id.0)
            })?;
        }
        Ok(())
    }
}
