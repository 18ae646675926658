//! A broker that is being drained shows no queue to write to, whichever protocol asks.

use std::sync::Arc;

use redstart_engine::MessageType;
use redstart_wire::{
    remoting::code,
    v2::{Permission, QueryRouteRequest},
};

use crate::remoting_support;
use crate::support::{self, resource};

async fn permissions(client: &mut support::Client) -> Vec<Permission> {
    let request = QueryRouteRequest { topic: Some(resource("t")), endpoints: None };
    let queues = client.query_route(request).await.unwrap().into_inner().message_queues;
    queues.iter().map(|queue| queue.permission()).collect()
}

#[tokio::test]
async fn an_operator_who_takes_the_permission_to_write_takes_it_from_grpc_clients_too() {
    let five = support::Broker::start().await;
    five.topic("t", MessageType::Normal).await;
    let mut client = five.client("c").await;
    let four = remoting_support::Broker::start_beside(Arc::new(five.commands.clone())).await;
    let mut names = remoting_support::Client::connect(four.names).await;
    let before = permissions(&mut client).await;
    assert!(!before.is_empty() && before.iter().all(|one| *one == Permission::ReadWrite));

    let own = [("brokerName", remoting_support::BROKER)];
    names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &own).await;
    let drained = permissions(&mut client).await;
    assert_eq!(drained, vec![Permission::Read; before.len()], "what is there can still be read");
    names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "another")]).await;
    names.ok(code::ADD_WRITE_PERM_OF_BROKER, &[("brokerName", "another")]).await;
    assert_eq!(permissions(&mut client).await, drained, "another broker's permission is not ours");
    names.ok(code::ADD_WRITE_PERM_OF_BROKER, &own).await;
    assert_eq!(permissions(&mut client).await, before);
    five.stop().await;
}
