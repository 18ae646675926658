//! RocketMQ's names of settings, so that a broker.conf need not be thought over again.

/// Another name of a setting, and the unit that RocketMQ gives its value in.
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
    /// The value as the setting itself takes it.
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

    /// What is accepted under the alias, where `accepted` is what is under the key.
    pub fn accepted(self, accepted: &str) -> String {
        match self {
            Unit::Same => accepted.to_owned(),
            Unit::Millis => format!("a number of milliseconds that makes {accepted}"),
            Unit::Hours => format!("a number of hours that makes {accepted}"),
            Unit::FlushType => "SYNC_FLUSH or ASYNC_FLUSH".to_owned(),
        }
    }
}

/// Settings that a broker.conf often has and this broker has no use for, with the reason.
pub const NEEDLESS: &[(&str, &str)] = &[
    ("brokerId", "there is one broker"),
    ("brokerRole", "there is one broker"),
    ("brokerIP2", "there is one broker"),
    ("haListenPort", "there is one broker"),
    ("namesrvAddr", "the name service is part of the broker"),
    ("deleteWhen", "old messages are deleted as soon as their time has come"),
    ("storePathCommitLog", "everything is kept in `data_dir`"),
    ("storePathConsumeQueue", "everything is kept in `data_dir`"),
    ("storePathIndex", "everything is kept in `data_dir`"),
    ("defaultTopicQueueNums", "a topic that is created by itself has 8 queues"),
    ("timerMaxDelaySec", "delays of up to 40 days are accepted"),
    ("timerWheelEnable", "delays of any length are always possible"),
    ("enablePropertyFilter", "SQL filters are always possible"),
    ("traceTopicEnable", "traces are always possible"),
    ("enableProxy", "gRPC is part of the broker"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SETTINGS;

    #[test]
    fn rocketmqs_units_become_ours() {
        let translated = |unit: Unit, text: &str| unit.translate(text);
        assert_eq!(translated(Unit::Millis, "6000").as_deref(), Some("6000ms"));
        assert_eq!(translated(Unit::Hours, "72").as_deref(), Some("72h"));
        assert_eq!(translated(Unit::FlushType, "SYNC_FLUSH").as_deref(), Some("sync"));
        for (unit, text) in [(Unit::Millis, "6s"), (Unit::Hours, "-1"), (Unit::FlushType, "sync")] {
            assert_eq!(translated(unit, text), None, "{text}");
        }
    }

    #[test]
    fn what_is_needless_is_no_setting() {
        let names = SETTINGS.iter().flat_map(|setting| setting.aliases).map(|alias| alias.name);
        let names: Vec<_> = names.chain(SETTINGS.iter().map(|setting| setting.key)).collect();
        assert!(NEEDLESS.iter().all(|(name, _)| !names.contains(name)));
    }
}
