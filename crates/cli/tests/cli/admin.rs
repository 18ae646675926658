//! Every admin command, by the real binary against a real server: what people read, what scripts read, and what is refused.

use redstart_client::admin::{OutgoingMessage, TRACE_TOPIC};
use serde_json::json;

use crate::admin_support::{Running, Server, finish};

const NOTHING_DONE: &str = "nothing was done";

#[test]
fn topics_are_created_changed_shown_and_deleted() {
    let server = Server::start();
    let none = server.run(&["topic", "list"]).ok();
    assert!(none.starts_with("no topics yet"), "{none}");
    let created = server.run(&["topic", "create", "orders", "--type", "fifo", "--queues", "4"]).ok();
    assert_eq!(created, "topic orders created: FIFO, 4 queues, rw on broker-a\n");
    let created = server.json(&["topic", "create", "plain"]);
    let expected = json!({
        "topic": "plain", "type": "NORMAL", "readQueues": 8, "writeQueues": 8, "permission": "rw",
        "brokers": ["broker-a"]
    });
    assert_eq!(created, expected);

    let again = server.run(&["topic", "create", "orders"]).refused();
    assert!(
        again.contains("exists already on broker-a; change it with: redstart topic update orders"),
        "{again}"
    );
    server.send("orders", "one", &["--group", "customer-7"]);
    let list = server.run(&["topic", "list"]).ok();
    let expected = concat!(
        "TOPIC   TYPE    QUEUES  PERM  MESSAGES  BROKERS\n",
        "orders  FIFO         4  rw           1  broker-a\n",
        "plain   NORMAL       8  rw           0  broker-a\n",
    );
    assert_eq!(list, expected);
    let all = server.json(&["topic", "list", "--all"]);
    assert!(all["topics"].as_array().unwrap().len() >= 2);

    let changed = server.run(&["topic", "update", "orders", "--queues", "6", "--permission", "r"]).ok();
    assert_eq!(changed, "topic orders changed: FIFO, 6 queues, r on broker-a\n");
    let shown = server.json(&["topic", "show", "orders"]);
    assert_eq!(
        (&shown["type"], &shown["permission"], &shown["messages"]),
        (&json!("FIFO"), &json!("r"), &json!(1))
    );
    assert_eq!(shown["queues"].as_array().unwrap().len(), 6);
    let text = server.run(&["topic", "show", "orders"]).ok();
    assert!(text.contains("permission  r\n") && text.contains("no group has consumed it"), "{text}");
    let nothing = server.run(&["topic", "update", "orders"]).refused();
    assert!(nothing.starts_with("nothing to change"), "{nothing}");

    let kept = server.run(&["topic", "delete", "orders"]).refused();
    assert!(kept.starts_with("this would delete topic orders with 1 message on broker-a;"), "{kept}");
    assert!(kept.contains(NOTHING_DONE), "{kept}");
    assert_eq!(server.json(&["topic", "show", "orders"])["messages"], 1);
    let deleted = server.run(&["topic", "delete", "orders", "--yes"]).ok();
    assert_eq!(deleted, "topic orders deleted with 1 message on broker-a\n");
    let gone = server.run(&["topic", "show", "orders"]).refused();
    assert!(
        gone.starts_with("there is no topic orders; create it with: redstart topic create orders"),
        "{gone}"
    );
}

