//! Callers over Remoting are who they say to be, and do what they may.

use futures_util::FutureExt as _;
use redstart_auth::{
    Secret,
    signature::{
        SigningKey,
        remoting::{ACCESS_KEY, Content, SIGNATURE},
    },
};
use redstart_server::{Access, AuditLog, remoting::SERVED};
use redstart_wire::remoting::{Command, code};

use crate::access_support::{CLUSTER, a_poll_waits, grant, secret, user};
use crate::remoting_support::{self, Broker, Client, consumer, create_topic, json, producer, request};

struct Guarded {
    broker: Broker,
    access: Access,
}

impl Guarded {
    async fn start() -> Guarded {
        let access = Access::on(CLUSTER);
        let shared = access.clone();
        let broker = Broker::start_with(move |config, _| config.resources.access = shared).await;
        let guarded = Guarded { broker, access };
        guarded.user("root", "Super", "enable").await;
        guarded.user("app", "Normal", "enable").await;
        let mut root = guarded.client("root").await;
        for topic in ["t", "secret"] {
            let fields = [
                ("topic", topic),
                ("readQueueNums", "1"),
                ("writeQueueNums", "1"),
                ("perm", "6"),
                ("attributes", ""),
            ];
            let made = root.call(code::UPDATE_AND_CREATE_TOPIC, &fields).await;
            assert_eq!(made.code, code::SUCCESS, "{:?}", made.remark);
        }
        guarded
    }

    async fn user(&self, name: &str, kind: &str, status: &str) {
        user(&self.access, &self.broker.shard.handle(), name, kind, status).await;
    }

    async fn grant(&self, name: &str, rights: &[&str]) {
        grant(&self.access, &self.broker.shard.handle(), name, rights).await;
    }

    async fn client(&self, user: &str) -> Signing {
        Signing { client: self.broker.client().await, user: user.to_owned() }
    }
}

fn sign(command: Command, user: &str, secret: &str) -> Command {
    let command = command.with_field(ACCESS_KEY, user);
    let signature = {
        let key = SigningKey::new(&Secret::new(secret));
        Content::new(command.fields.iter(), &command.body).sign(&key)
    };
    command.with_field(SIGNATURE, signature)
}

/// A client that signs.
struct Signing {
    client: Client,
    user: String,
}

impl Signing {
    async fn call_with(&mut self, command: Command) -> Command {
        let command = sign(command, &self.user, &secret(&self.user));
        self.client.call_with(command).await
    }

    async fn call(&mut self, code: i32, fields: &[(&str, &str)]) -> Command {
        self.call_with(request(code, fields)).await
    }

    async fn json(&mut self, code: i32, body: &str) -> Command {
        self.call_with(Command { body: body.to_owned().into(), ..Command::request(code) }).await
    }

    async fn send(&mut self, topic: &str, body: &str) -> Command {
        let fields = [
            ("producerGroup", "p"),
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "0"),
            ("sysFlag", "0"),
            ("bornTimestamp", "1"),
            ("flag", "0"),
            ("properties", ""),
        ];
        self.call_with(Command { body: body.to_owned().into(), ..request(code::SEND_MESSAGE, &fields) }).await
    }
}

/// A request of any code that names the topic `t` and the group `g` wherever one may be named.
fn any_request(code: i32) -> Command {
    let v2 = matches!(code, code::SEND_MESSAGE_V2 | code::SEND_BATCH_MESSAGE | code::SEND_REPLY_MESSAGE_V2);
    let fields: &[(&str, &str)] = if v2 {
        &[
            ("a", "p"),
            ("b", "t"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "0"),
            ("f", "0"),
            ("g", "1"),
            ("h", "0"),
            ("i", ""),
        ]
    } else {
        &[
            ("topic", "t"),
            ("producerGroup", "g"),
            ("consumerGroup", "g"),
            ("group", "g"),
            ("groupName", "g"),
            ("srcGroup", "g"),
            ("destGroup", "g"),
            ("compareGroup", "g"),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "0"),
            ("sysFlag", "0"),
            ("bornTimestamp", "1"),
            ("flag", "0"),
            ("properties", ""),
        ]
    };
    let body = r#"{"groupName":"g","group":"g","topic":"t","consumerGroup":"g","clientId":"c","clientID":"c",
        "mqSet":[{"topic":"t","brokerName":"b","queueId":0}],
        "consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subString":"*"}]}],
        "acks":[{"c":"g","t":"t"}],
        "topicConfigList":[{"topicName":"t"}],
        "groupConfigList":[{"groupName":"g"}],
        "subscriptionData":{"topic":"t","subString":"*"}}"#;
    Command { body: body.into(), ..request(code, fields) }
}

/// What each code needs: the rights that are enough, and of which none can be missing.
enum Needs {
    Known,
    Super,
    All(&'static [&'static str]),
}

