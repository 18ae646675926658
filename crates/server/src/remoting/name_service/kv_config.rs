//! Values that tools store with the name service, by namespace and key. They are settings in the log of the first shard; what is in
//! memory follows it.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

use parking_lot::RwLock;
use redstart_engine::SettingError;
use redstart_wire::remoting::{body::KeyValues, code};
use tokio::sync::Mutex;

use crate::{
    durable_file,
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
    shard::{ChangeError, ShardHandle, Unavailable},
};

/// Where the first shard stores them, under namespace and key with a line feed between.
const NAMESPACE: &str = "name-service";
const BETWEEN: char = '\n';
/// Bytes of namespace and key together, and of a value: what a setting may have.
const NAME_BYTES_MAX: usize = 254;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all values and their names, so that they leave room for users and other settings.
const BYTES_MAX: usize = 4 << 20;
/// Where earlier releases kept them.
const FILE: &str = "names.json";

type Table = BTreeMap<String, BTreeMap<String, String>>;

/// The values could not be read or taken over.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("{FILE}: {0}")]
    File(#[from] io::Error),
    #[error("{FILE}: {0}")]
    Content(#[from] serde_json::Error),
    #[error(
        "{FILE}: the value {key:?} of {namespace:?} cannot be stored, make it shorter or remove it: {source}"
    )]
    Stored { namespace: String, key: String, source: ValueError },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A value that was not stored.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    #[error("a namespace cannot hold a line feed")]
    Namespace,
    #[error("namespace and key have {len} bytes; the limit is {NAME_BYTES_MAX}")]
    Name { len: usize },
    #[error("the value has {len} bytes; the limit is {VALUE_BYTES_MAX}")]
    Value { len: usize },
    #[error("all values of the name service would have {len} bytes; the limit is {BYTES_MAX}")]
    Full { len: usize },
    #[error(transparent)]
    Stored(#[from] ChangeError<SettingError>),
}

impl From<ValueError> for Refusal {
    fn from(error: ValueError) -> Refusal {
        match error {
            ValueError::Stored(error) => error.into(),
            error => Refusal::invalid(error.to_string()),
        }
    }
}

/// Whether a value fits beside those that are there.
fn check(table: &Table, namespace: &str, key: &str, value: &str) -> Result<(), ValueError> {
    if namespace.contains(BETWEEN) {
        return Err(ValueError::Namespace);
    }
    let (name, len) = (namespace.len() + key.len(), value.len());
    if name > NAME_BYTES_MAX {
        return Err(ValueError::Name { len: name });
    }
    if len > VALUE_BYTES_MAX {
        return Err(ValueError::Value { len });
    }
    let of_namespace = |(name, values): (&String, &BTreeMap<String, String>)| -> usize {
        values.iter().map(|(key, value)| name.len() + key.len() + value.len()).sum()
    };
    let all = table.iter().map(of_namespace).sum::<usize>() + name + len;
    if all > BYTES_MAX {
        return Err(ValueError::Full { len: all });
    }
    Ok(())
}

/// Clones share the values.
#[derive(Debug, Clone)]
pub(super) struct KvConfig {
    shard: ShardHandle,
    table: Arc<RwLock<Table>>,
    /// One change at a time, so that memory follows the log in its order.
    changing: Arc<Mutex<()>>,
}

