//! The brokers that a command works on.

use clap::Args;
use redstart_client::admin::Target;

/// The brokers of one cluster, one broker, or all of them.
#[derive(Debug, Args)]
pub struct Where {
    /// Only the brokers of this cluster
    #[arg(long, value_name = "NAME", conflicts_with = "broker")]
    cluster: Option<String>,
    /// Only this broker, by name or address
    #[arg(long, value_name = "BROKER")]
    broker: Option<String>,
}

impl Where {
    pub fn target(&self) -> Target {
        match (&self.cluster, &self.broker) {
            (_, Some(broker)) => Target::Broker(broker.clone()),
            (Some(cluster), None) => Target::Cluster(cluster.clone()),
            (None, None) => Target::Everywhere,
        }
    }
}
