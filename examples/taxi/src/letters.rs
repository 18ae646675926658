//! Watches the dead letters of the dispatch: what could not be read as an order, and what was tried too often.

use redstart_client::{Job, Worker};

use crate::{
    city::City,
    store::{self, Tx},
};

pub async fn start(city: &City) -> anyhow::Result<Worker> {
    let worker = city.worker("taxi-letters", "%DLQ%taxi-dispatch");
    let handler = |job: Job, mut tx: Tx| async move {
        let reason = job.origin().and_then(|origin| origin.reason.clone()).unwrap_or_default();
        let topic = job.origin().map_or(job.topic(), |origin| &origin.topic);
        tracing::warn!(id = job.id(), topic, reason, "a dead letter");
        store::file_letter(&mut tx, topic, &reason, &String::from_utf8_lossy(job.body())).await?;
        anyhow::Ok(tx)
    };
    Ok(worker.run_exactly_once(city.ledger.clone(), handler).await?)
}