const TABLE: &[(&str, Needs)] = &[
    (
        "SEND_MESSAGE SEND_MESSAGE_V2 SEND_BATCH_MESSAGE SEND_REPLY_MESSAGE SEND_REPLY_MESSAGE_V2",
        Needs::All(&["Pub Topic:t"]),
    ),
    ("END_TRANSACTION RECALL_MESSAGE", Needs::All(&["Pub Topic:t"])),
    (
        "PULL_MESSAGE LITE_PULL_MESSAGE POP_MESSAGE ACK_MESSAGE CHANGE_MESSAGE_INVISIBLETIME NOTIFICATION POLLING_INFO",
        Needs::All(&["Sub Topic:t", "Sub Group:g"]),
    ),
    (
        "BATCH_ACK_MESSAGE LOCK_BATCH_MQ UNLOCK_BATCH_MQ QUERY_ASSIGNMENT HEART_BEAT CHECK_CLIENT_CONFIG",
        Needs::All(&["Sub Topic:t", "Sub Group:g"]),
    ),
    ("QUERY_CONSUMER_OFFSET", Needs::All(&["Get Topic:t", "Get Group:g"])),
    ("UPDATE_CONSUMER_OFFSET", Needs::All(&["Update Topic:t", "Update Group:g"])),
    ("CONSUMER_SEND_MSG_BACK UNREGISTER_CLIENT CONSUME_MESSAGE_DIRECTLY", Needs::All(&["Sub Group:g"])),
    ("GET_CONSUMER_LIST_BY_GROUP", Needs::All(&["Sub Group:g"])),
    (
        "GET_MAX_OFFSET GET_MIN_OFFSET SEARCH_OFFSET_BY_TIMESTAMP GET_EARLIEST_MSG_STORETIME GET_ROUTEINFO_BY_TOPIC",
        Needs::All(&["Sub Topic:t"]),
    ),
    (
        "QUERY_MESSAGE GET_TOPIC_CONFIG GET_TOPIC_STATS_INFO QUERY_TOPIC_CONSUME_BY_WHO",
        Needs::All(&["Get Topic:t"]),
    ),
    ("VIEW_MESSAGE_BY_ID", Needs::Known),
    ("SET_MESSAGE_REQUEST_MODE", Needs::All(&["Update Topic:t", "Update Group:g"])),
    ("UPDATE_AND_CREATE_TOPIC UPDATE_AND_CREATE_TOPIC_LIST", Needs::All(&["Create Topic:t"])),
    ("DELETE_TOPIC_IN_NAMESRV DELETE_TOPIC_IN_BROKER", Needs::All(&["Delete Topic:t"])),
    (
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
        Needs::All(&["Create Group:g"]),
    ),
    ("DELETE_SUBSCRIPTIONGROUP", Needs::All(&["Delete Group:g"])),
    (
        "GET_SUBSCRIPTIONGROUP_CONFIG GET_CONSUMER_CONNECTION_LIST GET_PRODUCER_CONNECTION_LIST",
        Needs::All(&["Get Group:g"]),
    ),
    ("GET_CONSUMER_RUNNING_INFO QUERY_TOPICS_BY_CONSUMER", Needs::All(&["Get Group:g"])),
    (
        "UPDATE_AND_GET_GROUP_FORBIDDEN INVOKE_BROKER_TO_RESET_OFFSET",
        Needs::All(&["Update Topic:t", "Update Group:g"]),
    ),
    (
        "GET_CONSUME_STATS QUERY_CONSUME_TIME_SPAN QUERY_SUBSCRIPTION_BY_CONSUMER",
        Needs::All(&["Get Topic:t", "Get Group:g"]),
    ),
    (
        "INVOKE_BROKER_TO_GET_CONSUMER_STATUS QUERY_CONSUME_QUEUE QUERY_CORRECTION_OFFSET",
        Needs::All(&["Get Topic:t", "Get Group:g"]),
    ),
    ("CLONE_GROUP_OFFSET", Needs::All(&["Sub Topic:t", "All Group:g"])),
    (
        "GET_BROKER_CLUSTER_INFO GET_KV_CONFIG GET_KVLIST_BY_NAMESPACE GET_BROKER_MEMBER_GROUP GET_NAMESRV_CONFIG",
        Needs::All(&["Get Cluster:DefaultCluster"]),
    ),
    (
        "GET_BROKER_CONSUME_STATS GET_ALL_CONSUMER_OFFSET GET_ALL_DELAY_OFFSET GET_ALL_MESSAGE_REQUEST_MODE GET_ALL_PRODUCER_INFO",
        Needs::All(&["Get Cluster:DefaultCluster"]),
    ),
    (
        "GET_BROKER_CONFIG GET_BROKER_RUNTIME_INFO VIEW_BROKER_STATS_DATA GET_BROKER_HA_STATUS",
        Needs::All(&["Get Cluster:DefaultCluster"]),
    ),
    (
        "AUTH_GET_USER AUTH_GET_ACL GET_BROKER_CLUSTER_ACL_INFO GET_BROKER_CLUSTER_ACL_CONFIG",
        Needs::All(&["Get Cluster:DefaultCluster"]),
    ),
    (
        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER GET_TOPICS_BY_CLUSTER GET_SYSTEM_TOPIC_LIST_FROM_NS GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
        Needs::All(&["List Cluster:DefaultCluster"]),
    ),
    (
        "GET_UNIT_TOPIC_LIST GET_HAS_UNIT_SUB_TOPIC_LIST GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
        Needs::All(&["List Cluster:DefaultCluster"]),
    ),
    (
        "GET_ALL_TOPIC_CONFIG GET_ALL_SUBSCRIPTIONGROUP_CONFIG AUTH_LIST_USER AUTH_LIST_ACL",
        Needs::All(&["List Cluster:DefaultCluster"]),
    ),
    (
        "PUT_KV_CONFIG DELETE_KV_CONFIG REGISTER_BROKER UNREGISTER_BROKER QUERY_DATA_VERSION BROKER_HEARTBEAT",
        Needs::Super,
    ),
    (
        "WIPE_WRITE_PERM_OF_BROKER ADD_WRITE_PERM_OF_BROKER REGISTER_TOPIC_IN_NAMESRV UPDATE_NAMESRV_CONFIG UPDATE_BROKER_CONFIG",
        Needs::Super,
    ),
    ("CLEAN_EXPIRED_CONSUMEQUEUE CLEAN_UNUSED_TOPIC DELETE_EXPIRED_COMMITLOG", Needs::Super),
    (
        "AUTH_CREATE_USER AUTH_UPDATE_USER AUTH_DELETE_USER AUTH_CREATE_ACL AUTH_UPDATE_ACL AUTH_DELETE_ACL",
        Needs::Super,
    ),
    ("UPDATE_AND_CREATE_ACL_CONFIG DELETE_ACL_CONFIG UPDATE_GLOBAL_WHITE_ADDRS_CONFIG", Needs::Super),
];

