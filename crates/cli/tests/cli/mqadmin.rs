//! `redstart mqadmin` as operators and their scripts meet it: the real binary against the real server.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_redstart");

struct Server {
    child: Child,
    names: String,
    /// What commands leave behind goes here.
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    fn start() -> Server {
        let folder = TempDir::new().unwrap();
        // A port that was free a moment ago may be taken meanwhile: then there is another one.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = Command::new(BINARY)
                .args([
                    "--http-port",
                    "0",
                    "--grpc-port",
                    "0",
                    "--broker-port",
                    "0",
                    "--namesrv-port",
                    &port.to_string(),
                    "--data-dir",
                ])
                .arg(folder.path().join("data"))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            if lines.into_iter().any(|line| line.contains("is ready")) {
                return Server { child, names: format!("127.0.0.1:{port}"), folder };
            }
            child.wait().unwrap();
        }
        panic!("no free port");
    }

    /// Runs a command to its end: whether it succeeded, what it printed, and what it said on the side.
    fn run(&self, line: &str) -> (bool, String, String) {
        let words = line.split(' ').chain(["-n", &self.names]);
        run(Command::new(BINARY).arg("mqadmin").args(words).current_dir(self.folder.path()))
    }

    fn good(&self, line: &str) -> String {
        let (good, out, err) = self.run(line);
        assert!(good, "{line}: {err}");
        assert_eq!(err, "", "{line}");
        out
    }

    /// A command that fails says why, in one line.
    fn bad(&self, line: &str) -> String {
        let (good, out, err) = self.run(line);
        assert!(!good, "{line} succeeded: {out}");
        assert_eq!(err.lines().count(), 1, "{line}: {err}");
        err
    }

    /// The words of each row of a table, without its head.
    fn rows(&self, line: &str) -> Vec<Vec<String>> {
        let rows = self.good(line);
        let rows = rows.lines().filter(|row| !row.is_empty() && !row.starts_with('#'));
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
    }

    fn broker(&self) -> String {
        self.rows("clusterList")[0][3].clone()
    }
}

