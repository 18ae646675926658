//! Compiles the schema of the messaging service. protox is a compiler in Rust, so no protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let schema = "proto/apache/rocketmq/v2/messaging.proto";
    println!("cargo::rerun-if-changed={schema}");
    let descriptors = protox::compile([schema], ["proto"])?;
    // Bodies as shared buffers: a message's body is not copied out of the request it came in.
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".apache.rocketmq.v2.Message.body")
        .compile_fds(descriptors)?;
    Ok(())
}
