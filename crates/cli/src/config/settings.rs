//! The table of settings, from which flags, keys of the file, environment variables, the documentation and [`Config`]
//! come.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use super::{
    alias::{Alias, Unit},
    kind::{self, FlushMode, Form, Kind, LogFormat},
    values::Values,
};

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    pub key: &'static str,
    /// The text that stands for the default; empty for none.
    pub default: &'static str,
    /// Completes the sentence "it must be …".
    pub accepted: &'static str,
    pub form: Form,
    /// RocketMQ's names for it.
    pub aliases: &'static [Alias],
    meaning: &'static str,
    accepts: fn(&str) -> bool,
}

impl Setting {
    pub fn meaning(&self) -> &'static str {
        self.meaning.trim()
    }

    /// Its flag, without the dashes.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.to_ascii_uppercase())
    }

    pub fn accepts(&self, text: &str) -> bool {
        (self.accepts)(text)
    }

    /// How to set it, for an error that asks to.
    pub fn ways(&self) -> String {
        format!("--{} (`{}` in the file, {})", self.flag(), self.key, self.variable())
    }

    pub fn named(key: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }
}

pub const VARIABLE_PREFIX: &str = "REDSTART_";

macro_rules! settings {
    ($($(#[doc = $meaning:literal])+ $key:ident: $type:ty = $default:literal, $kind:expr
        $(, $alias:literal as $unit:ident)*;)*) => {
        /// Every setting with its value.
        #[derive(Debug, Clone)]
        pub struct Config {
            $($(#[doc = $meaning])+ pub $key: $type,)*
        }

        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: stringify!($key),
            default: $default,
            accepted: $kind.accepted,
            form: $kind.form,
            aliases: &[$(Alias { name: $alias, unit: Unit::$unit }),*],
            meaning: concat!($($meaning),+),
            accepts: |text| {
                let kind: Kind<$type> = $kind;
                (kind.read)(text).is_some()
            },
        }),*];

        impl Config {
            pub fn of(values: &Values) -> Result<Config, super::Error> {
                Ok(Config { $($key: values.read(stringify!($key), &$kind)?,)* })
            }
        }
    };
}

