//! Users and what they may do: kept, shown, and checked for form.

use redstart_wire::remoting::{Command, code};

use crate::remoting_support::{self, Broker, Client, json, request};

async fn call(client: &mut Client, code: i32, field: (&str, &str), body: &str) -> Command {
    client.call_with(Command { body: body.to_owned().into(), ..request(code, &[field]) }).await
}

async fn create(client: &mut Client, name: &str, body: &str) -> i32 {
    call(client, code::AUTH_CREATE_USER, ("username", name), body).await.code
}

const POLICY: &str = r#"{"subject":"User:u","policies":[{"entries":[
    {"resource":"Topic:a","actions":["Pub","Sub"],"sourceIps":["10.0.0.0/8"],"decision":"Allow"},
    {"resource":"Group:*","actions":["Sub"],"decision":"Deny"}]}]}"#;

#[tokio::test]
async fn users_are_kept_with_what_was_said_of_them() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let body = r#"{"username":"ignored","password":"secret","userType":"super"}"#;
    assert_eq!(create(&mut client, "u", body).await, code::SUCCESS);
    assert_eq!(create(&mut client, "u", body).await, code::SYSTEM_ERROR, "it exists");
    let get = |name| [("username", name)];
    let shown = json(&client.ok(code::AUTH_GET_USER, &get("u")).await);
    let expected =
        serde_json::json!({"username":"u","password":"******","userType":"Super","userStatus":"enable"});
    assert_eq!(shown, expected);
    let update = r#"{"userStatus":"disable"}"#;
    let updated = call(&mut client, code::AUTH_UPDATE_USER, ("username", "u"), update).await;
    assert_eq!(updated.code, code::SUCCESS);
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    let shown = json(&client.ok(code::AUTH_GET_USER, &get("u")).await);
    assert_eq!((&shown["userStatus"], &shown["userType"]), (&"disable".into(), &"Super".into()));
    create(&mut client, "other", r#"{"password":"p"}"#).await;
    let listed = json(&client.ok(code::AUTH_LIST_USER, &[("filter", "oth")]).await);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["userType"], "Normal");
    client.ok(code::AUTH_DELETE_USER, &get("other")).await;
    assert!(client.ok(code::AUTH_GET_USER, &get("other")).await.body.is_empty());
    assert!(client.ok(code::AUTH_LIST_USER, &[("filter", "oth")]).await.body.is_empty());
}

