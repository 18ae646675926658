//! A broker that is being drained shows no queue to write to, whichever protocol asks, until an operator ends it.

use redstart_engine::MessageType;
use redstart_wire::{
    remoting::code,
    v2::{Permission, QueryRouteRequest},
};
use tempfile::TempDir;

use crate::remoting_support;
use crate::support::{
    self,
    front_ends::{FrontEnds, start_in},
    resource,
};

async fn permissions(at: &FrontEnds) -> Vec<Permission> {
    let mut client = support::connect(at.grpc, "c", "JAVA").await;
    let request = QueryRouteRequest { topic: Some(resource("t")), endpoints: None };
    let queues = client.query_route(request).await.unwrap().into_inner().message_queues;
    queues.iter().map(|queue| queue.permission()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_takes_the_permission_to_write_takes_it_from_grpc_clients_too() {
    let dir = TempDir::new().unwrap();
    let (shard, at) = start_in(&dir, remoting_support::config()).await;
    support::put_topic(&shard.handle(), "t", MessageType::Normal).await;
    let mut names = remoting_support::Client::connect(at.remoting).await;
    let before = permissions(&at).await;
    assert!(!before.is_empty() && before.iter().all(|one| *one == Permission::ReadWrite));

    let own = [("brokerName", remoting_support::BROKER)];
    names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &own).await;
    let drained = permissions(&at).await;
    assert_eq!(drained, vec![Permission::Read; before.len()], "what is there can still be read");
    names.ok(code::WIPE_WRITE_PERM_OF_BROKER, &[("brokerName", "another")]).await;
    names.ok(code::ADD_WRITE_PERM_OF_BROKER, &[("brokerName", "another")]).await;
    assert_eq!(permissions(&at).await, drained, "another broker's permission is not ours");

    drop((names, at));
    shard.stop().unwrap();
    let (shard, at) = start_in(&dir, remoting_support::config()).await;
    assert_eq!(permissions(&at).await, drained, "it is stored");
    let mut names = remoting_support::Client::connect(at.remoting).await;
    names.ok(code::ADD_WRITE_PERM_OF_BROKER, &own).await;
    assert_eq!(permissions(&at).await, before);
    drop((names, at));
    shard.stop().unwrap();
}
