//! A broker as a process, for the tests of the binary.

#![allow(dead_code, reason = "no test uses all of it")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// No start and no stop takes as long, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// `redstart serve` in `data`, on ports that are free, with no environment.
pub fn serve(binary: &Path, data: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().arg("serve");
    for port in ["--grpc-port", "--namesrv-port", "--broker-port", "--http-port"] {
        command.arg(format!("{port}=0"));
    }
    command.arg("--data-dir").arg(data);
    command
}

/// Runs a program that ends by itself; a broker that runs on instead has failed the test.
pub fn output(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        err.read_to_end(&mut said).map(|_| said)
    });
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            drop(child.kill());
            panic!("{command:?} runs on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let stderr = said.join().unwrap().unwrap();
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    Output { status, stdout, stderr }
}

/// A broker that has said that it is ready.
pub struct Running {
    pub child: Child,
    /// Where the broker listens for Remoting.
    pub broker: SocketAddr,
    /// What it said on stderr, when it has ended.
    log: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut said = String::new();
            err.read_to_string(&mut said).unwrap();
            said
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let broker = lines
            .find(|line| line.contains("broker (Remoting)"))
            .and_then(|line| line.split_whitespace().last()?.parse().ok());
        Running { child, broker: broker.expect("it says where it listens"), log: Some(log) }
    }

    /// Ends it as an operator does; returns what it logged.
    pub fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.log.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Makes a topic by a request of the 4.x protocol: length, header length, header as JSON.
pub fn create_topic(broker: SocketAddr, topic: &str) {
    let fields = format!(
        r#"{{"topic":"{topic}","readQueueNums":"4","writeQueueNums":"4","perm":"6","attributes":"+message.type=NORMAL"}}"#
    );
    ask(broker, 17, &fields);
}

pub fn delete_topic(broker: SocketAddr, topic: &str) {
    ask(broker, 215, &format!(r#"{{"topic":"{topic}"}}"#));
}

/// The settings in force under RocketMQ's names, `key=value` a line.
pub fn broker_config(broker: SocketAddr) -> String {
    ask(broker, 26, "{}")
}

/// Changes a setting at run time, as `mqadmin updateBrokerConfig` does.
pub fn update_broker_config(broker: SocketAddr, line: &str) {
    ask_with(broker, 25, "{}", line);
}

/// Sends a heartbeat.
pub fn heartbeat(broker: SocketAddr, body: &str) {
    ask_with(broker, 34, "{}", body);
}

/// Asks, and returns the body of the answer.
fn ask(broker: SocketAddr, code: u32, fields: &str) -> String {
    ask_with(broker, code, fields, "")
}

fn ask_with(broker: SocketAddr, code: u32, fields: &str, body: &str) -> String {
    let header = format!(
        r#"{{"code":{code},"language":"JAVA","version":475,"opaque":1,"flag":0,"extFields":{fields}}}"#
    );
    let mut stream = TcpStream::connect(broker).unwrap();
    let mut frame = ((header.len() + body.len() + 4) as u32).to_be_bytes().to_vec();
    frame.extend((header.len() as u32).to_be_bytes());
    frame.extend(header.as_bytes());
    frame.extend(body.as_bytes());
    stream.write_all(&frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    // The first byte of the header's length says how the header is written.
    let header = u32::from_be_bytes([0, answer[1], answer[2], answer[3]]) as usize;
    String::from_utf8(answer.split_off(4 + header)).unwrap()
}
