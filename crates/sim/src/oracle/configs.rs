//! Acknowledged changes of topics and groups last; what was not acknowledged is in force or not, nothing else.

use std::{collections::BTreeMap, fmt::Debug};

use redstart_engine::{RETRY_PREFIX, Ticket};

use super::{Checked, ensure};

pub const LASTING: &str = "an acknowledged configuration lasts";

/// What a name may be set to now. Texts, because only equality counts; `None` is "does not exist".
#[derive(Debug, Default)]
pub struct Configs {
    allowed: BTreeMap<String, Vec<(Ticket, Option<String>)>>,
}

pub fn text(config: &impl Debug) -> Option<String> {
    Some(format!("{config:?}"))
}

impl Configs {
    pub fn proposed(&mut self, name: &str, ticket: Ticket, value: Option<String>) {
        let allowed = self.allowed.entry(name.to_owned()).or_insert_with(|| vec![(Ticket(0), None)]);
        allowed.push((ticket, value));
    }

    /// Everything proposed before has been overwritten.
    pub fn acknowledged(&mut self, name: &str, ticket: Ticket) {
        if let Some(allowed) = self.allowed.get_mut(name)
            && let Some(at) = allowed.iter().position(|(proposed, _)| *proposed == ticket)
        {
            allowed.drain(..at);
        }
    }

    pub fn refused(&mut self, name: &str, ticket: Ticket) {
        if let Some(allowed) = self.allowed.get_mut(name) {
            allowed.retain(|(proposed, _)| *proposed != ticket);
        }
    }

    /// Tickets start again after a restart; what is in force then is all that is left.
    pub fn restarted(&mut self, name: &str, found: Option<String>) -> Checked {
        let Some(allowed) = self.allowed.get_mut(name) else { return Ok(()) };
        // The broker makes a retry topic itself for what a group has left in flight.
        let own = name.starts_with(RETRY_PREFIX) && allowed.iter().any(|(_, value)| value.is_none());
        ensure(own || allowed.iter().any(|(_, value)| *value == found), LASTING, || {
            format!("{name} is {found:?}, it may be {allowed:?}")
        })?;
        *allowed = vec![(Ticket(0), found)];
        Ok(())
    }

    pub fn names(&self) -> Vec<String> {
        self.allowed.keys().cloned().collect()
    }
}
