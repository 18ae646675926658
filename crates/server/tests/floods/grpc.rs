//! Floods over gRPC.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::{RecvStream, SendStream, client};
use http::Request;
use prost::Message;
use redstart_wire::v2::{
    self, Address, AddressScheme, Code, Endpoints, HeartbeatResponse, MessageQueue, PullMessageRequest,
    QueryRouteRequest, SendMessageRequest,
};
use tokio::net::TcpStream;

use crate::{
    process::{COST_MAX, LARGE_TOPIC, MIB, Process, SOON, TOPIC, WIDE_TOPIC},
    support::{grpc_message, message, resource},
};

/// A connection whose window for answers is of this many bytes.
async fn open(address: SocketAddr, window: u32) -> client::SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) =
        client::Builder::new().initial_window_size(window).handshake(stream).await.unwrap();
    tokio::spawn(async move {
        // It ends with the test, or when the broker has had enough.
        drop(connection.await);
    });
    client
}

struct Call {
    answer: client::ResponseFuture,
    body: SendStream<Bytes>,
}

async fn call(client: &client::SendRequest<Bytes>, method: &str) -> Call {
    let mut client = client.clone().ready().await.unwrap();
    let request = Request::post(format!("http://localhost/apache.rocketmq.v2.MessagingService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-mq-client-id", "raw")
        .body(())
        .unwrap();
    let (answer, body) = client.send_request(request, false).unwrap();
    Call { answer, body }
}

/// The status of an answer of any method.
async fn code(answer: client::ResponseFuture) -> Option<Code> {
    let mut body: RecvStream = answer.await.ok()?.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        bytes.extend_from_slice(&data);
    }
    let status = HeartbeatResponse::decode(bytes.get(5..)?).ok()?.status?;
    Code::try_from(status.code).ok()
}

fn route(topic: &str, hosts: usize, host: usize) -> Vec<u8> {
    let address = Address { host: "h".repeat(host), port: 1 };
    let endpoints = Endpoints { scheme: AddressScheme::DomainName.into(), addresses: vec![address; hosts] };
    grpc_message(&QueryRouteRequest { topic: Some(resource(topic)), endpoints: Some(endpoints) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_do_not_multiply_what_the_client_says() {
    let process = Process::start().await;
    let client = open(process.grpc, 1 << 20).await;
    let request: Bytes = route(WIDE_TOPIC, 1, MIB / 2).into();
    for _ in 0..20 {
        let Call { answer, mut body } = call(&client, "QueryRoute").await;
        body.send_data(request.clone(), true).unwrap();
        let code = tokio::time::timeout(SOON, code(answer)).await.unwrap();
        assert_eq!(code, Some(Code::IllegalAccessPoint));
    }
    process.check_cost("routes with a long host", COST_MAX).await;
    process.serves().await;
}

/// 4 MiB each, which the client does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unary_answers_beyond_the_window_count() {
    const CONNECTIONS: usize = 4;
    const CALLS: usize = 100;
    let process = Process::start().await;
    let request: Bytes = route(WIDE_TOPIC, 16, 255).into();
    let mut held = Vec::new();
    let mut refused = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        // Room for a refusal, not for a route.
        let client = open(process.grpc, 1024).await;
        for _ in 0..CALLS {
            let Call { answer, mut body } = call(&client, "QueryRoute").await;
            body.send_data(request.clone(), true).unwrap();
            refused.spawn(status_of_small(answer));
        }
        held.push(client);
    }
    some_are_refused(&mut refused).await;
    process.check_cost("routes that nobody reads", COST_MAX).await;
    drop((held, refused));
    process.serves().await;
}

/// Waits for a call that is refused because the bytes are spent.
async fn some_are_refused(codes: &mut tokio::task::JoinSet<Option<Code>>) {
    let found = async {
        while let Some(code) = codes.join_next().await {
            if code.unwrap() == Some(Code::TooManyRequests) {
                return;
            }
        }
        panic!("none is refused");
    };
    tokio::time::timeout(SOON, found).await.expect("some are refused when the bytes are spent");
}

/// The status of an answer that fits into one frame. Of a larger one nothing is given back to the window.
async fn status_of_small(answer: client::ResponseFuture) -> Option<Code> {
    let mut body = answer.await.ok()?.into_body();
    let first = body.data().await?.ok()?;
    let length = u32::from_be_bytes(*first.get(1..5)?.first_chunk()?) as usize;
    if first.len() < 5 + length {
        // Never read on.
        return std::future::pending().await;
    }
    let status = HeartbeatResponse::decode(&first[5..5 + length]).ok()?.status?;
    Code::try_from(status.code).ok()
}

/// The requests are whole, but their streams do not end, so that they are not carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_requests_whose_streams_do_not_end_count() {
    const CONNECTIONS: usize = 8;
    const CALLS: usize = 60;
    let process = Process::start().await;
    let request = SendMessageRequest { messages: vec![message(TOPIC, "m", &vec![7; MIB])] };
    let request: Bytes = grpc_message(&request).into();
    let mut held = Vec::new();
    let mut refused = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = open(process.grpc, 1 << 20).await;
        for _ in 0..CALLS {
            let Call { answer, mut body } = call(&client, "SendMessage").await;
            body.send_data(request.clone(), false).unwrap();
            refused.spawn(code(answer));
            held.push(body);
        }
    }
    some_are_refused(&mut refused).await;
    process.check_cost("whole requests without an end", COST_MAX).await;
    drop((held, refused));
    process.serves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streamed_answers_that_nobody_reads_count_together() {
    const CONNECTIONS: usize = 20;
    const CALLS: usize = 16;
    let process = Process::start().await;
    let request = PullMessageRequest {
        group: Some(resource("g")),
        message_queue: Some(MessageQueue { topic: Some(resource(LARGE_TOPIC)), ..Default::default() }),
        offset: 0,
        batch_size: 1,
        filter_expression: Some(v2::FilterExpression {
            r#type: v2::FilterType::Tag.into(),
            expression: "*".to_owned(),
        }),
        ..Default::default()
    };
    let request: Bytes = grpc_message(&request).into();
    let mut held = Vec::new();
    let mut begun = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = open(process.grpc, 0).await;
        for _ in 0..CALLS {
            let Call { answer, mut body } = call(&client, "PullMessage").await;
            body.send_data(request.clone(), true).unwrap();
            begun.spawn(async move { answer.await.map(http::Response::into_body).ok() });
        }
        held.push(client);
    }
    // Some have begun: their first message is in memory.
    let begun = tokio::time::timeout(SOON, begun.join_next()).await.unwrap();
    process.check_cost("large messages that nobody reads", COST_MAX).await;
    drop((held, begun));
    process.serves().await;
}

/// Two bytes of an empty message take hundreds when it is decoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_many_empty_fields_counts_as_what_it_becomes() {
    let process = Process::start().await;
    let client = open(process.grpc, 1 << 20).await;
    for (method, field) in [("SendMessage", [0x0a, 0]), ("AckMessage", [0x1a, 0])] {
        let fields = field.repeat(4 * MIB);
        let mut request = vec![0];
        request.extend((fields.len() as u32).to_be_bytes());
        request.extend(fields);
        let request = Bytes::from(request);
        let Call { answer, mut body } = call(&client, method).await;
        body.send_data(request, true).unwrap();
        let code = tokio::time::timeout(SOON, code(answer)).await.unwrap();
        assert!(matches!(code, None | Some(Code::TooManyRequests)), "{method}: {code:?}");
        process.check_cost(method, COST_MAX).await;
    }
    process.serves().await;
}
