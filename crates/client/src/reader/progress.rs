//! The progress of broadcasts: where it is kept, and how far it may go while handlers run.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    future::Future,
    io::{self, Write},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use crate::Queue;

/// Keeps how far a broadcast has read each queue, so that it goes on there after a restart.
pub trait ProgressStore: fmt::Debug + Send + Sync + 'static {
    /// The offset of the next message of a queue; `None` if nothing is known of it.
    fn load(&self, queue: &Queue) -> impl Future<Output = io::Result<Option<i64>>> + Send;

    /// Keeps the offsets of some queues. Those of others stay as they are.
    fn save(&self, progress: &[(Queue, i64)]) -> impl Future<Output = io::Result<()>> + Send;
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A store whose type does not matter.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    fn load<'a>(&'a self, queue: &'a Queue) -> Pending<'a, Option<i64>>;
    fn save<'a>(&'a self, progress: &'a [(Queue, i64)]) -> Pending<'a, ()>;
}

impl<S: ProgressStore> Store for S {
    fn load<'a>(&'a self, queue: &'a Queue) -> Pending<'a, Option<i64>> {
        Box::pin(ProgressStore::load(self, queue))
    }

    fn save<'a>(&'a self, progress: &'a [(Queue, i64)]) -> Pending<'a, ()> {
        Box::pin(ProgressStore::save(self, progress))
    }
}

/// Progress that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    offsets: Mutex<HashMap<Queue, i64>>,
}

impl ProgressStore for MemoryStore {
    async fn load(&self, queue: &Queue) -> io::Result<Option<i64>> {
        Ok(self.offsets.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied())
    }

    async fn save(&self, progress: &[(Queue, i64)]) -> io::Result<()> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner).extend(progress.iter().cloned());
        Ok(())
    }
}

/// Progress in a file of JSON, which is replaced as a whole: after a crash it is the old one or the new one.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    /// What the file holds, once it is read.
    offsets: tokio::sync::Mutex<Option<Offsets>>,
}

/// By topic, broker and queue.
type Offsets = BTreeMap<String, BTreeMap<String, BTreeMap<i32, i64>>>;

impl FileStore {
    /// A file of this broadcast alone. It is made when there is progress; its folder must be there.
    pub fn new(path: impl Into<PathBuf>) -> FileStore {
        FileStore { path: path.into(), offsets: tokio::sync::Mutex::default() }
    }

    async fn read(&self, offsets: &mut Option<Offsets>) -> io::Result<Offsets> {
        if let Some(offsets) = offsets {
            return Ok(offsets.clone());
        }
        let path = self.path.clone();
        let read = blocking(move || read_file(&path)).await?;
        *offsets = Some(read.clone());
        Ok(read)
    }
}

impl ProgressStore for FileStore {
    async fn load(&self, queue: &Queue) -> io::Result<Option<i64>> {
        let offsets = self.read(&mut *self.offsets.lock().await).await?;
        Ok(offsets.get(&queue.topic).and_then(|topic| topic.get(&queue.broker)?.get(&queue.id)).copied())
    }

    async fn save(&self, progress: &[(Queue, i64)]) -> io::Result<()> {
        let mut known = self.offsets.lock().await;
        let mut offsets = self.read(&mut known).await?;
        for (queue, offset) in progress {
            let topic = offsets.entry(queue.topic.clone()).or_default();
            topic.entry(queue.broker.clone()).or_default().insert(queue.id, *offset);
        }
        let (path, written) = (self.path.clone(), offsets.clone());
        blocking(move || replace_file(&path, &written)).await?;
        *known = Some(offsets);
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn read_file(path: &Path) -> io::Result<Offsets> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Offsets::new()),
        Err(error) => Err(error),
    }
}

fn replace_file(path: &Path, offsets: &Offsets) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = std::fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec_pretty(offsets)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    // The rename itself must survive a power cut as well.
    std::fs::File::open(folder)?.sync_all()
}

/// The messages of each queue that handlers have, for the progress that may be stored: no message before it is unfinished.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    queues: HashMap<Queue, Tracked>,
}

#[derive(Debug)]
struct Tracked {
    unfinished: BTreeSet<i64>,
    next: i64,
}

impl Unfinished {
    pub fn begin(&mut self, queue: &Queue, offsets: impl IntoIterator<Item = i64>, next: i64) {
        let new = || Tracked { unfinished: BTreeSet::new(), next };
        let tracked = self.queues.entry(queue.clone()).or_insert_with(new);
        tracked.unfinished.extend(offsets);
        tracked.next = tracked.next.max(next);
    }

    pub fn done(&mut self, queue: &Queue, offset: i64) {
        if let Some(tracked) = self.queues.get_mut(queue) {
            tracked.unfinished.remove(&offset);
        }
    }

    /// Everything was read up to here, and none of it was wanted.
    pub fn passed(&mut self, queue: &Queue, next: i64) {
        self.begin(queue, [], next);
    }

    /// How far each queue is finished.
    pub fn progress(&self) -> Vec<(Queue, i64)> {
        let finished = |tracked: &Tracked| tracked.unfinished.first().copied().unwrap_or(tracked.next);
        self.queues.iter().map(|(queue, tracked)| (queue.clone(), finished(tracked))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i32) -> Queue {
        Queue::new("t", "b", id)
    }

    #[test]
    fn progress_stays_before_the_oldest_unfinished_message() {
        let mut unfinished = Unfinished::default();
        assert!(unfinished.progress().is_empty());
        unfinished.begin(&queue(0), [5, 6, 8], 9);
        unfinished.done(&queue(0), 6);
        assert_eq!(unfinished.progress(), [(queue(0), 5)]);
        unfinished.done(&queue(0), 5);
        assert_eq!(unfinished.progress(), [(queue(0), 8)]);
        unfinished.begin(&queue(0), [9], 10);
        unfinished.done(&queue(0), 8);
        unfinished.done(&queue(0), 9);
        assert_eq!(unfinished.progress(), [(queue(0), 10)]);
        unfinished.passed(&queue(0), 20);
        assert_eq!(unfinished.progress(), [(queue(0), 20)]);
    }

    #[tokio::test]
    async fn a_file_keeps_progress_for_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.json");
        let store = FileStore::new(&path);
        assert_eq!(ProgressStore::load(&store, &queue(0)).await.expect("no file"), None);
        ProgressStore::save(&store, &[(queue(0), 5), (queue(1), 7)]).await.expect("saved");
        ProgressStore::save(&store, &[(queue(0), 6)]).await.expect("saved");
        let again = FileStore::new(&path);
        assert_eq!(ProgressStore::load(&again, &queue(0)).await.expect("read"), Some(6));
        assert_eq!(ProgressStore::load(&again, &queue(1)).await.expect("read"), Some(7));
        assert_eq!(ProgressStore::load(&again, &queue(2)).await.expect("read"), None);
        std::fs::write(&path, "no JSON").expect("written");
        let error = ProgressStore::load(&FileStore::new(&path), &queue(0)).await.expect_err("damaged");
        assert!(error.to_string().contains("progress.json"), "{error}");
    }
}
