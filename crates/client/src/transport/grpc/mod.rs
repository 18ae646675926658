//! gRPC: one address, or a few that are the same server, are asked for everything.

mod channel;
mod convert;
mod pull;
mod receive;
mod send;
mod telemetry;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderValue};
use prost::Message;
use redstart_wire::v2::{
    Address, AddressScheme, ClientType, Code, Endpoints, HeartbeatRequest, HeartbeatResponse,
    NotifyClientTerminationRequest, NotifyClientTerminationResponse, Permission, QueryRouteRequest,
    QueryRouteResponse, Resource, Status,
};

use self::{
    channel::{Channels, Method},
    telemetry::Telemetry,
};
use super::{Consuming, GroupRules, Role};
use crate::{
    CallError, Credentials, Queue, ServerCode, Tls,
    message_id::now_ms,
    random::random_below,
    route::{Place, Route},
};

/// How servers are reached.
#[derive(Debug)]
pub(crate) struct Settings {
    pub addresses: Vec<String>,
    pub tls: Option<Tls>,
    pub credentials: Option<Credentials>,
    pub timeout: Duration,
    pub client_id: String,
}

/// The connections of a client.
#[derive(Debug)]
pub(crate) struct Grpc {
    channels: Channels,
    addresses: Vec<Arc<str>>,
    /// The address that answered last.
    access: AtomicUsize,
    credentials: Option<Credentials>,
    timeout: Duration,
    client_id: String,
    headers: HeaderMap,
    sessions: Mutex<HashMap<u64, Weak<telemetry::Shared>>>,
    next_session: AtomicU64,
}

/// One role of the client. To the server it is a client of its own, with an id of its own.
#[derive(Debug)]
pub(crate) struct Session {
    net: Arc<Grpc>,
    number: u64,
    telemetry: Telemetry,
}

fn resource(name: &str) -> Resource {
    Resource { resource_namespace: String::new(), name: name.to_owned() }
}

pub(super) fn wire_duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: time.as_secs() as i64, nanos: time.subsec_nanos() as i32 }
}

pub(super) fn wire_time(ms: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: ms.div_euclid(1000), nanos: (ms.rem_euclid(1000) * 1_000_000) as i32 }
}

/// A refusal is an error.
fn accept(address: &str, status: Option<&Status>) -> Result<(), CallError> {
    match status {
        Some(status) if status.code == i32::from(Code::Ok) => Ok(()),
        Some(status) => Err(CallError::Refused {
            address: address.to_owned(),
            code: ServerCode::grpc(status.code),
            text: status.message.clone(),
        }),
        None => Err(CallError::Malformed {
            address: address.to_owned(),
            why: "an answer without a status".to_owned(),
        }),
    }
}

impl Grpc {
    pub fn new(settings: Settings) -> Grpc {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("x-mq-language", HeaderValue::from_static("RUST"));
        headers.insert("x-mq-protocol", HeaderValue::from_static("v2"));
        headers.insert("x-mq-client-version", HeaderValue::from_static("5.0.8"));
        let addresses: Vec<Arc<str>> =
            settings.addresses.iter().map(|address| Arc::from(address.as_str())).collect();
        Grpc {
            channels: Channels::new(settings.tls.as_ref()),
            access: AtomicUsize::new(random_below(addresses.len())),
            addresses,
            credentials: settings.credentials,
            timeout: settings.timeout,
            client_id: settings.client_id,
            headers,
            sessions: Mutex::default(),
            next_session: AtomicU64::new(0),
        }
    }

