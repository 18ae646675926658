//! Why an operation came to nothing. Every error answers two questions: is it worth another try, and may it have happened?

use std::{fmt, time::Duration};

use crate::{InvalidMessage, connection};

/// The protocol in whose terms a server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Of 4.x and 5.x servers, with name servers.
    Remoting,
    /// Of 5.x servers and proxies.
    Grpc,
}

/// A server's code for its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerCode {
    /// The protocol that the number belongs to.
    pub protocol: Protocol,
    /// The number.
    pub number: i32,
}

mod remoting_code {
    pub const FLOW_CONTROL: i32 = 215;
    pub const NO_BUYER_ID: i32 = 204;
    pub const NOT_IN_CURRENT_UNIT: i32 = 205;
    pub const GO_AWAY: i32 = 1500;
}

impl ServerCode {
    pub(crate) fn remoting(number: i32) -> ServerCode {
        ServerCode { protocol: Protocol::Remoting, number }
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn grpc(number: i32) -> ServerCode {
        ServerCode { protocol: Protocol::Grpc, number }
    }

    /// RocketMQ's name of the code, if it is known here.
    pub fn name(self) -> Option<&'static str> {
        match self.protocol {
            Protocol::Remoting => redstart_wire::remoting::code::response_name(self.number),
            #[cfg(feature = "grpc")]
            Protocol::Grpc => {
                redstart_wire::v2::Code::try_from(self.number).ok().map(|code| code.as_str_name())
            }
            #[cfg(not(feature = "grpc"))]
            Protocol::Grpc => None,
        }
    }

    /// The server has too much to do and asks for a pause.
    pub fn is_busy(self) -> bool {
        use redstart_wire::remoting::code;
        match self.protocol {
            Protocol::Remoting => {
                matches!(self.number, code::SYSTEM_BUSY | code::POLLING_FULL | remoting_code::FLOW_CONTROL)
            }
            Protocol::Grpc => (42900..43000).contains(&self.number),
        }
    }

    /// The topic is not there, or not where the route said.
    pub fn is_unknown_topic(self) -> bool {
        match self.protocol {
            Protocol::Remoting => self.number == redstart_wire::remoting::code::TOPIC_NOT_EXIST,
            Protocol::Grpc => self.number == 40402,
        }
    }

    /// The user is not known or may not do this.
    pub fn is_forbidden(self) -> bool {
        match self.protocol {
            Protocol::Remoting => self.number == redstart_wire::remoting::code::NO_PERMISSION,
            Protocol::Grpc => matches!(self.number, 40100 | 40300),
        }
    }

    /// The receipt is of an earlier delivery, or its time is over.
    pub(crate) fn is_lost_receipt(self) -> bool {
        use redstart_wire::remoting::code;
        match self.protocol {
            Protocol::Remoting => matches!(
                self.number,
                code::NO_MESSAGE | code::MESSAGE_ILLEGAL | code::INVALID_PARAMETER | code::TOPIC_NOT_EXIST
            ),
            Protocol::Grpc => self.number == 40013,
        }
    }

    /// Whether another try, perhaps at another broker, may succeed.
    pub fn is_retryable(self) -> bool {
        use redstart_wire::remoting::code;
        self.is_busy()
            || match self.protocol {
                Protocol::Remoting => matches!(
                    self.number,
                    code::SYSTEM_ERROR
                        | code::SERVICE_NOT_AVAILABLE
                        | code::TOPIC_NOT_EXIST
                        | remoting_code::NO_BUYER_ID
                        | remoting_code::NOT_IN_CURRENT_UNIT
                        | remoting_code::GO_AWAY
                ),
                Protocol::Grpc => {
                    self.number == 40800
                        || (50000..50100).contains(&self.number)
                        || (50400..50500).contains(&self.number)
                }
            }
    }

    /// Whether a request that was refused with this code may have had its effect all the same.
    pub(crate) fn may_have_happened(self) -> bool {
        use redstart_wire::remoting::code;
        match self.protocol {
            Protocol::Remoting => self.number == code::SYSTEM_ERROR,
            Protocol::Grpc => self.number == 40800 || self.number >= 50000,
        }
    }
}

