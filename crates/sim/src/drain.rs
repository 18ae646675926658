//! The end of a run: the disk is well again, time passes, consumers take and ack everything. Then nothing may be missing.

use std::{collections::BTreeSet, time::Duration};

use redstart_engine::{GroupId, GroupName, GroupView, Start, TopicId, TopicName, TopicView};

use crate::{
    observe::{Depth, READABLE},
    ops::{consume::Ask, filters::FilterKind},
    oracle::{Checked, Violation, ensure, loss},
    world::{Ending, World},
};

pub const RESTS: &str = "a broker without new work comes to rest";
const ROUNDS_MAX: usize = 60;

/// How consumers take everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Retries come with receives of the topics that they belong to.
    Topic,
    /// The retry topic is received from like any other.
    Queue,
}

/// Asks for everything that a topic has.
fn everything(retries: bool) -> Ask {
    Ask {
        queue: None,
        max: 32,
        invisible: Duration::from_secs(60),
        filter: FilterKind::All,
        attempt: None,
        start: Start::Earliest,
        one_per_group: false,
        in_order: false,
        retries,
    }
}

impl World {
    pub fn drain(&mut self) -> Checked {
        self.say("drain");
        self.settle()?;
        if self.rng.one_in(2) {
            self.restart(Ending::PowerCut)?;
        }
        self.pass(Duration::from_secs(5 * 3600));
        if self.rng.one_in(2) {
            self.consume_until_quiet(By::Topic)?;
        }
        self.consume_until_quiet(By::Queue)?;
        self.observe(Depth::Everything)?;
        self.check_all()?;
        self.restart(Ending::Clean)?;
        self.open_twice()?;
        self.check_all()
    }

    fn consume_until_quiet(&mut self, by: By) -> Checked {
        let mut quiet = 0;
        for round in 0.. {
            ensure(round < ROUNDS_MAX, RESTS, || format!("{ROUNDS_MAX} rounds were not enough"))?;
            self.tick()?;
            self.settle()?;
            let got = match by {
                By::Topic => self.consume_by_topic()?,
                By::Queue => self.consume_all()?,
            };
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
        if by == By::Topic { self.check_retry_topics() } else { Ok(()) }
    }

    fn topic_ids(&mut self) -> BTreeSet<TopicId> {
        let names = self.topics();
        names.iter().filter_map(|name| self.engine().topic(name)).map(|view| view.id).collect()
    }

    /// Receives have asked for every topic.
    fn check_retry_topics(&mut self) -> Checked {
        self.observe(Depth::Everything)?;
        let topics = self.topic_ids();
        for (group, topic) in self.subscriptions().into_iter().filter(|(_, topic)| topic.name.is_retry()) {
            if topic.name != group.name.retry_topic() {
                continue;
            }
            for receipt in self.pop(&group, &topic, &everything(false))? {
                loss::check_left_in_retry_topic(&self.model, &topics, receipt.queue, receipt.offset)?;
                self.ack(receipt)?;
            }
        }
        Ok(())
    }

    /// As consumers do that know no retry topic: each group asks for every topic, and gets its retries with that.
    fn consume_by_topic(&mut self) -> Result<usize, Violation> {
        let mut got = 0;
        for group in self.engine().group_names() {
            for topic in self.topics().into_iter().filter(|topic| !topic.is_retry()) {
                let pair = self.engine().group(&group).zip(self.engine().topic(&topic));
                let Some((group, topic)) = pair else { continue };
                got += self.consume(&group, &topic, &everything(true))?;
            }
        }
        Ok(got)
    }

    /// The groups and topics that are there, and consume each other.
    fn subscriptions(&mut self) -> Vec<(GroupView, TopicView)> {
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
            got += self.consume(&group, &topic, &everything(false))?;
        }
        Ok(got)
    }

    /// Receives and acks until nothing comes.
    fn consume(&mut self, group: &GroupView, topic: &TopicView, ask: &Ask) -> Result<usize, Violation> {
        let mut got = 0;
        for _ in 0..1000 {
            let Some(topic) = self.engine().topic(&topic.name) else { break };
            let receipts = self.pop(group, &topic, ask)?;
            got += receipts.len();
            if receipts.is_empty() {
                break;
            }
            for receipt in receipts {
                self.ack(receipt)?;
            }
            self.submit()?;
        }
        Ok(got)
    }

    fn check_all(&mut self) -> Checked {
        let topics = self.topic_ids();
        loss::check_stored(&self.model, &topics)?;
        for (group, topic) in self.subscriptions() {
            loss::check_delivered(&self.model, &topics, group.id, topic.id)?;
            self.check_caught_up(group.id, &group.name, &topic.name)?;
        }
        Ok(())
    }

    fn check_caught_up(&mut self, id: GroupId, group: &GroupName, topic: &TopicName) -> Checked {
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
