//! Ends rides, and puts their cars back.

use redstart_client::{Effect, Job, Outbox as _, Outcome, Worker};

use crate::{
    city::City,
    messages::{CARS, NOTICES, Notice, RIDES, Ride, message, read},
    store::{self, Tx},
};

/// A ride is over: that is booked, and the car goes back by a message of its own. Would it go back here, before the commit, another
/// order could get it while the books still have it on the road; after the commit, a crash in between would lose the car.
pub async fn end_rides(city: &City) -> anyhow::Result<Worker> {
    let worker = city.worker("taxi-rides", RIDES);
    let (city, ledger) = (city.clone(), city.ledger.clone());
    let handler = move |job: Job, mut tx: Tx| {
        let city = city.clone();
        async move {
            let ride: Ride = match read(&job) {
                Ok(ride) => ride,
                Err(outcome) => return Ok(Effect::Abort(outcome)),
            };
            store::end_ride(&mut tx, ride.order, &ride.car, &ride.area).await?;
            city.ledger.enqueue(&mut tx, &message(CARS, &ride)?).await?;
            let notice = Notice {
                order: ride.order,
                passenger: ride.passenger.clone(),
                text: "you have arrived".to_owned(),
            };
            city.ledger.enqueue(&mut tx, &message(NOTICES, &notice)?.group(&ride.passenger)).await?;
            city.risk();
            anyhow::Ok(Effect::Commit(tx))
        }
    };
    Ok(worker.run_exactly_once(ledger, handler).await?)
}

/// Redis has no part in a transaction of the books, so this step can be repeated instead: see `garage.rs`.
pub async fn return_cars(city: &City) -> anyhow::Result<Worker> {
    let worker = city.worker("taxi-cars", CARS);
    let city = city.clone();
    let handler = move |job: Job| {
        let city = city.clone();
        async move {
            let ride: Ride = match read(&job) {
                Ok(ride) => ride,
                Err(outcome) => return Ok(outcome),
            };
            city.garage.put_back(&ride.area, ride.order, &ride.car).await?;
            city.risk();
            anyhow::Ok(Outcome::Done)
        }
    };
    Ok(worker.run(handler).await?)
}