#[test]
fn every_type_of_topic_can_be_created_and_a_wrong_one_is_named() {
    let server = Server::start();
    for kind in ["normal", "fifo", "delay", "transaction", "mixed", "priority", "lite"] {
        let topic = server.json(&["topic", "create", &format!("of-{kind}"), "--type", kind]);
        assert_eq!(topic["type"], kind.to_uppercase());
    }
    for name in ["%RETRY%g", "%DLQ%g", "rmq_sys_x", "TBW102"] {
        let reserved = server.run(&["topic", "create", name]).refused();
        assert!(reserved.contains("is reserved"), "{name}: {reserved}");
    }
    let wrong = server.run(&["topic", "create", "t", "--type", "fast"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("'fast'") && wrong.err.contains("fifo"), "{}", wrong.err);
    let attribute = server.run(&["topic", "create", "t", "--attribute", "colour=red"]).refused();
    assert!(attribute.contains("there is no attribute colour"), "{attribute}");
    let cluster = server.run(&["topic", "create", "t", "--cluster", "Other"]).refused();
    assert_eq!(cluster, "there is no cluster Other; there is only DefaultCluster");
    let broker = server.run(&["topic", "create", "t", "--broker", "b"]).refused();
    assert_eq!(broker, "there is no broker b; there is only broker-a");
    server.run(&["topic", "create", "t", "--broker", "broker-a"]).ok();
}

#[test]
fn groups_are_created_changed_shown_and_deleted() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "1"]).ok();
    let none = server.run(&["group", "list"]).ok();
    assert!(none.starts_with("no consumer groups yet"), "{none}");
    let created =
        server.run(&["group", "create", "billing", "--max-retries", "3", "--retry-delays", "1s,1m"]).ok();
    assert_eq!(created, "consumer group billing created: concurrent, 3 retries on broker-a\n");
    let again = server.run(&["group", "create", "billing"]).refused();
    assert!(again.contains("redstart group update billing"), "{again}");
    let changed = server.json(&["group", "update", "billing", "--ordered", "true", "--enabled", "false"]);
    let expected = json!({
        "group": "billing", "enabled": false, "ordered": true, "maxRetries": 3, "brokers": ["broker-a"]
    });
    assert_eq!(changed, expected);
    server.run(&["group", "update", "billing", "--ordered", "false", "--enabled", "true"]).ok();
    let unset = server.run(&["group", "show", "billing"]).ok();
    assert!(unset.contains("starts from   server default\n"), "{unset}");
    server.run(&["group", "update", "billing", "--from", "earliest"]).ok();
    server.run(&["group", "create", "audit", "--from", "latest"]).ok();
    assert_eq!(server.json(&["group", "show", "audit"])["from"], "latest");
    let wrong = server.run(&["group", "create", "other", "--from", "noon"]);
    assert!(wrong.err.contains("earliest"), "{}", wrong.err);
    server.run(&["group", "delete", "audit", "--yes"]).ok();

    let offline = server.run(&["group", "show", "billing"]).ok();
    assert!(offline.contains("retry delays  1s 1m\nstarts from   earliest\n"), "{offline}");
    assert!(
        offline.contains("no consumer is online")
            && offline.contains("the group has not consumed from any topic yet"),
        "{offline}"
    );
    let _online = server.consumer("billing", "orders");
    server.send("orders", "one", &[]);
    server.with_admin(async |admin| {
        admin.set_consumer_offset(&server.broker, "billing", "orders", 0, 0).await.unwrap();
    });
    let shown = server.json(&["group", "show", "billing"]);
    assert_eq!((&shown["lag"], &shown["maxRetries"]), (&json!(1), &json!(3)));
    assert_eq!(shown["members"][0]["clientId"], "somewhere@1");
    assert_eq!(shown["members"][0]["version"], "5.3.1");
    assert_eq!(shown["subscriptions"], json!([{ "topic": "orders", "expression": "*", "kind": "TAG" }]));
    let queue = &shown["queues"][0];
    assert_eq!(
        (&queue["topic"], &queue["maxOffset"], &queue["lag"]),
        (&json!("orders"), &json!(1), &json!(1))
    );
    let list = server.run(&["group", "list"]).ok();
    let expected = concat!(
        "GROUP    ORDER       RETRIES  MEMBERS  LAG  DEAD LETTERS\n",
        "billing  concurrent        3        1    1             0\n",
    );
    assert_eq!(list, expected);
    assert!(server.run(&["topic", "show", "orders"]).ok().contains("GROUP    LAG\nbilling    1\n"));

    let kept = server.run(&["group", "delete", "billing"]).refused();
    let what = "this would delete consumer group billing (1 consumer online) on broker-a with its offsets (1 message not consumed) and 0 dead letters";
    assert!(kept.starts_with(what) && kept.contains(NOTHING_DONE), "{kept}");
    server.run(&["group", "show", "billing"]).ok();
    drop(_online);
    let deleted = server.run(&["group", "delete", "billing", "--yes"]).ok();
    assert_eq!(deleted, "consumer group billing deleted with 0 dead letters on broker-a\n");
    let gone = server.run(&["group", "show", "biling"]).refused();
    assert!(gone.starts_with("there is no consumer group biling"), "{gone}");
}

