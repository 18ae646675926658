//! Positions of cars: every car sends one each second, and a newer one replaces the older.

use std::{collections::HashMap, time::Duration};

use redstart_client::{Allocation, Filter, Json, Position as Begin, Selector};

use crate::{
    city::City,
    messages::{POSITIONS, Position, message},
};

const EVERY: Duration = Duration::from_secs(1);

/// A car that reports its way. Nobody waits for an answer to a position, since the next one replaces it. All positions of a car are in one
/// queue, by the hash of its name: so they are read in their order.
pub async fn drive(city: &City, car: &str, area: &str) -> anyhow::Result<()> {
    let producer = city.client.producer().selector(Selector::Hash).build().await?;
    for step in 0.. {
        let position =
            Position { car: car.to_owned(), area: area.to_owned(), x: step % 100, y: (step * 7) % 100 };
        producer.post(message(POSITIONS, &position)?.shard_by(car)).await?;
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

/// Follows the cars. Several of these share the queues among them, each queue with one; what they have read is stored as the
/// progress of their group, after it was processed.
pub async fn follow(city: &City) -> anyhow::Result<()> {
    let reader = city
        .client
        .queue_reader("taxi-positions")
        .balanced(Allocation::Averagely)
        .subscribe(POSITIONS, Filter::all())
        .start(Begin::Latest)
        .build()
        .await?;
    let mut last: HashMap<String, Position> = HashMap::new();
    loop {
        let batch = reader.next().await?;
        for message in &batch.messages {
            match message.decode::<Position, _>(&Json) {
                Ok(position) => drop(last.insert(position.car.clone(), position)),
                Err(error) => tracing::warn!(%error, "a position was skipped"),
            }
        }
        reader.commit(&batch).await?;
        tracing::info!(queue = %batch.queue, cars = last.len(), "positions");
    }
}
