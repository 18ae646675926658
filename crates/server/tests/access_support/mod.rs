//! Users and their rights for tests, as the broker stores them.

#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use redstart_server::{Access, shard::ShardHandle};

pub const CLUSTER: &str = "DefaultCluster";

pub fn secret(user: &str) -> String {
    format!("secret-of-{user}")
}

/// Returns when a poll waits in the shard.
pub async fn a_poll_waits(shard: &ShardHandle) {
    let waits = async {
        while shard.counters().waiting_receives() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waits).await.expect("a poll should wait");
}

async fn put(shard: &ShardHandle, namespace: &'static str, key: String, text: Option<String>) {
    let put = shard.change(move |engine, _| engine.put_setting(namespace, &key, text.as_deref())).unwrap();
    put.await.unwrap().unwrap();
}

/// Makes a user: `kind` is `Super` or `Normal`.
pub async fn user(access: &Access, shard: &ShardHandle, name: &str, kind: &str, status: &str) {
    let text = format!(
        r#"{{"username":"{name}","password":"{}","userType":"{kind}","userStatus":"{status}"}}"#,
        secret(name)
    );
    put(shard, "user", name.to_owned(), Some(text)).await;
    access.load(shard).await.unwrap();
}

/// Gives a user exactly these rights, each a text such as `Pub Topic:t` or `Deny Sub Group:g 10.0.0.0/8`.
pub async fn grant(access: &Access, shard: &ShardHandle, name: &str, rights: &[&str]) {
    let entry = |right: &&str| {
        let (decision, right) =
            right.strip_prefix("Deny ").map_or(("Allow", *right), |right| ("Deny", right));
        let words: Vec<&str> = right.split(' ').collect();
        let sources = words.get(2).map(|source| format!(r#","sourceIps":["{source}"]"#)).unwrap_or_default();
        format!(
            r#"{{"resource":"{}","actions":["{}"],"decision":"{decision}"{sources}}}"#,
            words[1], words[0]
        )
    };
    let entries: Vec<String> = rights.iter().map(entry).collect();
    let text = (!entries.is_empty())
        .then(|| format!(r#"{{"policies":[{{"policyType":"Custom","entries":[{}]}}]}}"#, entries.join(",")));
    put(shard, "acl", format!("User:{name}"), text).await;
    access.load(shard).await.unwrap();
}
