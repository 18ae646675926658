//! What must hold for any bytes that a peer may send: nothing panics, nothing grows beyond its bound, and what was read can
//! be written and read again. `fuzz/` runs these for hours; the tests here for a moment, from the same seeds.

mod auth;
mod bodies;
mod frames;
mod grpc;
mod messages;
mod proxy;
mod texts;

/// A function that panics when a promise is broken.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Also the name of its seeds' folder and of its program in `fuzz/`.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($module:ident::$name:ident,)*) => {
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $module::$name },)*];
        $(pub use $module::$name;)*
    };
}

targets! {
    auth::policy,
    auth::signature,
    frames::frame,
    frames::header,
    frames::send,
    messages::properties,
    messages::batch,
    messages::stored_message,
    messages::registration,
    proxy::proxy_header,
    bodies::body,
    texts::pop_handle,
    texts::receipt_handle,
    texts::message_id,
    texts::sql,
    texts::settings,
    grpc::grpc_request,
}
