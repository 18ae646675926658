//! Peers that do not behave on their connection: they are cut off, and others are served meanwhile.

use std::time::{Duration, Instant};

use redstart_engine::MessageType;
use redstart_server::grpc;
use redstart_wire::v2::Code;
use tokio::io::AsyncWriteExt;

use crate::support::{http2::*, *};

const SOON: Duration = Duration::from_secs(10);

fn limits() -> grpc::Limits {
    grpc::Limits {
        handshake_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_millis(300),
        ping_interval: Duration::from_millis(300),
        ping_timeout: Duration::from_millis(300),
        stuck_timeout: Duration::from_millis(300),
        ..grpc::Limits::default()
    }
}

async fn broker() -> Broker {
    let broker = Broker::with(grpc::Config { limits: limits(), ..config() }).await;
    broker.topic("t", MessageType::Normal).await;
    broker
}

/// An honest client sends, and is answered in time.
async fn serves(broker: &Broker) {
    let honest = async {
        let mut client = broker.client("honest").await;
        send(&mut client, message("t", "m", b"body")).await;
    };
    tokio::time::timeout(SOON, honest).await.expect("an honest client is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_does_not_speak_http2_is_closed() {
    let broker = broker().await;
    let started = Instant::now();
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
    let mut tls_record = vec![0x16, 3, 1, 2, 0];
    tls_record.extend(&noise[..100]);
    for bytes in
        [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &noise, &tls_record, b"P", b"PRI * HTTP/2.0\r\n", b""]
    {
        let mut raw = Raw::connect(broker.address).await;
        raw.write(bytes).await.unwrap();
        raw.closed(SOON).await.unwrap();
    }
    assert!(started.elapsed() < SOON);
    serves(&broker).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preface_byte_by_byte_and_a_tls_handshake_that_never_ends_run_out_of_time() {
    let broker = broker().await;
    let mut dripping = Raw::connect(broker.address).await;
    let mut tls = Raw::connect(broker.address).await;
    // The head of a ClientHello that announces 512 bytes.
    tls.write(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await.unwrap();
    let started = Instant::now();
    let (mut read, mut write) = dripping.stream.split();
    let drip = async {
        for byte in PREFACE {
            if write.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let closed = async {
        let mut byte = [0];
        drop(tokio::io::AsyncReadExt::read(&mut read, &mut byte).await);
        started.elapsed()
    };
    let (took, ()) = tokio::join!(closed, drip);
    assert!(took < Duration::from_secs(2), "closed after {took:?}, long before the preface was complete");
    tls.closed(SOON).await.unwrap();
    serves(&broker).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_answers_no_ping_is_let_go() {
    let broker = broker().await;
    let mut silent = Raw::open(broker.address).await;
    silent.closed(SOON).await.unwrap();
    serves(&broker).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_are_cut_off_and_others_are_served() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let settings = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let floods: [(&str, Vec<u8>); 5] = [
        ("pings", frame(PING, 0, 0, &[7; 8])),
        ("settings", settings),
        ("unknown frames", frame(0xee, 0, 0, &[1; 5])),
        ("priorities", frame(2, 0, 1, &[0, 0, 0, 0, 16])),
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    ];
    for (what, bytes) in floods {
        let mut raw = Raw::open(broker.address).await;
        let many = bytes.repeat(100);
        let (flooded, ()) = tokio::join!(raw.flood(&many, SOON), serves(&broker));
        flooded.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_cancelled_at_once_end_the_connection() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let headers = call_headers("ReceiveMessage");
    for pause in [false, true] {
        let mut raw = Raw::open(broker.address).await;
        let started = Instant::now();
        let mut cut_off = false;
        for n in 0..20_000_u32 {
            let stream = 2 * n + 1;
            let pair =
                [frame(HEADERS, END_HEADERS, stream, &headers), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])];
            if raw.write(&pair.concat()).await.is_err() {
                cut_off = true;
                break;
            }
            if pause {
                // The server gets to begin the call before it is cancelled.
                tokio::task::yield_now().await;
            }
        }
        assert!(cut_off || raw.closed(SOON).await.is_ok(), "still open after {:?}", started.elapsed());
        serves(&broker).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_without_an_end_and_headers_over_the_limit_are_refused() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let mut endless = Raw::open(broker.address).await;
    endless.write(&frame(HEADERS, 0, 1, &call_headers("QueryRoute"))).await.unwrap();
    let more = frame(CONTINUATION, 0, 1, &literal("x", &"y".repeat(1000)));
    endless.flood(&more, SOON).await.unwrap();

    let mut large = Raw::open(broker.address).await;
    let mut headers = call_headers("QueryRoute");
    headers.extend((0..50).flat_map(|n| literal(&format!("x-{n}"), &"y".repeat(1000))));
    let mut bytes = Vec::new();
    let chunks: Vec<&[u8]> = headers.chunks(16_000).collect();
    for (n, chunk) in chunks.iter().enumerate() {
        let flags = if n + 1 == chunks.len() { END_HEADERS } else { 0 };
        bytes.extend(frame(if n == 0 { HEADERS } else { CONTINUATION }, flags, 1, chunk));
    }
    large.write(&bytes).await.unwrap();
    let refused = async {
        loop {
            match large.frame().await {
                None => return true,
                Some(found) if found.kind == RST_STREAM || found.kind == GOAWAY => return true,
                // 0x88 is HPACK for the status 200, with which every answer of the service begins.
                Some(found) if found.kind == HEADERS => return found.payload.first() != Some(&0x88),
                Some(_) => {}
            }
        }
    };
    assert!(tokio::time::timeout(SOON, refused).await.unwrap());
    // A peer that answers no pings would hold up the end.
    drop(large);
    serves(&broker).await;
    broker.stop().await;
}

/// Its window is zero, and stays so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_its_peer_does_not_take_ends_its_call_and_gives_the_bytes_back() {
    let broker = broker().await;
    let mut raw = Raw::connect(broker.address).await;
    raw.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()).await.unwrap();
    let request = grpc_message(&redstart_wire::v2::QueryRouteRequest {
        topic: Some(resource("t")),
        ..Default::default()
    });
    raw.write(&frame(HEADERS, END_HEADERS, 1, &call_headers("QueryRoute"))).await.unwrap();
    raw.write(&frame(DATA, END_STREAM, 1, &request)).await.unwrap();
    let ended = async {
        while let Some(found) = raw.frame().await {
            if found.kind == PING && found.flags == 0 {
                raw.write(&frame(PING, 1, 0, &found.payload)).await.unwrap();
            }
            if found.kind == RST_STREAM && found.stream == 1 {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(SOON, ended).await.unwrap(), "the call ends, the connection does not");
    serves(&broker).await;
    drop(raw);
    let given_back = async {
        while broker.view.network_bytes().0 > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, given_back).await.expect("no byte is counted for ever");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_does_not_come_in_whole_is_given_up() {
    let broker = broker().await;
    for bytes in [&[][..], &grpc_frame(0, 1 << 20, &[1; 1000])] {
        let mut raw = Raw::open(broker.address).await;
        raw.write(&frame(HEADERS, END_HEADERS, 1, &call_headers("SendMessage"))).await.unwrap();
        raw.write(&frame(DATA, 0, 1, bytes)).await.unwrap();
        let given_up = async {
            while let Some(found) = raw.frame().await {
                if found.stream == 1
                    && (found.kind == HEADERS && found.flags & END_STREAM != 0 || found.kind == RST_STREAM)
                {
                    return true;
                }
                if found.kind == PING && found.flags == 0 {
                    raw.write(&frame(PING, 1, 0, &found.payload)).await.unwrap();
                }
            }
            false
        };
        assert!(
            tokio::time::timeout(SOON, given_up).await.unwrap(),
            "the call ends, the connection does not"
        );
    }
    serves(&broker).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_get_a_status_and_harm_nobody() {
    let broker = Broker::start().await;
    broker.topic("t", MessageType::Normal).await;
    let cases: [(&str, Vec<u8>); 6] = [
        ("no protobuf", grpc_frame(0, 8, &[0xff; 8])),
        ("a length of 1 GiB", grpc_frame(0, 1 << 30, &[0; 100])),
        ("one byte over the limit", grpc_frame(0, (16 << 20) + 1, &[0; 100])),
        ("compressed, with no encoding", grpc_frame(1, 4, &[0; 4])),
        ("an unknown compression flag", grpc_frame(9, 4, &[0; 4])),
        ("half a message", grpc_frame(0, 100, &[0; 10])),
    ];
    for method in ["SendMessage", "ReceiveMessage", "AckMessage", "QueryRoute", "Telemetry"] {
        for (what, bytes) in &cases {
            let mut raw = Raw::open(broker.address).await;
            raw.write(&frame(HEADERS, END_HEADERS, 1, &call_headers(method))).await.unwrap();
            raw.write(&frame(DATA, END_STREAM, 1, bytes)).await.unwrap();
            let ended = async {
                while let Some(frame) = raw.frame().await {
                    let ends = frame.kind == RST_STREAM || frame.flags & END_STREAM != 0;
                    if frame.stream == 1 && ends && frame.kind != DATA {
                        return true;
                    }
                }
                false
            };
            assert!(tokio::time::timeout(SOON, ended).await.unwrap(), "{method}, {what}: the call ends");
        }
    }
    let mut raw = Raw::open(broker.address).await;
    // A call without any body, and one to nowhere.
    raw.write(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &call_headers("SendMessage"))).await.unwrap();
    raw.write(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &call_headers("NoSuchMethod"))).await.unwrap();
    let mut ended = 0;
    while ended < 2 {
        let frame = tokio::time::timeout(SOON, raw.frame()).await.unwrap().expect("the connection stays");
        ended += u32::from(frame.flags & END_STREAM != 0 && frame.kind == HEADERS);
    }
    drop(raw);
    serves(&broker).await;
    let mut client = broker.client("c").await;
    let stored = receive(&mut client, receive_request("g", "t")).await;
    assert_eq!(stored.0, Code::MessageNotFound, "nothing of that was stored for a group that comes later");
    broker.stop().await;
}