/// Refused by the step before the handler; a handler may refuse with the same code for its own reasons.
fn is_denied(answer: &Command) -> bool {
    let remark = answer.remark.as_deref().unwrap_or_default();
    answer.code == code::NO_PERMISSION
        && ["has no right to", "is no super user"].iter().any(|words| remark.contains(words))
}

#[tokio::test]
async fn every_request_code_needs_its_right_and_no_other() {
    let guarded = Guarded::start().await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    let mut stranger = guarded.broker.client().await;
    let mut left: Vec<(i32, &str)> = SERVED.to_vec();
    // So that failed attempts from this address are not counted against the users.
    for client in [&mut root, &mut app] {
        client.call(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]).await;
    }
    for (names, needs) in TABLE {
        for name in names.split(' ') {
            let at = left.iter().position(|(_, known)| *known == name);
            let (code, _) = left.remove(at.unwrap_or_else(|| panic!("{name} is not served")));

            let anonymous = stranger.call_with(any_request(code)).await;
            assert_eq!(anonymous.code, code::NO_PERMISSION, "{name} without a signature");
            // On the connection of a user who has authenticated no attempt is refused for its failures before: it is looked at.
            let forged = root.client.call_with(sign(any_request(code), "root", "wrong")).await;
            assert_eq!(forged.code, code::NO_PERMISSION, "{name} with a wrong signature");
            let remark = forged.remark.unwrap();
            assert!(remark.contains("the signature does not match"), "{name}: {remark}");

            guarded.grant("app", &[]).await;
            let without = app.call_with(any_request(code)).await;
            assert_eq!(
                is_denied(&without),
                !matches!(needs, Needs::Known),
                "{name} without rights: {without:?}"
            );
            match needs {
                Needs::Known => {}
                Needs::Super => {
                    guarded.grant("app", &["All *"]).await;
                    assert!(is_denied(&app.call_with(any_request(code)).await), "{name} with all rights");
                }
                Needs::All(rights) => {
                    for missing in 0..rights.len() {
                        let some: Vec<&str> = rights
                            .iter()
                            .enumerate()
                            .filter(|(at, _)| *at != missing)
                            .map(|(_, r)| *r)
                            .collect();
                        guarded.grant("app", &some).await;
                        let answer = app.call_with(any_request(code)).await;
                        assert!(is_denied(&answer), "{name} without {}: {answer:?}", rights[missing]);
                    }
                    guarded.grant("app", rights).await;
                    let answer = app.call_with(any_request(code)).await;
                    assert!(!is_denied(&answer), "{name} with {rights:?}: {answer:?}");
                }
            }
        }
    }
    assert!(left.is_empty(), "codes without a row: {left:?}");
}

#[tokio::test]
async fn a_code_that_is_not_served_tells_a_stranger_nothing() {
    let guarded = Guarded::start().await;
    let mut stranger = guarded.broker.client().await;
    assert_eq!(stranger.call(4711, &[]).await.code, code::NO_PERMISSION);
    let mut app = guarded.client("app").await;
    assert_eq!(app.call(4711, &[]).await.code, code::REQUEST_CODE_NOT_SUPPORTED);
}

#[tokio::test]
async fn rights_are_in_force_at_once_and_after_a_change_of_the_user() {
    let guarded = Guarded::start().await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    assert_eq!(app.send("t", "one").await.code, code::NO_PERMISSION);
    let acl = r#"{"policies":[{"entries":[{"resource":"Topic:t","actions":["Pub"],"decision":"Allow"}]}]}"#;
    let create = Command { body: acl.into(), ..request(code::AUTH_CREATE_ACL, &[("subject", "User:app")]) };
    assert_eq!(root.call_with(create).await.code, code::SUCCESS);
    assert_eq!(app.send("t", "two").await.code, code::SUCCESS);
    let disable = Command {
        body: r#"{"userStatus":"disable"}"#.into(),
        ..request(code::AUTH_UPDATE_USER, &[("username", "app")])
    };
    assert_eq!(root.call_with(disable).await.code, code::SUCCESS);
    let refused = app.send("t", "three").await;
    assert_eq!(refused.code, code::NO_PERMISSION);
    assert!(refused.remark.unwrap().contains("disabled"));
}

