//! A broker in a process of its own, whose memory a test watches from outside. The process runs the test binary again, with only the
//! test that starts the broker.

use std::{
    future::Future,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdin, Command, Stdio},
};

/// Set in the child process.
const IS_CHILD: &str = "REDSTART_TEST_CHILD";

pub struct ChildProcess {
    child: Child,
    /// What the child has announced.
    pub announced: String,
    /// The child ends when this closes.
    _stdin: ChildStdin,
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl ChildProcess {
    /// Starts a process that runs `test`, which has to call [`run_child`].
    pub fn start(test: &str) -> ChildProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(IS_CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let announced =
            lines.map_while(Result::ok).find_map(|line| line.strip_prefix('@').map(str::to_owned));
        ChildProcess { child, announced: announced.unwrap(), _stdin: stdin }
    }

    /// Resident memory, in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }
}

/// In the child process: starts a broker, announces its addresses to the parent, and serves until the parent ends. In the parent it
/// does nothing.
pub fn run_child<B>(start: impl Future<Output = (String, B)>) {
    if std::env::var(IS_CHILD).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (announcement, broker) = runtime.block_on(start);
    println!("\n@{announcement}");
    // Returns when the parent closes its end.
    drop(std::io::stdin().read(&mut [0]));
    drop(broker);
    std::process::exit(0);
}