#[tokio::test]
async fn what_is_no_user_is_refused() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let long = "u".repeat(65);
    for (name, body) in [
        ("", r#"{"password":"p"}"#),
        ("a b", r#"{"password":"p"}"#),
        ("a:b", r#"{"password":"p"}"#),
        (&long, r#"{"password":"p"}"#),
        ("u", r#"{"password":" "}"#),
        ("u", "{}"),
        ("u", "no json"),
        ("u", r#"{"password":"p","userType":"King"}"#),
        ("u", r#"{"password":"p","userStatus":"odd"}"#),
    ] {
        assert_eq!(create(&mut client, name, body).await, code::INVALID_PARAMETER, "{name} {body}");
    }
    let nobody = call(&mut client, code::AUTH_UPDATE_USER, ("username", "u"), "{}").await;
    assert_eq!(nobody.code, code::USER_NOT_EXIST);
}

#[tokio::test]
async fn rights_are_merged_listed_and_taken_away() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let subject = ("subject", "User:u");
    let early = call(&mut client, code::AUTH_CREATE_ACL, subject, POLICY).await;
    assert_eq!(early.code, code::USER_NOT_EXIST);
    create(&mut client, "u", r#"{"password":"p"}"#).await;
    assert!(client.ok(code::AUTH_GET_ACL, &[subject]).await.body.is_empty());
    assert_eq!(call(&mut client, code::AUTH_CREATE_ACL, subject, POLICY).await.code, code::SUCCESS);
    let changed =
        r#"{"policies":[{"entries":[{"resource":"Topic:a","actions":["All"],"decision":"Deny"}]}]}"#;
    assert_eq!(call(&mut client, code::AUTH_UPDATE_ACL, subject, changed).await.code, code::SUCCESS);
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    let shown = json(&client.ok(code::AUTH_GET_ACL, &[subject]).await);
    let entries = &shown["policies"][0]["entries"];
    assert_eq!(
        (&shown["subject"], &shown["policies"][0]["policyType"]),
        (&"User:u".into(), &"Custom".into())
    );
    assert_eq!((&entries[0]["decision"], &entries[0]["actions"][0]), (&"Deny".into(), &"All".into()));
    assert_eq!(entries[1]["resource"], "Group:*");
    let by_resource = [("subjectFilter", "u"), ("resourceFilter", "Group")];
    let listed = json(&client.ok(code::AUTH_LIST_ACL, &by_resource).await);
    assert_eq!(listed[0]["policies"][0]["entries"].as_array().unwrap().len(), 1);
    client.ok(code::AUTH_DELETE_ACL, &[subject, ("resource", "Topic:a")]).await;
    let shown = json(&client.ok(code::AUTH_GET_ACL, &[subject]).await);
    assert_eq!(shown["policies"][0]["entries"].as_array().unwrap().len(), 1);
    client.ok(code::AUTH_DELETE_ACL, &[subject]).await;
    assert!(client.ok(code::AUTH_LIST_ACL, &[]).await.body.is_empty());
    assert_eq!(client.call(code::AUTH_DELETE_ACL, &[subject]).await.code, code::POLICY_NOT_EXIST);
    for bad in ["u", "Group:u", "User:"] {
        let answer = call(&mut client, code::AUTH_CREATE_ACL, ("subject", bad), POLICY).await;
        assert_eq!(answer.code, code::INVALID_PARAMETER, "{bad}");
    }
    call(&mut client, code::AUTH_CREATE_ACL, subject, POLICY).await;
    client.ok(code::AUTH_DELETE_USER, &[("username", "u")]).await;
    assert!(client.ok(code::AUTH_LIST_ACL, &[]).await.body.is_empty(), "rights go with the user");
}

#[tokio::test]
async fn accounts_of_older_tools_are_users() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    let account = [
        ("accessKey", "old"),
        ("secretKey", "12345678"),
        ("admin", "true"),
        ("defaultTopicPerm", "DENY"),
        ("topicPerms", "a=PUB|SUB,b=SUB"),
        ("groupPerms", "g=SUB"),
    ];
    let version = client.ok(code::GET_BROKER_CLUSTER_ACL_INFO, &[]).await;
    client.ok(code::UPDATE_AND_CREATE_ACL_CONFIG, &account).await;
    let user = json(&client.ok(code::AUTH_GET_USER, &[("username", "old")]).await);
    assert_eq!((&user["userType"], &user["password"]), (&"Super".into(), &"******".into()));
    let acl = json(&client.ok(code::AUTH_GET_ACL, &[("subject", "User:old")]).await);
    assert_eq!(acl["policies"][0]["entries"].as_array().unwrap().len(), 3);
    assert_eq!(acl["policies"][1]["entries"][0]["resource"], "Topic:*");
    let later = client.ok(code::GET_BROKER_CLUSTER_ACL_INFO, &[]).await;
    assert_ne!(later.field("version"), version.field("version"));
    assert_eq!(later.field("brokerName"), Some(remoting_support::BROKER));
    client
        .ok(code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, &[("globalWhiteAddrs", "10.0.0.0/8,192.168.*.*")])
        .await;
    let config = json(&client.ok(code::GET_BROKER_CLUSTER_ACL_CONFIG, &[]).await);
    assert_eq!(config["globalWhiteAddrs"], serde_json::json!(["10.0.0.0/8", "192.168.*.*"]));
    assert_eq!(config["plainAccessConfigs"][0]["accessKey"], "old");
    for (field, value) in [("secretKey", "short"), ("topicPerms", "a=ALL"), ("accessKey", "a b")] {
        let fields: Vec<_> =
            account.iter().copied().filter(|(name, _)| *name != field).chain([(field, value)]).collect();
        let answer = client.call(code::UPDATE_AND_CREATE_ACL_CONFIG, &fields).await;
        assert_eq!(answer.code, code::INVALID_PARAMETER, "{field}={value}");
    }
    let bad = [("globalWhiteAddrs", "10.0.0.1,$(reboot)")];
    assert_eq!(client.call(code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, &bad).await.code, code::INVALID_PARAMETER);
    client.ok(code::DELETE_ACL_CONFIG, &[("accessKey", "old")]).await;
    let again = client.call(code::DELETE_ACL_CONFIG, &[("accessKey", "old")]).await;
    assert_eq!(again.code, code::USER_NOT_EXIST);
}
