//! Whether the broker may listen where it is told to: off loopback it needs users, or an operator who says that none are needed.

use std::net::IpAddr;

use crate::config::{Config, Setting};

/// The broker would serve every peer of a network without asking who it is.
#[derive(Debug, thiserror::Error)]
#[error(
    "`listen` is {listen} and callers are not asked who they are: every peer that reaches the ports could read and delete everything\n\
     to ask them, set {}; if the network is trusted, set {}",
    ways("auth"),
    ways("insecure")
)]
pub struct Exposed {
    listen: IpAddr,
}

/// To be called before the data directory is touched.
pub fn check(config: &Config) -> Result<(), Exposed> {
    let is_safe = config.auth || config.insecure || config.listen.to_canonical().is_loopback();
    if is_safe { Ok(()) } else { Err(Exposed { listen: config.listen }) }
}

/// Says at every start that nobody is asked, so that it is not forgotten.
pub fn warn(config: &Config) {
    if !config.auth && !config.listen.to_canonical().is_loopback() {
        tracing::warn!(listen = %config.listen, "insecure: every peer that reaches the ports may do everything");
    }
}

fn ways(key: &str) -> String {
    Setting::named(key).map(Setting::ways).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Values;

    #[test]
    fn off_loopback_callers_are_asked_or_the_operator_has_said_that_they_need_not_be() {
        let mut config = Config::of(&Values::default()).unwrap();
        for (listen, auth, insecure, expected) in [
            ("127.0.0.1", false, false, true),
            ("127.9.9.9", false, false, true),
            ("::1", false, false, true),
            ("::ffff:127.0.0.1", false, false, true),
            ("0.0.0.0", false, false, false),
            ("::", false, false, false),
            ("10.0.0.1", false, false, false),
            ("0.0.0.0", true, false, true),
            ("0.0.0.0", false, true, true),
        ] {
            (config.listen, config.auth, config.insecure) = (listen.parse().unwrap(), auth, insecure);
            assert_eq!(check(&config).is_ok(), expected, "{listen} {auth} {insecure}");
        }
    }
}
