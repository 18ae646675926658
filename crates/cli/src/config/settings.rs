//! The table of settings. Flags, keys of the file, environment variables, the documentation and [`Config`] are derived from it.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use redstart_auth::date::Zones;
use redstart_engine::ConsumeFrom;
use redstart_server::{Proxies, tls};

use super::{
    alias::{Alias, Unit},
    kind::{self, AuditTarget, ClientAuth, FlushMode, Kind, LogFormat, Notation},
    peers::Peers,
    values::Values,
};

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    pub key: &'static str,
    /// The default as text; empty if there is none.
    pub default: &'static str,
    /// Completes the sentence "it must be …".
    pub accepted: &'static str,
    pub notation: Notation,
    /// RocketMQ's names for the setting.
    pub aliases: &'static [Alias],
    meaning: &'static str,
    accepts: fn(&str) -> bool,
}

impl Setting {
    pub fn meaning(&self) -> &'static str {
        self.meaning.trim()
    }

    /// The flag without its dashes.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.to_ascii_uppercase())
    }

    pub fn accepts(&self, text: &str) -> bool {
        (self.accepts)(text)
    }

    /// The ways to set it, for error messages.
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
        /// The values of all settings.
        #[derive(Debug, Clone)]
        pub struct Config {
            $($(#[doc = $meaning])+ pub $key: $type,)*
        }

        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: stringify!($key),
            default: $default,
            accepted: $kind.accepted,
            notation: $kind.notation,
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
    /// Directory of the broker's data.
    data_dir: PathBuf = "redstart-data", kind::PATH, "storePathRootDir" as Same;
    /// Address to listen on.
    listen: IpAddr = "127.0.0.1", kind::ADDRESS, "bindAddress" as Same;
    /// Port of the name service (Remoting), for 4.x clients and mqadmin.
    namesrv_port: u16 = "9876", kind::PORT;
    /// Port of the broker (Remoting); clients older than 4.5.1 also use the port two below it. With several shards each is a broker,
    /// with its port ten above the one before.
    broker_port: u16 = "10911", kind::PORT, "listenPort" as Same;
    /// Port for 5.x clients (gRPC).
    grpc_port: u16 = "8081", kind::PORT, "grpcServerPort" as Same;
    /// Port for queues over HTTP, metrics and health checks.
    http_port: u16 = "8080", kind::PORT;
    /// Address to put into routes instead of the one that the client dialled; the port is used by gRPC only.
    advertise: Option<String> = "", kind::HOST, "brokerIP1" as Same;
    /// Name of the cluster.
    cluster_name: String = "DefaultCluster", kind::NAME, "brokerClusterName" as Same;
    /// Name of the broker in its cluster. With several shards it is the name of the first; those of the others follow from it
    /// (`broker-b`, ...).
    broker_name: String = "broker-a", kind::NAME, "brokerName" as Same;
    /// Shards: logs with owners of their own, which 4.x clients see as so many brokers. More use more cores. The number can grow at a
    /// restart, and never shrink.
    shards: usize = "1", kind::SHARDS;
    /// Number of this node in its cluster; with `peers`. See docs/cluster.md.
    node_id: Option<u32> = "", kind::NODE;
    /// All nodes of the cluster, this one too, with the hosts and ports of their links. The links of this node listen on `listen`, at
    /// the port that stands here.
    peers: Option<Peers> = "", kind::PEERS;
    /// File whose first line is the secret of the cluster, the same on all nodes; at least 16 characters.
    cluster_secret_file: Option<PathBuf> = "", kind::OPTIONAL_PATH;
    /// Certificate chain (PEM) for TLS; without it, a self-signed certificate is created in the data directory.
    tls_cert: Option<PathBuf> = "", kind::OPTIONAL_PATH, "tlsCertPath" as Same;
    /// Private key (PEM) of `tls_cert`.
    tls_key: Option<PathBuf> = "", kind::OPTIONAL_PATH, "tlsKeyPath" as Same;
    /// TLS on the name service's and the broker's port: off, permissive (plaintext and TLS, by the first byte) or enforcing (TLS
    /// alone).
    remoting_tls: tls::Mode = "permissive", kind::TLS_MODE, "tls.server.mode" as Same;
    /// TLS on the gRPC port: off, permissive or enforcing.
    grpc_tls: tls::Mode = "permissive", kind::TLS_MODE;
    /// TLS on the HTTP port: off, permissive or enforcing.
    http_tls: tls::Mode = "off", kind::TLS_MODE;
    /// Certificates (PEM) of the authorities that client certificates are verified with.
    tls_client_ca: Option<PathBuf> = "", kind::OPTIONAL_PATH, "tls.server.trustCertPath" as Same;
    /// Whether TLS clients are asked for a certificate: none, optional or required. With `auth` it says who the client is.
    tls_client_auth: ClientAuth = "none", kind::CLIENT_AUTH, "tls.server.need.client.auth" as Same;
    /// Where a client certificate has the name of its user: the common name of its subject (cn) or its first DNS name (dns).
    tls_client_user: tls::UserField = "cn", kind::CLIENT_USER;
    /// Balancers that begin every connection with a PROXY header (version 1 or 2), on all ports; the client's address is the one in
    /// the header. List nothing else: who sends a header can pretend to be any client.
    proxy_protocol_from: Option<Proxies> = "", kind::PROXIES;
    /// Acknowledge a message after it is durable (sync) or after it is written (async).
    flush: FlushMode = "sync", kind::FLUSH, "flushDiskType" as FlushType;
    /// How often written messages are made durable when `flush` is async.
    flush_interval: Duration = "500ms", kind::FLUSH_INTERVAL, "flushIntervalCommitLog" as Millis;
    /// How long messages are kept.
    retention: Duration = "72h", kind::RETENTION, "fileReservedTime" as Hours;
    /// Disk usage from which messages older than `retention` are deleted at once.
    disk_clean_percent: u8 = "75", kind::PERCENT, "diskMaxUsedSpaceRatio" as Same;
    /// Disk usage from which the oldest messages are deleted before `retention`. Values below `disk_clean_percent` or above
    /// `disk_refuse_percent` are raised or lowered to it.
    disk_forced_percent: u8 = "85", kind::PERCENT, "diskSpaceCleanForciblyRatio" as Same;
    /// Disk usage from which new messages are refused.
    disk_refuse_percent: u8 = "90", kind::PERCENT, "diskSpaceWarningLevelRatio" as Same;
    /// Size of a segment file; retention deletes whole segments. A shard keeps the one that it was made with.
    segment_bytes: u64 = "256MiB", kind::SEGMENT, "mappedFileSizeCommitLog" as Same;
    /// Bytes per second of stored data that the background check for damage reads, each sealed segment about once a week; 0
    /// disables it.
    scrub_rate: u64 = "4MiB", kind::SCRUB_RATE;
    /// Largest body of a message; also the limit for a batch, unless it is below 4 MiB.
    message_bytes_max: usize = "4MiB", kind::MESSAGE, "maxMessageSize" as Same;
    /// Largest number of bytes in messages that are accepted and not yet stored; beyond it, senders are told to slow down.
    pending_bytes_max: usize = "256MiB", kind::PENDING;
    /// Largest number of bytes in requests and answers in flight on all ports; beyond it, clients wait or are told to slow down.
    network_bytes_max: usize = "1GiB", kind::NETWORK;
    /// Largest number of gRPC connections; the limit of open files may lower it.
    grpc_connections_max: usize = "50000", kind::CONNECTIONS;
    /// Largest number of HTTP connections; the limit of open files may lower it.
    http_connections_max: usize = "16384", kind::CONNECTIONS;
    /// Create a topic when a client first sends to it.
    auto_create_topics: bool = "false", kind::BOOL, "autoCreateTopicEnable" as Same;
    /// Create a consumer group when it first consumes.
    auto_create_groups: bool = "true", kind::BOOL, "autoCreateSubscriptionGroup" as Same;
    /// Where a new consumer group starts in a topic: after the newest message, or at the earliest stored one. The group's own
    /// setting (`redstart group create --from`) and a 4.x client's consume-from-where win over it.
    new_groups_from: ConsumeFrom = "latest", kind::CONSUME_FROM;
    /// Let other brokers register with the name service; every peer that can reach its port can then add addresses to routes.
    foreign_brokers: bool = "false", kind::BOOL;
    /// Ask every caller who it is, and serve it by its rights; see docs/security.md. The first start makes the administrator `admin`.
    auth: bool = "false", kind::BOOL, "authenticationEnabled" as Same;
    /// Time zones of gRPC clients that sign their local time: the date of a signature must then be that of one of them to within 15 minutes.
    /// Without a value it may be that of any zone.
    grpc_date_zones: Zones = "", kind::ZONES;
    /// Listen off loopback without `auth`: every peer that reaches the ports may do everything. Without either the broker does not start there.
    insecure: bool = "false", kind::BOOL;
    /// File whose first line is the administrator's secret at the first start with `auth`; without one it is the value of the variable
    /// `REDSTART_ADMIN_SECRET`, or is made and printed once.
    admin_secret_file: Option<PathBuf> = "", kind::OPTIONAL_PATH;
    /// File with the keys that seal the secrets of users, one base64 of 32 bytes to a line, the current one first; without one they are in
    /// the variable `REDSTART_SECRETS_KEY`, or in `secrets.key` in the data directory, which the first start makes.
    secrets_key_file: Option<PathBuf> = "", kind::OPTIONAL_PATH;
    /// With `auth`, write administrative changes and denials to `audit.log` in the data directory, or to another file; 8 files of 16 MiB are kept.
    audit_log: AuditTarget = "on", kind::AUDIT;
    /// Refuse messages of 4.x clients that do not have the type of their topic, as for 5.x clients.
    remoting_check_types: bool = "false", kind::BOOL;
    /// Delays of the delay levels of 4.x clients.
    message_delay_levels: Vec<Duration> = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        kind::DELAYS, "messageDelayLevel" as Same;
    /// Time after which the producer of an undecided transaction is first asked for its outcome.
    transaction_check_after: Duration = "6s", kind::WAIT, "transactionTimeOut" as Millis;
    /// Time between further checks of an undecided transaction.
    transaction_check_interval: Duration = "30s", kind::WAIT, "transactionCheckInterval" as Millis;
    /// Number of checks after which an undecided transaction is rolled back.
    transaction_checks_max: u32 = "15", kind::CHECKS, "transactionCheckMax" as Same;
    /// Log levels by target; RUST_LOG overrides it.
    log: String = "info", kind::LOG;
    /// Format of the log: lines of text, or one JSON object per line.
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
    fn defaults_agree_with_the_engine_and_its_log() {
        let config = Config::of(&Values::default()).unwrap();
        let engine = redstart_engine::Config::default();
        assert_eq!(config.message_delay_levels, redstart_server::remoting::default_delay_levels());
        assert_eq!(config.new_groups_from, engine.new_groups_from);
        assert_eq!(config.message_bytes_max, engine.limits.body_bytes_max);
        assert_eq!(config.retention, engine.retention.keep);
        assert_eq!(config.disk_clean_percent, engine.retention.clean_percent);
        assert_eq!(config.disk_forced_percent, engine.retention.forced_percent);
        assert_eq!(config.disk_refuse_percent, engine.retention.refuse_percent);
        assert_eq!(config.transaction_check_after, engine.transactions.first_check_after);
        assert_eq!(config.transaction_check_interval, engine.transactions.check_interval);
        assert_eq!(config.transaction_checks_max, engine.transactions.checks_max);
        assert_eq!(config.segment_bytes, redstart_log::Options::default().segment_bytes);
        assert_eq!(config.pending_bytes_max, redstart_server::shard::PENDING_BYTES_MAX);
        assert_eq!(config.network_bytes_max, redstart_server::DEFAULT_BYTES);
        let grpc = redstart_server::grpc::Limits::default();
        assert_eq!(config.grpc_connections_max, grpc.connections_max);
        assert_eq!(config.http_connections_max, redstart_server::http::Limits::default().connections_max);
    }
}
