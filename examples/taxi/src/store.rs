//! The books, in SQLite: what was ordered, and what became of it.
//!
//! None of the tables forbids that something happens twice: that it does not is the messages' work, and what the test checks.

use serde::Serialize;
use sqlx::{Executor as _, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

pub type Tx = Transaction<'static, Sqlite>;

const TABLES: [&str; 5] = [
    // state: waiting, riding, done, given up
    "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, ticket TEXT NOT NULL, passenger TEXT NOT NULL, area TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS orders_ticket ON orders (ticket)",
    // what: start, end
    "CREATE TABLE IF NOT EXISTS rides (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, order_id INTEGER NOT NULL, car TEXT NOT NULL, area TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS notices (id INTEGER PRIMARY KEY AUTOINCREMENT, order_id INTEGER NOT NULL, passenger TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS letters (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL)",
];

pub async fn migrate(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    for statement in TABLES {
        pool.execute(statement).await?;
    }
    Ok(())
}

/// The number of a new order.
pub async fn accept(
    tx: &mut SqliteConnection,
    ticket: &str,
    passenger: &str,
    area: &str,
) -> Result<i64, sqlx::Error> {
    let statement =
        "INSERT INTO orders (ticket, passenger, area, state) VALUES (?, ?, ?, 'waiting') RETURNING id";
    sqlx::query(statement).bind(ticket).bind(passenger).bind(area).fetch_one(tx).await?.try_get(0)
}

pub async fn is_waiting(tx: &mut SqliteConnection, order: i64) -> Result<bool, sqlx::Error> {
    let statement = "SELECT id FROM orders WHERE id = ? AND state = 'waiting'";
    Ok(sqlx::query(statement).bind(order).fetch_optional(tx).await?.is_some())
}

/// Ends the waiting of an order; its number, passenger and area, or nothing if it does not wait any more.
pub async fn give_up(tx: &mut SqliteConnection, ticket: &str) -> Result<Option<(i64, String)>, sqlx::Error> {
    let statement =
        "UPDATE orders SET state = 'given up' WHERE ticket = ? AND state = 'waiting' RETURNING id, passenger";
    let row = sqlx::query(statement).bind(ticket).fetch_optional(tx).await?;
    row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}

/// Writes the start or the end of a ride, and what the order has become by it.
async fn note_ride(
    tx: &mut SqliteConnection,
    what: &str,
    state: &str,
    (order, car, area): (i64, &str, &str),
) -> Result<(), sqlx::Error> {
    let statement = "INSERT INTO rides (what, order_id, car, area) VALUES (?, ?, ?, ?)";
    sqlx::query(statement).bind(what).bind(order).bind(car).bind(area).execute(&mut *tx).await?;
    sqlx::query("UPDATE orders SET state = ? WHERE id = ?").bind(state).bind(order).execute(tx).await?;
    Ok(())
}

pub async fn start_ride(
    tx: &mut SqliteConnection,
    order: i64,
    car: &str,
    area: &str,
) -> Result<(), sqlx::Error> {
    note_ride(tx, "start", "riding", (order, car, area)).await
}

pub async fn end_ride(
    tx: &mut SqliteConnection,
    order: i64,
    car: &str,
    area: &str,
) -> Result<(), sqlx::Error> {
    note_ride(tx, "end", "done", (order, car, area)).await
}

pub async fn note(
    tx: &mut SqliteConnection,
    order: i64,
    passenger: &str,
    text: &str,
) -> Result<(), sqlx::Error> {
    let statement = "INSERT INTO notices (order_id, passenger, text) VALUES (?, ?, ?)";
    sqlx::query(statement).bind(order).bind(passenger).bind(text).execute(tx).await.map(drop)
}

pub async fn file_letter(
    tx: &mut SqliteConnection,
    topic: &str,
    reason: &str,
    body: &str,
) -> Result<(), sqlx::Error> {
    let statement = "INSERT INTO letters (topic, reason, body) VALUES (?, ?, ?)";
    sqlx::query(statement).bind(topic).bind(reason).bind(body).execute(tx).await.map(drop)
}

/// The state of an order.
pub async fn state(pool: &SqlitePool, order: i64) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query("SELECT state FROM orders WHERE id = ?").bind(order).fetch_optional(pool).await?;
    row.map(|row| row.try_get(0)).transpose()
}

#[derive(Debug, Serialize)]
pub struct Count {
    pub area: String,
    pub state: String,
    pub orders: i64,
}

/// How many orders of each area are in each state.
pub async fn counts(pool: &SqlitePool) -> Result<Vec<Count>, sqlx::Error> {
    let statement = "SELECT area, state, COUNT(*) FROM orders GROUP BY area, state ORDER BY area";
    let rows = sqlx::query(statement).fetch_all(pool).await?;
    rows.iter()
        .map(|row| Ok(Count { area: row.try_get(0)?, state: row.try_get(1)?, orders: row.try_get(2)? }))
        .collect()
}

/// What passengers were told last, the newest first.
pub async fn last_notices(pool: &SqlitePool) -> Result<Vec<String>, sqlx::Error> {
    let statement = "SELECT passenger || ': ' || text FROM notices ORDER BY id DESC LIMIT 12";
    sqlx::query(statement).fetch_all(pool).await?.iter().map(|row| row.try_get(0)).collect()
}
