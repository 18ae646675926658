//! Tells passengers. Here telling is a row; an SMS gateway would get the message's id as the key that makes a repeat harmless.

use redstart_client::{Effect, Job, Worker};

use crate::{
    city::City,
    messages::{NOTICES, Notice, read},
    store::{self, Tx},
};

pub async fn start(city: &City) -> anyhow::Result<Worker> {
    let worker = city.worker("taxi-notices", NOTICES);
    let handler = |job: Job, mut tx: Tx| async move {
        let notice: Notice = match read(&job) {
            Ok(notice) => notice,
            Err(outcome) => return Ok(Effect::Abort(outcome)),
        };
        store::note(&mut tx, notice.order, &notice.passenger, &notice.text).await?;
        anyhow::Ok(Effect::Commit(tx))
    };
    Ok(worker.run_exactly_once(city.ledger.clone(), handler).await?)
}
