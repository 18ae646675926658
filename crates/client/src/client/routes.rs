//! The routes that a client knows, and the wait for those that it does not.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use crate::{RouteError, route::Route, transport::Net};

#[derive(Debug, Default)]
pub(crate) struct Routes {
    known: RwLock<HashMap<String, Arc<Route>>>,
    /// Held while a topic's route is asked for, so that one request answers all who wait.
    asking: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Routes {
    pub fn known(&self, topic: &str) -> Option<Arc<Route>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// The route of a topic, asked for if it is not known. The second part says whether it is new.
    pub async fn get(&self, net: &Net, topic: &str) -> Result<(Arc<Route>, bool), RouteError> {
        if let Some(route) = self.known(topic) {
            return Ok((route, false));
        }
        let gate = {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            asking.entry(topic.to_owned()).or_default().clone()
        };
        let turn = gate.lock().await;
        if let Some(route) = self.known(topic) {
            return Ok((route, false));
        }
        let route = self.ask(net, topic).await;
        drop(turn);
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
        route.map(|route| (route, true))
    }

    /// Asks for a route, known or not. A topic that is gone is forgotten; while the server is away the old route stays.
    pub async fn ask(&self, net: &Net, topic: &str) -> Result<Arc<Route>, RouteError> {
        let asked = net.route(topic).await;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Ok(Some(route)) => {
                let route = Arc::new(route);
                known.insert(topic.to_owned(), route.clone());
                Ok(route)
            }
            Ok(None) => {
                known.remove(topic);
                Err(RouteError::UnknownTopic { topic: topic.to_owned() })
            }
            Err(error) => Err(RouteError::Call { topic: topic.to_owned(), error }),
        }
    }

    pub fn forget(&self, topic: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    pub fn topics(&self) -> Vec<String> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The addresses that the routes name.
    pub fn addresses(&self) -> Vec<Arc<str>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut addresses: Vec<Arc<str>> =
            known.values().flat_map(|route| route.addresses.iter().cloned()).collect();
        addresses.sort();
        addresses.dedup();
        addresses
    }
}