#[tokio::test]
async fn prefixes_denials_and_addresses_decide() {
    let guarded = Guarded::start().await;
    let mut app = guarded.client("app").await;
    let cases: &[(&[&str], bool)] = &[
        (&["Pub Topic:t*"], true),
        (&["Pub Topic:T"], false),
        (&["Pub Topic:*", "Deny Pub Topic:t"], false),
        (&["Deny Pub Topic:*", "Pub Topic:t"], true),
        (&["Pub Topic:t 127.0.0.0/8"], true),
        (&["Pub Topic:t 10.0.0.0/8"], false),
        (&["Sub Topic:t"], false),
    ];
    for (rights, expected) in cases {
        guarded.grant("app", rights).await;
        let answer = app.send("t", "m").await;
        assert_eq!(answer.code == code::SUCCESS, *expected, "{rights:?}: {:?}", answer.remark);
    }
}

#[tokio::test]
async fn a_denial_says_which_right_is_missing() {
    let guarded = Guarded::start().await;
    let mut app = guarded.client("app").await;
    guarded.grant("app", &["Deny Pub Topic:t*"]).await;
    let remark = app.send("t", "m").await.remark.unwrap();
    assert_eq!(
        remark,
        "the user app has no right to Pub on Topic:t: the Custom rule 'Deny Pub Topic:t*' decides"
    );
}

