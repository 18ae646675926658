//! Finds a car for each order, first come first served in every area.

use std::time::Duration;

use redstart_client::{Effect, Job, Outbox as _, Outcome, Worker};

use crate::{
    city::City,
    messages::{NOTICES, Notice, ORDERS, Order, RIDES, Ride, TIMEOUTS, message, read},
    store::{self, Tx},
};

/// When a passenger without a car is tried again. Those behind in the same area wait, other areas go on.
const TRY_AGAIN: Duration = Duration::from_millis(300);

pub async fn start(city: &City) -> anyhow::Result<Worker> {
    let producer = city.client.producer().build().await?;
    let worker = city.worker("taxi-dispatch", ORDERS);
    let (city, ledger) = (city.clone(), city.ledger.clone());
    let handler = move |job: Job, tx: Tx| {
        let (city, producer) = (city.clone(), producer.clone());
        async move {
            let order: Order = match read(&job) {
                Ok(order) => order,
                Err(outcome) => return Ok(Effect::Abort(outcome)),
            };
            let served = serve(&city, &order, tx).await?;
            // An order that has a car needs no time-out, and keeps the car if this transaction fails: it comes again. If the
            // message is on its way already, the books decide.
            if let (Effect::Commit(_), Some(recall)) = (&served, &order.recall)
                && let Err(error) = producer.recall(TIMEOUTS, recall).await
            {
                tracing::debug!(order = order.id, %error, "the time-out was not recalled");
            }
            anyhow::Ok(served)
        }
    };
    let worker = worker.attempts(u32::MAX).run_exactly_once(ledger, handler).await?;
    Ok(worker)
}

async fn serve(city: &City, order: &Order, mut tx: Tx) -> anyhow::Result<Effect<Tx>> {
    if !store::is_waiting(&mut tx, order.id).await? {
        // The passenger has given up. A dispatcher that died between taking a car and its commit has left one.
        if let Some(car) = city.garage.car_of(order.id).await? {
            city.garage.put_back(&order.area, order.id, &car).await?;
        }
        return Ok(Effect::Commit(tx));
    }
    let Some(car) = city.garage.take(&order.area, order.id).await? else {
        return Ok(Effect::Abort(Outcome::RetryAfter(TRY_AGAIN)));
    };
    city.risk();
    store::start_ride(&mut tx, order.id, &car, &order.area).await?;
    let ride = Ride {
        order: order.id,
        passenger: order.passenger.clone(),
        area: order.area.clone(),
        car: car.clone(),
    };
    city.ledger.enqueue(&mut tx, &message(RIDES, &ride)?.after(city.ride)).await?;
    let notice =
        Notice { order: order.id, passenger: order.passenger.clone(), text: format!("{car} is coming") };
    city.ledger.enqueue(&mut tx, &message(NOTICES, &notice)?.group(&order.passenger)).await?;
    city.risk();
    tracing::info!(order = order.id, area = order.area, car, "served");
    Ok(Effect::Commit(tx))
}
