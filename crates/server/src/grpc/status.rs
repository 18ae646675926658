//! How a call ends that no answer of the protocol fits: a code of gRPC and a text, in the headers `grpc-status` and `grpc-message`.

use http::{HeaderMap, HeaderValue};

macro_rules! codes {
    ($($name:ident = $number:literal $label:literal $make:ident,)*) => {
        /// The codes that calls end with here, by their numbers in gRPC.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            Ok = 0,
            $($name = $number,)*
        }

        impl Code {
            /// What metrics call the code with this number.
            pub fn label(number: u8) -> &'static str {
                match number {
                    0 => "ok",
                    $($number => $label,)*
                    _ => "unknown",
                }
            }
        }

        impl Status {
            $(pub fn $make(message: impl Into<String>) -> Status {
                Status { code: Code::$name, message: message.into() }
            })*
        }
    };
}

codes! {
    Cancelled = 1 "cancelled" cancelled,
    InvalidArgument = 3 "invalid_argument" invalid_argument,
    DeadlineExceeded = 4 "deadline_exceeded" deadline_exceeded,
    ResourceExhausted = 8 "resource_exhausted" resource_exhausted,
    OutOfRange = 11 "out_of_range" out_of_range,
    Unimplemented = 12 "unimplemented" unimplemented,
    Internal = 13 "internal" internal,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    code: Code,
    message: String,
}

impl Status {
    pub fn code(&self) -> Code {
        self.code
    }

    pub fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert("grpc-status", HeaderValue::from(self.code as u16));
        // Encoded text is visible ASCII and blanks, which every header may have.
        if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.message)) {
            headers.insert("grpc-message", message);
        }
    }
}

/// As gRPC has it: what is not visible ASCII or a blank, and the percent sign, is `%` and two digits for each byte.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_two_headers_that_clients_read_as_it_was() {
        for message in ["", "plain text", "100 % of \"{é}\"\n"] {
            let mut headers = HeaderMap::new();
            Status::out_of_range(message).add_to(&mut headers);
            let read = tonic::Status::from_header_map(&headers).unwrap();
            assert_eq!((read.code(), read.message()), (tonic::Code::OutOfRange, message));
        }
    }

    #[test]
    fn every_code_has_the_number_of_grpc() {
        let codes = [
            (Status::cancelled(""), tonic::Code::Cancelled),
            (Status::invalid_argument(""), tonic::Code::InvalidArgument),
            (Status::deadline_exceeded(""), tonic::Code::DeadlineExceeded),
            (Status::resource_exhausted(""), tonic::Code::ResourceExhausted),
            (Status::out_of_range(""), tonic::Code::OutOfRange),
            (Status::unimplemented(""), tonic::Code::Unimplemented),
            (Status::internal(""), tonic::Code::Internal),
        ];
        for (status, expected) in codes {
            assert_eq!(status.code() as i32, expected as i32);
            let label = Code::label(status.code() as u8);
            assert_eq!(label.replace('_', ""), format!("{expected:?}").to_lowercase());
        }
        assert_eq!((Code::label(Code::Ok as u8), Code::label(2)), ("ok", "unknown"));
    }
}
