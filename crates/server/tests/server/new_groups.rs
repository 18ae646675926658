//! Where a consumer group begins in a topic that it has not consumed before.

use redstart_engine::{CONSUME_FROM, GroupConfig, MessageType};
use redstart_wire::v2::Code;

use crate::support::*;

fn beginning_at(from: &str) -> GroupConfig {
    GroupConfig { attributes: [(CONSUME_FROM.to_owned(), from.to_owned())].into(), ..GroupConfig::default() }
}

#[tokio::test]
async fn the_first_receive_of_a_group_from_the_earliest_message_brings_what_was_there_before_it() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    broker.group("all", beginning_at("earliest")).await;
    broker.group("new", beginning_at("latest")).await;
    let mut client = broker.client("c").await;
    send(&mut client, message("t", "before", b"body")).await;

    let (status, got) = receive(&mut client, receive_request("all", "t")).await;
    assert_eq!((status, got.iter().map(id_of).collect::<Vec<_>>()), (Code::Ok, vec!["before"]));
    for group in ["new", "of no setting"] {
        let mut request = receive_request(&group.replace(' ', "-"), "t");
        request.long_polling_timeout = Some(prost_types::Duration::default());
        let (status, got) = receive(&mut client, request).await;
        assert_eq!((status, got.len()), (Code::MessageNotFound, 0), "{group}");
    }
    broker.stop().await;
}
