//! Takes connections, within bounds: neither silent peers nor many of them keep others out.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Limits,
    intake::Intake,
    io::{Connection, open},
};

/// Connections that have finished their handshake and wait to be served.
const READY_MAX: usize = 128;
/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// That connections are refused is said at most this often.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Accepts connections and does their handshakes beside each other: a slow one holds up nobody.
pub(super) fn incoming(
    listener: TcpListener,
    tls: TlsAcceptor,
    limits: Limits,
    rooms: &Rooms,
) -> mpsc::Receiver<Connection> {
    let (ready, connections) = mpsc::channel(READY_MAX);
    let door = Door {
        tls,
        ready,
        places: rooms.places.clone(),
        opening: VecDeque::new(),
        intake_all: rooms.intake.clone(),
        limits,
        warned: None,
    };
    tokio::spawn(door.keep(listener));
    connections
}

/// What all connections share.
#[derive(Debug, Clone)]
pub(super) struct Rooms {
    pub places: Arc<Semaphore>,
    /// Bytes of unfinished requests.
    pub intake: Arc<AtomicUsize>,
}

impl Rooms {
    pub fn new(limits: &Limits) -> Rooms {
        Rooms { places: Arc::new(Semaphore::new(limits.connections_max)), intake: Arc::default() }
    }
}

struct Door {
    tls: TlsAcceptor,
    ready: mpsc::Sender<Connection>,
    places: Arc<Semaphore>,
    /// Handshakes under way, the oldest first.
    opening: VecDeque<AbortHandle>,
    /// Bytes of unfinished requests, of all connections.
    intake_all: Arc<AtomicUsize>,
    limits: Limits,
    warned: Option<Instant>,
}

impl Door {
    async fn keep(mut self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.ready.closed() => return,
            };
            match accepted {
                Ok((stream, _)) => self.admit(stream),
                Err(error) => {
                    self.warn(&format!("cannot accept a gRPC connection: {error}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        self.make_room();
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let max = self.limits.connections_max;
            return self.warn(&format!("{max} gRPC connections are open, the limit; a new one is refused"));
        };
        let intake = Arc::new(Intake::new(self.intake_all.clone()));
        let (tls, ready) = (self.tls.clone(), self.ready.clone());
        let time = self.limits.handshake_timeout;
        let opening = tokio::spawn(async move {
            match tokio::time::timeout(time, open(stream, tls, intake, place)).await {
                // The server has stopped taking connections otherwise.
                Ok(Ok(connection)) => drop(ready.send(connection).await),
                Ok(Err(error)) => tracing::debug!(%error, "a gRPC connection did not open"),
                Err(_) => tracing::debug!("a gRPC connection did not open in time"),
            }
        });
        self.opening.push_back(opening.abort_handle());
    }

    /// An honest peer is done with its handshake at once. When many are not, those that came first have had their time.
    fn make_room(&mut self) {
        if self.opening.len() < self.limits.opening_max {
            return;
        }
        self.opening.retain(|opening| !opening.is_finished());
        if self.opening.len() >= self.limits.opening_max
            && let Some(oldest) = self.opening.pop_front()
        {
            oldest.abort();
        }
    }

    fn warn(&mut self, what: &str) {
        if self.warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            self.warned = Some(Instant::now());
            tracing::warn!("{what}");
        }
    }
}
