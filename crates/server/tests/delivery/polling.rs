//! How long a receive that finds nothing waits.

use std::time::Duration;

use redstart_wire::v2::Code;
use tokio::time::Instant;
use tonic::Request;

use crate::{
    broker::{Broker, GROUP, TOPIC},
    support::{self, receive_request},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_receive_with_no_time_to_wait_is_answered_at_once() {
    let broker = Broker::start().await;
    broker.join().await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let mut request = receive_request(GROUP, TOPIC);
    request.long_polling_timeout = Some(prost_types::Duration { seconds: 0, nanos: 0 });
    let mut request = Request::new(request);
    request.set_timeout(Duration::from_secs(60));
    let began = Instant::now();
    let mut stream = client.receive_message(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap().content.unwrap();
    let redstart_wire::v2::receive_message_response::Content::Status(status) = first else {
        panic!("the status comes first")
    };
    assert_eq!(status.code, i32::from(Code::MessageNotFound));
    assert!(began.elapsed() < Duration::from_secs(15), "it waited: {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_receive_that_names_no_time_leaves_the_client_half_of_its_request_timeout() {
    let broker = Broker::start().await;
    broker.join().await;
    let mut client = support::connect(broker.front_ends.grpc, "c", "JAVA").await;
    let mut request = receive_request(GROUP, TOPIC);
    request.long_polling_timeout = None;
    let mut request = Request::new(request);
    // As a client with the usual time-out of 3 s and nothing to wait for.
    request.set_timeout(Duration::from_secs(3));
    let began = Instant::now();
    let mut stream = client.receive_message(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    let waited = began.elapsed();
    assert!(waited > Duration::from_millis(1400), "it did not wait: {waited:?}");
    assert!(waited < Duration::from_millis(2450), "it waited until shortly before the deadline: {waited:?}");
}
