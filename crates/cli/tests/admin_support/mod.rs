//! A running server and the commands that are run against it, both the real binary.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use redstart_client::{Connection, admin::Admin};
use redstart_wire::remoting::{
    Command as Frame,
    body::{ConsumerData, Heartbeat, Subscription},
    code,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Another process may take a port after it is found free and before it is used.
const STARTS_MAX: usize = 10;

pub struct Server {
    child: Child,
    pub names: String,
    pub broker: String,
    runtime: Runtime,
    _data: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a command did.
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    /// It worked; what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "out: {}\nerr: {}", self.out, self.err);
        self.out
    }

    /// It worked, and printed JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// It failed, and said why on one line.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, Some(1), "out: {}\nerr: {}", self.out, self.err);
        assert_eq!(self.out, "");
        let why = self
            .err
            .strip_prefix("redstart: ")
            .unwrap_or_else(|| panic!("{}", self.err))
            .trim_end()
            .to_owned();
        assert!(!why.contains('\n'), "{why}");
        why
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.env_remove("NAMESRV_ADDR").env_remove("REDSTART_NAMESRV");
    command
}

impl Server {
    pub fn start() -> Server {
        (0..STARTS_MAX).find_map(|_| Server::try_start()).expect("a server starts")
    }

    fn try_start() -> Option<Server> {
        let data = TempDir::new().unwrap();
        let (names, broker) = (free_port(), free_port());
        let mut child = binary()
            .args(["serve", "--grpc-port", "0", "--http-port", "0"])
            .args(["--namesrv-port", &names.to_string(), "--broker-port", &broker.to_string(), "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains("Remoting"));
        let server = Server {
            child,
            names: format!("127.0.0.1:{names}"),
            broker: format!("127.0.0.1:{broker}"),
            runtime: Runtime::new().unwrap(),
            _data: data,
        };
        ready.then_some(server)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command.args(arguments).args(["-n", &self.names]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        self.run_with(arguments, b"")
    }

    /// Runs a command with something on its standard input, which is no terminal.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Done {
        finish(&mut self.command(arguments), input)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).json()
    }

    /// Sends a message; its id.
    pub fn send(&self, topic: &str, body: &str, more: &[&str]) -> String {
        let sent = self.json(&[&["message", "send", topic, "--body", body], more].concat());
        sent["id"].as_str().unwrap().to_owned()
    }

    pub fn with_admin<T>(&self, ask: impl AsyncFnOnce(&Admin) -> T) -> T {
        let admin = Admin::new(&self.names);
        self.runtime.block_on(ask(&admin))
    }

    /// A consumer of a group that is online as long as this is kept.
    pub fn consumer(&self, group: &str, topic: &str) -> Connection {
        self.runtime.block_on(async {
            let connection = Connection::open(&self.broker).await.unwrap();
            let wanted = Subscription {
                topic: topic.to_owned(),
                sub_string: "*".to_owned(),
                sub_version: 1,
                ..Subscription::default()
            };
            let consumer = ConsumerData {
                group_name: group.to_owned(),
                consume_type: Some("CONSUME_PASSIVELY".to_owned()),
                message_model: Some("CLUSTERING".to_owned()),
                consume_from_where: Some("CONSUME_FROM_FIRST_OFFSET".to_owned()),
                subscription_data_set: vec![wanted],
                unit_mode: false,
            };
            let beat = Heartbeat {
                client_id: "somewhere@1".to_owned(),
                consumer_data_set: vec![consumer],
                ..Heartbeat::default()
            };
            let mut frame = Frame::request(code::HEART_BEAT);
            frame.body = serde_json::to_vec(&beat).unwrap().into();
            assert_eq!(connection.call(frame, TIMEOUT).await.unwrap().code, code::SUCCESS);
            connection
        })
    }

    /// A consumer of the group gives a message up.
    pub fn give_up(&self, group: &str, offset_id: &str) {
        let (_, offset) = redstart_wire::remoting::read_offset_message_id(offset_id).unwrap();
        let frame = Frame::request(code::CONSUMER_SEND_MSG_BACK)
            .with_field("group", group)
            .with_field("offset", offset)
            .with_field("delayLevel", -1);
        self.with_admin(async |admin| admin.ask(&self.broker, frame).await.map(drop).unwrap());
    }
}

pub fn finish(command: &mut Command, input: &[u8]) -> Done {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that does not read its input may have ended already.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command that goes on; it ends with this.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    /// The next line it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// It has ended by itself; what it still printed.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