impl fmt::Display for ServerCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.number),
            None => write!(f, "code {}", self.number),
        }
    }
}

/// Why one call to a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no connection to the server. The request was not sent.
    #[error("cannot connect to {address}: {why}")]
    Connect {
        /// The server.
        address: String,
        /// In the system's words.
        why: String,
    },
    /// The connection ended before the answer came.
    #[error("{address} closed the connection before it answered")]
    Closed {
        /// The server.
        address: String,
    },
    /// No answer came in time.
    #[error("{address} did not answer within {} ms", within.as_millis())]
    Timeout {
        /// The server.
        address: String,
        /// The time that the call had.
        within: Duration,
    },
    /// So much waits to be written to the server that no more is taken. The request was not sent.
    #[error("too much waits to be sent to {address}")]
    Congested {
        /// The server.
        address: String,
    },
    /// The server said no.
    #[error("{address} refused: {text} [{code}]")]
    Refused {
        /// The server.
        address: String,
        /// Its code.
        code: ServerCode,
        /// Its words.
        text: String,
    },
    /// The answer is not what the protocol says.
    #[error("{address} answered with something else: {why}")]
    Malformed {
        /// The server.
        address: String,
        /// What is wrong with the answer.
        why: String,
    },
}

impl CallError {
    /// The server that was asked.
    pub fn address(&self) -> &str {
        match self {
            CallError::Connect { address, .. }
            | CallError::Closed { address }
            | CallError::Timeout { address, .. }
            | CallError::Congested { address }
            | CallError::Refused { address, .. }
            | CallError::Malformed { address, .. } => address,
        }
    }

    /// The code of a server that said no.
    pub fn code(&self) -> Option<ServerCode> {
        match self {
            CallError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether another try may succeed.
    pub fn retryable(&self) -> bool {
        match self {
            CallError::Refused { code, .. } => code.is_retryable(),
            CallError::Malformed { .. } => false,
            _ => true,
        }
    }

    /// Whether the request may have had its effect although no good answer came.
    pub fn may_have_happened(&self) -> bool {
        match self {
            CallError::Connect { .. } | CallError::Congested { .. } => false,
            CallError::Closed { .. } | CallError::Timeout { .. } | CallError::Malformed { .. } => true,
            CallError::Refused { code, .. } => code.may_have_happened(),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, CallError::Congested { .. }) || self.code().is_some_and(ServerCode::is_busy)
    }
}

impl From<connection::Error> for CallError {
    fn from(error: connection::Error) -> CallError {
        match error {
            connection::Error::Connect { address, why } => CallError::Connect { address, why },
            connection::Error::Closed { address } => CallError::Closed { address },
            connection::Error::Timeout { address, ms } => {
                CallError::Timeout { address, within: Duration::from_millis(ms as u64) }
            }
            connection::Error::Congested { address } => CallError::Congested { address },
        }
    }
}

/// What was asked for cannot be built: every fault is named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The settings contradict each other or a limit.
    #[error("{}", faults.join("; "))]
    Invalid {
        /// One sentence for each fault.
        faults: Vec<String>,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The client has been shut down.
    #[error("the client has been shut down")]
    ShutDown,
}

impl BuildError {
    pub(crate) fn check(faults: Vec<String>) -> Result<(), BuildError> {
        if faults.is_empty() { Ok(()) } else { Err(BuildError::Invalid { faults }) }
    }
}

/// Why a topic's queues are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No server knows the topic.
    #[error("there is no topic {topic}")]
    UnknownTopic {
        /// The topic.
        topic: String,
    },
    /// The server could not be asked.
    #[error("the queues of topic {topic} are not known: {error}")]
    Call {
        /// The topic.
        topic: String,
        /// Why.
        error: CallError,
    },
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message cannot be sent as it is.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// The topic's queues are not known.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// There is no queue that could take the message.
    #[error("topic {topic} has no queue that can be written to{}", among(.selector))]
    NoQueue {
        /// The topic.
        topic: String,
        /// The selector that chose none, if there are queues.
        selector: Option<&'static str>,
    },
    /// Too many messages, or too many bytes, are on their way already, and none was done in time.
    #[error("{messages} messages of this producer are on their way, and none was done within {} ms", within.as_millis())]
    Backpressure {
        /// Messages on their way.
        messages: usize,
        /// How long it waited.
        within: Duration,
    },
    /// The last of some attempts failed.
    #[error("after {attempts} {}: {last}", if *.attempts == 1 { "attempt" } else { "attempts" })]
    Call {
        /// How often it was tried.
        attempts: u32,
        /// Whether an attempt before the last may have stored the message.
        earlier_may_have_happened: bool,
        /// Why the last attempt failed.
        last: CallError,
    },
    /// The producer has been shut down.
    #[error("the producer has been shut down")]
    ShutDown,
}

fn among(selector: &Option<&'static str>) -> String {
    selector.map_or_else(String::new, |selector| format!(" (selector: {selector})"))
}

impl SendError {
    /// Whether the same message may be stored by another try.
    pub fn retryable(&self) -> bool {
        match self {
            SendError::Invalid(_)
            | SendError::ShutDown
            | SendError::Route(RouteError::UnknownTopic { .. }) => false,
            SendError::Route(RouteError::Call { error, .. }) => error.retryable(),
            SendError::NoQueue { .. } | SendError::Backpressure { .. } => true,
            SendError::Call { last, .. } => last.retryable(),
        }
    }

