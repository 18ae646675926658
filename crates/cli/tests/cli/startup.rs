//! A broker that cannot start says why and what to do, in one line.

use std::{
    fs,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Output},
};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::support::{Running, create_topic, output, serve};

const NOBODY: u32 = 65534;

/// On ports that are free.
fn serve_anywhere(data: &Path) -> Command {
    serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data)
}

/// The last line of a start that failed: what came before are lines of the log.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let of_start: Vec<&str> = said.lines().filter(|line| line.starts_with("redstart: ")).collect();
    assert_eq!(of_start.len(), 1, "{said}");
    assert_eq!(said.lines().last(), of_start.last().copied(), "{said}");
    of_start[0].to_owned()
}

fn assert_says(output: &Output, parts: &[&str]) {
    let line = refused(output);
    for part in parts {
        assert!(line.contains(part), "{part:?} is missing in: {line}");
    }
}

/// A directory that a broker was started in and has left, with something in its log.
fn used() -> TempDir {
    let data = TempDir::new().unwrap();
    let broker = Running::start(&mut serve_anywhere(data.path()));
    create_topic(broker.broker, "t");
    broker.stop();
    data
}

#[test]
fn a_port_that_is_taken_is_named_with_its_setting() {
    let data = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (flag, key, variable) in [
        ("--grpc-port", "grpc_port", "REDSTART_GRPC_PORT"),
        ("--namesrv-port", "namesrv_port", "REDSTART_NAMESRV_PORT"),
        ("--broker-port", "broker_port", "REDSTART_BROKER_PORT"),
        ("--http-port", "http_port", "REDSTART_HTTP_PORT"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.env_clear().arg("--data-dir").arg(data.path());
        for other in ["--grpc-port", "--namesrv-port", "--broker-port", "--http-port"] {
            command.args([other, if other == flag { &port } else { "0" }]);
        }
        let taken = format!("port {port} of 127.0.0.1 is in use");
        assert_says(&output(&mut command), &[&taken, flag, &format!("`{key}`"), variable]);
    }
}

#[test]
fn an_address_of_another_machine_is_named() {
    let data = TempDir::new().unwrap();
    // Set aside for documentation: no machine has it.
    let output = output(serve_anywhere(data.path()).args(["--listen", "203.0.113.7", "--insecure"]));
    assert_says(&output, &["203.0.113.7 is not an address of this machine", "0.0.0.0", "--listen"]);
}

#[test]
fn an_address_off_loopback_needs_users_or_a_word_that_there_are_none() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    for listen in ["0.0.0.0", "::", "203.0.113.7"] {
        let output = output(serve_anywhere(&data).args(["--listen", listen]));
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 2, "{said}");
        for part in [listen, "--auth", "REDSTART_AUTH", "--insecure", "REDSTART_INSECURE"] {
            assert!(said.contains(part), "{part:?} is missing in: {said}");
        }
        assert!(!data.exists(), "nothing is touched");
    }
    let log = Running::start(serve_anywhere(&data).args(["--listen", "0.0.0.0", "--insecure"])).stop();
    assert!(log.contains("insecure: every peer"), "{log}");
    let log = Running::start(serve_anywhere(&data).args(["--listen", "0.0.0.0", "--auth"])).stop();
    assert!(!log.contains("insecure: every peer"), "{log}");
}

/// Root may write everywhere, so the test then runs the broker as another user.
#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let home = TempDir::new().unwrap();
    let binary = home.path().join("redstart");
    fs::copy(env!("CARGO_BIN_EXE_redstart"), &binary).unwrap();
    let data = home.path().join("data");
    let unprivileged = |data: &Path| {
        let mut command = serve(&binary, data);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        output(&mut command)
    };
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(home.path(), 0o555);
    let refused = unprivileged(&data);
    mode(home.path(), 0o755);
    assert_says(&refused, &["no permission to write to", &data.display().to_string(), "--data-dir"]);

    Running::start(&mut serve_anywhere(&data)).stop();
    mode(&data, 0o755);
    for (path, closed) in [(data.join("shard-0/lock"), 0o444), (data.join("shard-0"), 0o555)] {
        mode(&path, closed);
    }
    let refused = unprivileged(&data);
    mode(&data.join("shard-0"), 0o755);
    assert_says(&refused, &["no permission to write to", "shard-0", "--data-dir"]);
}

#[test]
fn a_path_that_is_no_directory_is_named() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_says(&output(&mut serve_anywhere(&file)), &[&file.display().to_string(), "--data-dir"]);
}

#[test]
fn a_directory_in_use_is_named_with_its_user() {
    let data = TempDir::new().unwrap();
    let first = Running::start(&mut serve_anywhere(data.path()));
    let output = output(&mut serve_anywhere(data.path()));
    let holder = format!("in use by another process: process {}", first.child.id());
    assert_says(&output, &[&holder, &data.path().display().to_string(), "--data-dir"]);
    first.stop();
}

#[test]
fn data_of_a_newer_release_is_left_alone() {
    let data = used();
    let segment = data.path().join("shard-0/00000000000000000000.log");
    let mut bytes = fs::read(&segment).unwrap();
    // The version follows seven bytes of magic.
    bytes[7] = 9;
    fs::write(&segment, &bytes).unwrap();
    let output = output(&mut serve_anywhere(data.path()));
    let name = segment.display().to_string();
    assert_says(&output, &[&name, "newer release", "format 9", "--data-dir"]);
    assert_eq!(fs::read(&segment).unwrap(), bytes);
}

#[test]
fn damaged_data_leads_to_the_check() {
    let data = used();
    let segment = data.path().join("shard-0/00000000000000000000.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let check = format!("redstart check {}", data.path().display());
    assert_says(&output(&mut serve_anywhere(data.path())), &["header is damaged", &check]);
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let data = used();
    let (cert, key) = (data.path().join("tls.crt"), data.path().join("tls.key"));
    let other = used();
    let with = |cert: &Path, key: &Path| {
        let home = TempDir::new().unwrap();
        output(serve_anywhere(home.path()).arg("--tls-cert").arg(cert).arg("--tls-key").arg(key))
    };
    let absent = data.path().join("absent.pem");
    let named = absent.display().to_string();
    assert_says(&with(&absent, &key), &[&named, "No such file", "--tls-cert", "`tls_cert`"]);
    assert_says(&with(&cert, &absent), &[&named, "No such file", "--tls-key"]);
    let garbage = data.path().join("garbage.pem");
    fs::write(&garbage, "-----BEGIN NONSENSE").unwrap();
    assert_says(&with(&cert, &garbage), &[&garbage.display().to_string(), "--tls-key"]);
    assert_says(&with(&cert, &other.path().join("tls.key")), &["the certificate and its key", "--tls-cert"]);
}
