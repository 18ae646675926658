//! Lite topics: to the oracle, topics of one queue that every group consumes in order.

use redstart_engine::{GroupName, LITE_TOPIC, LiteName, Message, MessageType, TopicConfig, TopicName};

use crate::{Profile, oracle::Checked, world::World};

const PARENT: &str = "lite";
const NAMES: [&str; 3] = ["a", "b", "c"];

impl World {
    /// A parent and its lite topics.
    pub fn begin_lites(&mut self) -> Checked {
        if matches!(self.profile, Profile::Uniform | Profile::Retention) {
            return Ok(());
        }
        let config = TopicConfig { message_type: MessageType::Lite, ..TopicConfig::default() };
        self.put_topic(PARENT, config)?;
        self.settle()?;
        let (parent, names) = (super::admin::topic_name(PARENT), NAMES.map(lite_name));
        // Gone with a failed write: then this run has none.
        let made = self.engine().ensure_lites(&parent, &names);
        self.say(format!("make lite topics: {made:?}"));
        self.settle()
    }

    /// Topics of every kind.
    pub fn topics(&mut self) -> Vec<TopicName> {
        let mut all = self.engine().topic_names();
        all.extend(self.engine().lite_topic_names());
        all
    }

    /// Topics of every kind that a group has consumed.
    pub fn topics_of(&mut self, group: &GroupName) -> Vec<TopicName> {
        let mut all = self.engine().topics_of(group);
        let lites = self.engine().lite_topic_names();
        all.extend(lites.into_iter().filter(|lite| self.engine().groups_of(lite).contains(group)));
        all
    }
}

/// Says in a message to which lite topic it goes, if it goes to one.
pub fn addressed(topic: &TopicName, message: &mut Message) {
    if let Some((_, lite)) = topic.lite_parts() {
        message.properties.push((LITE_TOPIC.to_owned(), lite.to_string()));
    }
}

/// The name by which clients know a topic.
pub fn public_name(topic: &TopicName) -> TopicName {
    topic.lite_parts().map_or_else(|| topic.clone(), |(parent, _)| parent)
}

fn lite_name(name: &str) -> LiteName {
    LiteName::new(name).expect("the simulation makes valid names")
}
