//! A server that asks for credentials: what the users of lib/auth.py may do, and what they are refused.

use std::future::Future;

use rocketmq::error::ClientError;

use crate::clients::{bodies, Clients, Wanted};
use crate::harness::{check, check_equal, Failure, Outcome};

const APP: &str = "auth-app";
const UNAUTHORIZED: &str = "UNAUTHORIZED";
const FORBIDDEN: &str = "FORBIDDEN";

/// What the user may do: all of it, to the end.
pub async fn exchange(clients: Clients) -> Outcome {
    let clients = clients.acting_as(APP);
    let consumer = clients.consumer().await?;
    send(&clients).await?;
    check_equal(bodies(&consumer.receive(Wanted::count(1)).await?), vec!["signed".to_string()], "bodies")?;
    Ok(String::new())
}

pub async fn wrong_key(clients: Clients) -> Outcome {
    refused(send(&clients.signing_with("auth-guessed", "not-its-secret")), UNAUTHORIZED).await
}

pub async fn disabled_user(clients: Clients) -> Outcome {
    refused(send(&clients.acting_as("auth-disabled")), UNAUTHORIZED).await
}

pub async fn no_topic_right(clients: Clients) -> Outcome {
    let clients = clients.acting_as(APP);
    refused(clients.consumer(), FORBIDDEN).await?;
    refused(send(&clients), FORBIDDEN).await
}

pub async fn no_group_right(clients: Clients) -> Outcome {
    let clients = clients.acting_as(APP);
    send(&clients).await?;
    refused(clients.consumer(), FORBIDDEN).await
}

/// A prefix allows both topics; the rule for the name of one of them denies.
pub async fn deny(clients: Clients) -> Outcome {
    let clients = clients.acting_as(APP);
    send(&clients).await?;
    refused(send(&clients.on_topic(clients.named("auth-deny-exact"))), FORBIDDEN).await
}

pub async fn source(clients: Clients) -> Outcome {
    exchange(clients.clone()).await?;
    let far = clients.acting_as(APP).on_topic(clients.named("auth-source-far"));
    refused(send(&far), FORBIDDEN).await
}

async fn send(clients: &Clients) -> Result<(), ClientError> {
    let producer = clients.producer().await?;
    producer.send(clients.message("signed").build()?).await.map(drop)
}

async fn refused<T>(call: impl Future<Output = Result<T, ClientError>>, code: &str) -> Outcome {
    let error = call.await.err().map(|error| error.to_string());
    let error = error.ok_or_else(|| Failure::Failed("accepted".into()))?;
    check(error.contains(code), format!("refused for another reason: {error}"))?;
    Ok(error.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect())
}
