//! Both front ends on one shard.

use std::{net::SocketAddr, path::Path, sync::Arc};

use redstart_server::{
    grpc::{self, Grpc},
    remoting::{self, Remoting},
    shard::ShardHandle,
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
        let grpc = Grpc::bind(grpc, shard.clone(), checks, dir).await.unwrap();
        let remoting = Remoting::bind(remoting, shard, dir).await.unwrap();
        let addresses = (grpc.address().unwrap(), remoting.addresses().unwrap().1);
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(grpc.serve(stopped.clone()));
        tokio::spawn(remoting.serve(stopped));
        FrontEnds { grpc: addresses.0, remoting: addresses.1, _stop: stop }
    }
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
        let grpc = Grpc::bind(super::config(), shard, checks, dir.path()).await.unwrap();
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
