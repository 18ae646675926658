//! Files of earlier releases: what was in them is in the log after the first start, and what clients hold stays valid.

use std::fs;

use redstart_engine::MessageType;
use redstart_wire::{
    remoting::code,
    v2::{AckMessageEntry, AckMessageRequest, Code},
};
use ring::hmac;
use tempfile::TempDir;

use crate::remoting_support;
use crate::support::{
    self, code as code_of,
    front_ends::{open_in, start_in},
    handle_of, message, receive, receive_request, resource, send,
};

const KEY: [u8; 32] = [7; 32];
const TAG_LEN: usize = 16;

fn signed(content: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), content);
    let bytes = content.iter().chain(&tag.as_ref()[..TAG_LEN]);
    bytes.map(|byte| format!("{byte:02X}")).collect()
}

/// A receipt handle as earlier releases made it: kind 1, and no shard.
fn as_before(handle: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&handle[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..handle.len()).step_by(2).map(byte).collect();
    let content = &bytes[..bytes.len() - TAG_LEN];
    assert_eq!(signed(content), handle, "it is signed with the key of the file");
    signed(&[&[1], &content[3..]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_was_made_before_is_valid_after_the_key_has_moved_into_the_log() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("handle.key");
    fs::write(&file, KEY).unwrap();
    for _ in 0..2 {
        let (shard, at) = start_in(&dir, remoting_support::config()).await;
        assert!(!file.exists(), "the key is in the log");
        support::put_topic(&shard.handle(), "t", MessageType::Normal).await;
        let mut client = support::connect(at.grpc, "c", "JAVA").await;
        // The group begins with its first receive.
        let mut first = receive_request("g", "t");
        first.long_polling_timeout = Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 });
        receive(&mut client, first).await;
        send(&mut client, message("t", "m", b"body")).await;
        let (_, got) = receive(&mut client, receive_request("g", "t")).await;
        let entry = AckMessageEntry {
            message_id: "m".to_owned(),
            receipt_handle: as_before(&handle_of(&got[0])),
            ..AckMessageEntry::default()
        };
        let ack = AckMessageRequest {
            group: Some(resource("g")),
            topic: Some(resource("t")),
            entries: vec![entry],
        };
        let acked = client.ack_message(ack).await.unwrap().into_inner();
        assert_eq!(code_of(acked.status), Code::Ok);
        drop((client, at));
        shard.stop().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_name_service_move_into_the_log_and_stay() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("names.json");
    fs::write(&file, r#"{"n":{"k":"v","other":"w"}}"#).unwrap();
    let key = [("namespace", "n"), ("key", "k")];
    let (shard, at) = start_in(&dir, remoting_support::config()).await;
    assert!(!file.exists());
    let mut client = remoting_support::Client::connect(at.remoting).await;
    assert_eq!(client.ok(code::GET_KV_CONFIG, &key).await.field("value"), Some("v"));
    client.ok(code::PUT_KV_CONFIG, &[("namespace", "n"), ("key", "k"), ("value", "new")]).await;
    client.ok(code::DELETE_KV_CONFIG, &[("namespace", "n"), ("key", "other")]).await;
    drop((client, at));
    shard.stop().unwrap();

    let (shard, at) = start_in(&dir, remoting_support::config()).await;
    let mut client = remoting_support::Client::connect(at.remoting).await;
    assert_eq!(client.ok(code::GET_KV_CONFIG, &key).await.field("value"), Some("new"));
    let gone = [("namespace", "n"), ("key", "other")];
    assert_eq!(client.call(code::GET_KV_CONFIG, &gone).await.code, code::QUERY_NOT_FOUND);
    drop((client, at));
    shard.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_of_values_is_reported_and_left_alone() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("names.json");
    fs::write(&file, "{").unwrap();
    let shard = open_in(&dir);
    let shards = support::one_shard(shard.handle()).await;
    let bound =
        redstart_server::remoting::Remoting::bind(remoting_support::config(), shards, dir.path()).await;
    assert!(bound.is_err_and(|error| error.to_string().contains("names.json")));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
    shard.stop().unwrap();
}
