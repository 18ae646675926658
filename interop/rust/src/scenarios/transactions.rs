//! Half messages: invisible until decided, dropped on rollback, asked about when the producer stays silent.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rocketmq::model::message::MessageView;
use rocketmq::model::transaction::{Transaction, TransactionChecker, TransactionResolution};

use crate::clients::{bodies, Clients, Wanted};
use crate::harness::{check, check_equal, Outcome};

pub async fn commit(clients: Clients) -> Outcome {
    let consumer = clients.consumer().await?;
    let producer = clients.transaction_producer(undecided(clients.tag.clone())).await?;
    let message = clients.message("committed").enable_transaction().build()?;
    let transaction = producer.send_transaction_message(message).await?;
    check(!transaction.transaction_id().is_empty(), "no transaction id")?;
    let id = transaction.message_id().to_string();
    check_equal(consumer.leftovers().await?, vec![], "bodies before the commit")?;
    transaction.commit().await?;
    let arrivals = consumer.receive(Wanted::count(1)).await?;
    check_equal(ids(arrivals.iter().map(|arrival| &arrival.message)), vec![id], "ids after the commit")?;
    Ok(String::new())
}

pub async fn rollback(clients: Clients) -> Outcome {
    let consumer = clients.consumer().await?;
    let producer = clients.transaction_producer(undecided(clients.tag.clone())).await?;
    let half = |body: &str| clients.message(body).enable_transaction().build();
    producer.send_transaction_message(half("dropped")?).await?.rollback().await?;
    producer.send_transaction_message(half("kept")?).await?.commit().await?;
    check_equal(bodies(&consumer.receive(Wanted::count(1)).await?), vec!["kept".to_string()], "bodies")?;
    check_equal(consumer.leftovers().await?, vec![], "bodies after the committed one")?;
    Ok(String::new())
}

pub async fn check_back(clients: Clients) -> Outcome {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let consumer = clients.consumer().await?;
    let producer = clients.transaction_producer(commit_run(clients.tag.clone(), asked.clone())).await?;
    let message = clients.message("undecided").enable_transaction().build()?;
    let sent_at = Instant::now();
    let transaction = producer.send_transaction_message(message).await?;
    let id = transaction.message_id().to_string();
    let arrivals = consumer.receive(Wanted { within: Duration::from_secs(150), ..Wanted::count(1) }).await?;
    check_equal(
        ids(arrivals.iter().map(|arrival| &arrival.message)),
        vec![id.clone()],
        "ids after the check",
    )?;
    let asked = asked.lock().expect("no checker panics");
    check(asked.contains(&id), "visible although nobody was asked")?;
    let after = (arrivals[0].at - sent_at).as_secs_f32();
    Ok(format!("visible after {after:.1} s, asked {} times", asked.len()))
}

/// A check of this run's message leaves it undecided; those of broken earlier runs are rolled back, to be rid of them.
fn undecided(tag: String) -> Box<TransactionChecker> {
    Box::new(move |_, message| match message.tag() {
        Some(of) if of == tag => TransactionResolution::UNKNOWN,
        _ => TransactionResolution::ROLLBACK,
    })
}

fn commit_run(tag: String, asked: Arc<Mutex<Vec<String>>>) -> Box<TransactionChecker> {
    Box::new(move |_, message| {
        if message.tag() != Some(&tag) {
            return TransactionResolution::ROLLBACK;
        }
        asked.lock().expect("no checker panics").push(message.message_id().to_string());
        TransactionResolution::COMMIT
    })
}

fn ids<'a>(messages: impl Iterator<Item = &'a MessageView>) -> Vec<String> {
    messages.map(|message| message.message_id().to_string()).collect()
}
