//! Both front ends on one shard.

use std::{net::SocketAddr, path::Path, sync::Arc};

use redstart_log::{FsStorage, Options};
use redstart_server::{
    grpc::{self, Grpc},
    remoting::{self, Remoting},
    shard::{self, Shard, ShardHandle},
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

/// A shard that is served over both protocols, until this is dropped.
pub struct FrontEnds {
    pub grpc: SocketAddr,
    pub remoting: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl FrontEnds {
    pub async fn start(
        shard: ShardHandle,
        dir: &Path,
        grpc: grpc::Config,
        remoting: remoting::Config,
    ) -> FrontEnds {
        let (_, checks) = mpsc::channel(1);
        let shards = super::one_shard(shard).await;
        let grpc = Grpc::bind(grpc, shards.clone(), checks, dir).await.unwrap();
        let remoting = Remoting::bind(remoting, shards, dir).await.unwrap();
        let addresses = (grpc.address().unwrap(), remoting.addresses().unwrap().1);
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(grpc.serve(stopped.clone()));
        tokio::spawn(remoting.serve(stopped));
        FrontEnds { grpc: addresses.0, remoting: addresses.1, _stop: stop }
    }
}

/// The shard of a data directory.
pub fn open_in(dir: &TempDir) -> Shard {
    let storage = FsStorage::open(dir.path().join("shard-0")).unwrap();
    let options = Options::with_segment_bytes(16 << 20);
    Shard::open(Arc::new(storage), options, super::engine(), shard::Config::default()).unwrap().shard
}

/// The shard of a data directory, served over both protocols.
pub async fn start_in(dir: &TempDir, remoting: remoting::Config) -> (Shard, FrontEnds) {
    let shard = open_in(dir);
    let front_ends = FrontEnds::start(shard.handle(), dir.path(), super::config(), remoting).await;
    (shard, front_ends)
}

/// A gRPC front end beside a Remoting one that a test has started before.
pub struct GrpcBeside {
    pub address: SocketAddr,
    _dir: TempDir,
    _stop: watch::Sender<bool>,
}

impl GrpcBeside {
    pub async fn start(shard: ShardHandle, remoting: remoting::Monitor) -> GrpcBeside {
        let dir = TempDir::new().unwrap();
        let (_, checks) = mpsc::channel(1);
        let shards = super::one_shard(shard).await;
        let grpc = Grpc::bind(super::config(), shards, checks, dir.path()).await.unwrap();
        grpc.set_pull_consumers(Arc::new(remoting));
        let address = grpc.address().unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(grpc.serve(stopped));
        GrpcBeside { address, _dir: dir, _stop: stop }
    }

    pub async fn client(&self) -> super::Client {
        super::connect(self.address, "new", "JAVA").await
    }
}
