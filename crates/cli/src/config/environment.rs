//! Settings from environment variables: `REDSTART_` and the key in capitals.

use std::ffi::OsString;

use super::{
    Error,
    error::hint_for_variable,
    settings::{SETTINGS, Setting, VARIABLE_PREFIX},
    values::{Given, Source},
};

pub fn read(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(&'static Setting, Given)>, Error> {
    let mut found = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
        let text = value.to_string_lossy().into_owned();
        if is_service_link(name, &text) || is_of_commands(name) || is_secret(name) {
            continue;
        }
        let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == name) else {
            return Err(Error::UnknownVariable { hint: hint_for_variable(name), name: name.to_owned() });
        };
        if value.to_str().is_none() || !setting.accepts(&text) {
            return Err(Error::Value {
                place: "environment".to_owned(),
                name: name.to_owned(),
                value: text,
                accepted: setting.accepted.to_owned(),
            });
        }
        found.push((setting, Given { text, source: Source::Variable { name: name.to_owned() } }));
    }
    Ok(found)
}

/// Holds the administrator's secret at the first start. It is no setting: those are shown by `redstart config` and logged.
pub const ADMIN_SECRET_VARIABLE: &str = "REDSTART_ADMIN_SECRET";

/// Holds the keys that seal the secrets of users, if they are in no file.
pub const SECRETS_KEY_VARIABLE: &str = "REDSTART_SECRETS_KEY";

/// Secrets are in variables that are no settings.
fn is_secret(name: &str) -> bool {
    [ADMIN_SECRET_VARIABLE, SECRETS_KEY_VARIABLE].contains(&name)
}

/// Variables of the operator's commands. The broker's environment may contain them; they are not settings.
fn is_of_commands(name: &str) -> bool {
    redstart_commands::admin::NAMES_VARIABLES.contains(&name)
}

/// Kubernetes sets such variables for every service in the namespace of a pod. For a service whose name starts with `redstart`
/// they have our prefix.
fn is_service_link(name: &str, value: &str) -> bool {
    let schemes = ["tcp://", "udp://", "sctp://"];
    let protocols = ["_TCP", "_UDP", "_SCTP"];
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || schemes.iter().any(|scheme| value.starts_with(scheme))
        || (name.contains("_PORT_") && protocols.iter().any(|protocol| name.contains(protocol)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(variables: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>, String> {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = read(variables).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|(setting, given)| (setting.key, given.text)).collect())
    }

    #[test]
    fn other_variables_are_ignored() {
        let found = read_all(&[("PATH", "/bin"), ("REDSTART_FLUSH", "async"), ("REDSTART_GRPC_PORT", "1")]);
        assert_eq!(found.unwrap(), [("flush", "async".to_owned()), ("grpc_port", "1".to_owned())]);
    }

    #[test]
    fn an_invalid_variable_is_named() {
        let unknown = "unknown environment variable REDSTART_FLSH; did you mean `REDSTART_FLUSH`?";
        assert_eq!(read_all(&[("REDSTART_FLSH", "sync")]).unwrap_err(), unknown);
        let wrong = "environment: `REDSTART_FLUSH` is \"now\"; it must be sync or async";
        assert_eq!(read_all(&[("REDSTART_FLUSH", "now")]).unwrap_err(), wrong);
    }

    #[test]
    fn the_variable_of_the_commands_is_not_a_setting() {
        assert_eq!(read_all(&[("REDSTART_NAMESRV", "127.0.0.1:9876")]).unwrap(), []);
        assert!(read_all(&[("REDSTART_NAMESRV_ADDR", "127.0.0.1:9876")]).is_err());
    }

    #[test]
    fn service_links_of_kubernetes_are_not_settings() {
        let links = [
            ("REDSTART_SERVICE_HOST", "10.0.0.1"),
            ("REDSTART_SERVICE_PORT", "8081"),
            ("REDSTART_SERVICE_PORT_GRPC", "8081"),
            ("REDSTART_PORT", "tcp://10.0.0.1:8081"),
            ("REDSTART_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
            ("REDSTART_PORT_8081_TCP_ADDR", "10.0.0.1"),
            ("REDSTART_GRPC_PORT", "tcp://10.0.0.1:8081"),
        ];
        assert_eq!(read_all(&links).unwrap(), []);
    }
}