    /// The headers of a call. Every call is signed anew, as the official clients do.
    fn headers(&self, client_id: &HeaderValue, within: Option<Duration>) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert("x-mq-client-id", client_id.clone());
        if let Some(within) = within {
            let text = format!("{}m", within.as_millis().clamp(1, 99_999_999));
            headers.extend(
                HeaderValue::try_from(text)
                    .ok()
                    .map(|text| (http::HeaderName::from_static("grpc-timeout"), text)),
            );
        }
        if let Some(credentials) = &self.credentials {
            for (name, value) in credentials.call_headers(now_ms() / 1000) {
                if let Ok(value) = HeaderValue::try_from(value) {
                    headers.insert(name, value);
                }
            }
        }
        headers
    }

    /// A call with one answer.
    async fn call<R: Message + Default>(
        &self,
        client_id: &HeaderValue,
        address: &Arc<str>,
        method: Method,
        request: &impl Message,
        within: Duration,
    ) -> Result<R, CallError> {
        let call = async {
            let channel = self.channels.get(address).await?;
            channel.unary(method, self.headers(client_id, Some(within)), request).await
        };
        let late = |_| CallError::Timeout { address: address.to_string(), within };
        tokio::time::timeout(within, call).await.map_err(late)?
    }

    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    fn own_id(&self) -> HeaderValue {
        HeaderValue::try_from(&self.client_id).unwrap_or_else(|_| HeaderValue::from_static("redstart"))
    }

    /// The address that answered last.
    fn access(&self) -> &Arc<str> {
        &self.addresses[self.access.load(Ordering::Relaxed) % self.addresses.len()]
    }

    pub async fn probe(&self) -> Result<(), CallError> {
        let mut failed = None;
        for (index, address) in self.addresses.iter().enumerate() {
            match self.channels.get(address).await {
                Ok(_) => {
                    self.access.store(index, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    pub async fn route(&self, topic: &str) -> Result<Option<Route>, CallError> {
        let (count, first) = (self.addresses.len(), self.access.load(Ordering::Relaxed));
        let mut failed = None;
        for index in (0..count).map(|step| (first + step) % count) {
            let address = &self.addresses[index];
            let request =
                QueryRouteRequest { topic: Some(resource(topic)), endpoints: Some(self.endpoints()) };
            let answered: Result<QueryRouteResponse, _> =
                self.call(&self.own_id(), address, Method::QueryRoute, &request, self.timeout).await;
            match answered {
                Ok(answer) => {
                    self.access.store(index, Ordering::Relaxed);
                    return match accept(address, answer.status.as_ref()) {
                        Err(error) if error.code().is_some_and(ServerCode::is_unknown_topic) => Ok(None),
                        Err(error) => Err(error),
                        Ok(()) => Ok(Some(self.route_of(topic, &answer))),
                    };
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| CallError::Connect {
            address: String::new(),
            why: "no address is given".to_owned(),
        }))
    }

    fn route_of(&self, topic: &str, answer: &QueryRouteResponse) -> Route {
        let mut route = Route::default();
        for queue in &answer.message_queues {
            let Some(broker) = queue.broker.as_ref().filter(|broker| broker.id == 0) else { continue };
            let address = broker.endpoints.as_ref().and_then(|endpoints| endpoints.addresses.first());
            let address =
                address.map_or_else(|| self.access().clone(), |address| address_text(address).into());
            let place = Place { queue: Queue::new(topic, &broker.name, queue.id), address };
            let permission = Permission::try_from(queue.permission).unwrap_or(Permission::None);
            if matches!(permission, Permission::Write | Permission::ReadWrite) {
                route.writable.push(place.clone());
            }
            if matches!(permission, Permission::Read | Permission::ReadWrite) {
                route.readable.push(place.clone());
            }
            route.addresses.push(place.address);
        }
        let order = |place: &Place| (place.queue.broker.clone(), place.queue.id);
        route.writable.sort_by_key(order);
        route.readable.sort_by_key(order);
        route.addresses.sort();
        route.addresses.dedup();
        route
    }

    /// The addresses as the application gave them.
    fn endpoints(&self) -> Endpoints {
        let addresses: Vec<Address> =
            self.addresses.iter().filter_map(|address| address_of(address)).collect();
        let scheme = match addresses.first().map(|address| address.host.parse::<std::net::IpAddr>()) {
            Some(Ok(ip)) if ip.is_ipv4() => AddressScheme::IPv4,
            Some(Ok(_)) => AddressScheme::IPv6,
            _ => AddressScheme::DomainName,
        };
        Endpoints { scheme: scheme.into(), addresses }
    }

    /// Tells the servers that every role of this client is alive.
    pub async fn heartbeat(&self, addresses: &[Arc<str>]) {
        let sessions: Vec<Arc<telemetry::Shared>> = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.values().filter_map(Weak::upgrade).collect()
        };
        let addresses = if addresses.is_empty() { std::slice::from_ref(self.access()) } else { addresses };
        for session in sessions {
            for address in addresses {
                let request =
                    HeartbeatRequest { group: session.group(), client_type: session.client_type().into() };
                let answered: Result<HeartbeatResponse, _> =
                    self.call(session.client_id(), address, Method::Heartbeat, &request, self.timeout).await;
                let taken = answered.and_then(|answer| accept(address, answer.status.as_ref()));
                if let Err(error) = taken {
                    tracing::debug!(%error, "a heartbeat was not taken");
                }
            }
        }
    }
}

fn address_of(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(Address { host, port: port.parse().ok()? })
}

fn address_text(Address { host, port }: &Address) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Session {
    /// Opens the stream on which server and client tell each other their settings, and waits for the server's.
    pub async fn open(net: &Arc<Grpc>, role: Role) -> Result<Session, CallError> {
        let number = net.next_session.fetch_add(1, Ordering::Relaxed);
        let telemetry = Telemetry::open(net, number, role).await?;
        net.sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, Arc::downgrade(telemetry.shared()));
        Ok(Session { net: net.clone(), number, telemetry })
    }

    pub fn group(&self) -> &str {
        self.role().group()
    }

    fn role(&self) -> &Role {
        self.telemetry.shared().role()
    }

    fn client_id(&self) -> &HeaderValue {
        self.telemetry.shared().client_id()
    }

    async fn call<R: Message + Default>(
        &self,
        address: &Arc<str>,
        method: Method,
        request: &impl Message,
        within: Duration,
    ) -> Result<R, CallError> {
        self.telemetry.ensure(address);
        self.net.call(self.client_id(), address, method, request, within).await
    }

    pub fn rules(&self) -> GroupRules {
        self.telemetry.shared().rules()
    }

    pub fn body_bytes_max(&self) -> Option<usize> {
        self.telemetry.shared().body_bytes_max()
    }

    pub async fn close(&self, addresses: &[Arc<str>]) {
        let addresses =
            if addresses.is_empty() { std::slice::from_ref(self.net.access()) } else { addresses };
        let group = self.telemetry.shared().group();
        for address in addresses {
            let request = NotifyClientTerminationRequest { group: group.clone() };
            // A server that is away forgets the client by itself.
            let _: Result<NotifyClientTerminationResponse, _> = self
                .net
                .call(self.client_id(), address, Method::NotifyClientTermination, &request, self.net.timeout)
                .await;
        }
        self.telemetry.stop();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.net.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

fn client_type(role: &Role) -> ClientType {
    match role {
        Role::Producer { .. } => ClientType::Producer,
        Role::Consumer { consuming, .. } => match consuming {
            Consuming::Pushed => ClientType::PushConsumer,
            Consuming::Asked => ClientType::SimpleConsumer,
            Consuming::Balanced | Consuming::Broadcast | Consuming::Assigned => ClientType::PullConsumer,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_come_back() {
        for text in ["127.0.0.1:8081", "[::1]:8081", "broker.example:80"] {
            assert_eq!(address_text(&address_of(text).expect("an address")), text);
        }
        assert_eq!(address_of("no port"), None);
    }

    #[test]
    fn times_before_1970_have_positive_nanoseconds() {
        assert_eq!(wire_time(1500), prost_types::Timestamp { seconds: 1, nanos: 500_000_000 });
        assert_eq!(wire_time(-500), prost_types::Timestamp { seconds: -1, nanos: 500_000_000 });
    }
}
