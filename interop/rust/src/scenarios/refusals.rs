//! What must be refused, beside a message that must be accepted. This client checks nothing itself: the server does.

use rocketmq::error::ClientError;
use rocketmq::model::common::SendReceipt;

use crate::clients::{bodies, Clients, Wanted};
use crate::harness::{check, check_equal, Failure, Outcome};

const MIB_4: usize = 4 * 1024 * 1024;

pub async fn type_mismatch(clients: Clients) -> Outcome {
    let clients = clients.on_topic(clients.named("type-mismatch-normal"));
    let consumer = clients.consumer().await?;
    let producer = clients.producer().await?;
    let wrong = clients.message("fifo").set_message_group("g").build()?;
    refused(producer.send(wrong).await, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE")?;
    producer.send(clients.message("normal").build()?).await?;
    check_equal(bodies(&consumer.receive(Wanted::count(1)).await?), vec!["normal".to_string()], "bodies")?;
    check_equal(consumer.leftovers().await?, vec![], "bodies after the normal one")?;
    Ok("refused by the server".into())
}

/// Only the send: a delivered 4 MiB body exceeds this client's 4 MiB limit for one frame.
pub async fn body_4mib(clients: Clients) -> Outcome {
    let producer = clients.producer().await?;
    producer.send(clients.message(vec![b'x'; MIB_4]).build()?).await?;
    let too_large = clients.message(vec![b'x'; MIB_4 + 1]).build()?;
    refused(producer.send(too_large).await, "MESSAGE_BODY_TOO_LARGE")?;
    Ok("send only: this client decodes at most 4 MiB per frame; more refused by the server".into())
}

pub async fn unknown_topic(clients: Clients) -> Outcome {
    let producer = clients.on_topic(clients.named("plaintext")).producer().await?;
    let lost = clients.on_topic(clients.named("no-such-topic")).message("lost").build()?;
    refused(producer.send(lost).await, "TOPIC_NOT_FOUND")?;
    Ok(String::new())
}

fn refused(sent: Result<SendReceipt, ClientError>, code: &str) -> Result<(), Failure> {
    let error = sent.err().map(|error| error.to_string());
    let error = error.ok_or_else(|| Failure::Failed("accepted".into()))?;
    check(error.contains(code), format!("refused for another reason: {error}"))
}
