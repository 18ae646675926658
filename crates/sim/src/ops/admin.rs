//! Topics and groups come, change and go.

use std::time::Duration;

use redstart_engine::{
    AdminError, CONSUME_FROM, ConsumeFrom, DLQ_PREFIX, GroupConfig, GroupName, GroupView, MessageType,
    RetryPolicy, Ticket, TopicConfig, TopicName,
};

use crate::{
    Profile,
    oracle::{Checked, Violation, configs, model::GroupLimits},
    outcomes::Proposed,
    world::World,
};

const ACCEPTED: &str = "a valid configuration is accepted";
const TYPES: [MessageType; 6] = [
    MessageType::Normal,
    MessageType::Fifo,
    MessageType::Delay,
    MessageType::Transaction,
    MessageType::Mixed,
    MessageType::Priority,
];

pub fn topic_name(name: &str) -> TopicName {
    TopicName::new(name).expect("the simulation makes valid names")
}

pub fn group_name(name: &str) -> GroupName {
    GroupName::new(name).expect("the simulation makes valid names")
}

impl World {
    /// What is there from the beginning.
    pub fn begin(&mut self) -> Checked {
        let topics = match self.profile {
            Profile::Uniform => 1,
            Profile::Order => 3,
            _ => self.rng.between(3, 5),
        };
        for n in 0..topics {
            let config = self.some_topic(n);
            self.put_topic(&format!("t{n}"), config)?;
        }
        for n in 0..self.rng.between(1, 3) {
            let config = self.some_group();
            self.put_group(&format!("g{n}"), config)?;
            self.put_topic(
                &format!("%RETRY%g{n}"),
                TopicConfig {
                    message_type: MessageType::Mixed,
                    read_queues: 1,
                    write_queues: 1,
                    ..TopicConfig::default()
                },
            )?;
        }
        self.settle()?;
        self.begin_lites()
    }

    fn some_topic(&mut self, n: u64) -> TopicConfig {
        let message_type = match self.profile {
            Profile::Order => {
                self.rng.of([MessageType::Fifo, MessageType::Fifo, MessageType::Mixed, MessageType::Normal])
            }
            Profile::Uniform => MessageType::Normal,
            Profile::Retention => self.rng.of([
                MessageType::Delay,
                MessageType::Mixed,
                MessageType::Mixed,
                MessageType::Transaction,
            ]),
            _ if n == 0 => MessageType::Mixed,
            _ => self.rng.of(TYPES),
        };
        let queues = if self.profile == Profile::Uniform { 1 } else { self.rng.between(1, 3) as u32 };
        let dedup_window = match self.rng.below(3) {
            0 if self.profile != Profile::Uniform => Some(Duration::from_secs(self.rng.of([5, 60, 3600]))),
            _ => None,
        };
        TopicConfig {
            message_type,
            read_queues: queues,
            write_queues: queues,
            dedup_window,
            ..TopicConfig::default()
        }
    }

    fn some_group(&mut self) -> GroupConfig {
        let ordered = self.profile == Profile::Order || self.rng.one_in(3);
        let steps: Vec<Duration> =
            (0..self.rng.between(1, 3)).map(|_| Duration::from_millis(self.rng.between(1, 20_000))).collect();
        let retry = if self.rng.one_in(4) {
            let (initial, max) = (Duration::from_millis(500), Duration::from_secs(10));
            RetryPolicy::Exponential { initial, max, multiplier: 2 }
        } else {
            RetryPolicy::Ladder(steps)
        };
        let retries_max = self.rng.below(4) as u32;
        // Some groups begin with the oldest message of a topic, and the others with the next one.
        let from =
            (retries_max % 2 == 1).then(|| (CONSUME_FROM.to_owned(), ConsumeFrom::Earliest.to_string()));
        let attributes = from.into_iter().collect();
        GroupConfig { ordered, retry, retries_max, attributes, ..GroupConfig::default() }
    }

    pub fn put_topic(&mut self, name: &str, config: TopicConfig) -> Checked {
        let answer = self.engine().put_topic(&topic_name(name), config.clone());
        self.say(format!(
            "put topic {name} {:?} {} queues: {answer:?}",
            config.message_type, config.write_queues
        ));
        self.proposed_config(name.to_owned(), answer, configs::text(&config))
    }

