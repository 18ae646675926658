//! Plain messages: everything a producer sets arrives as it was.

use std::collections::HashMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clients::{bodies, endpoint, on_apache, sorted, Clients, Wanted};
use crate::harness::{check, check_equal, Failure, Outcome};

pub async fn normal(clients: Clients) -> Outcome {
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    let body: Vec<u8> = (0..=255).collect();
    let keys = vec!["customer-2".to_string(), "order-1".to_string()];
    let properties = HashMap::from([("color", "red"), ("größe", "✓ 42")]);
    let message =
        clients.message(body.clone()).set_keys(keys.clone()).set_properties(properties.clone()).build()?;
    let receipt = producer.send(message).await?;

    let arrivals = consumer.receive(Wanted::count(1)).await?;
    check_equal(arrivals.len(), 1, "number of messages")?;
    let message = &arrivals[0].message;
    check_equal(message.message_id(), receipt.message_id(), "message id")?;
    check_equal(message.topic(), &clients.topic, "topic")?;
    check_equal(message.tag(), Some(clients.tag.as_str()), "tag")?;
    check_equal(sorted(message.keys().to_vec()), keys, "keys")?;
    let got = message.properties().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    check_equal::<HashMap<_, _>>(got, properties, "properties")?;
    check(message.body() == body, "the body changed")?;
    check_equal(message.delivery_attempt(), 1, "delivery attempt")?;
    // Both fail unless the server answers the farewell with OK.
    producer.shutdown().await?;
    consumer.inner.shutdown().await?;
    Ok(String::new())
}

pub async fn batch_send(clients: Clients) -> Outcome {
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    let expected: Vec<String> = (0..5).map(|i| format!("batch-{i}")).collect();
    let batch = expected
        .iter()
        .map(|body| clients.message(body.as_bytes()).build())
        .collect::<Result<Vec<_>, _>>()?;
    let receipts = producer.batch_send(batch).await?;
    let arrivals = consumer.receive(Wanted::count(expected.len())).await?;
    check_equal(sorted(bodies(&arrivals)), expected, "bodies")?;
    check_equal(consumer.leftovers().await?, vec![], "bodies after the batch")?;
    // Apache answers with one receipt and delivers the whole batch under one id; Redstart keeps each message's own.
    if !on_apache() {
        let arrived = arrivals.iter().map(|arrival| arrival.message.message_id()).collect();
        let receipted = receipts.iter().map(|receipt| receipt.message_id()).collect();
        check_equal(sorted(arrived), sorted(receipted), "message ids")?;
    }
    Ok(format!("{} receipts", receipts.len()))
}

/// The port answers HTTP/2 without TLS: a raw preface first, then the client, which knows no TLS.
pub async fn plaintext(clients: Clients) -> Outcome {
    let what = "type of the first frame after a clear-text HTTP/2 preface (4 is SETTINGS)";
    check_equal(first_frame_type().await?, 4, what)?;
    let receipt = clients.producer().await?.send(clients.message("in the clear").build()?).await?;
    check(!receipt.message_id().is_empty(), "no message id")?;
    Ok(String::new())
}

async fn first_frame_type() -> Result<u8, Failure> {
    let mut connection = TcpStream::connect(endpoint()).await?;
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    connection.write_all(&empty_settings).await?;
    let mut header = [0; 9];
    connection.read_exact(&mut header).await?;
    Ok(header[3])
}