settings! {
    /// Where messages are kept.
    data_dir: PathBuf = "redstart-data", kind::PATH, "storePathRootDir" as Same;
    /// Address to listen on.
    listen: IpAddr = "127.0.0.1", kind::ADDRESS, "bindAddress" as Same;
    /// Port of the name service (Remoting), which 4.x clients and mqadmin are given.
    namesrv_port: u16 = "9876", kind::PORT;
    /// Port of the broker (Remoting); clients older than 4.5.1 also use the port two below.
    broker_port: u16 = "10911", kind::PORT, "listenPort" as Same;
    /// Port of the 5.x clients (gRPC), plaintext and TLS.
    grpc_port: u16 = "8081", kind::PORT, "grpcServerPort" as Same;
    /// Port of metrics and health checks (HTTP).
    http_port: u16 = "8080", kind::PORT;
    /// Address that routes carry instead of the one each client dialled; of the port only gRPC makes use.
    advertise: Option<String> = "", kind::HOST, "brokerIP1" as Same;
    /// Name of the cluster.
    cluster_name: String = "DefaultCluster", kind::NAME, "brokerClusterName" as Same;
    /// Name of the broker in its cluster.
    broker_name: String = "broker-a", kind::NAME, "brokerName" as Same;
    /// Certificate chain (PEM) for TLS; without one, a self-signed one is kept in the data directory.
    tls_cert: Option<PathBuf> = "", kind::OPTIONAL_PATH, "tlsCertPath" as Same;
    /// Private key (PEM) of the certificate.
    tls_key: Option<PathBuf> = "", kind::OPTIONAL_PATH, "tlsKeyPath" as Same;
    /// Acknowledge a message when it is durable (sync), or when it is written (async).
    flush: FlushMode = "sync", kind::FLUSH, "flushDiskType" as FlushType;
    /// How often written messages are made durable when `flush` is async.
    flush_interval: Duration = "500ms", kind::FLUSH_INTERVAL, "flushIntervalCommitLog" as Millis;
    /// How long messages are kept.
    retention: Duration = "72h", kind::RETENTION, "fileReservedTime" as Hours;
    /// From this fullness of the disk on, whatever is older than `retention` is deleted at once.
    disk_clean_percent: u8 = "75", kind::PERCENT, "diskMaxUsedSpaceRatio" as Same;
    /// From this fullness of the disk on, the oldest messages are deleted before their time. It counts as `disk_clean_percent` at
    /// least and as `disk_refuse_percent` at most.
    disk_forced_percent: u8 = "85", kind::PERCENT, "diskSpaceCleanForciblyRatio" as Same;
    /// From this fullness of the disk on, new messages are refused.
    disk_refuse_percent: u8 = "90", kind::PERCENT, "diskSpaceWarningLevelRatio" as Same;
    /// Size of a segment file; retention deletes whole segments.
    segment_bytes: u64 = "256MiB", kind::SEGMENT, "mappedFileSizeCommitLog" as Same;
    /// Bytes a second of stored data that are checked in the background for damage, each sealed segment about once a week; 0
    /// for none.
    scrub_rate: u64 = "4MiB", kind::SCRUB_RATE;
    /// Largest body of a message; the messages of a batch may have as much together, and 4 MiB always.
    message_bytes_max: usize = "4MiB", kind::MESSAGE, "maxMessageSize" as Same;
    /// Messages accepted and not yet stored, in bytes; senders beyond it are told to slow down.
    pending_bytes_max: usize = "256MiB", kind::PENDING;
    /// Requests and answers under way on the gRPC and Remoting ports, in bytes; beyond it, peers wait or are told to slow down.
    network_bytes_max: usize = "1GiB", kind::NETWORK;
    /// gRPC connections at a time; fewer when the process may not open as many files.
    grpc_connections_max: usize = "50000", kind::CONNECTIONS;
    /// Create a topic when a client first sends to it.
    auto_create_topics: bool = "false", kind::TRUTH, "autoCreateTopicEnable" as Same;
    /// Create a consumer group when it first consumes.
    auto_create_groups: bool = "true", kind::TRUTH, "autoCreateSubscriptionGroup" as Same;
    /// Let other brokers register with the name service; any peer that reaches its port can then add addresses to routes.
    foreign_brokers: bool = "false", kind::TRUTH;
    /// Refuse what 4.x clients send to a topic of another message type, as for 5.x clients.
    remoting_check_types: bool = "false", kind::TRUTH;
    /// Delays of the delay levels of 4.x clients.
    message_delay_levels: Vec<Duration> = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        kind::DELAYS, "messageDelayLevel" as Same;
    /// Time after which the producer of an undecided transaction is asked for the first time.
    transaction_check_after: Duration = "6s", kind::WAIT, "transactionTimeOut" as Millis;
    /// Time between further questions.
    transaction_check_interval: Duration = "30s", kind::WAIT, "transactionCheckInterval" as Millis;
    /// How often the producer is asked before the transaction is rolled back.
    transaction_checks_max: u32 = "15", kind::CHECKS, "transactionCheckMax" as Same;
    /// Levels of the log, by target; RUST_LOG wins when it is set.
    log: String = "info", kind::LOG;
    /// Form of the log: lines of text, or one JSON object a line.
    log_format: LogFormat = "text", kind::LOG_FORMAT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_accepted_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for setting in SETTINGS {
            assert!(setting.accepts(setting.default), "{}", setting.key);
            assert!(
                names.insert(setting.key.to_owned()) && names.insert(setting.variable()),
                "{}",
                setting.key
            );
            for alias in setting.aliases {
                assert!(names.insert(alias.name.to_owned()), "{}", alias.name);
            }
            assert!(setting.meaning().ends_with('.'), "{}", setting.key);
        }
    }

    #[test]
    fn defaults_are_those_of_the_engine_and_its_log() {
        let config = Config::of(&Values::default()).unwrap();
        let engine = redstart_engine::Config::default();
        assert_eq!(config.message_delay_levels, engine.delay_levels);
        assert_eq!(config.message_bytes_max, engine.limits.body_bytes_max);
        assert_eq!(config.retention, engine.retention.keep);
        assert_eq!(config.disk_clean_percent, engine.retention.early_percent);
        assert_eq!(config.disk_forced_percent, engine.retention.forced_percent);
        assert_eq!(config.disk_refuse_percent, engine.retention.refuse_percent);
        assert_eq!(config.transaction_check_after, engine.transactions.first_check_after);
        assert_eq!(config.transaction_check_interval, engine.transactions.check_interval);
        assert_eq!(config.transaction_checks_max, engine.transactions.checks_max);
        assert_eq!(config.segment_bytes, redstart_log::Options::default().segment_bytes);
        let shard = redstart_server::shard::Config::default();
        assert_eq!(config.pending_bytes_max, shard.pending_bytes_max);
        assert_eq!(config.network_bytes_max, redstart_server::DEFAULT_BYTES);
        let grpc = redstart_server::grpc::Limits::default();
        assert_eq!(config.grpc_connections_max, grpc.connections_max);
    }
}
