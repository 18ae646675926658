use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::broker::{ADMIN_SECRET, Answer, Broker};

const APP: &str = "app:app-secret-1234";

/// A user that may send to one topic, and consume it as one group.
fn app(broker: &Broker) {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "app-secret-1234\n").expect("it is written");
    let file = secret.path().to_str().expect("a path");
    broker.command(&["user", "create", "app", "--secret-file", file]);
    broker.command(&["acl", "grant", "app", "Topic:orders", "Pub,Sub"]);
    broker.command(&["acl", "grant", "app", "Group:shop", "Sub"]);
}

async fn ask(broker: &Broker, credentials: Option<&str>, path: &str, body: &[u8]) -> Answer {
    let authorization = credentials.map(|given| format!("Basic {}", STANDARD.encode(given)));
    let headers: Vec<(&str, &str)> =
        authorization.iter().map(|value| ("Authorization", value.as_str())).collect();
    broker.connect().await.ask(path, &headers, body).await
}

#[tokio::test]
async fn a_user_may_do_what_its_rules_allow_and_no_more() {
    let broker = Broker::with(&["--auth=true"]);
    broker.command(&["topic", "create", "orders"]);
    broker.command(&["topic", "create", "other"]);
    app(&broker);
    let app = Some(APP);
    let (send, other) = ("/v1/topics/orders/messages", "/v1/topics/other/messages");
    let receive = "/v1/topics/orders/groups/shop/receive";
    for (credentials, path, body, status, code) in [
        (None, send, &b"x"[..], 401, "unauthenticated"),
        (Some("app:wrong"), send, b"x", 401, "unauthenticated"),
        (Some("nobody:x"), send, b"x", 401, "unauthenticated"),
        (app, other, b"x", 403, "forbidden"),
        (app, "/v1/topics/orders/groups/theirs/receive", b"", 403, "forbidden"),
        (app, "/v1/topics/other/groups/shop/receive", b"", 403, "forbidden"),
        (app, "/v1/topics/%25DLQ%25theirs/groups/shop/receive", b"", 403, "forbidden"),
        (app, "/v1/topics/orders/groups/theirs/ack", b"{}", 403, "forbidden"),
    ] {
        let answer = ask(&broker, credentials, path, body).await;
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{credentials:?} {path}");
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
    }
    assert_eq!(ask(&broker, app, send, b"x").await.status, 200);
    assert_eq!(ask(&broker, app, receive, b"").await.json()["messages"][0]["body"], json!("x"));
    let admin = format!("admin:{ADMIN_SECRET}");
    assert_eq!(ask(&broker, Some(&admin), other, b"x").await.status, 200);
}

#[tokio::test]
async fn a_receive_that_waits_gets_nothing_that_was_forbidden_meanwhile() {
    let broker = Broker::with(&["--auth=true"]);
    broker.command(&["topic", "create", "orders"]);
    app(&broker);
    let mut waiting = broker.connect().await;
    let authorization = format!("Basic {}", STANDARD.encode(APP));
    let receive = "/v1/topics/orders/groups/shop/receive";
    waiting.begin(receive, &[("Authorization", &authorization)], br#"{"wait_ms":30000}"#).await;
    // The receive is waiting when the rule goes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    broker.command(&["acl", "revoke", "app", "Group:shop", "--yes"]);
    let admin = format!("admin:{ADMIN_SECRET}");
    assert_eq!(ask(&broker, Some(&admin), "/v1/topics/orders/messages", b"x").await.status, 200);
    let answer = waiting.answer().await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (403, "forbidden".to_owned()));
    let received = ask(&broker, Some(&admin), receive, br#"{"wait_ms":5000}"#).await.json();
    let message = &received["messages"][0];
    assert_eq!((&message["body"], &message["attempt"]), (&json!("x"), &json!(1)), "it went back");
}
