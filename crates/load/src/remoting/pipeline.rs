//! Sends over Remoting with several calls in flight.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use redstart_wire::remoting::Command;

use super::{
    RECONNECT_AFTER, SWEEP,
    client::{Client, For, Queue, TIMEOUT, succeeded},
    line::Line,
    producer::Requests,
};
use crate::{
    Common, Server,
    driver::{Body, Done, Sending},
    load::Meter,
};

/// Sends over one connection with a fixed number of calls in flight: each answer allows the next request.
#[derive(Debug)]
pub struct Pipeline {
    server: Server,
    requests: Requests,
    in_flight: usize,
    /// The calls in flight, by request number.
    calls: HashMap<i32, Call>,
    next: i32,
}

#[derive(Debug)]
struct Call {
    due: Instant,
    began: Instant,
}

/// The pipelines of all clients: each client has one to every broker of the topics, and the calls are divided among them.
pub async fn pipelines(common: &Common, sending: &Sending) -> anyhow::Result<Vec<Pipeline>> {
    let serialization = common.target.serialization.into();
    let server = common.target.server()?;
    let mut pipelines = Vec::new();
    for number in sending.clients.clone() {
        let mut client = Client::open(&server, serialization).await?;
        let mut brokers: BTreeMap<String, Vec<Vec<Queue>>> = BTreeMap::new();
        for topic in common.topic_names() {
            let mut places: BTreeMap<String, Vec<Queue>> = BTreeMap::new();
            for queue in client.queues(&topic, For::Sending).await? {
                places.entry(queue.connection.address().to_owned()).or_default().push(queue);
            }
            for (address, queues) in places {
                brokers.entry(address).or_default().push(queues);
            }
        }
        pipelines.extend(brokers.into_iter().map(|(address, topics)| Pipeline {
            server: client.server(address),
            requests: Requests::new(sending, serialization, number, topics),
            in_flight: 0,
            calls: HashMap::new(),
            next: 0,
        }));
    }
    let count = pipelines.len();
    for (n, pipeline) in pipelines.iter_mut().enumerate() {
        pipeline.in_flight = (sending.in_flight + count - 1 - n) / count;
    }
    pipelines.retain(|pipeline| pipeline.in_flight > 0);
    Ok(pipelines)
}

impl Pipeline {
    /// Sends until the load ends.
    pub async fn run(mut self, meter: Arc<Meter>, body: impl Body, done: Done) {
        while !meter.stopping() {
            if let Err(error) = self.talk(&meter, &body, done).await {
                // All calls in flight have failed, or the one that was to start.
                (0..self.calls.len().max(1)).for_each(|_| meter.failed(&format!("{error:#}")));
                self.calls.clear();
                drop(tokio::time::timeout(RECONNECT_AFTER, meter.stopped()).await);
            }
        }
    }

    async fn talk(&mut self, meter: &Meter, body: &impl Body, done: Done) -> anyhow::Result<()> {
        let mut line = Line::open(&self.server).await?;
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            while self.has_room()
                && let Some(due) = meter.turn_now()
            {
                self.put(due, body(due), &mut line);
            }
            // Answers are small: the server does not block on them while this task writes.
            line.write().await?;
            if meter.stopping() && self.calls.is_empty() {
                return Ok(());
            }
            tokio::select! {
                read = line.read() => {
                    read?;
                    while let Some(answer) = line.answer()? {
                        self.take(answer, meter, done);
                    }
                }
                due = meter.turn(), if self.has_room() && !meter.stopping() => self.put(due, body(due), &mut line),
                _ = sweep.tick() => self.sweep(meter),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.calls.len() < self.in_flight
    }

    fn put(&mut self, due: Instant, body: Bytes, line: &mut Line) {
        self.next = self.next.wrapping_add(1);
        self.calls.insert(self.next, Call { due, began: Instant::now() });
        line.put(Command { opaque: self.next, ..self.requests.next(body) });
    }

    fn take(&mut self, answer: Command, meter: &Meter, done: Done) {
        let Some(Call { due, .. }) = self.calls.remove(&answer.opaque) else { return };
        match succeeded(answer) {
            Ok(_) => done(meter, self.requests.batch(), due),
            Err(error) => meter.failed(&format!("{error:#}")),
        }
    }

    /// Fails calls that have timed out.
    fn sweep(&mut self, meter: &Meter) {
        let before = self.calls.len();
        self.calls.retain(|_, call| call.began.elapsed() < TIMEOUT);
        for _ in self.calls.len()..before {
            meter.failed(&format!(
                "{} did not answer within {} ms",
                self.server.address,
                TIMEOUT.as_millis()
            ));
        }
    }
}
