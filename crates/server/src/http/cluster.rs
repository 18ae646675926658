//! `/cluster`: what this node knows of its cluster, and the order to hand leadership over.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{
    answer::{Answer, content, text},
    call::{Call, Right},
    refusal::Refusal,
    router::{Answering, Part, Request},
};
use crate::{peers::Peers, relay::RelayCounts, shard::SharedView};

const PATH: &str = "/cluster";
const TRANSFER: &str = "transfer";
const METHODS: &[Method] = &[Method::GET, Method::HEAD, Method::POST];
/// For leadership to be handed over, with all requests under way answered before.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(10);

/// An order to hand leadership to a node, and where its outcome goes.
pub type TransferOrder = (Option<u32>, oneshot::Sender<Result<u32, String>>);

/// What the page shows and orders.
#[derive(Debug)]
pub struct ClusterPage {
    pub links: Arc<Peers>,
    pub view: SharedView,
    pub counts: Arc<RelayCounts>,
    pub transfers: mpsc::Sender<TransferOrder>,
}

/// The page of a node; without a cluster it says that there is none. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Cluster(Arc<RwLock<Option<Arc<ClusterPage>>>>);

impl Cluster {
    pub fn attach(&self, page: ClusterPage) {
        *self.0.write() = Some(Arc::new(page));
    }

    /// The links of the node are not held any longer.
    pub fn detach(&self) {
        *self.0.write() = None;
    }

    /// What is attached.
    pub(super) fn page(&self) -> Option<Arc<ClusterPage>> {
        self.0.read().clone()
    }

    pub fn part(&self) -> impl Part + use<> {
        ClusterPart(self.clone())
    }
}

#[derive(Debug)]
struct ClusterPart(Cluster);

impl Part for ClusterPart {
    fn path(&self) -> &'static str {
        PATH
    }

    fn has(&self, rest: &str) -> bool {
        matches!(rest.trim_start_matches('/'), "" | TRANSFER)
    }

    fn methods(&self) -> &'static [Method] {
        METHODS
    }

    fn right(&self, request: &Request) -> Result<Right, Refusal> {
        Ok(if request.method() == Method::POST { Right::Manage } else { Right::Observe })
    }

    fn answer(&self, call: Call, _: Incoming) -> Answering<'_> {
        let page = self.0.page();
        Box::pin(async move {
            let Some(page) = page else {
                return text(StatusCode::NOT_FOUND, "this node is not a member of a cluster");
            };
            let is_transfer = call.head.uri.path().ends_with(TRANSFER);
            match (call.head.method == Method::POST, is_transfer) {
                (false, false) => json_answer(StatusCode::OK, &page.show()),
                (true, true) => page.transfer(call.head.uri.query()).await,
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "ask for the cluster, or order a transfer"),
            }
        })
    }
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    content(status, "application/json", Bytes::from(value.to_string()))
}

impl ClusterPage {
    fn show(&self) -> Value {
        let view = self.view.lock().clone();
        let count = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
        let peers: Vec<Value> = self
            .links
            .views()
            .into_iter()
            .map(|peer| {
                let acknowledged =
                    view.acknowledged.iter().find(|(node, _)| *node == peer.node).map(|(_, at)| *at);
                json!({
                    "node": peer.node,
                    "address": peer.address,
                    "connected": peer.connected,
                    "trouble": peer.trouble,
                    "sent_bytes": peer.sent_bytes,
                    "dropped_messages": peer.dropped,
                    "acknowledged": acknowledged,
                    "lag": acknowledged.map(|at| view.appended.saturating_sub(at)),
                })
            })
            .collect();
        json!({
            "node": view.node,
            "role": match (view.leads, view.catching_up) {
                (true, _) => "leader",
                (false, true) => "catching up",
                (false, false) => "follower",
            },
            "leader": view.leader,
            "term": view.term,
            "appended": view.appended,
            "durable": view.durable,
            "committed": view.committed,
            "applied": view.applied,
            "voters": view.voters,
            "learners": view.learners,
            "elections_won": view.elections_won,
            "stepped_down": view.stepped_down,
            "connections_relayed": count(&self.counts.relayed_now),
            "connections_held": count(&self.counts.held_now),
            "connections_relayed_total": self.counts.relayed.load(Ordering::Relaxed),
            "connections_given_up_total": self.counts.given_up.load(Ordering::Relaxed),
            "peers": peers,
        })
    }

    async fn transfer(&self, query: Option<&str>) -> Answer {
        let to = match query.and_then(|query| query.strip_prefix("to=")) {
            None => None,
            Some(node) => match node.parse() {
                Ok(node) => Some(node),
                Err(_) => return text(StatusCode::BAD_REQUEST, "`to` has to be the number of a node"),
            },
        };
        let (answer, answered) = oneshot::channel();
        if self.transfers.try_send((to, answer)).is_err() {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the node is stopping, or hands leadership over already",
            );
        }
        match tokio::time::timeout(TRANSFER_TIME_MAX, answered).await {
            Ok(Ok(Ok(node))) => json_answer(StatusCode::OK, &json!({ "leader": node })),
            Ok(Ok(Err(why))) => text(StatusCode::CONFLICT, &why),
            Ok(Err(_)) | Err(_) => {
                text(StatusCode::SERVICE_UNAVAILABLE, "it is not known whether leadership has moved")
            }
        }
    }
}
