//! The topics, and what their messages say.

use redstart_client::{Json, Message, Outcome, Received};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Orders, one message group an area: those of an area are served one after the other.
pub const ORDERS: &str = "taxi-orders";
/// Delayed: the time at which a passenger gives up. Recalled when a car is found.
pub const TIMEOUTS: &str = "taxi-timeouts";
/// Delayed: the end of a ride.
pub const RIDES: &str = "taxi-rides";
/// Cars that are to be put back.
pub const CARS: &str = "taxi-cars";
/// What passengers are told.
pub const NOTICES: &str = "taxi-notices";
/// Where cars are.
pub const POSITIONS: &str = "taxi-positions";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub id: i64,
    pub passenger: String,
    pub area: String,
    /// Recalls the message of `TIMEOUTS` for this order.
    pub recall: Option<String>,
}

/// The time of an order is up. It names the order by its ticket: it is sent before the order has a number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimeUp {
    pub ticket: String,
}

/// A car and the order that it serves: the end of the ride in `RIDES`, the way back in `CARS`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ride {
    pub order: i64,
    pub passenger: String,
    pub area: String,
    pub car: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notice {
    pub order: i64,
    pub passenger: String,
    pub text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Position {
    pub car: String,
    pub area: String,
    pub x: i32,
    pub y: i32,
}

pub fn message<T: Serialize + DeserializeOwned>(topic: &str, value: &T) -> anyhow::Result<Message> {
    Ok(Message::encode(topic, &Json, value)?)
}

/// The value of a message. Its absence is no error of the handler: no retry would change the body.
pub fn read<T: Serialize + DeserializeOwned>(received: &Received) -> Result<T, Outcome> {
    received.decode(&Json).map_err(|error| Outcome::DeadLetter(error.to_string()))
}