#[test]
fn messages_are_sent_and_found_again() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "1"]).ok();
    let sent = server.json(&[
        "message",
        "send",
        "orders",
        "--body",
        "héllo",
        "--tag",
        "new",
        "--key",
        "k1",
        "--key",
        "k2",
        "--property",
        "colour=red",
    ]);
    let id = sent["id"].as_str().unwrap();
    assert_eq!((&sent["status"], &sent["queue"], &sent["offset"]), (&json!("stored"), &json!(0), &json!(0)));
    for arguments in [
        vec!["message", "get", id],
        vec!["message", "get", id, "--topic", "orders"],
        vec!["message", "get", sent["offsetId"].as_str().unwrap()],
    ] {
        let got = server.json(&arguments);
        assert_eq!((&got["id"], &got["body"], &got["tag"]), (&json!(id), &json!("héllo"), &json!("new")));
        assert_eq!((&got["keys"], &got["properties"]["colour"]), (&json!(["k1", "k2"]), &json!("red")));
        assert_eq!((&got["topic"], &got["broker"]), (&json!("orders"), &json!("broker-a")));
    }
    let text = server.run(&["message", "get", id]).ok();
    assert!(text.starts_with(&format!("id         {id}\n")) && text.ends_with("\n\nhéllo\n"), "{text}");
    assert_eq!(server.run(&["message", "get", id, "--raw"]).ok(), "héllo");
    let missing = server.run(&["message", "get", "00"]).refused();
    assert_eq!(missing, "there is no message 00 in any topic");

    let piped = server.run_with(&["message", "send", "orders", "--key", "k2"], &[0, 159, 146]).ok();
    assert!(piped.starts_with("sent ") && piped.contains("to queue 0 of broker-a at offset 1"), "{piped}");
    let found = server.json(&["message", "query", "orders", "--key", "k2"]);
    assert_eq!(found["messages"].as_array().unwrap().len(), 2);
    assert_eq!(found["messages"][1]["bodyBase64"], "AJ+S");
    let lines = server.run(&["message", "query", "orders", "--key", "k1"]).ok();
    assert!(lines.contains(&format!("broker-a/0@0 {id} tag=new keys=k1,k2 héllo\n")), "{lines}");
    let none = server.run(&["message", "query", "orders", "--key", "k3"]).ok();
    assert_eq!(none, "no message in topic orders has the key k3\n");
    let none = server.json(&["message", "query", "orders", "--key", "k1", "--to", "2020-01-01"]);
    assert_eq!(none["messages"], json!([]));
    let empty = server.run_with(&["message", "send", "orders", "--body-file", "no-such-file"], b"").refused();
    assert!(empty.starts_with("cannot open no-such-file"), "{empty}");
}

#[test]
fn a_message_must_fit_its_topic() {
    let server = Server::start();
    for (topic, kind) in [("orders", "normal"), ("fifo", "fifo"), ("later", "delay")] {
        server.run(&["topic", "create", topic, "--type", kind, "--queues", "2"]).ok();
    }
    let why = server.run(&["message", "send", "fifo", "--body", "x"]).refused();
    assert_eq!(why, "topic fifo has type FIFO: its messages need --group");
    let why = server.run(&["message", "send", "orders", "--body", "x", "--delay", "1h"]).refused();
    assert_eq!(why, "topic orders has type NORMAL: a delayed message needs a topic of type DELAY");
    let why = server.run(&["message", "send", "ordres", "--body", "x"]).refused();
    assert_eq!(why, "there is no topic ordres; did you mean orders?");
    let queues: Vec<_> = (0..3)
        .map(|_| {
            server.json(&["message", "send", "fifo", "--body", "x", "--group", "customer-7"])["queue"].clone()
        })
        .collect();
    assert!(queues.windows(2).all(|pair| pair[0] == pair[1]), "{queues:?}");
    let sent = server.run(&["message", "send", "later", "--body", "x", "--delay", "1h"]).ok();
    assert!(sent.contains("to be delivered later"), "{sent}");
    let sent = server.json(&["message", "send", "later", "--body", "x", "--deliver-at", "2020-01-01T00:00"]);
    let got = server.json(&["message", "get", sent["id"].as_str().unwrap(), "-t", "later"]);
    assert_eq!(got["properties"]["TIMER_DELIVER_MS"], "1577836800000");
}

