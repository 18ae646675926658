//! The other nodes of a cluster, which 4.x clients see as slaves of the broker.

use std::sync::Arc;

/// Lists the addresses of the brokers on the nodes that follow, as `host:port` by the number of the node. A node alone has none.
#[derive(Clone, Default)]
pub struct Followers(Option<Arc<dyn Fn() -> Vec<String> + Send + Sync>>);

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Followers").field(&self.addresses()).finish()
    }
}

impl Followers {
    pub fn new(addresses: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Followers {
        Followers(Some(Arc::new(addresses)))
    }

    /// The addresses at this moment. The order is the same until a node comes or goes.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.0.as_ref().map(|addresses| addresses()).unwrap_or_default()
    }
}