#[tokio::test]
async fn a_message_of_another_topic_is_not_seen_by_its_position() {
    let guarded = Guarded::start().await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    let sent = root.send("secret", "for root alone").await;
    let id = sent.field("msgId").unwrap().to_owned();
    let (_, offset) = redstart_wire::remoting::read_offset_message_id(&id).unwrap();
    let offset = offset.to_string();
    guarded.grant("app", &["All Topic:t", "All Group:g"]).await;
    let view = app.call(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await;
    assert_eq!((view.code, view.body.len()), (code::SYSTEM_ERROR, 0));
    let nothing = app.call(code::VIEW_MESSAGE_BY_ID, &[("offset", "7")]).await;
    let told = |remark: Option<String>, at: &str| remark.unwrap().replace(at, "X");
    assert_eq!(told(view.remark, &offset), told(nothing.remark, "7"), "not even that it is there");
    let back = [("offset", offset.as_str()), ("group", "g"), ("delayLevel", "0"), ("originTopic", "t")];
    let back = app.call(code::CONSUMER_SEND_MSG_BACK, &back).await;
    assert_eq!(back.code, code::SYSTEM_ERROR, "{:?}", back.remark);
    app.json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await;
    let direct = [("msgId", id.as_str()), ("consumerGroup", "g"), ("clientId", "c"), ("topic", "t")];
    let direct = app.call(code::CONSUME_MESSAGE_DIRECTLY, &direct).await;
    assert_eq!(direct.code, code::SYSTEM_ERROR, "{:?}", direct.remark);
    // With the right it is there.
    guarded.grant("app", &["Get Topic:secret"]).await;
    assert_eq!(app.call(code::VIEW_MESSAGE_BY_ID, &[("offset", &offset)]).await.code, code::SUCCESS);
}

#[tokio::test]
async fn a_transaction_is_ended_only_with_the_right_on_its_topic() {
    let guarded = Guarded::start().await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    let properties = redstart_wire::remoting::encode_properties([
        ("TRAN_MSG", "true"),
        ("PGROUP", "p"),
        ("UNIQ_KEY", "half"),
    ]);
    let fields = [
        ("producerGroup", "p"),
        ("topic", "secret"),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "4"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", properties.as_str()),
    ];
    let half = root.call_with(Command { body: "half".into(), ..request(code::SEND_MESSAGE, &fields) }).await;
    assert_eq!(half.code, code::SUCCESS, "{:?}", half.remark);
    let (_, offset) = redstart_wire::remoting::read_offset_message_id(half.field("msgId").unwrap()).unwrap();
    let offset = offset.to_string();
    let end = [
        ("producerGroup", "p"),
        ("commitOrRollback", "8"),
        ("commitLogOffset", offset.as_str()),
        ("tranStateTableOffset", "0"),
    ];
    guarded.grant("app", &["Pub Topic:t"]).await;
    // What is told is the same as of a position at which there is nothing.
    let nothing = end.map(|(name, value)| (name, if name == "commitLogOffset" { "7" } else { value }));
    let untold = app.call(code::END_TRANSACTION, &nothing).await;
    let told = |answer: Command, at: &str| (answer.code, answer.remark.unwrap().replace(at, "X"));
    let expected = told(untold, "transaction 7 ");
    assert_eq!(
        told(app.call(code::END_TRANSACTION, &end).await, &format!("transaction {offset} ")),
        expected
    );
    let named: Vec<_> = end.iter().copied().chain([("topic", "t")]).collect();
    assert_eq!(
        told(app.call(code::END_TRANSACTION, &named).await, &format!("transaction {offset} ")),
        expected
    );
    let foreign = end.map(|(name, value)| (name, if name == "producerGroup" { "q" } else { value }));
    assert_eq!(
        told(app.call(code::END_TRANSACTION, &foreign).await, &format!("transaction {offset} ")),
        expected
    );
    assert_eq!(root.call(code::END_TRANSACTION, &end).await.code, code::SUCCESS);
    assert_eq!(
        told(app.call(code::END_TRANSACTION, &end).await, &format!("transaction {offset} ")),
        expected
    );
    // Who may know is told the same as without users: that it has ended so is no error.
    assert_eq!(root.call(code::END_TRANSACTION, &end).await.code, code::SUCCESS, "the same end twice");
    guarded.grant("app", &["Pub Topic:secret"]).await;
    assert_eq!(app.call(code::END_TRANSACTION, &end).await.code, code::SUCCESS);
    let other_end = end.map(|(name, value)| (name, if name == "commitOrRollback" { "12" } else { value }));
    assert!(root.call(code::END_TRANSACTION, &other_end).await.remark.unwrap().contains("has ended before"));
}

#[tokio::test]
async fn a_retry_topic_needs_its_own_group_whatever_the_request_names() {
    let guarded = Guarded::start().await;
    let mut app = guarded.client("app").await;
    guarded.grant("app", &["All Group:mine", "All Topic:t"]).await;
    assert!(is_denied(&app.send("%RETRY%theirs", "m").await));
    assert!(!is_denied(&app.send("%RETRY%mine", "m").await));
    let pull = [
        ("consumerGroup", "mine"),
        ("topic", "%RETRY%theirs"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "1"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "0"),
    ];
    assert!(is_denied(&app.call(code::PULL_MESSAGE, &pull).await));
}

#[tokio::test]
async fn a_client_id_belongs_to_the_user_that_brought_it() {
    let guarded = Guarded::start().await;
    guarded.user("other", "Normal", "enable").await;
    for user in ["app", "other"] {
        guarded.grant(user, &["All Group:g", "All Topic:t"]).await;
    }
    let (mut app, mut other) = (guarded.client("app").await, guarded.client("other").await);
    assert_eq!(app.json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await.code, code::SUCCESS);
    assert_eq!(app.json(code::HEART_BEAT, &producer("c", "p")).await.code, code::SUCCESS);
    let stolen = other.json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await;
    assert_eq!(stolen.code, code::NO_PERMISSION, "{:?}", stolen.remark);
    let stolen = other.json(code::HEART_BEAT, &producer("c", "another group")).await;
    assert_eq!(stolen.code, code::NO_PERMISSION, "replies are pushed by the id alone");
    let lock = r#"{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}"#;
    assert_eq!(other.json(code::LOCK_BATCH_MQ, lock).await.code, code::NO_PERMISSION);
    other
        .call(code::UNREGISTER_CLIENT, &[("clientID", "c"), ("consumerGroup", "g"), ("producerGroup", "p")])
        .await;
    let list = app.call(code::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")]).await;
    assert_eq!(json(&list)["consumerIdList"][0], "c", "it is still there");
    let mixed =
        app.client.call_with(sign(any_request(code::GET_MAX_OFFSET), "other", &secret("other"))).await;
    assert!(mixed.remark.unwrap().contains("another user"), "a connection serves one user");
}

#[tokio::test]
async fn passwords_are_not_shown() {
    let guarded = Guarded::start().await;
    let mut root = guarded.client("root").await;
    for (code, fields) in [
        (code::AUTH_GET_USER, &[("username", "app")][..]),
        (code::AUTH_LIST_USER, &[]),
        (code::GET_BROKER_CLUSTER_ACL_CONFIG, &[]),
    ] {
        let answer = root.call(code, fields).await;
        assert_eq!(answer.code, code::SUCCESS, "{:?}", answer.remark);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.contains("app") && !text.contains("secret-of"), "{text}");
    }
    let shown = root.call(code::AUTH_GET_USER, &[("username", "app")]).await.body;
    let back = Command { body: shown, ..request(code::AUTH_UPDATE_USER, &[("username", "app")]) };
    assert_eq!(root.call_with(back).await.code, code::SUCCESS);
    let mut app = guarded.client("app").await;
    assert!(
        is_denied(&app.send("t", "m").await),
        "what is shown changes nothing: its secret still proves who it is"
    );
}

#[tokio::test]
async fn users_named_like_a_super_user_are_nobody() {
    let guarded = Guarded::start().await;
    for name in ["Root", "root ", "r\u{043e}ot", "ROOT", "root\u{0}"] {
        let mut client = guarded.broker.client().await;
        let answer =
            client.call_with(sign(any_request(code::GET_BROKER_CONFIG), name, &secret("root"))).await;
        assert_eq!(answer.code, code::NO_PERMISSION, "{name:?}");
    }
}

#[tokio::test]
async fn guessing_is_slowed_and_does_not_lock_out_a_client_that_is_there() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let mut app = guarded.client("app").await;
    assert_eq!(app.send("t", "before").await.code, code::SUCCESS);
    guarded.user("victim", "Super", "enable").await;
    let mut guesser = guarded.broker.client().await;
    let mut slowed = false;
    for guess in 0..20 {
        let command = sign(any_request(code::GET_BROKER_CONFIG), "victim", &format!("guess-{guess}"));
        let answer = guesser.call_with(command).await;
        assert_eq!(answer.code, code::NO_PERMISSION);
        slowed |= answer.remark.unwrap().contains("too many failed attempts");
    }
    assert!(slowed);
    assert_eq!(app.send("t", "after").await.code, code::SUCCESS);
}