#[test]
fn tail_prints_in_order_and_moves_no_offset() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "3"]).ok();
    let empty = server.run(&["message", "tail", "orders"]);
    assert_eq!((empty.code, empty.out.as_str()), (Some(0), ""));
    assert_eq!(empty.err, "no matching messages in topic orders\n");
    for n in 0..12 {
        let tag = if n % 2 == 0 { "even" } else { "odd" };
        server.send("orders", &n.to_string(), &["--tag", tag, "--property", &format!("n={n}")]);
    }
    let bodies = |arguments: &[&str]| -> Vec<u32> {
        let out = server.run(&[&["message", "tail", "orders", "--json"], arguments].concat()).ok();
        let body = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["body"].as_str().unwrap().parse().unwrap()
        };
        out.lines().map(body).collect()
    };
    assert_eq!(bodies(&[]), (2..12).collect::<Vec<_>>(), "the newest ten");
    assert_eq!(bodies(&["--limit", "2"]), [10, 11]);
    assert_eq!(bodies(&["--from", "earliest"]), (0..12).collect::<Vec<_>>());
    assert_eq!(bodies(&["--from", "earliest", "--limit", "3"]), [0, 1, 2]);
    assert_eq!(bodies(&["--from", "1h", "--tag", "odd"]), [1, 3, 5, 7, 9, 11]);
    assert_eq!(bodies(&["--sql", "n BETWEEN 3 AND 4"]), [3, 4]);
    assert_eq!(bodies(&["--from", "latest"]), [0_u32; 0]);
    let groups = server.json(&["group", "list"]);
    assert_eq!(groups["groups"], json!([]), "tail creates no group");

    let mut command =
        server.command(&["message", "tail", "orders", "--follow", "--from", "earliest", "--limit", "14"]);
    let mut following = Running::start(&mut command);
    for n in 0..12 {
        let line = following.line();
        assert!(line.ends_with(&format!(" {n}")), "{line}");
    }
    let id = server.send("orders", "twelve", &["--key", "k"]);
    let line = following.line();
    assert!(line.ends_with(&format!("{id} keys=k twelve")), "{line}");
    server.send("orders", "thirteen", &[]);
    let (code, rest) = following.ended();
    assert!(code == Some(0) && rest.ends_with("thirteen\n"), "{code:?} {rest}");
    let wrong = server.run(&["message", "tail", "orders", "--sql", "n >"]).refused();
    assert!(wrong.contains("code 23"), "{wrong}");
}

#[test]
fn a_trace_is_read_as_clients_write_it() {
    let server = Server::start();
    let none = server.run(&["message", "trace", "ID"]).ok();
    assert!(none.starts_with("no trace of ID"), "{none}");
    let sent = ["Pub", "1769860800000", "r", "pg", "t", "ID", "", "", "h", "5", "7", "0", "OID", "true", "c"];
    let consumed = ["SubAfter", "q", "ID", "30", "false", "", "0", "1769860801000", "billing"];
    server.with_admin(async |admin| {
        for line in [&sent[..], &consumed[..]] {
            let mut message = OutgoingMessage::new(TRACE_TOPIC, (line.join("\u{1}") + "\u{2}").into());
            message.set_keys(&["ID".to_owned()]);
            admin.send(&message).await.unwrap();
        }
    });
    let way = server.json(&["message", "trace", "ID"]);
    assert_eq!(way["steps"].as_array().unwrap().len(), 2);
    assert_eq!(way["steps"][0]["step"], "sent");
    assert_eq!((&way["steps"][1]["group"], &way["steps"][1]["success"]), (&json!("billing"), &json!(false)));
    let text = server.run(&["message", "trace", "ID"]).ok();
    assert!(
        text.contains("consumed  2026-01-31 12:00:01.000Z  billing  127.0.0.1  30 ms  failed\n"),
        "{text}"
    );
}

