//! Who this node is in its cluster, and which data directories its peers have. One file in the data directory holds both.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use redstart_raft::Member;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::durable_file::{self, Readable};

/// The file in the data directory. A directory without it belongs to a node that is alone.
pub const FILE: &str = "cluster.json";

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the cluster.
    pub cluster: String,
    pub member: Member,
    /// Drawn when the data directory was made. So peers notice a node that comes back without its data, and two nodes with one number.
    pub directory: u64,
}

/// The data directory cannot be used for the node that it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{}: {error}", file.display())]
    File { file: PathBuf, error: io::Error },
    #[error("{}: {why}", file.display())]
    Damaged { file: PathBuf, why: String },
    #[error("the data directory belongs to node {found} of its cluster and not to node {given}")]
    OtherNode { found: u32, given: u32 },
    #[error("the data directory belongs to the cluster {found} and not to {given}")]
    OtherCluster { found: String, given: String },
    #[error(
        "the data directory belongs to node {found} of the cluster {cluster}, and a node of a cluster cannot start without its peers"
    )]
    Alone { found: u32, cluster: String },
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    cluster: String,
    node: u32,
    incarnation: u32,
    directory: String,
    /// The directories of the other nodes, as they were first seen.
    #[serde(default)]
    peers: BTreeMap<u32, String>,
}

const VERSION: u32 = 1;

/// The data directories of the other nodes. Each is remembered when it is first seen.
#[derive(Debug)]
pub struct KnownPeers {
    file: PathBuf,
    stored: Mutex<Stored>,
}

impl Identity {
    /// Reads who the node is that has this directory, or writes it down at its first start.
    pub fn open(dir: &Path, cluster: &str, node: u32) -> Result<(Identity, KnownPeers), IdentityError> {
        let file = dir.join(FILE);
        let failed = |error| IdentityError::File { file: file.clone(), error };
        let stored = match read(&file)? {
            Some(stored) => stored,
            None => {
                let stored = Stored {
                    version: VERSION,
                    cluster: cluster.to_owned(),
                    node,
                    incarnation: 0,
                    directory: hex(random().map_err(failed)?),
                    peers: BTreeMap::new(),
                };
                write(&file, &stored).map_err(failed)?;
                stored
            }
        };
        if stored.node != node {
            return Err(IdentityError::OtherNode { found: stored.node, given: node });
        }
        if stored.cluster != cluster {
            return Err(IdentityError::OtherCluster { found: stored.cluster, given: cluster.to_owned() });
        }
        let directory =
            u64::from_str_radix(&stored.directory, 16).map_err(|error| IdentityError::Damaged {
                file: file.clone(),
                why: format!("the number of the directory: {error}"),
            })?;
        let member = Member { node, incarnation: stored.incarnation };
        let identity = Identity { cluster: stored.cluster.clone(), member, directory };
        Ok((identity, KnownPeers { file, stored: Mutex::new(stored) }))
    }

    /// Checks that a directory is not one of a cluster.
    pub fn check_alone(dir: &Path) -> Result<(), IdentityError> {
        match read(&dir.join(FILE))? {
            Some(Stored { node, cluster, .. }) => Err(IdentityError::Alone { found: node, cluster }),
            None => Ok(()),
        }
    }
}

impl KnownPeers {
    /// Whether a peer has the data directory that it had when it was first seen. The first one is remembered.
    pub fn is_same(&self, node: u32, directory: u64) -> io::Result<bool> {
        let mut stored = self.stored.lock();
        if let Some(known) = stored.peers.get(&node) {
            return Ok(*known == hex(directory));
        }
        stored.peers.insert(node, hex(directory));
        write(&self.file, &stored)?;
        Ok(true)
    }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn read(file: &Path) -> Result<Option<Stored>, IdentityError> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(IdentityError::File { file: file.to_owned(), error }),
    };
    let damaged = |why: String| IdentityError::Damaged { file: file.to_owned(), why };
    let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if stored.version != VERSION {
        return Err(damaged(format!("its version {} is not known here", stored.version)));
    }
    Ok(Some(stored))
}

fn write(file: &Path, stored: &Stored) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(stored).map_err(io::Error::other)?;
    durable_file::replace(file, &bytes, Readable::ByOwner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_node_its_cluster_and_its_number() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Identity::check_alone(dir.path()).is_ok());
        let (first, _) = Identity::open(dir.path(), "c", 2).unwrap();
        let (again, _) = Identity::open(dir.path(), "c", 2).unwrap();
        assert_eq!(first, again);
        let other = Identity::open(dir.path(), "c", 3).unwrap_err();
        assert_eq!(
            other.to_string(),
            "the data directory belongs to node 2 of its cluster and not to node 3"
        );
        let other = Identity::open(dir.path(), "d", 2).unwrap_err();
        assert_eq!(other.to_string(), "the data directory belongs to the cluster c and not to d");
        let alone = Identity::check_alone(dir.path()).unwrap_err().to_string();
        assert!(alone.contains("cannot start without its peers"), "{alone}");
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(Identity::open(elsewhere.path(), "c", 2).unwrap().0.directory, first.directory);
    }

    #[test]
    fn the_directory_of_a_peer_is_remembered_over_starts() {
        let dir = tempfile::tempdir().unwrap();
        let (_, known) = Identity::open(dir.path(), "c", 1).unwrap();
        assert!(known.is_same(2, 77).unwrap() && known.is_same(2, 77).unwrap());
        let (_, known) = Identity::open(dir.path(), "c", 1).unwrap();
        assert!(!known.is_same(2, 78).unwrap());
        assert!(known.is_same(3, 78).unwrap());
    }

    #[test]
    fn a_damaged_file_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", r#"{"version":2,"cluster":"c","node":1,"incarnation":0,"directory":"0"}"#] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            assert!(matches!(Identity::open(dir.path(), "c", 1), Err(IdentityError::Damaged { .. })));
        }
    }
}
