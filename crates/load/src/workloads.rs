//! The standard workloads of the OpenMessaging benchmark that a small machine can run.

/// A workload, with the name and the figures that it has in the OpenMessaging benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    pub topics: usize,
    pub queues: u32,
    pub size: usize,
    pub producers: usize,
    /// Consumer groups; each gets every message.
    pub groups: usize,
    /// Consumers in each group.
    pub consumers: usize,
    /// Messages per second over all producers; `None` for as fast as the server accepts them.
    pub rate: Option<u64>,
}

const KB: usize = 1024;

/// A workload with one topic and one group.
const fn of(
    name: &'static str,
    queues: u32,
    size: usize,
    (producers, consumers): (usize, usize),
    rate: Option<u64>,
) -> Workload {
    Workload { name, topics: 1, queues, size, producers, groups: 1, consumers, rate }
}

const PACED: Option<u64> = Some(50_000);

pub const WORKLOADS: &[Workload] = &[
    of("1-topic-1-partition-100b", 1, 100, (1, 1), PACED),
    of("1-topic-1-partition-1kb", 1, KB, (1, 1), PACED),
    of("1-topic-6-partition-100b", 6, 100, (1, 1), PACED),
    of("1-topic-16-partition-100b", 16, 100, (1, 1), PACED),
    of("1-topic-16-partitions-1kb", 16, KB, (1, 1), PACED),
    of("1-topic-100-partitions-1kb", 100, KB, (1, 1), PACED),
    of("1-topic-3-partition-100b-3producers", 3, 100, (3, 1), None),
    Workload {
        name: "100-topics-1-partitions-1kb",
        topics: 100,
        queues: 1,
        size: KB,
        producers: 1,
        groups: 3,
        consumers: 1,
        rate: Some(150_000),
    },
    of("max-rate-1-topic-1-partition-1p-1c-100b", 1, 100, (1, 1), None),
    of("max-rate-1-topic-1-partition-1p-1c-1kb", 1, KB, (1, 1), None),
    of("max-rate-1-topic-1-partition-1p-1c-64kb", 1, 64 * KB, (1, 1), None),
    of("max-rate-1-topic-1-partition-4p-1c-1kb", 1, KB, (4, 1), None),
    of("max-rate-1-topic-10-partitions-1p-1c-100b", 10, 100, (1, 1), None),
    of("max-rate-1-topic-10-partitions-1p-1c-1kb", 10, KB, (1, 1), None),
    of("max-rate-1-topic-10-partitions-1p-1c-64kb", 10, 64 * KB, (1, 1), None),
    of("max-rate-1-topic-10-partitions-10p-10c-100b", 10, 100, (10, 10), None),
    of("max-rate-1-topic-10-partitions-10p-10c-1kb", 10, KB, (10, 10), None),
    of("max-rate-1-topic-10-partitions-10p-10c-64kb", 10, 64 * KB, (10, 10), None),
    of("max-rate-1-topic-16-partitions-100b", 16, 100, (1, 1), None),
    of("max-rate-1-topic-16-partitions-1kb", 16, KB, (1, 1), None),
    of("max-rate-1-topic-100-partitions-1p-1c-100b", 100, 100, (1, 1), None),
    of("max-rate-1-topic-100-partitions-1p-1c-1kb", 100, KB, (1, 1), None),
];

impl Workload {
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_with_the_names() {
        for workload in WORKLOADS {
            let name = workload.name;
            assert_eq!(Workload::named(name), Some(workload), "twice the same name");
            assert!(name.contains(&format!("{}-topic", workload.topics)), "{name}");
            assert!(name.contains(&format!("-{}-partition", workload.queues)), "{name}");
            let size =
                if workload.size < KB { "100b".to_owned() } else { format!("{}kb", workload.size / KB) };
            assert!(name.contains(&size), "{name}");
            assert!(!name.starts_with("max-rate") || workload.rate.is_none(), "{name}");
        }
    }
}
