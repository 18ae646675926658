//! Writes the Rust code of the messaging service to standard output, from its schema. protox is a compiler in Rust, so no
//! protoc is needed.
//!
//! ```text
//! cargo run -p redstart-wire --example schema > crates/wire/src/generated/apache.rocketmq.v2.rs
//! ```

use std::{error::Error, fs, path::Path};

/// Compiles the schema.
pub fn generate() -> Result<String, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let descriptors = protox::compile(["apache/rocketmq/v2/messaging.proto"], [folder])?;
    let out = tempfile::tempdir()?;
    tonic_prost_build::configure()
        .build_server(false)
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        // Bodies as shared buffers: a message's body is not copied out of the request it came in.
        .bytes(".apache.rocketmq.v2.Message.body")
        .out_dir(out.path())
        .compile_fds(descriptors)?;
    Ok(fs::read_to_string(out.path().join("apache.rocketmq.v2.rs"))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", generate()?);
    Ok(())
}