#[tokio::test]
async fn a_connection_that_has_authenticated_is_not_slowed_by_guesses_at_its_user_from_its_address() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let mut app = guarded.client("app").await;
    assert_eq!(app.send("t", "before").await.code, code::SUCCESS);
    let mut guesser = guarded.broker.client().await;
    let mut slowed = false;
    for guess in 0..20 {
        let command = sign(any_request(code::GET_BROKER_CONFIG), "app", &format!("guess-{guess}"));
        slowed |= guesser.call_with(command).await.remark.unwrap().contains("too many failed attempts");
    }
    assert!(slowed);
    assert_eq!(app.send("t", "after").await.code, code::SUCCESS);
}

#[tokio::test]
async fn a_poll_that_waits_gets_nothing_after_its_right_was_taken_away() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Sub Topic:t", "Sub Group:g"]).await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    assert_eq!(app.json(code::HEART_BEAT, &consumer("c", "g", "t", "*")).await.code, code::SUCCESS);
    let pull = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "1"),
        // Wait for a message.
        ("sysFlag", "2"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "15000"),
        ("subVersion", "0"),
    ];
    let polling = app.call(code::PULL_MESSAGE, &pull);
    let meanwhile = async {
        a_poll_waits(&guarded.broker.shard.handle()).await;
        guarded.grant("app", &[]).await;
        assert_eq!(root.send("t", "for those who may").await.code, code::SUCCESS);
    };
    let (answer, ()) = tokio::join!(polling, meanwhile);
    assert!(is_denied(&answer), "{:?}", answer.remark);
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn hostile_fields_that_come_twice_mean_what_was_signed() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t", "Pub Topic:secret", "Get Topic:*"]).await;
    let mut app = guarded.client("app").await;
    let fields = [
        ("producerGroup", "p"),
        ("topic", "t"),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "0"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", ""),
    ];
    let signed = sign(request(code::SEND_MESSAGE, &fields), "app", &secret("app"));
    // Another topic in front of the signed one changes nothing, behind it the signature does not fit.
    let mut before = Command::request(code::SEND_MESSAGE);
    before.fields.add("topic", "secret");
    signed.fields.iter().for_each(|(name, value)| before.fields.add(name, value));
    assert_eq!(app.client.call_with(before).await.code, code::SUCCESS);
    let mut after = signed.clone();
    after.fields.add("topic", "secret");
    assert_eq!(app.client.call_with(after).await.code, code::NO_PERMISSION);
    for (topic, expected) in [("t", "1"), ("secret", "0")] {
        let end = app.call(code::GET_MAX_OFFSET, &[("topic", topic), ("queueId", "0")]).await;
        assert_eq!(end.field("offset"), Some(expected), "{topic}");
    }
    // So with the user: the name that is signed for is the name that counts.
    let mut other = Command::request(code::GET_MAX_OFFSET);
    other.fields.add(ACCESS_KEY, "root");
    let own = sign(request(code::GET_MAX_OFFSET, &[("topic", "t"), ("queueId", "0")]), "app", &secret("app"));
    own.fields.iter().for_each(|(name, value)| other.fields.add(name, value));
    guarded.grant("app", &[]).await;
    assert!(is_denied(&app.client.call_with(other).await), "it is app that asks");
}

#[tokio::test]
async fn hostile_fields_of_any_size_are_refused_with_a_short_answer() {
    let guarded = Guarded::start().await;
    let (long, megabyte) = ("n".repeat(65), "n".repeat(1 << 20));
    for (user, signature) in
        [(&*long, "AAAA"), (&megabyte, "AAAA"), ("app", &megabyte), (&megabyte, &megabyte), ("app", "=")]
    {
        let forged = request(code::GET_BROKER_CONFIG, &[(ACCESS_KEY, user), (SIGNATURE, signature)]);
        let answer = guarded.broker.client().await.call_with(forged).await;
        assert_eq!(answer.code, code::NO_PERMISSION);
        assert!(answer.remark.as_ref().is_some_and(|remark| remark.len() < 200), "{:?}", answer.remark);
    }
    let mut root = guarded.client("root").await;
    let create = |name: &str| Command {
        body: format!(r#"{{"password":"{}"}}"#, secret("new")).into(),
        ..request(code::AUTH_CREATE_USER, &[("username", name)])
    };
    for name in [&*long, &megabyte] {
        assert_eq!(root.call_with(create(name)).await.code, code::INVALID_PARAMETER);
    }
    let many = Command {
        body: format!(r#"{{"acks":[{}]}}"#, vec![r#"{"c":"g","t":"t"}"#; 10_001].join(",")).into(),
        ..Command::request(code::BATCH_ACK_MESSAGE)
    };
    let refused = root.call_with(many).await;
    assert!(
        refused.remark.as_ref().is_some_and(|why| why.contains("the limit is 10000")),
        "{:?}",
        refused.remark
    );
}

#[tokio::test]
async fn hostile_names_that_look_like_an_allowed_one_are_other_names() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["All Topic:t", "All Group:g"]).await;
    // The rules of a user whose name differs by its case are not those of this one.
    guarded.user("App", "Normal", "enable").await;
    guarded.grant("App", &["Pub Topic:secret"]).await;
    let mut app = guarded.client("app").await;
    for topic in [
        "T",
        " t",
        "t ",
        "t\u{0}",
        "t\u{200b}",
        "\u{ff54}",
        "t/secret",
        "t:secret",
        "t*",
        "*",
        "secret",
        "Topic:t",
    ] {
        let answer = app.send(topic, "m").await;
        assert_ne!(answer.code, code::SUCCESS, "{topic:?}");
        assert!(is_denied(&answer), "{topic:?}: {:?}", answer.remark);
    }
    for topic in ["%RETRY%G", "%RETRY%g ", "%RETRY%g2", "%DLQ%G", "%retry%g"] {
        assert!(is_denied(&app.send(topic, "m").await), "{topic:?}");
    }
}