    /// Whether the message may have been stored all the same. Another try then may store it a second time, with the same id
    /// only if the same [`Message`](crate::Message) has a dedup key.
    pub fn may_have_happened(&self) -> bool {
        match self {
            SendError::Call { earlier_may_have_happened, last, .. } => {
                *earlier_may_have_happened || last.may_have_happened()
            }
            _ => false,
        }
    }

    /// The server's code, if a server said no.
    pub fn code(&self) -> Option<ServerCode> {
        match self {
            SendError::Call { last, .. } => last.code(),
            SendError::Route(RouteError::Call { error, .. }) => error.code(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: ServerCode) -> CallError {
        CallError::Refused { address: "a:1".to_owned(), code, text: "no".to_owned() }
    }

    #[test]
    fn codes_say_whether_another_try_helps() {
        for (number, retryable, busy) in [
            (1, true, false),
            (2, true, true),
            (14, true, false),
            (17, true, false),
            (204, true, false),
            (205, true, false),
            (215, true, true),
            (1500, true, false),
            (13, false, false),
            (16, false, false),
            (24, false, false),
        ] {
            let code = ServerCode::remoting(number);
            assert_eq!((code.is_retryable(), code.is_busy()), (retryable, busy), "{code}");
        }
        for (number, retryable) in [
            (40002, false),
            (40300, false),
            (40402, false),
            (42900, true),
            (50001, true),
            (50100, false),
            (50400, true),
        ] {
            let code = ServerCode { protocol: Protocol::Grpc, number };
            assert_eq!(code.is_retryable(), retryable, "{code}");
        }
    }

    #[test]
    fn a_refusal_that_stored_nothing_says_so() {
        assert!(!refused(ServerCode::remoting(2)).may_have_happened());
        assert!(refused(ServerCode::remoting(1)).may_have_happened());
        let timeout = CallError::Timeout { address: "a".to_owned(), within: Duration::from_secs(1) };
        assert!(timeout.may_have_happened() && timeout.retryable());
        let connect = CallError::Connect { address: "a".to_owned(), why: "refused".to_owned() };
        assert!(!connect.may_have_happened() && connect.retryable());
        let error = SendError::Call { attempts: 2, earlier_may_have_happened: true, last: connect };
        assert!(error.may_have_happened());
        assert_eq!(error.to_string(), "after 2 attempts: cannot connect to a: refused");
        assert_eq!(refused(ServerCode::remoting(16)).to_string(), "a:1 refused: no [NO_PERMISSION (16)]");
    }

    #[test]
    fn all_faults_are_named_at_once() {
        assert_eq!(BuildError::check(Vec::new()), Ok(()));
        let error = BuildError::check(vec!["one".to_owned(), "two".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "one; two");
    }
}
