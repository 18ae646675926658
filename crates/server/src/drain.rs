//! The switch that takes a broker out of service before it is stopped.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use redstart_engine::SettingError;

use crate::shard::{ChangeError, ShardHandle, Unavailable};

/// Where the shard stores it.
const NAMESPACE: &str = "routes";
const KEY: &str = "drained";
const DRAINED: &str = "true";

/// Whether routes say that no topic of a broker is writable, which an operator sets so that producers leave before it is stopped. It is
/// stored in the shard's log, and stays until an operator ends it. Clones share one switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drained(Arc<AtomicBool>);

impl Drained {
    /// As it was stored.
    pub async fn load(shard: &ShardHandle) -> Result<Drained, Unavailable> {
        let stored = shard.ask(|engine, _| engine.setting(NAMESPACE, KEY) == Some(DRAINED))?.await?;
        Ok(Drained(Arc::new(stored.into())))
    }

    /// Stores it, then switches.
    pub async fn set(&self, shard: &ShardHandle, drained: bool) -> Result<(), ChangeError<SettingError>> {
        let value = drained.then_some(DRAINED);
        shard.change(move |engine, _| engine.put_setting(NAMESPACE, KEY, value))?.await??;
        self.0.store(drained, Ordering::Relaxed);
        Ok(())
    }

    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
