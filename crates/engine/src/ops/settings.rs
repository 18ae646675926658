//! Small values that operators keep with the broker: users and their rights, and what was changed while it ran.

use std::{collections::BTreeMap, time::Duration};

use super::Engine;
use crate::{Ticket, config::Transactions, record::Decision};

/// Bytes of all names and values together; they live in memory and in every checkpoint.
const BYTES_MAX: usize = 8 << 20;
const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: usize = 64 << 10;

/// A value that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("the name of a setting has {len} bytes; it must have 1 to {NAME_BYTES_MAX}")]
    Name { len: usize },
    #[error("the value of setting {key} has {len} bytes, the limit is {VALUE_BYTES_MAX}")]
    Value { key: String, len: usize },
    #[error("all settings together would have {len} bytes, the limit is {BYTES_MAX}")]
    Full { len: usize },
}

/// The settings by namespace and key.
pub(crate) type Settings = BTreeMap<String, BTreeMap<String, String>>;

impl Engine {
    pub fn setting(&self, namespace: &str, key: &str) -> Option<&str> {
        self.state.settings.get(namespace)?.get(key).map(String::as_str)
    }

    /// All settings of a namespace, by key.
    pub fn settings(&self, namespace: &str) -> BTreeMap<String, String> {
        self.state.settings.get(namespace).cloned().unwrap_or_default()
    }

    /// Stores a value, or removes it.
    pub fn put_setting(
        &mut self,
        namespace: &str,
        key: &str,
        value: Option<&str>,
    ) -> Result<Ticket, SettingError> {
        for name in [namespace, key] {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(SettingError::Name { len: name.len() });
            }
        }
        let len = value.map_or(0, str::len);
        if len > VALUE_BYTES_MAX {
            return Err(SettingError::Value { key: key.to_owned(), len });
        }
        let all: usize =
            self.state.settings.values().flatten().map(|(key, value)| key.len() + value.len()).sum();
        if all + key.len() + len > BYTES_MAX && value.is_some() {
            return Err(SettingError::Full { len: all + key.len() + len });
        }
        let ticket = self.ticket();
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.propose(Some(ticket), Decision::Setting { namespace, key, value: value.map(str::to_owned) });
        Ok(ticket)
    }

    /// Keeps messages for another time from now on.
    pub fn set_retention(&mut self, keep: Duration) {
        self.config.retention.keep = keep;
    }

    /// Asks about undecided transactions at other times from now on.
    pub fn set_transactions(&mut self, transactions: Transactions) {
        self.config.transactions = transactions;
    }
}
