use crate::policy::Entry;

/// Clients send traces, ask for the pattern of topics that are made on first use, and answer requests; tools read with a group of
/// their own.
const RULES: [(&str, &str); 4] = [
    ("Topic:RMQ_SYS_TRACE_TOPIC", "Pub"),
    ("Topic:rmq_sys_TRACE_DATA_*", "Pub"),
    ("Topic:TBW102", "Get"),
    ("Group:TOOLS_CONSUMER", "Sub"),
];

/// What every user may do in a cluster, unless a rule of its own says otherwise.
pub fn built_in(cluster: &str) -> Vec<Entry> {
    let none: [&str; 0] = [];
    let replies = format!("Topic:{cluster}_REPLY_TOPIC");
    let rules = RULES.into_iter().chain([(replies.as_str(), "Pub")]);
    // The name of a cluster that no rule can be written for has no rule.
    rules.filter_map(|(resource, action)| Entry::read(resource, &[action], &none, "Allow").ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_read() {
        assert_eq!(built_in("c").len(), RULES.len() + 1);
        assert_eq!(built_in("not a name\n").len(), RULES.len());
    }
}
