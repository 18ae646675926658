//! Where the connections of a port come from: from a socket, or from the node's gate, which hands over those that are to be served here.

use std::{io, net::SocketAddr};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Connections that may wait to be taken over.
const HANDED_MAX: usize = 1024;

/// A connection of a client.
#[derive(Debug)]
pub struct Accepted {
    pub stream: TcpStream,
    /// Set if another node relays the client: the addresses are then not those of the socket.
    pub relayed: Option<Ends>,
}

/// The address that a client has dialled, and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl From<TcpStream> for Accepted {
    fn from(stream: TcpStream) -> Accepted {
        Accepted { stream, relayed: None }
    }
}

impl Accepted {
    /// The client's ends of the connection.
    pub(crate) fn ends(&self) -> io::Result<Ends> {
        match self.relayed {
            Some(ends) => Ok(ends),
            None => Ok(Ends { local: self.stream.local_addr()?, remote: self.stream.peer_addr()? }),
        }
    }
}

/// Where the connections of a port come from.
#[derive(Debug)]
pub enum Listener {
    Socket(TcpListener),
    /// Connections to a port that the gate listens on.
    Handed {
        at: SocketAddr,
        connections: mpsc::Receiver<Accepted>,
    },
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener::Socket(listener)
    }
}

impl Listener {
    /// A listener for the port at this address, and what hands connections to it.
    pub fn handed(at: SocketAddr) -> (mpsc::Sender<Accepted>, Listener) {
        let (hand, connections) = mpsc::channel(HANDED_MAX);
        (hand, Listener::Handed { at, connections })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Listener::Socket(listener) => listener.local_addr(),
            Listener::Handed { at, .. } => Ok(*at),
        }
    }

    pub(super) async fn accept(&mut self) -> io::Result<Accepted> {
        match self {
            Listener::Socket(listener) => Ok(listener.accept().await?.0.into()),
            Listener::Handed { connections, .. } => match connections.recv().await {
                Some(accepted) => Ok(accepted),
                // The gate is closed for good.
                None => std::future::pending().await,
            },
        }
    }
}