#[tokio::test]
async fn hostile_users_that_are_named_like_a_super_user_get_none_of_its_rights() {
    let guarded = Guarded::start().await;
    let mut root = guarded.client("root").await;
    for (name, may_be_made) in [("Root", true), ("ROOT", true)] {
        let body = format!(r#"{{"password":"{}"}}"#, secret(name));
        let create = Command { body: body.into(), ..request(code::AUTH_CREATE_USER, &[("username", name)]) };
        assert_eq!(root.call_with(create).await.code == code::SUCCESS, may_be_made, "{name:?}");
        if may_be_made {
            let mut twin = guarded.client(name).await;
            assert!(is_denied(&twin.call(code::AUTH_LIST_USER, &[]).await), "{name:?}");
            assert!(is_denied(&twin.call(code::CLEAN_UNUSED_TOPIC, &[]).await), "{name:?}");
        }
    }
    assert_eq!(guarded.access.super_users(), ["root"]);
}

#[tokio::test]
async fn hostile_addresses_that_try_many_names_are_slowed() {
    let guarded = Guarded::start().await;
    guarded.grant("app", &["Pub Topic:t"]).await;
    let mut app = guarded.client("app").await;
    assert_eq!(app.send("t", "before").await.code, code::SUCCESS);
    let mut guesser = guarded.broker.client().await;
    let mut slowed = false;
    for guess in 0..300 {
        let command = sign(any_request(code::GET_BROKER_CONFIG), &format!("user-{guess}"), "a guess");
        slowed |= guesser.call_with(command).await.remark.unwrap().contains("too many failed attempts");
    }
    assert!(slowed, "each name was tried once, and the address is one");
    // A user who has not been here before is slowed with its neighbours, one who has is not.
    assert_eq!(guarded.client("app").await.send("t", "after").await.code, code::SUCCESS);
}

#[tokio::test]
async fn without_authentication_nothing_changes() {
    let broker = Broker::start().await;
    let mut client = broker.client().await;
    create_topic(&mut client, "t", 1, "").await;
    let odd = sign(request(code::GET_ROUTEINFO_BY_TOPIC, &[("topic", "t")]), "nobody", "nothing");
    assert_eq!(client.call_with(odd).await.code, code::SUCCESS, "a signature is ignored");
}

#[tokio::test]
async fn secrets_that_were_stored_plain_are_sealed_at_the_start() {
    let guarded = Guarded::start().await;
    let shard = guarded.broker.shard.handle();
    let stored = async || shard.ask(|engine, _| engine.settings("user")).unwrap().await.unwrap();
    guarded.user("changed", "Normal", "disable").await;
    assert!(stored().await["changed"].contains(&secret("changed")), "as an older version has stored it");
    let body = r#"{"userStatus":"enable"}"#;
    let change = Command { body: body.into(), ..request(code::AUTH_UPDATE_USER, &[("username", "changed")]) };
    assert_eq!(guarded.client("root").await.call_with(change).await.code, code::SUCCESS);
    assert!(!stored().await["changed"].contains(&secret("changed")), "sealed with the change");
    guarded.grant("changed", &["Pub Topic:t"]).await;
    assert_eq!(guarded.client("changed").await.send("t", "m").await.code, code::SUCCESS, "the same secret");
    assert_eq!(guarded.access.seal_stored(&shard).await.unwrap(), 2);
    for (name, text) in stored().await {
        assert!(!text.contains(&secret(&name)), "{text}");
    }
    assert_eq!(guarded.access.seal_stored(&shard).await.unwrap(), 0, "once is enough");
    guarded.grant("app", &["Pub Topic:t"]).await;
    assert_eq!(guarded.client("app").await.send("t", "m").await.code, code::SUCCESS);
}

#[tokio::test]
async fn the_last_super_user_stays() {
    let guarded = Guarded::start().await;
    let mut root = guarded.client("root").await;
    let with_body = |code, user, body: &str| Command {
        body: body.to_owned().into(),
        ..request(code, &[("username", user)])
    };
    let losses = [
        request(code::AUTH_DELETE_USER, &[("username", "root")]),
        with_body(code::AUTH_UPDATE_USER, "root", r#"{"userStatus":"disable"}"#),
        with_body(code::AUTH_UPDATE_USER, "root", r#"{"userType":"Normal"}"#),
        request(code::DELETE_ACL_CONFIG, &[("accessKey", "root")]),
        request(code::UPDATE_AND_CREATE_ACL_CONFIG, &[("accessKey", "root"), ("admin", "false")]),
    ];
    for loss in &losses {
        let refused = root.call_with(loss.clone()).await;
        assert_eq!(refused.code, code::INVALID_PARAMETER, "{loss:?}: {:?}", refused.remark);
        assert!(refused.remark.unwrap().contains("last super user"));
    }
    // One that is disabled does not count.
    let body = format!(r#"{{"password":"{}","userType":"Super","userStatus":"disable"}}"#, secret("second"));
    let made = root.call_with(with_body(code::AUTH_CREATE_USER, "second", &body)).await;
    assert_eq!(made.code, code::SUCCESS, "{:?}", made.remark);
    assert_eq!(root.call_with(losses[0].clone()).await.code, code::INVALID_PARAMETER);
    let enabled = with_body(code::AUTH_UPDATE_USER, "second", r#"{"userStatus":"enable"}"#);
    assert_eq!(root.call_with(enabled).await.code, code::SUCCESS);
    assert_eq!(root.call_with(losses[0].clone()).await.code, code::SUCCESS);
    let mut second = guarded.client("second").await;
    assert_eq!(second.call(code::AUTH_LIST_USER, &[]).await.code, code::SUCCESS);
}

#[tokio::test]
async fn changes_at_the_same_time_do_not_undo_each_other() {
    const CHANGES: usize = 16;
    let guarded = Guarded::start().await;
    let change = async |at: usize| {
        let mut root = guarded.client("root").await;
        let body = format!(
            r#"{{"policies":[{{"entries":[{{"resource":"Topic:t{at}","actions":["Pub"],"decision":"Allow"}}]}}]}}"#
        );
        let request =
            Command { body: body.into(), ..request(code::AUTH_CREATE_ACL, &[("subject", "User:app")]) };
        assert_eq!(root.call_with(request).await.code, code::SUCCESS);
    };
    futures_util::future::join_all((0..CHANGES).map(change)).await;
    let mut root = guarded.client("root").await;
    let acl = json(&root.call(code::AUTH_GET_ACL, &[("subject", "User:app")]).await);
    assert_eq!(acl["policies"][0]["entries"].as_array().unwrap().len(), CHANGES);
}

#[tokio::test]
async fn a_change_whose_caller_has_gone_is_in_force() {
    let guarded = Guarded::start().await;
    let shard = guarded.broker.shard.handle();
    let made = guarded.access.make_super_user(&shard, "second", "secret-of-second");
    assert!(made.now_or_never().is_none(), "it waits for the log");
    let in_force = async {
        while guarded.access.super_users() != ["root", "second"] {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(remoting_support::PATIENCE, in_force).await.expect("the snapshot follows the log");
}

#[tokio::test]
async fn changes_and_denials_are_in_the_audit_log_and_nothing_else_is() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("audit.log");
    let log = AuditLog::open(&path).unwrap();
    let guarded = Guarded::start().await;
    guarded.access.install_audit(log.clone());
    guarded.grant("app", &["Pub Topic:t", "Sub Topic:t", "Sub Group:g"]).await;
    let (mut root, mut app) = (guarded.client("root").await, guarded.client("app").await);
    let body = format!(r#"{{"password":"{}"}}"#, secret("new"));
    let create = Command { body: body.into(), ..request(code::AUTH_CREATE_USER, &[("username", "new")]) };
    assert_eq!(root.call_with(create.clone()).await.code, code::SUCCESS);
    assert_eq!(root.call_with(create.clone()).await.code, code::SYSTEM_ERROR);
    assert_eq!(app.call_with(create).await.code, code::NO_PERMISSION);
    // The parser's words about a body that is cut short could quote it.
    let odd = Command {
        body: r#"{"password":"7355608""#.into(),
        ..request(code::AUTH_CREATE_USER, &[("username", "odd")])
    };
    let odd = root.call_with(odd).await;
    assert!(odd.code == code::INVALID_PARAMETER && !odd.remark.unwrap().contains("7355608"));
    assert_eq!(app.send("secret", "m").await.code, code::NO_PERMISSION);
    let forged = sign(request(code::AUTH_LIST_USER, &[]), "root\n{}", "a guess");
    assert_eq!(guarded.broker.client().await.call_with(forged).await.code, code::NO_PERMISSION);
    // What clients do all day.
    assert_eq!(app.send("t", "m").await.code, code::SUCCESS);
    assert_eq!(root.call(code::AUTH_LIST_USER, &[]).await.code, code::SUCCESS);
    log.close();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let object = line["objects"].as_array().map_or("-", |objects| objects[0].as_str().unwrap());
            let word = |field: &str| line[field].as_str().unwrap();
            format!("{:?} {} {object} {}", word("user"), word("request"), word("outcome"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#""root" AUTH_CREATE_USER User:new done"#,
            r#""root" AUTH_CREATE_USER User:new failed"#,
            r#""app" AUTH_CREATE_USER User:new denied"#,
            r#""root" AUTH_CREATE_USER User:odd failed"#,
            r#""app" SEND_MESSAGE Topic:secret denied"#,
            r#""root\n{}" AUTH_LIST_USER - unauthenticated"#,
        ]
    );
    assert!(!text.contains("secret-of") && !text.contains("7355608"), "{text}");
    assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(lines[4]["why"].as_str().unwrap().contains("no right to Pub on Topic:secret"));
}