fn run(command: &mut Command) -> (bool, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// The value behind a name at the beginning of a line.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}

#[test]
fn topics_are_made_shown_and_deleted() {
    let server = Server::start();
    let broker = server.broker();
    // As in RocketMQ's documentation.
    let made = server.good("updateTopic -t FIFOTopic -c DefaultCluster -o true -a +message.type=FIFO");
    let lines: Vec<&str> = made.lines().collect();
    assert_eq!(lines[0], format!("create topic to {broker} success."));
    assert_eq!(lines[1], "set cluster orderConf. isOrder=true, orderConf=[broker-a:8]");
    assert_eq!(
        lines[2],
        "TopicConfig [topicName=FIFOTopic, readQueueNums=8, writeQueueNums=8, perm=RW-, topicFilterType=SINGLE_TAG, \
         topicSysFlag=0, order=true, attributes={+message.type=FIFO}]"
    );
    server.good(&format!("updateTopic -b {broker} -t demo -r 4 -w 4"));
    assert!(server.good("topicList").lines().any(|topic| topic == "demo"));
    let listed = server.rows("topicList -c");
    assert!(listed.iter().any(|row| row == &["DefaultCluster", "demo"]), "{listed:?}");
    let route: serde_json::Value = serde_json::from_str(&server.good("topicRoute -t demo")).unwrap();
    assert_eq!(route["queueDatas"][0]["readQueueNums"], 4);
    assert_eq!(route["brokerDatas"][0]["brokerAddrs"]["0"], broker);
    assert!(server.good("topicRoute -t demo -l").contains("Total:"));
    assert_eq!(server.rows("topicStatus -t demo")[..4].len(), 4);
    assert_eq!(server.good("topicClusterList -t demo"), "DefaultCluster\n");

    let perm = server.good(&format!("updateTopicPerm -b {broker} -t demo -p 4"));
    assert!(perm.starts_with(&format!("update topic perm from 6 to 4 in {broker} success.")), "{perm}");
    assert!(server.bad("sendMessage -t demo -p x").contains("demo"));
    assert!(server.good("updateTopicPerm -c DefaultCluster -t demo -p 6").contains("from 4 to 6"));

    let share: serde_json::Value =
        serde_json::from_str(&server.good("allocateMQ -t demo -i 10.0.0.1,10.0.0.2,10.0.0.3")).unwrap();
    assert_eq!(share["result"]["10.0.0.1"].as_array().unwrap().len(), 2);
    server.good("updateOrderConf -t demo -m put -v broker-a:4");
    let read = server.good("updateOrderConf -t demo -m get");
    assert_eq!(read, "get orderConf success. topic=[demo], orderConf=[broker-a:4] \n");
    server.good("updateOrderConf -t demo -m delete");
    server.bad("updateOrderConf -t demo -m get");

    let file = server.folder.path().join("topics.json");
    fs::write(
        &file,
        r#"[{"topicName":"la","readQueueNums":2,"writeQueueNums":2,"perm":6},{"topicName":"lb"}]"#,
    )
    .unwrap();
    server.good(&format!("updateTopicList -b {broker} -f {}", file.display()));
    assert_eq!(server.rows("topicStatus -t la").len(), 2 + 1, "two queues and the rate");

    let gone = server.good("deleteTopic -t demo -c DefaultCluster");
    let gone: Vec<&str> = gone.lines().collect();
    assert_eq!(gone[0], "delete topic [demo] from cluster [DefaultCluster] success.");
    assert_eq!(gone[1], "delete topic [demo] from NameServer success.");
    assert!(server.bad("topicRoute -t demo").contains("CODE: 17"));
}

#[test]
fn messages_are_sent_found_and_read() {
    let server = Server::start();
    let broker = server.broker();
    server.good(&format!("updateTopic -b {broker} -t demo -r 1 -w 1"));
    let sent = server.rows("sendMessage -t demo -p a-body -k a-key -c a-tag -b broker-a -i 0");
    let [name, queue, result, id] = sent[0].as_slice() else { panic!("{sent:?}") };
    assert_eq!((name.as_str(), queue.as_str(), result.as_str()), ("broker-a", "0", "SEND_OK"));

    let by_key = server.rows("queryMsgByKey -t demo -k a-key");
    assert_eq!(by_key[0][..3], [id.as_str(), "0", "0"]);
    assert!(by_key[0][3].contains(&format!("@demo@K@a-key@{id}@")), "{by_key:?}");
    let detail = server.good(&format!("queryMsgByUniqueKey -t demo -i {id}"));
    for (name, value) in
        [("Topic:", "demo"), ("Tags:", "[a-tag]"), ("Keys:", "[a-key]"), ("Queue Offset:", "0")]
    {
        assert_eq!(field(&detail, name), value);
    }
    assert_eq!(fs::read_to_string(field(&detail, "Message Body Path:")).unwrap(), "a-body");
    assert!(detail.contains("WARN: No Consumer"));
    let by_offset = server.good("queryMsgByOffset -t demo -b broker-a -i 0 -o 0 -f UTF-8");
    assert_eq!(field(&by_offset, "Message Body:"), "a-body");
    let offset_id = field(&by_offset, "OffsetID:");
    for either in [offset_id, id] {
        let found = server.good(&format!("queryMsgById -t demo -i {either}"));
        assert_eq!(field(&found, "OffsetID:"), offset_id);
    }
    assert!(server.bad("queryMsgByKey -t demo -k other").contains("CODE: 208"));

    let printed = server.good("printMsg -t demo");
    assert!(printed.starts_with(
        "minOffset=0, maxOffset=1, MessageQueue [topic=demo, brokerName=broker-a, queueId=0]\n"
    ));
    assert!(
        printed.contains(&format!("MSGID: {id} MessageExt [brokerName=broker-a, queueId=0, ")),
        "{printed}"
    );
    assert!(printed.contains("BODY: a-body"));
    assert!(!server.good("printMsg -t demo -s other").contains("a-body"));
    assert!(server.good("printMsgByQueue -t demo -a broker-a -i 0 -f true").starts_with("Tag: a-tag"));
    assert!(server.good("consumeMessage -t demo").contains("BODY: a-body"));
    assert!(
        server.good("consumeMessage -t demo -b broker-a -i 0 -o 0 -c 1").starts_with("Consume ok\nMSGID: ")
    );
    let entries = server.good("queryCq -t demo -q 0 -i 0");
    assert!(
        entries.contains("max: 1, min: 0") && entries.contains("ConsumeQueueData{physicOffset="),
        "{entries}"
    );

    let traced = server.rows("sendMessage -t demo -p traced -m true")[0][3].clone();
    let trace = server.good(&format!("queryMsgTraceById -i {traced}"));
    assert!(trace.contains("Pub ") && trace.contains("success"), "{trace}");
    assert_eq!(server.good("sendMsgStatus -b broker-a -c 2").matches("sendStatus=SEND_OK").count(), 2);
    assert!(server.good("checkMsgSendRT -t demo -a 3").contains("Avg RT: "));
    let resent = server.good(&format!("queryMsgById -t demo -i {offset_id} -s true"));
    assert!(resent.contains("prepare resend msg.") && resent.contains("sendStatus=SEND_OK"), "{resent}");
    let all = server.good(&format!("queryMsgByUniqueKey -t demo -i {id} -a"));
    assert_eq!(all.matches("Message Body Path:").count(), 2, "{all}");
}

#[test]
fn groups_are_made_moved_and_deleted() {
    let server = Server::start();
    let broker = server.broker();
    server.good(&format!("updateTopic -b {broker} -t demo -r 2 -w 2"));
    for n in 0..3 {
        server.good(&format!("sendMessage -t demo -p {n} -b broker-a -i 0"));
    }
    let made = server.good(&format!("updateSubGroup -b {broker} -g shop -r 5 -o true"));
    assert!(made.starts_with(&format!("create subscription group to {broker} success.\n")));
    assert!(made.contains(
        "SubscriptionGroupConfig{groupName=shop, consumeEnable=true, consumeFromMinEnable=false, "
    ));
    let config = server.good("getConsumerConfig -g shop");
    assert_eq!(field(&config, "retryMaxTimes"), "=  5");
    assert_eq!(field(&config, "consumeMessageOrderly"), "=  true");
    assert!(
        config
            .starts_with("=============================DefaultCluster:broker-a=============================")
    );

    let skipped = server.good("skipAccumulatedMessage -g shop -t demo");
    let row = ["broker-a", "0", "3"].map(str::to_owned).to_vec();
    assert!(skipped.contains("#brokerName") && skipped.contains("3"), "{skipped}");
    let moved = server.rows("resetOffsetByTime -g shop -t demo -s now");
    assert!(moved.iter().any(|moved| moved == &row), "{moved:?}");
    let progress = server.good("consumerProgress -g shop -t demo");
    assert!(progress.contains("Consume Diff Total: 0"), "{progress}");
    server.good("resetOffsetByTime -g shop -t demo -s 1700000000000");
    assert!(server.good("consumerProgress -g shop -t demo").contains("Consume Diff Total: 3"));
    assert!(server.rows("consumerProgress").iter().any(|row| row[0] == "shop" && row[2] == "OFFLINE"));
    assert!(
        server.good("cloneGroupOffset -s shop -d other -t demo").starts_with("clone group offset success.")
    );
    assert!(server.good(&format!("brokerConsumeStats -b {broker}")).contains("Diff Total: "));
    assert!(server.good("statsAll -t demo").contains("shop"));
    let mode = server.good(&format!("setConsumeMode -b {broker} -t demo -g shop -m POP -q 2"));
    assert!(mode.ends_with("topic[demo] group[shop] consume mode[POP] popShareQueueNum[2]\n"), "{mode}");
    assert!(server.bad("consumerConnection -g shop").contains("shop"));
    assert!(server.bad("consumerStatus -g nobody").contains("nobody"));

    let file = server.folder.path().join("groups.json");
    fs::write(&file, r#"[{"groupName":"ga","retryMaxTimes":3}]"#).unwrap();
    server.good(&format!("updateSubGroupList -b {broker} -f {}", file.display()));
    assert_eq!(field(&server.good("getConsumerConfig -g ga"), "retryMaxTimes"), "=  3");
    let gone = server.good(&format!("deleteSubGroup -b {broker} -g ga"));
    assert_eq!(gone, format!("delete subscription group [ga] from broker [{broker}] success.\n"));
    assert_eq!(server.good("getConsumerConfig -g ga"), "");
}

#[test]
fn brokers_names_users_and_exports() {
    let server = Server::start();
    let broker = server.broker();
    let status = server.good(&format!("brokerStatus -b {broker}"));
    assert!(status.lines().any(|line| line.starts_with("brokerVersionDesc               : V5_")), "{status}");
    assert!(server.good("brokerStatus -c DefaultCluster").starts_with(&broker));
    assert_eq!(server.rows("clusterList -m")[0][..2], ["DefaultCluster", "broker-a"]);
    assert!(server.good(&format!("haStatus -b {broker}")).contains("#SlaveNum\t0"));
    server.good(&format!("updateBrokerConfig -b {broker} -k autoCreateTopicEnable -v true"));
    let config = server.good(&format!("getBrokerConfig -b {broker}"));
    assert_eq!(field(&config, "autoCreateTopicEnable"), "=  true");
    assert!(server.bad(&format!("updateBrokerConfig -b {broker} -k noSuchKey -v 1")).contains("noSuchKey"));
    server.good("updateNamesrvConfig -k orderMessageEnable -v true");
    assert_eq!(field(&server.good("getNamesrvConfig"), "orderMessageEnable"), "=  true");
    assert_eq!(
        server.good("updateKvConfig -s NS -k a -v b"),
        "create or update kv config to namespace success.\n"
    );
    assert_eq!(server.good("deleteKvConfig -s NS -k a"), "delete kv config from namespace success.\n");
    assert!(server.good("wipeWritePerm -b broker-a").contains(" OK, "));
    assert!(server.good("addWritePerm -b broker-a").contains(" OK, "));
    for clean in ["cleanExpiredCQ", "cleanUnusedTopic -c DefaultCluster", "deleteExpiredCommitLog"] {
        assert_eq!(server.good(clean), "success\n", "{clean}");
    }

    server.good(&format!("createUser -b {broker} -u alice -p secret12 -t Normal"));
    assert!(server.bad(&format!("createUser -b {broker} -u alice -p secret12")).contains("alice"));
    assert_eq!(
        server.rows(&format!("getUser -b {broker} -u alice"))[0],
        ["alice", "******", "Normal", "enable"]
    );
    server.good(&format!("updateUser -b {broker} -u alice -s disable"));
    assert_eq!(server.rows("listUser -c DefaultCluster")[0][3], "disable");
    server.good(&format!(
        "createAcl -b {broker} -s User:alice -r Topic:demo -a Pub,Sub -i 10.0.0.0/8 -d Allow"
    ));
    let rights = server.good(&format!("getAcl -b {broker} -s User:alice"));
    assert!(
        rights.contains("Topic:demo              [Pub, Sub]            [10.0.0.0/8]              Allow"),
        "{rights}"
    );
    assert!(server.good(&format!("copyAcl -f {broker} -t {broker}")).contains("copy acl of User:alice"));
    server.good(&format!("deleteAcl -b {broker} -s User:alice"));
    assert_eq!(server.good(&format!("listAcl -b {broker}")), "");
    server.good(&format!("deleteUser -b {broker} -u alice"));
    assert_eq!(server.good(&format!("listUser -b {broker}")), "");

    let folder = server.folder.path().join("export");
    let exported = |command: &str, file: &str| -> serde_json::Value {
        let told = server.good(&format!("{command} -f {}", folder.display()));
        assert_eq!(told, format!("export {}/{file} success\n", folder.display()));
        serde_json::from_str(&fs::read_to_string(folder.join(file)).unwrap()).unwrap()
    };
    server.good(&format!("updateTopic -b {broker} -t demo -r 3 -w 3"));
    let metadata = exported("exportMetadata -c DefaultCluster", "metadata.json");
    assert_eq!(metadata["topicConfigTable"]["demo"]["writeQueueNums"], 3);
    let configs = exported("exportConfigs -c DefaultCluster", "configs.json");
    assert_eq!(configs["brokerConfigs"]["broker-a"]["brokerName"], "broker-a");
    let metrics = exported("exportMetrics -c DefaultCluster", "metrics.json");
    assert_eq!(metrics["evaluateReport"]["broker-a"]["runtimeQuota"]["topicSize"], 1);
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let server = Server::start();
    let broker = server.broker();
    for (line, told) in [
        ("getBrokerEpoch -b broker-a".to_owned(), "epochs"),
        (format!("getControllerMetaData -a {}", server.names), "controller"),
        (format!("resetMasterFlushOffset -b {broker} -o 0"), "CODE: 3"),
        (format!("addBroker -c {broker} -b /no/such/file"), "CODE: 3"),
        (format!("exportPopRecord -b {broker}"), "CODE: 3"),
        ("updateStaticTopic -t st -qn 4 -c DefaultCluster".to_owned(), "static topics"),
        (format!("getBrokerLiteInfo -b {broker}"), "CODE: 3"),
        ("dumpCompactionLog -f x".to_owned(), "Apache"),
        (
            "updateTopic -c NoSuchCluster -t x".to_owned(),
            "there is no cluster NoSuchCluster; there is only DefaultCluster",
        ),
        ("updateTopic -c DefaultCluster -t x -r many".to_owned(), "the option -r needs a number"),
        ("updateTopic -c DefaultCluster -t x -a message.type=FIFO".to_owned(), "+key=value"),
        ("topicStatus -t no-such".to_owned(), "CODE: 17"),
        ("deleteTopic -t x -c NoSuchCluster".to_owned(), "NoSuchCluster"),
    ] {
        let said = server.bad(&line);
        assert!(said.contains(told), "{line}: {said}");
    }
    // Several name servers: the first that answers counts.
    let words = ["mqadmin", "topicList", "-n", &format!("127.0.0.1:1;{}", server.names)];
    let (good, _, err) = run(Command::new(BINARY).args(words));
    assert!(good, "{err}");
    let (good, _, err) =
        run(Command::new(BINARY).args(["mqadmin", "topicList"]).env("NAMESRV_ADDR", &server.names));
    assert!(good, "{err}");
}

#[test]
fn a_link_named_mqadmin_is_mqadmin_and_help_needs_no_server() {
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("mqadmin");
    std::os::unix::fs::symlink(Path::new(BINARY), &link).unwrap();
    let (good, out, _) = run(&mut Command::new(&link));
    assert!(good && out.starts_with("The most commonly used mqadmin commands are:\n"), "{out}");
    assert!(out.contains("\n   updateTopic                         "));
    let (good, out, _) = run(Command::new(&link).args(["help", "updateTopic"]));
    assert!(good, "{out}");
    assert!(
        out.starts_with(
            "usage: mqadmin updateTopic [-a <arg>] -b <arg> | -c <arg>  [-h] [-n <arg>] [-o <arg>]"
        ),
        "{out}"
    );
    let (good, same, _) = run(Command::new(&link).args(["updateTopic", "-h"]));
    assert!(good && same == out);
    let (good, _, err) = run(Command::new(&link).args(["updatTopic", "-t", "x"]));
    assert!(!good && err == "The sub command updatTopic not exist. Did you mean updateTopic?\n", "{err}");
    let (good, _, err) = run(Command::new(&link).args(["updateTopic", "-t", "x"]));
    assert!(!good && err.starts_with("mqadmin updateTopic: Missing required option: -b or -c\n"), "{err}");
    // Nothing listens on port 1.
    let (good, _, err) = run(Command::new(&link).args(["topicList", "-n", "127.0.0.1:1"]));
    assert!(!good && err.contains("no name server at 127.0.0.1:1") && err.lines().count() == 1, "{err}");
}
