//! A topic or group that is created, changed or deleted is listed once, when that is in force.

use redstart_engine::*;

use crate::support::*;

#[test]
fn topics_and_groups_that_come_and_go_are_told_when_it_is_durable() {
    let mut broker = Broker::default();
    let config = one_queue(MessageType::Normal);
    broker.engine.put_topic(&topic("t"), config.clone()).unwrap();
    assert_eq!(broker.engine.take_changes(), [], "not before it is durable");
    broker.commit();
    broker.create_topic("t", config.clone());
    broker.create_group("g", GroupConfig::default());
    broker.create_group("g", GroupConfig::ordered());
    broker.send("t", message("m"));
    broker.engine.delete_topic(&topic("t")).unwrap();
    broker.engine.delete_group(&group("g")).unwrap();
    broker.commit();
    let expected = [
        Change::TopicCreated { name: topic("t"), config: config.clone() },
        Change::TopicChanged { name: topic("t"), config },
        Change::GroupCreated { name: group("g"), ordered: false },
        Change::GroupChanged { name: group("g"), ordered: true },
        Change::TopicDeleted { name: topic("t") },
        Change::GroupDeleted { name: group("g") },
    ];
    assert_eq!(broker.engine.take_changes(), expected);
    assert_eq!(broker.engine.take_changes(), [], "once");
}
