//! RocketMQ's names for settings, so that the settings of an existing broker.conf can be kept.

/// RocketMQ's name for a setting, and the unit of its value there.
#[derive(Debug)]
pub struct Alias {
    pub name: &'static str,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Same,
    Millis,
    Hours,
    /// SYNC_FLUSH or ASYNC_FLUSH.
    FlushType,
}

impl Unit {
    /// The value in the notation of the setting itself.
    pub fn translate(self, text: &str) -> Option<String> {
        let number = || text.parse::<u64>().ok();
        match self {
            Unit::Same => Some(text.to_owned()),
            Unit::Millis => Some(format!("{}ms", number()?)),
            Unit::Hours => Some(format!("{}h", number()?)),
            Unit::FlushType => match text {
                "SYNC_FLUSH" => Some("sync".to_owned()),
                "ASYNC_FLUSH" => Some("async".to_owned()),
                _ => None,
            },
        }
    }

    /// What the alias accepts, given what the setting itself accepts.
    pub fn accepted(self, accepted: &str) -> String {
        match self {
            Unit::Same => accepted.to_owned(),
            Unit::Millis => format!("a number of milliseconds for {accepted}"),
            Unit::Hours => format!("a number of hours for {accepted}"),
            Unit::FlushType => "SYNC_FLUSH or ASYNC_FLUSH".to_owned(),
        }
    }
}

/// Settings that are common in a broker.conf and have no effect here, with the reason.
pub const NEEDLESS: &[(&str, &str)] = &[
    ("brokerId", "there is one broker"),
    ("brokerRole", "there is one broker"),
    ("brokerIP2", "there is one broker"),
    ("haListenPort", "there is one broker"),
    ("namesrvAddr", "the name service is part of the broker"),
    ("deleteWhen", "messages are deleted as soon as they are older than `retention`"),
    ("storePathCommitLog", "everything is kept in `data_dir`"),
    ("storePathConsumeQueue", "everything is kept in `data_dir`"),
    ("storePathIndex", "everything is kept in `data_dir`"),
    ("defaultTopicQueueNums", "a topic that is created automatically has 8 queues"),
    ("timerMaxDelaySec", "delays of up to 40 days are accepted"),
    ("timerWheelEnable", "delays are always enabled"),
    ("enablePropertyFilter", "SQL filters are always enabled"),
    ("traceTopicEnable", "traces are always enabled"),
    ("enableProxy", "gRPC is part of the broker"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SETTINGS;

    #[test]
    fn units_of_rocketmq_are_translated() {
        let translated = |unit: Unit, text: &str| unit.translate(text);
        assert_eq!(translated(Unit::Millis, "6000").as_deref(), Some("6000ms"));
        assert_eq!(translated(Unit::Hours, "72").as_deref(), Some("72h"));
        assert_eq!(translated(Unit::FlushType, "SYNC_FLUSH").as_deref(), Some("sync"));
        for (unit, text) in [(Unit::Millis, "6s"), (Unit::Hours, "-1"), (Unit::FlushType, "sync")] {
            assert_eq!(translated(unit, text), None, "{text}");
        }
    }

    #[test]
    fn a_needless_name_is_not_a_setting() {
        let names = SETTINGS.iter().flat_map(|setting| setting.aliases).map(|alias| alias.name);
        let names: Vec<_> = names.chain(SETTINGS.iter().map(|setting| setting.key)).collect();
        assert!(NEEDLESS.iter().all(|(name, _)| !names.contains(name)));
    }
}
