//! The methods of the messaging service. This table is the only list of them: paths, metrics and the dispatch in
//! [`call`](super::call) all use it.

const SERVICE: &str = "/apache.rocketmq.v2.MessagingService/";

macro_rules! methods {
    ($($method:ident,)*) => {
        /// A method of the service. Its number in this list is what statistics count it by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Method {
            $($method,)*
        }

        /// The names of all methods.
        pub const METHODS: &[&str] = &[$(stringify!($method),)*];

        impl Method {
            const ALL: &[Method] = &[$(Method::$method,)*];

            /// The name in the protocol's definition.
            pub fn name(self) -> &'static str {
                match self {
                    $(Method::$method => stringify!($method),)*
                }
            }
        }
    };
}

// A path is compared with one after the other: the methods that are called most come first.
methods! {
    SendMessage,
    ReceiveMessage,
    AckMessage,
    ChangeInvisibleDuration,
    Heartbeat,
    EndTransaction,
    QueryRoute,
    QueryAssignment,
    ForwardMessageToDeadLetterQueue,
    PullMessage,
    UpdateOffset,
    GetOffset,
    QueryOffset,
    RecallMessage,
    SyncLiteSubscription,
    NotifyClientTermination,
    Telemetry,
}

/// The number of calls whose path names no method.
const UNKNOWN: u8 = u8::MAX;

impl Method {
    pub(super) fn of_path(path: &str) -> Option<Method> {
        let name = path.strip_prefix(SERVICE)?;
        Method::ALL.iter().copied().find(|method| method.name() == name)
    }

    /// The number that statistics use for a call.
    pub(super) fn number(method: Option<Method>) -> u8 {
        method.map_or(UNKNOWN, |method| method as u8)
    }

    /// The method with this number; `None` for calls whose path names no method.
    pub(crate) fn numbered(number: u8) -> Option<Method> {
        Method::ALL.get(usize::from(number)).copied()
    }

    /// Whether a call may take as long as the client likes: it waits for messages, or is a stream.
    pub(crate) fn may_wait(self) -> bool {
        matches!(self, Method::ReceiveMessage | Method::PullMessage | Method::Telemetry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_found_by_its_path_and_by_its_number() {
        for method in Method::ALL {
            let path = format!("/apache.rocketmq.v2.MessagingService/{}", method.name());
            assert_eq!(Method::of_path(&path), Some(*method));
            assert_eq!(Method::numbered(Method::number(Some(*method))), Some(*method));
        }
    }

    #[test]
    fn a_path_that_names_no_method_has_none() {
        for path in ["", "/", "/a/Unknown", "SendMessage", "/other.Service/SendMessage"] {
            assert_eq!(Method::of_path(path), None, "{path}");
        }
        assert_eq!(Method::numbered(Method::number(None)), None);
    }
}