    fn put_group(&mut self, name: &str, config: GroupConfig) -> Checked {
        if let Some(view) = self.engine().group(&group_name(name)) {
            self.know_group(&GroupView { config: config.clone(), ..view });
        }
        let answer = self.engine().put_group(&group_name(name), config.clone());
        self.say(format!(
            "put group {name} ordered {} retries {}: {answer:?}",
            config.ordered, config.retries_max
        ));
        self.proposed_config(format!("group {name}"), answer, configs::text(&config))
    }

    fn proposed_config(
        &mut self,
        name: String,
        answer: Result<Ticket, AdminError>,
        value: Option<String>,
    ) -> Checked {
        match answer {
            // The broker makes these itself.
            Ok(_) if name.starts_with(DLQ_PREFIX) => Ok(()),
            Ok(ticket) => {
                self.model.configs.proposed(&name, ticket, value);
                self.tickets.insert(ticket, Proposed::Config { name });
                Ok(())
            }
            Err(
                AdminError::Creating { .. }
                | AdminError::Deleting { .. }
                | AdminError::UnknownTopic { .. }
                | AdminError::UnknownGroup { .. },
            ) => Ok(()),
            Err(error) => Err(Violation::new(ACCEPTED, format!("{name}: {error}"))),
        }
    }

    /// What a group may be set to, from here on.
    pub fn know_group(&mut self, view: &GroupView) {
        let (attempts, ordered) = (view.config.attempts_max(), view.config.ordered);
        let limits = self.model.groups.entry(view.id).or_insert_with(|| GroupLimits {
            name: view.name.to_string(),
            attempts_low: attempts,
            attempts_high: attempts,
            always_ordered: ordered,
            ever_ordered: ordered,
        });
        limits.attempts_low = limits.attempts_low.min(attempts);
        limits.attempts_high = limits.attempts_high.max(attempts);
        limits.always_ordered &= ordered;
        limits.ever_ordered |= ordered;
    }

    pub fn put_some_topic(&mut self) -> Checked {
        let n = self.rng.below(5);
        let name = format!("t{n}");
        let mut config = self.some_topic(n);
        // The window of a topic that exists stays: the oracle knows one window for each.
        if let Some(view) = self.engine().topic(&topic_name(&name)) {
            config.dedup_window = view.config.dedup_window;
            if self.rng.one_in(2) {
                config.message_type = view.config.message_type;
            }
        }
        self.put_topic(&name, config)
    }

    pub fn put_some_group(&mut self) -> Checked {
        let name = format!("g{}", self.rng.below(3));
        let mut config = self.some_group();
        if let Some(view) = self.engine().group(&group_name(&name))
            && !self.rng.one_in(4)
        {
            config = GroupConfig { retry: config.retry, ..view.config };
        }
        self.put_group(&name, config)
    }

    pub fn delete_some_topic(&mut self) -> Checked {
        let mut all = self.engine().topic_names();
        // With its topic a dead letter would be gone before anyone has seen it.
        all.retain(|name| !name.as_str().starts_with(DLQ_PREFIX));
        let Some(name) = self.rng.pick(&all).cloned() else { return Ok(()) };
        let answer = self.engine().delete_topic(&name);
        self.say(format!("delete topic {name}: {answer:?}"));
        self.proposed_config(name.to_string(), answer, None)
    }

    /// Whether the deletion of a topic is under way. A second one is refused then, and changes nothing.
    pub fn deletes_topic(&mut self, name: &TopicName) -> bool {
        matches!(self.engine().delete_topic(name), Err(AdminError::Deleting { .. }))
    }

    /// The same for a group.
    pub fn deletes_group(&mut self, name: &GroupName) -> bool {
        matches!(self.engine().delete_group(name), Err(AdminError::Deleting { .. }))
    }

    pub fn delete_some_group(&mut self) -> Checked {
        let all = self.engine().group_names();
        let Some(name) = self.rng.pick(&all).cloned() else { return Ok(()) };
        let answer = self.engine().delete_group(&name);
        self.say(format!("delete group {name}: {answer:?}"));
        self.proposed_config(format!("group {name}"), answer, None)
    }
}