impl KvConfig {
    /// Reads the values from the log. Those that an earlier release left in `dir` are stored there first.
    pub async fn open(first: &ShardHandle, dir: &Path) -> Result<KvConfig, NamesError> {
        let stored = first.ask(|engine, _| engine.settings(NAMESPACE))?.await?;
        let mut table = Table::new();
        for (key, value) in stored {
            let Some((namespace, key)) = key.split_once(BETWEEN) else { continue };
            table.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value);
        }
        let table = Arc::new(RwLock::new(table));
        let values = KvConfig { shard: first.clone(), table, changing: Arc::default() };
        values.take_over(&dir.join(FILE)).await?;
        Ok(values)
    }

    /// Nothing is served yet: after a crash before the file is removed, the same values are stored again.
    async fn take_over(&self, file: &Path) -> Result<(), NamesError> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let old: Table = serde_json::from_slice(&bytes)?;
        for (namespace, values) in old {
            for (key, value) in values {
                let stored = self.clone().store(namespace.clone(), key.clone(), Some(value)).await;
                let namespace = namespace.clone();
                stored.map_err(|source| NamesError::Stored { namespace, key, source })?;
            }
        }
        durable_file::remove(file)?;
        tracing::info!(file = %file.display(), "the name service's values are in the log now");
        Ok(())
    }

    pub fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.table.read().get(namespace)?.get(key).cloned()
    }

    pub fn all(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.table.read().get(namespace).cloned()
    }

    /// Stores a value, or removes it; then it is seen.
    async fn store(self, namespace: String, key: String, value: Option<String>) -> Result<(), ValueError> {
        let _changing = self.changing.lock().await;
        match &value {
            Some(value) => check(&self.table.read(), &namespace, &key, value)?,
            None if self.get(&namespace, &key).is_none() => return Ok(()),
            None => {}
        }
        let (name, put) = (format!("{namespace}{BETWEEN}{key}"), value.clone());
        let proposed =
            self.shard.change(move |engine, _| engine.put_setting(NAMESPACE, &name, put.as_deref()));
        proposed.map_err(ChangeError::from)?.await.map_err(ChangeError::from)??;
        let mut table = self.table.write();
        match value {
            Some(value) => {
                table.entry(namespace).or_default().insert(key, value);
            }
            None => {
                if let Some(values) = table.get_mut(&namespace) {
                    values.remove(&key);
                }
                table.retain(|_, values| !values.is_empty());
            }
        }
        Ok(())
    }
}

async fn change(
    request: &Request,
    namespace: String,
    key: String,
    value: Option<String>,
) -> Result<Answer, Refusal> {
    let values = request.context.node.name_service.kv_config.clone();
    // In a task of its own: memory follows the log whatever becomes of the request.
    let stored = tokio::spawn(values.store(namespace, key, value)).await;
    stored.map_err(|_| Refusal::new(code::SYSTEM_ERROR, "the broker is stopping"))??;
    Ok(Answer::ok())
}

pub(crate) async fn put_value(request: &Request) -> Result<Answer, Refusal> {
    let field = |name| request.required(name).map(str::to_owned);
    put(request, field("namespace")?, field("key")?, field("value")?).await
}

pub(super) async fn put(
    request: &Request,
    namespace: String,
    key: String,
    value: String,
) -> Result<Answer, Refusal> {
    change(request, namespace, key, Some(value)).await
}

pub(crate) async fn delete_value(request: &Request) -> Result<Answer, Refusal> {
    let field = |name| request.required(name).map(str::to_owned);
    change(request, field("namespace")?, field("key")?, None).await
}

pub(crate) async fn value(request: &Request) -> Result<Answer, Refusal> {
    let (namespace, key) = (request.required("namespace")?, request.required("key")?);
    match request.context.node.name_service.kv_config.get(namespace, key) {
        Some(value) => Ok(Answer::ok().with("value", value)),
        None => Err(not_found(namespace)),
    }
}

pub(crate) async fn values(request: &Request) -> Result<Answer, Refusal> {
    let namespace = request.required("namespace")?;
    match request.context.node.name_service.kv_config.all(namespace) {
        Some(table) => Ok(Answer::json(&KeyValues { table })),
        None => Err(not_found(namespace)),
    }
}

fn not_found(namespace: &str) -> Refusal {
    Refusal::new(code::QUERY_NOT_FOUND, format!("no config item, namespace {namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_have_limits() {
        let (key, value) = ("k".repeat(NAME_BYTES_MAX - 1), "v".repeat(VALUE_BYTES_MAX));
        let mut table = Table::new();
        let fits = |table: &Table, namespace: &str, key: &str, value: &str| {
            check(table, namespace, key, value).map_err(|error| error.to_string())
        };
        assert_eq!(fits(&table, "n", &key, &value), Ok(()));
        assert!(fits(&table, "nn", &key, "v").unwrap_err().contains("namespace and key have 255 bytes"));
        assert!(fits(&table, "n", "k", &format!("{value}v")).unwrap_err().contains("65537 bytes"));
        assert!(fits(&table, "n\n", "k", "v").unwrap_err().contains("line feed"));
        let many = (0..BYTES_MAX / VALUE_BYTES_MAX).map(|n| (n.to_string(), value.clone()));
        table.insert("n".to_owned(), many.collect());
        assert!(fits(&table, "n", "k", "v").unwrap_err().contains("all values"));
    }
}
