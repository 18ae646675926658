use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::broker::{Broker, PATIENCE, bodies};

const SEND: &str = "/v1/topics/t/messages";

/// Others are served, whatever somebody else sends.
async fn still_serves(broker: &Broker) {
    broker.send("t", json!({"body": "good", "tag": "good"})).await;
    let received = broker.receive("t", "good", json!({"tags": "good", "wait_ms": 5000})).await;
    assert_eq!(bodies(&received), ["good"]);
    broker.ack("t", "good", &received[0]).await;
}

/// A path, headers, a body; and the status and code of the refusal.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [u8], u16, &'a str);

#[tokio::test]
async fn every_bad_request_gets_its_own_refusal() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let json_type = ("Content-Type", "application/json");
    let many: Vec<(&str, &str)> = (0..130).map(|_| ("Message-Key", "k")).collect();
    let cases: [Case<'_>; 17] = [
        ("/v1/topics/t/messages/", &[], b"x", 404, "path_not_found"),
        ("/v1/topics/t%/messages", &[], b"x", 400, "bad_path"),
        ("/v1/topics/t/messages?a=1", &[], b"x", 400, "bad_path"),
        ("/v1/topics//messages", &[], b"x", 400, "bad_name"),
        (SEND, &[], b"", 400, "body_missing"),
        (SEND, &[json_type], b"{\"body\":\"\xff\"}", 400, "bad_json"),
        (SEND, &[json_type], b"{\"body_base64\":\"!\"}", 400, "bad_base64"),
        (
            SEND,
            &[("Content-Type", "application/json; charset=gbk")],
            b"{\"body\":\"x\"}",
            415,
            "unsupported_media_type",
        ),
        (SEND, &[("Content-Encoding", "gzip")], b"x", 415, "unsupported_media_type"),
        (SEND, &[("Message-Tag", "a"), ("Message-Tag", "b")], b"x", 400, "bad_header"),
        (SEND, &[("Message-Colour", "a")], b"x", 400, "bad_header"),
        (SEND, &many, b"x", 400, "bad_header"),
        (SEND, &[("Origin", "http://evil.example")], b"x", 403, "web_page"),
        ("/v1/topics/t/groups/g/receive", &[], b"{\"max\":33}", 400, "out_of_range"),
        ("/v1/topics/t/groups/g/receive", &[], b"{\"sql\":\"a >\"}", 400, "bad_filter"),
        ("/v1/topics/t/groups/DEFAULT_CONSUMER/receive", &[], b"", 403, "reserved_name"),
        ("/v1/topics/t/groups/g/ack", &[], b"{\"handle\":\"+1\"}", 400, "bad_handle"),
    ];
    let mut http = broker.connect().await;
    for (path, headers, body, status, code) in cases {
        let answer = http.ask(path, headers, body).await;
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{path} {headers:?}");
    }
    http.stream.write_all(b"GET /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let answer = http.answer().await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (405, "method_not_allowed".to_owned()));
    assert_eq!(answer.header("allow"), Some("POST"));
    still_serves(&broker).await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let broker = Broker::with(&["--message-bytes-max=64KiB"]);
    broker.topic("t", 1, "NORMAL").await;
    let fits = vec![b'x'; 64 << 10];
    assert_eq!(broker.connect().await.ask(SEND, &[], &fits).await.status, 200);
    let over = vec![b'x'; (64 << 10) + 1];
    let answer = broker.connect().await.ask(SEND, &[], &over).await;
    assert_eq!((answer.status, answer.code()), (413, "body_too_large".to_owned()));
    let text = "x".repeat((64 << 10) + 1);
    let answer = broker.post(SEND, &json!({"body": text})).await;
    assert_eq!((answer.status, answer.code()), (413, "body_too_large".to_owned()));
    // Announced and not sent.
    let mut http = broker.connect().await;
    let head = format!("POST {SEND} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n");
    http.stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(http.answer().await.expect("an answer").status, 413);
    still_serves(&broker).await;
}

#[tokio::test]
async fn chunks_without_end_end_at_the_limit() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let mut http = broker.connect().await;
    let head = format!("POST {SEND} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    http.stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let flood = async {
        let mut sent = 0;
        while http.stream.write_all(chunk.as_bytes()).await.is_ok() {
            sent += 1;
            assert!(sent < 2000, "it takes 128 MiB");
        }
    };
    tokio::time::timeout(PATIENCE, flood).await.expect("it is closed");
    // A chunked body that ends is as good as another.
    let mut http = broker.connect().await;
    http.stream.write_all(format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(http.answer().await.expect("an answer").status, 200);
    let mut http = broker.connect().await;
    http.stream.write_all(format!("{head}zz\r\nabc\r\n").as_bytes()).await.unwrap();
    assert_eq!(http.answer().await.expect("an answer").status, 400);
    still_serves(&broker).await;
}

#[tokio::test]
async fn a_body_that_trickles_is_ended_and_holds_up_nobody() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    let mut slow = broker.connect().await;
    let head = format!("POST {SEND} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    slow.stream.write_all(head.as_bytes()).await.unwrap();
    let began = Instant::now();
    let answer = loop {
        if slow.stream.write_all(b"x").await.is_err() {
            break None;
        }
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(500), slow.answer()).await {
            break answer;
        }
        still_serves(&broker).await;
    };
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    if let Some(answer) = answer {
        assert_eq!((answer.status, answer.code()), (408, "body_too_slow".to_owned()));
    }
}

#[tokio::test]
async fn past_a_bound_the_answer_says_so_and_when_to_try_again() {
    // No volume is so empty.
    let broker = Broker::with(&["--disk-clean-percent=1", "--disk-refuse-percent=1"]);
    broker.topic("t", 1, "NORMAL").await;
    let refused = async || {
        let answer = broker.connect().await.ask(SEND, &[], b"x").await;
        (answer.status == 429).then_some(answer)
    };
    let mut answer = refused().await;
    let began = Instant::now();
    // The volume is looked at now and then.
    while answer.is_none() && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer = refused().await;
    }
    let answer = answer.expect("a refusal");
    assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("too_many_requests", Some("1")));
    assert!(answer.json()["message"].as_str().unwrap().contains("the disk is"), "{}", answer.text());
}

#[tokio::test]
async fn json_that_names_very_much_takes_little_memory() {
    let broker = Broker::start();
    broker.topic("t", 1, "NORMAL").await;
    still_serves(&broker).await;
    let before = broker.resident_bytes();
    let headers = [("Content-Type", "application/json")];
    let list = format!("[{}]", vec!["{}"; 2_000_000].join(","));
    let deep = "[".repeat(6_000_000);
    let keys = format!(r#"{{"body":"x","keys":[{}]}}"#, vec!["\"\""; 2_000_000].join(","));
    for body in [list, deep, keys] {
        let answer = broker.connect().await.ask(SEND, &headers, body.as_bytes()).await;
        assert_eq!((answer.status, answer.code()), (400, "bad_json".to_owned()));
    }
    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
    still_serves(&broker).await;
}
