use clap::Args;
use redstart_client::admin::Target;

/// Where a change is made. Everywhere, if nothing is said.
#[derive(Debug, Args)]
pub struct Where {
    /// Only on the brokers of this cluster
    #[arg(long, value_name = "NAME", conflicts_with = "broker")]
    cluster: Option<String>,
    /// Only on this broker, by name or address
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