#[test]
fn offsets_are_shown_and_moved() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "1"]).ok();
    server.run(&["group", "create", "billing"]).ok();
    let none = server.run(&["offset", "show", "billing"]).ok();
    assert_eq!(none, "consumer group billing has not consumed from any topic yet\n");
    for n in 0..5 {
        server.send("orders", &n.to_string(), &[]);
    }
    server.with_admin(async |admin| {
        admin.set_consumer_offset(&server.broker, "billing", "orders", 0, 3).await.unwrap();
    });
    let standing = |expected: i64| {
        let shown = server.json(&["offset", "show", "billing", "--topic", "orders"]);
        assert_eq!(shown["queues"][0]["consumerOffset"], expected, "{shown}");
        assert_eq!(shown["lag"], 5 - expected);
    };
    standing(3);
    let text = server.run(&["offset", "show", "billing"]).ok();
    assert!(
        text.starts_with("TOPIC   BROKER    QUEUE  CONSUMED  NEXT  LAG  IN FLIGHT  LAST CONSUMED\n"),
        "{text}"
    );
    assert!(text.ends_with("\ntotal lag of billing: 2\n"), "{text}");

    let reset = |to: &str, more: &[&str]| {
        server.run(&[&["offset", "reset", "billing", "--topic", "orders", "--to", to], more].concat())
    };
    let kept = reset("earliest", &[]).refused();
    let what = "this would move consumer group billing in 1 queue of topic orders to the beginning: 3 messages are delivered again";
    assert!(kept.starts_with(what) && kept.contains(NOTHING_DONE), "{kept}");
    standing(3);
    let moved = reset("earliest", &["--yes"]).ok();
    assert!(
        moved.starts_with(
            "consumer group billing moved in topic orders; skipped: 0, delivered again: 3, to consume: 5\n"
        ),
        "{moved}"
    );
    assert!(moved.ends_with("BROKER    QUEUE  FROM  TO\nbroker-a      0     3   0\n"), "{moved}");
    standing(0);
    let moved = reset("latest", &["--yes", "--json"]).json();
    assert_eq!((&moved["skipped"], &moved["queues"][0]["to"]), (&json!(5), &json!(5)));
    standing(5);
    reset("1h", &["--yes"]).ok();
    standing(0);
    let unknown = reset("yesterday", &["--yes"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("yesterday"), "{}", unknown.err);
    let unknown =
        server.run(&["offset", "reset", "biling", "-t", "orders", "--to", "latest", "-y"]).refused();
    assert_eq!(unknown, "there is no consumer group biling; did you mean billing?");
    let unknown =
        server.run(&["offset", "reset", "billing", "-t", "odrers", "--to", "latest", "-y"]).refused();
    assert_eq!(unknown, "there is no topic odrers; did you mean orders?");
    standing(0);

    server.run(&["group", "create", "audit"]).ok();
    let plan = server.run(&["offset", "reset", "audit", "-t", "orders", "--to", "earliest"]).refused();
    assert!(plan.contains("it has no offset yet, 5 messages to consume from there"), "{plan}");
    let moved = server.json(&["offset", "reset", "audit", "-t", "orders", "--to", "earliest", "-y"]);
    assert_eq!((&moved["again"], &moved["remaining"]), (&json!(0), &json!(5)));
    assert_eq!(moved["queues"][0]["from"], json!(null));
}

