use std::str::FromStr;

use super::Tls;

/// Whether a port takes plaintext, TLS or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Plaintext alone.
    Off,
    /// Both, told apart by the first byte.
    Permissive,
    /// TLS alone.
    Enforcing,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    /// RocketMQ's word for off is `disabled`.
    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        match text {
            "off" | "disabled" => Ok(Mode::Off),
            "permissive" => Ok(Mode::Permissive),
            "enforcing" => Ok(Mode::Enforcing),
            _ => Err(UnknownMode),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a TLS mode is off, permissive or enforcing")]
pub struct UnknownMode;

/// A [`Mode`] with what its handshakes need.
#[derive(Debug, Clone, Default)]
pub enum PortTls {
    #[default]
    Off,
    Permissive(Tls),
    Enforcing(Tls),
}
