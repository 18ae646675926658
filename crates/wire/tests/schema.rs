//! The committed code of the messaging service is what its schema compiles to. It is committed because compiling the schema
//! takes a compiler that every build would have to build first.

#[path = "../examples/schema.rs"]
#[allow(dead_code, reason = "an example has a main function")]
mod schema;

#[test]
fn generated_code_is_that_of_the_schema() {
    let committed = include_str!("../src/generated/apache.rocketmq.v2.rs");
    assert!(
        schema::generate().unwrap() == committed,
        "run: cargo run -p redstart-wire --example schema > crates/wire/src/generated/apache.rocketmq.v2.rs"
    );
}