#[test]
fn dead_letters_are_listed_shown_and_sent_again() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "1"]).ok();
    server.run(&["topic", "create", "others", "--queues", "1"]).ok();
    server.run(&["group", "create", "billing"]).ok();
    assert_eq!(server.run(&["dlq", "list"]).ok(), "no group has dead letters\n");
    let none = server.run(&["dlq", "show", "billing"]).ok();
    assert_eq!(none, "consumer group billing has no dead letters\n");
    let unknown = server.run(&["dlq", "show", "biling"]).refused();
    assert_eq!(unknown, "there is no consumer group biling; did you mean billing?");
    for (topic, body) in [("orders", "one"), ("orders", "two"), ("others", "three")] {
        let more = ["--tag", "t", "--key", body, "--property", "colour=red"];
        let sent = server.json(&[&["message", "send", topic, "--body", body], &more[..]].concat());
        server.give_up("billing", sent["offsetId"].as_str().unwrap());
    }
    let listed = server.json(&["dlq", "list"]);
    assert_eq!(
        (&listed["groups"][0]["group"], &listed["groups"][0]["deadLetters"]),
        (&json!("billing"), &json!(3))
    );
    assert!(
        server
            .run(&["dlq", "list"])
            .ok()
            .starts_with("GROUP    DEAD LETTERS  LAST\nbilling             3  2")
    );
    let shown = server.json(&["dlq", "show", "billing", "--limit", "2"]);
    let letters = shown["deadLetters"].as_array().unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!((&letters[1]["originTopic"], &letters[1]["body"]), (&json!("others"), &json!("three")));
    let text = server.run(&["dlq", "show", "billing"]).ok();
    assert!(text.ends_with("\n3 dead letters; to send them again: redstart dlq resend billing\n"), "{text}");

    let count = |topic: &str| server.json(&["topic", "show", topic])["messages"].as_i64().unwrap();
    let kept = server.run(&["dlq", "resend", "billing"]).refused();
    assert!(
        kept.starts_with(
            "this would send 3 dead letters of consumer group billing again to orders and others;"
        ),
        "{kept}"
    );
    assert!(kept.contains(NOTHING_DONE) && (count("orders"), count("others")) == (2, 1), "{kept}");
    let sent = server.run(&["dlq", "resend", "billing", "--topic", "orders", "--limit", "1", "--yes"]).ok();
    assert_eq!(sent, "1 dead letter of consumer group billing sent again: 1 to orders\n");
    assert_eq!((count("orders"), count("others")), (3, 1));
    let sent = server.json(&["dlq", "resend", "billing", "--yes"]);
    assert_eq!((&sent["resent"], &sent["topics"]), (&json!(3), &json!({ "orders": 2, "others": 1 })));
    let newest = server.json(&["message", "tail", "others", "--limit", "1"]);
    assert_eq!(
        (&newest["body"], &newest["tag"], &newest["keys"]),
        (&json!("three"), &json!("t"), &json!(["three"]))
    );
    assert_eq!(newest["properties"]["colour"], "red");
    assert_eq!(newest["properties"].get("DLQ_ORIGIN_TOPIC"), None);
    assert_eq!(newest["retries"], 0);
    let none = server.run(&["dlq", "resend", "billing", "--topic", "elsewhere", "--yes"]).ok();
    assert_eq!(none, "consumer group billing has no dead letters to send again\n");
}

#[test]
fn the_cluster_is_shown_with_its_totals() {
    let server = Server::start();
    server.run(&["topic", "create", "orders"]).ok();
    server.send("orders", "one", &[]);
    let cluster = server.json(&["cluster"]);
    assert_eq!((&cluster["topics"], &cluster["messagesIn"]), (&json!(1), &json!(1)));
    let broker = &cluster["brokers"][0];
    assert_eq!(
        (&broker["broker"], &broker["address"], &broker["version"]),
        (&json!("broker-a"), &json!(server.broker), &json!("5.3.1"))
    );
    let text = server.run(&["cluster"]).ok();
    assert!(text.starts_with(&format!("name server  {}\ntopics       1\n", server.names)), "{text}");
}

