//! Orders that have waited too long.

use redstart_client::{Effect, Job, Outbox as _, Worker};

use crate::{
    city::City,
    messages::{NOTICES, Notice, TIMEOUTS, TimeUp, message, read},
    store::{self, Tx},
};

pub async fn start(city: &City) -> anyhow::Result<Worker> {
    let worker = city.worker("taxi-timeouts", TIMEOUTS);
    let ledger = city.ledger.clone();
    let books = ledger.clone();
    let handler = move |job: Job, mut tx: Tx| {
        let books = books.clone();
        async move {
            let TimeUp { ticket } = match read(&job) {
                Ok(time_up) => time_up,
                Err(outcome) => return Ok(Effect::Abort(outcome)),
            };
            // Nothing if the order has a car, or was never written: the message is sent before it.
            if let Some((order, passenger)) = store::give_up(&mut tx, &ticket).await? {
                let notice =
                    Notice { order, passenger: passenger.clone(), text: "no car was free, sorry".to_owned() };
                books.enqueue(&mut tx, &message(NOTICES, &notice)?.group(passenger)).await?;
            }
            anyhow::Ok(Effect::Commit(tx))
        }
    };
    Ok(worker.run_exactly_once(ledger, handler).await?)
}
