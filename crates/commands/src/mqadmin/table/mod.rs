//! The table of all commands: name, options, function.

mod access;
mod brokers;
mod groups;
mod messages;
mod special;
mod topics;

use std::pin::Pin;

use super::{
    context::{Context, Outcome},
    option::{Opt, value},
};

type Run = for<'a> fn(&'a Context) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub options: &'static [Opt],
    pub run: Run,
}

macro_rules! command {
    ($name:literal, $about:literal, $run:path, [$($option:expr),* $(,)?]) => {
        $crate::mqadmin::table::Spec {
            name: $name,
            about: $about,
            options: &[$($option),*],
            run: |context| Box::pin($run(context)),
        }
    };
}
use command;

// Options of many commands.
const BROKER: Opt = value("b", "brokerAddr", "Address of the broker, host:port");
const CLUSTER: Opt = value("c", "clusterName", "Name of the cluster, for all its brokers");
const ONE_BROKER: Opt = BROKER.one_of(1);
const OR_CLUSTER: Opt = CLUSTER.one_of(1);
const TOPIC: Opt = value("t", "topic", "Name of the topic").required();
const GROUP: Opt = value("g", "groupName", "Name of the consumer group").required();
const PARENT: Opt = value("c", "cluster", "Name of the cluster, or of the parent topic of a light queue");

pub fn all() -> impl Iterator<Item = &'static Spec> {
    [
        topics::COMMANDS,
        groups::COMMANDS,
        messages::COMMANDS,
        brokers::COMMANDS,
        access::COMMANDS,
        special::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// The command with this name, regardless of case.
pub fn find(name: &str) -> Option<&'static Spec> {
    all().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{super::option, *};

    #[test]
    fn every_command_of_the_original_is_there() {
        let original = include_str!("../../../../../interop/mqadmin/commands.txt");
        for name in original.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            assert!(find(name).is_some_and(|spec| spec.name == name), "{name}");
        }
    }

    #[test]
    fn names_and_options_are_there_once() {
        let mut names = HashSet::new();
        for spec in all() {
            assert!(names.insert(spec.name.to_lowercase()), "{} is there twice", spec.name);
            let options = option::all(spec.options);
            let keys: HashSet<&str> = options.iter().map(Opt::key).collect();
            let longs: HashSet<&str> = options.iter().map(|option| option.long).collect();
            assert_eq!((keys.len(), longs.len()), (options.len(), options.len()), "{}", spec.name);
            assert!(
                !spec.about.is_empty() && options.iter().all(|option| !option.about.is_empty()),
                "{}",
                spec.name
            );
        }
    }
}