#[test]
fn the_server_is_named_by_flag_or_environment() {
    let server = Server::start();
    let list = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.env_remove("NAMESRV_ADDR").env_remove("REDSTART_NAMESRV").envs(variables.iter().copied());
        finish(command.args(["topic", "list"]).args(arguments), b"")
    };
    let nowhere = "127.0.0.1:1";
    list(&[("NAMESRV_ADDR", &server.names)], &[]).ok();
    list(&[("NAMESRV_ADDR", nowhere), ("REDSTART_NAMESRV", &server.names)], &[]).ok();
    list(&[("REDSTART_NAMESRV", nowhere)], &["--namesrv", &server.names]).ok();
    list(&[], &["-n", &format!("{nowhere};{}", server.names)]).ok();
    let why = list(&[("NAMESRV_ADDR", nowhere)], &[]).refused();
    assert_eq!(why, "no broker at 127.0.0.1:1 (connection refused); is it running? Try: redstart serve");
}

#[test]
fn output_has_a_form_and_times_a_zone() {
    let server = Server::start();
    server.run(&["topic", "create", "orders", "--queues", "1"]).ok();
    let id = server.send("orders", "one", &[]);
    let wide = server.run(&["topic", "list", "-o", "wide"]).ok();
    assert!(wide.contains("BROKERS   ATTRIBUTES\n"), "{wide}");
    let json = server.run(&["topic", "-o", "json", "list"]).json();
    assert_eq!(json, server.json(&["topic", "list"]));
    assert_eq!(server.run(&["topic", "list", "-o", "table", "--json"]).code, Some(2));
    let line = server.run(&["message", "tail", "orders", "--time", "relative"]).ok();
    assert!(line.contains(" ago broker-a/0@0 "), "{line}");
    let line = server.run(&["message", "tail", "orders", "-o", "wide", "--time", "utc"]).ok();
    assert!(line.contains("Z broker-a/0@0 ") && line.contains(" born="), "{line}");
    let mut command = server.command(&["message", "get", &id, "--time", "local"]);
    let text = finish(command.env("TZ", "Asia/Tokyo"), b"").ok();
    assert!(text.lines().any(|line| line.starts_with("stored") && line.contains("+09:00 at ")), "{text}");
}

#[test]
fn errors_are_json_where_the_output_is() {
    let server = Server::start();
    server.run(&["topic", "create", "orders"]).ok();
    let failed = |arguments: &[&str]| {
        let done = server.run(arguments);
        assert_eq!((done.out.as_str(), done.err.lines().count()), ("", 1), "{}", done.err);
        let error: serde_json::Value = serde_json::from_str(&done.err).unwrap();
        (done.code.unwrap(), error)
    };
    let (code, error) = failed(&["topic", "show", "ordres", "--json"]);
    let expected = json!({
        "code": "unknownTopic", "message": "there is no topic ordres", "hint": "did you mean orders?"
    });
    assert_eq!((code, error), (1, expected));
    let (code, error) = failed(&["topic", "delete", "orders", "-o", "json"]);
    assert_eq!((code, &error["code"]), (1, &json!("notConfirmed")));
    let (code, error) = failed(&["topic", "create", "t", "--type", "fast", "--json"]);
    assert_eq!((code, &error["code"]), (2, &json!("usage")));
    assert!(error["message"].as_str().unwrap().contains("'fast'"), "{error}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redstart"));
    let done = finish(command.args(["config", "--json", "--flush", "now"]), b"");
    let error: serde_json::Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!((done.code, &error["code"]), (Some(1), &json!("configuration")));
}

#[test]
fn an_unknown_command_suggests_the_right_one() {
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redstart"));
        let done = finish(command.args(words), b"");
        assert_eq!(done.code, Some(2), "{}", done.err);
        done.err
    };
    assert!(run(&["topci", "list"]).contains("'topic'"));
    assert!(run(&["topic", "lst"]).contains("'list'"));
    assert!(run(&["topic"]).contains("create"));
    assert!(run(&["acl"]).contains("grant"));
    let brokers = run(&["broker"]);
    assert!(brokers.contains("redstart mqadmin ") && brokers.contains("brokerStatus"), "{brokers}");
    assert!(!run(&["consumer"]).contains("'serve'"));
    let one = run(&["updateTopicPerm"]);
    assert!(one.contains("redstart mqadmin updateTopicPerm"), "{one}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_redstart"));
        let script = finish(command.args(["completions", shell]), b"").ok();
        assert!(["topic", "dlq", "resend"].iter().all(|word| script.contains(word)), "{shell}");
    }
}
