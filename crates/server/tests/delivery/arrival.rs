//! A message whose answer does not reach its consumer goes back at once, and the delivery does not count.

use std::collections::BTreeSet;

use prost::Message as _;
use redstart_wire::{remoting::code, v2::ReceiveMessageRequest};

use crate::{
    broker::{Broker, GROUP, INVISIBLE_SECONDS, SOON, TOPIC, pop, until},
    remoting_support::{Client, messages},
    support::{
        self,
        http2::{
            DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, Raw, SETTINGS, call_headers, frame,
            grpc_frame,
        },
        id_of, receive_request,
    },
};

const WINDOW: u32 = 1000;
/// More than the window takes.
const BODY: usize = 20_000;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

fn receive(batch: i32, auto_renew: bool) -> ReceiveMessageRequest {
    ReceiveMessageRequest {
        batch_size: batch,
        auto_renew,
        invisible_duration: Some(prost_types::Duration { seconds: INVISIBLE_SECONDS, nanos: 0 }),
        ..receive_request(GROUP, TOPIC)
    }
}

/// A client whose flow-control window is small, so that its answers get stuck.
async fn narrow(broker: &Broker) -> Raw {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let mut raw = Raw::connect(broker.front_ends.grpc).await;
    let settings = [&INITIAL_WINDOW_SIZE[..], &WINDOW.to_be_bytes()].concat();
    raw.write(&[PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat()).await.unwrap();
    raw
}

async fn call(raw: &mut Raw, stream: u32, request: &ReceiveMessageRequest) {
    let body = request.encode_to_vec();
    let frames = [
        frame(HEADERS, END_HEADERS, stream, &call_headers("ReceiveMessage")),
        frame(DATA, END_STREAM, stream, &grpc_frame(0, body.len() as u32, &body)),
    ];
    raw.write(&frames.concat()).await.unwrap();
}

/// Reads until the answer of a stream fills the window.
async fn stuck(raw: &mut Raw, stream: u32) {
    let mut bytes = 0;
    while bytes < WINDOW as usize {
        let frame = tokio::time::timeout(SOON, raw.frame()).await.expect("an answer begins").unwrap();
        if frame.kind == DATA && frame.stream == stream {
            bytes += frame.payload.len();
        }
    }
}

/// Another consumer gets so many messages, all with their first attempt.
async fn others_get(broker: &Broker, count: usize) {
    let mut client = support::connect(broker.front_ends.grpc, "other", "JAVA").await;
    let mut ids = BTreeSet::new();
    let deadline = tokio::time::Instant::now() + SOON;
    while ids.len() < count {
        assert!(tokio::time::Instant::now() < deadline, "{} of {count} came again", ids.len());
        let (_, got) = support::receive(&mut client, receive(32, false)).await;
        for message in got {
            assert_eq!(message.system_properties.as_ref().unwrap().delivery_attempt, Some(1));
            ids.insert(id_of(&message).to_owned());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cancelled_receive_would_have_brought_goes_to_others_at_once() {
    for auto_renew in [false, true] {
        let broker = Broker::start().await;
        broker.store(5, BODY).await;
        broker.join().await;
        let mut raw = narrow(&broker).await;
        call(&mut raw, 1, &receive(5, auto_renew)).await;
        stuck(&mut raw, 1).await;
        raw.write(&frame(RST_STREAM, 0, 1, &CANCEL)).await.unwrap();
        others_get(&broker, 5).await;
        assert_eq!(broker.given_back(), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_connection_would_have_brought_goes_to_others_at_once() {
    for auto_renew in [false, true] {
        let broker = Broker::start().await;
        broker.store(5, BODY).await;
        broker.join().await;
        let mut raw = narrow(&broker).await;
        call(&mut raw, 1, &receive(5, auto_renew)).await;
        stuck(&mut raw, 1).await;
        drop(raw);
        others_get(&broker, 5).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_receive_past_its_deadline_would_have_brought_goes_to_others() {
    let broker = Broker::start().await;
    broker.store(5, BODY).await;
    broker.join().await;
    let mut raw = narrow(&broker).await;
    let request = receive(5, true).encode_to_vec();
    let headers = [call_headers("ReceiveMessage"), support::http2::literal("grpc-timeout", "1S")].concat();
    let frames = [
        frame(HEADERS, END_HEADERS, 1, &headers),
        frame(DATA, END_STREAM, 1, &grpc_frame(0, request.len() as u32, &request)),
    ];
    raw.write(&frames.concat()).await.unwrap();
    stuck(&mut raw, 1).await;
    // It says nothing more, and keeps its connection.
    others_get(&broker, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_receive_that_waits_for_a_place_gives_its_message_back() {
    const PLACES: u32 = 16;
    let broker = Broker::start().await;
    broker.store(PLACES as usize + 1, BODY).await;
    broker.join().await;
    let mut raw = narrow(&broker).await;
    for n in 0..PLACES {
        call(&mut raw, 1 + 2 * n, &receive(1, true)).await;
        stuck(&mut raw, 1 + 2 * n).await;
    }
    let last = 1 + 2 * PLACES;
    call(&mut raw, last, &receive(1, true)).await;
    until("the last message is popped", async || broker.in_flight().await == PLACES as usize + 1).await;
    assert_eq!(broker.given_back(), 0);
    raw.write(&frame(RST_STREAM, 0, last, &CANCEL)).await.unwrap();
    others_get(&broker, 1).await;
    assert_eq!(broker.given_back(), 1, "the others still wait for their client");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reached_its_consumer_stays_there_when_the_connection_ends() {
    let broker = Broker::start().await;
    broker.store(3, BODY).await;
    broker.join().await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let (_, got) = support::receive(&mut client, receive(32, false)).await;
    assert_eq!(got.len(), 3);
    drop(client);
    let mut other = support::connect(broker.front_ends.grpc, "other", "JAVA").await;
    let mut request = receive(32, false);
    request.long_polling_timeout = Some(prost_types::Duration { seconds: 2, nanos: 0 });
    let (_, got) = support::receive(&mut other, request).await;
    assert_eq!(got.len(), 0, "their time is not out");
    assert_eq!(broker.given_back(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pop_whose_answer_is_not_written_gives_its_messages_back() {
    const COUNT: usize = 32;
    let broker = Broker::start().await;
    broker.store(COUNT, 1 << 20).await;
    // An answer has up to 8 MiB. The client reads none of it, and the two sockets buffer about 4 MiB.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut client = Client::over(socket.connect(broker.front_ends.remoting).await.unwrap());
    client.send(pop(32, 1000)).await;
    client.stream.readable().await.unwrap();
    assert!(broker.in_flight().await > 0, "the messages of the answer");
    drop(client);
    let mut other = Client::connect(broker.front_ends.remoting).await;
    let mut offsets = BTreeSet::new();
    until("all come again", async || {
        let answer = other.call_with(pop(32, 1000)).await;
        for message in messages(&answer).iter().filter(|_| answer.code == code::SUCCESS) {
            assert_eq!(message.reconsume_times, 0);
            assert!(offsets.insert(message.queue_offset));
        }
        offsets.len() == COUNT
    })
    .await;
}
