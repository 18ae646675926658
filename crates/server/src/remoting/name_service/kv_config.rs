//! Values that tools store with the name service, by namespace and key. One small file beside the log holds them and is
//! replaced as a whole: there are few, they are seldom written, and they are no part of the broker's state.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redstart_wire::remoting::{body::KeyValues, code};

use crate::{
    durable_file::{self, Readable},
    remoting::{
        refusal::Refusal,
        request::{Answer, Request},
    },
};

const FILE: &str = "names.json";
const BYTES_MAX: usize = 4 << 20;

type Table = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Debug, Clone)]
pub(super) struct KvConfig {
    path: PathBuf,
    table: Arc<Mutex<Table>>,
}

impl KvConfig {
    pub fn open(dir: &Path) -> io::Result<KvConfig> {
        let path = dir.join(FILE);
        let table = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{FILE}: {error}")))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Table::new(),
            Err(error) => return Err(error),
        };
        Ok(KvConfig { path, table: Arc::new(Mutex::new(table)) })
    }

    pub fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.table().get(namespace)?.get(key).cloned()
    }

    pub fn all(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.table().get(namespace).cloned()
    }

    /// Changes the table on disk and then in memory; the lock keeps changes in one order.
    fn change(&self, change: impl FnOnce(&mut Table)) -> io::Result<()> {
        let mut table = self.table();
        let mut changed = table.clone();
        change(&mut changed);
        changed.retain(|_, values| !values.is_empty());
        let bytes = serde_json::to_vec(&changed)?;
        if bytes.len() > BYTES_MAX {
            let why = format!("the values have {} bytes, the limit is {BYTES_MAX}", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        durable_file::replace(&self.path, &bytes, Readable::ByAll)?;
        *table = changed;
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn change(
    request: &Request,
    change: impl FnOnce(&mut Table) + Send + 'static,
) -> Result<Answer, Refusal> {
    let values = request.context.name_service.kv_config.clone();
    let failed = |error: String| Refusal::new(code::SYSTEM_ERROR, format!("cannot keep the value: {error}"));
    let changed = tokio::task::spawn_blocking(move || values.change(change)).await;
    changed.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
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
    change(request, move |table| {
        table.entry(namespace).or_default().insert(key, value);
    })
    .await
}

pub(crate) async fn delete_value(request: &Request) -> Result<Answer, Refusal> {
    let field = |name| request.required(name).map(str::to_owned);
    let (namespace, key) = (field("namespace")?, field("key")?);
    change(request, move |table| {
        if let Some(values) = table.get_mut(&namespace) {
            values.remove(&key);
        }
    })
    .await
}

pub(crate) async fn value(request: &Request) -> Result<Answer, Refusal> {
    let (namespace, key) = (request.required("namespace")?, request.required("key")?);
    match request.context.name_service.kv_config.get(namespace, key) {
        Some(value) => Ok(Answer::ok().with("value", value)),
        None => Err(not_found(namespace)),
    }
}

pub(crate) async fn values(request: &Request) -> Result<Answer, Refusal> {
    let namespace = request.required("namespace")?;
    match request.context.name_service.kv_config.all(namespace) {
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
    fn values_outlive_a_restart_and_a_damaged_file_is_reported() {
        let dir = tempfile::TempDir::new().unwrap();
        let put = |values: &KvConfig, value: &str| {
            let value = value.to_owned();
            values.change(|table| {
                table.entry("n".to_owned()).or_default().insert("k".to_owned(), value);
            })
        };
        let values = KvConfig::open(dir.path()).unwrap();
        put(&values, "v").unwrap();
        assert!(put(&values, &"v".repeat(BYTES_MAX)).is_err());
        let again = KvConfig::open(dir.path()).unwrap();
        assert_eq!(again.get("n", "k").as_deref(), Some("v"));
        again.change(|table| table.clear()).unwrap();
        assert_eq!(KvConfig::open(dir.path()).unwrap().all("n"), None);
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(KvConfig::open(dir.path()).is_err());
    }
}
