//! The order service: passengers and drivers over HTTP, a board of all areas, and the relay that sends what the books hold for sending.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use redstart_client::{Ledger as _, Outbox as _, Producer, Relay, RelayPolicy};
use serde::{Deserialize, Serialize};

use crate::{
    city::{City, random},
    messages::{ORDERS, Order, TIMEOUTS, TimeUp, message},
    store,
};

#[derive(Clone)]
struct Service {
    city: City,
    producer: Producer,
}

pub async fn run(city: City) -> anyhow::Result<()> {
    let producer = city.client.producer().build().await?;
    let policy = RelayPolicy { every: std::time::Duration::from_millis(20), ..RelayPolicy::default() };
    let _relay = Relay::start(city.ledger.clone(), producer.clone(), policy);
    let routes = Router::new()
        .route("/", get(|| async { Html(include_str!("board.html")) }))
        .route("/board", get(board))
        .route("/orders", post(order))
        .route("/orders/{id}", get(order_state))
        .route("/cars", post(come_online))
        .with_state(Service { city, producer });
    let listener = tokio::net::TcpListener::bind(City::listen()).await?;
    println!("taxi at http://{}/", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}

/// An error of the database, Redis or the broker: the caller may try again.
struct Unavailable(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Unavailable {
    fn from(error: E) -> Unavailable {
        Unavailable(error.into())
    }
}

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        tracing::warn!(error = %self.0, "a request failed");
        (StatusCode::SERVICE_UNAVAILABLE, self.0.to_string()).into_response()
    }
}

#[derive(Deserialize)]
struct Wish {
    passenger: String,
    area: String,
}

#[derive(Serialize)]
struct Accepted {
    id: i64,
}

/// The time-out is sent first, so that no order can wait for ever; one without an order means nothing. The order and its message are
/// written in one transaction: either both are there or none, and the relay sends the message in the order of its area.
async fn order(State(service): State<Service>, Json(wish): Json<Wish>) -> Result<Response, Unavailable> {
    if wish.passenger.is_empty() || wish.area.is_empty() {
        return Ok((StatusCode::BAD_REQUEST, "passenger and area must not be empty").into_response());
    }
    let ticket = format!("{}-{:x}", wish.passenger, random());
    let time_up = message(TIMEOUTS, &TimeUp { ticket: ticket.clone() })?.after(service.city.patience);
    let sent = service.producer.send(time_up).await?;
    service.city.risk();
    let ledger = &service.city.ledger;
    let mut tx = ledger.begin().await?;
    let id = store::accept(&mut tx, &ticket, &wish.passenger, &wish.area).await?;
    let order = Order { id, passenger: wish.passenger, area: wish.area.clone(), recall: sent.recall };
    ledger.enqueue(&mut tx, &message(ORDERS, &order)?.group(wish.area).key(format!("order-{id}"))).await?;
    ledger.commit(tx).await?;
    service.city.risk();
    Ok((StatusCode::CREATED, Json(Accepted { id })).into_response())
}

async fn order_state(State(service): State<Service>, Path(id): Path<i64>) -> Result<Response, Unavailable> {
    let state = store::state(service.city.ledger.pool(), id).await?;
    Ok(state.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response))
}

#[derive(Deserialize)]
struct Car {
    car: String,
    area: String,
}

async fn come_online(
    State(service): State<Service>,
    Json(car): Json<Car>,
) -> Result<StatusCode, Unavailable> {
    let new = service.city.garage.come_online(&car.car, &car.area).await?;
    Ok(if new { StatusCode::CREATED } else { StatusCode::OK })
}

#[derive(Serialize, Default)]
struct Area {
    waiting: i64,
    riding: i64,
    done: i64,
    given_up: i64,
    free_cars: u64,
}

#[derive(Serialize)]
struct Board {
    areas: BTreeMap<String, Area>,
    notices: Vec<String>,
}

async fn board(State(service): State<Service>) -> Result<Json<Board>, Unavailable> {
    let pool = service.city.ledger.pool();
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    for count in store::counts(pool).await? {
        let area = areas.entry(count.area).or_default();
        match count.state.as_str() {
            "waiting" => area.waiting = count.orders,
            "riding" => area.riding = count.orders,
            "done" => area.done = count.orders,
            _ => area.given_up = count.orders,
        }
    }
    for (name, area) in &mut areas {
        area.free_cars = service.city.garage.free_cars(name).await?;
    }
    Ok(Json(Board { areas, notices: store::last_notices(pool).await? }))
}
