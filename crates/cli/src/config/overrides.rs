//! Settings that `mqadmin updateBrokerConfig` has changed in the running broker. The broker keeps them with its data and
//! applies them at every start, so they win over flags, environment and file.

use std::{net::SocketAddr, time::Duration};

use redstart_client::admin::{Admin, ChangedConfig, Error};
use redstart_commands::blocking::block_on;

use super::{Config, file, settings::Setting};
use crate::health::reachable;

/// `redstart config` must not hang on a host that drops packets.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What the broker that this configuration describes has changed at run time.
#[derive(Debug)]
pub enum Overrides {
    Known {
        address: SocketAddr,
        values: Vec<(&'static Setting, String)>,
    },
    /// Nothing listens there, or the port is not fixed.
    NotRunning,
    Unknown {
        address: SocketAddr,
        why: String,
    },
}

impl Overrides {
    /// Asks the broker at the configured address.
    pub fn ask(config: &Config) -> anyhow::Result<Overrides> {
        if config.broker_port == 0 {
            return Ok(Overrides::NotRunning);
        }
        let address = SocketAddr::new(reachable(config.listen), config.broker_port);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = block_on(&runtime, async {
            let admin = Admin::new("");
            tokio::time::timeout(TIMEOUT, admin.changed_config(&address.to_string())).await
        });
        Ok(match answer {
            Ok(Ok(found)) => Overrides::read(config, address, &found),
            Ok(Err(Error::NoBroker { .. })) => Overrides::NotRunning,
            Ok(Err(error)) => Overrides::Unknown { address, why: error.to_string() },
            Err(_) => Overrides::Unknown { address, why: format!("no answer within {TIMEOUT:?}") },
        })
    }

    fn read(config: &Config, address: SocketAddr, found: &ChangedConfig) -> Overrides {
        let ours = (config.cluster_name.as_str(), config.broker_name.as_str());
        let (cluster, broker) = (found.cluster.as_str(), found.broker.as_str());
        if ours != (cluster, broker) {
            let why = format!("broker {broker} of cluster {cluster} listens there");
            return Overrides::Unknown { address, why };
        }
        let value = |(name, value): (&String, &String)| {
            let (setting, unit) = file::known(name)?;
            Some((setting, unit.translate(value)?))
        };
        Overrides::Known { address, values: found.changed.iter().filter_map(value).collect() }
    }

    pub fn of(&self, setting: &Setting) -> Option<&str> {
        let Overrides::Known { values, .. } = self else { return None };
        values.iter().find(|(changed, _)| changed.key == setting.key).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Values, *};

    #[test]
    fn changes_are_shown_in_our_units_and_only_those_of_this_broker() {
        let config = Config::of(&Values::default()).unwrap();
        let changed = [("fileReservedTime", "48"), ("transactionTimeOut", "7000"), ("unheardOf", "1")];
        let mut found = ChangedConfig {
            cluster: config.cluster_name.clone(),
            broker: config.broker_name.clone(),
            changed: changed.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        };
        let address = "127.0.0.1:10911".parse().unwrap();
        let of = |overrides: &Overrides, key| overrides.of(Setting::named(key).unwrap()).map(str::to_owned);
        let known = Overrides::read(&config, address, &found);
        assert_eq!(of(&known, "retention").as_deref(), Some("48h"));
        assert_eq!(of(&known, "transaction_check_after").as_deref(), Some("7000ms"));
        assert_eq!(of(&known, "flush"), None);
        found.broker = "broker-z".to_owned();
        let other = Overrides::read(&config, address, &found);
        assert!(matches!(&other, Overrides::Unknown { why, .. } if why.contains("broker-z")), "{other:?}");
    }
}
