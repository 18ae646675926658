//! Secrets of users are sealed where they are stored, and shown nowhere.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::support::{Running, output, serve};

const ADMIN_SECRET: &str = "secret-of-the-administrator";
const APP_SECRET: &str = "secret-of-the-application";

fn broker(data: &Path) -> Command {
    let mut command = serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data);
    command.env("REDSTART_AUTH", "true").env("REDSTART_ADMIN_SECRET", ADMIN_SECRET).env("RUST_LOG", "trace");
    command
}

fn mqadmin(broker: &Running, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.env_clear().env("REDSTART_ACCESS_KEY", "admin").env("REDSTART_SECRET_KEY", ADMIN_SECRET);
    let words = words.replace("BROKER", &broker.broker.to_string());
    output(command.arg("mqadmin").args(words.split(' ')))
}

/// The list of users, asked for by the administrator: it has authenticated if it is answered.
fn users(broker: &Running) -> String {
    let listed = mqadmin(broker, "listUser -b BROKER");
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout).unwrap()
}

fn make_app(broker: &Running) {
    let made = mqadmin(broker, &format!("createUser -b BROKER -u app -p {APP_SECRET}"));
    assert!(made.status.success(), "{made:?}");
}

fn refused(command: &mut Command) -> String {
    let output = output(command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap().to_owned()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

fn has_secret(bytes: &[u8]) -> bool {
    let has = |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    has(ADMIN_SECRET) || has(APP_SECRET)
}

#[test]
fn no_file_no_log_line_and_no_report_has_a_secret() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let first = Running::start(&mut broker(&data));
    make_app(&first);
    let changed = mqadmin(&first, "updateUser -b BROKER -u app -s disable");
    assert!(changed.status.success(), "{changed:?}");
    let listed = users(&first);
    assert!(listed.contains("app") && !has_secret(listed.as_bytes()), "{listed}");
    let log = first.stop();
    assert!(log.contains("a user was created") && !has_secret(log.as_bytes()), "the log has a secret");
    let files = files(&data);
    assert!(files.iter().any(|file| file.ends_with("secrets.key")));
    for file in &files {
        assert!(!has_secret(&fs::read(file).unwrap()), "{} has a secret", file.display());
        let mode = fs::metadata(file).unwrap().permissions().mode() & 0o777;
        let is_public = file.ends_with("tls.crt") || file.ends_with("names.json");
        assert!(is_public || mode == 0o600, "{} has mode {mode:o}", file.display());
    }
    for dir in [&data, &data.join("shard-0")] {
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
    }
    let check = output(Command::new(env!("CARGO_BIN_EXE_redstart")).env_clear().arg("check").arg(&data));
    assert!(check.status.success() && !has_secret(&check.stdout) && !has_secret(&check.stderr));
    let again = Running::start(&mut broker(&data));
    assert!(users(&again).contains("app"));
}

#[test]
fn without_its_key_the_broker_does_not_start_and_no_user_is_lost() {
    let home = TempDir::new().unwrap();
    let (data, aside) = (home.path().join("data"), home.path().join("aside"));
    let first = Running::start(&mut broker(&data));
    make_app(&first);
    first.stop();
    let key = data.join("secrets.key");
    fs::rename(&key, &aside).unwrap();
    let said = refused(&mut broker(&data));
    assert!(said.contains("secrets.key") && said.contains("REDSTART_SECRETS_KEY"), "{said}");
    assert!(!key.exists(), "no other key takes its place");
    fs::write(&key, format!("{}\n", other_key())).unwrap();
    let said = refused(&mut broker(&data));
    assert!(said.contains("admin") && said.contains("app"), "{said}");
    assert!(!said.contains(&other_key()), "{said}");
    fs::write(&key, "half a k").unwrap();
    assert!(refused(&mut broker(&data)).contains("secrets.key"));
    // From a variable and from a file outside.
    fs::remove_file(&key).unwrap();
    let text = fs::read_to_string(&aside).unwrap();
    let again = Running::start(broker(&data).env("REDSTART_SECRETS_KEY", text.trim()));
    assert!(users(&again).contains("app"));
    again.stop();
    let again = Running::start(broker(&data).arg("--secrets-key-file").arg(&aside));
    assert!(users(&again).contains("app"));
    again.stop();
    assert!(!key.exists(), "a key that is given is not copied into the data");
    assert!(refused(broker(&data).args(["--secrets-key-file", "/no/such/file"])).contains("/no/such/file"));
}

/// The base64 of 32 bytes.
fn other_key() -> String {
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()
}

#[test]
fn a_key_is_rotated_by_a_new_one_on_top() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let first = Running::start(&mut broker(&data));
    make_app(&first);
    first.stop();
    let key = data.join("secrets.key");
    let old = fs::read_to_string(&key).unwrap();
    fs::write(&key, format!("{}\n{old}", other_key())).unwrap();
    let log = Running::start(&mut broker(&data)).stop();
    assert!(log.contains("secrets were sealed with the current key"), "{log}");
    fs::write(&key, other_key()).unwrap();
    let again = Running::start(&mut broker(&data));
    assert!(users(&again).contains("app"), "the old key is not needed any more");
}

/// `redstart secrets rotate` for the broker of `data`.
fn rotate(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.env_clear().args(["secrets", "rotate", "--data-dir"]).arg(data);
    command
}

fn keys(data: &Path) -> usize {
    fs::read_to_string(data.join("secrets.key")).unwrap().lines().count()
}

#[test]
fn a_command_rotates_the_key_of_a_stopped_broker() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let said = refused(&mut rotate(&data));
    assert!(said.contains("no key to rotate") && !data.exists(), "{said}");
    let first = Running::start(&mut broker(&data));
    make_app(&first);
    let old = fs::read_to_string(data.join("secrets.key")).unwrap();
    let said = refused(&mut rotate(&data));
    assert!(said.contains("in use"), "{said}");
    assert_eq!(fs::read_to_string(data.join("secrets.key")).unwrap(), old, "a running broker keeps its key");
    first.stop();
    let said = refused(rotate(&data).env("REDSTART_SECRETS_KEY", other_key()));
    assert!(said.contains("REDSTART_SECRETS_KEY"), "{said}");

    let done = output(&mut rotate(&data));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && said.contains("2 secrets were sealed with the new key"), "{said}");
    assert_eq!(keys(&data), 2);
    let done = output(rotate(&data).arg("--drop-older"));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && said.contains("the older keys were removed"), "{said}");
    let key = fs::read_to_string(data.join("secrets.key")).unwrap();
    assert!(key.lines().count() == 1 && key != old && !said.contains(key.trim()), "{said}");
    assert_eq!(fs::metadata(data.join("secrets.key")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(users(&Running::start(&mut broker(&data))).contains("app"));

    // Of the keys in a file outside, the same.
    let outside = home.path().join("keys");
    fs::rename(data.join("secrets.key"), &outside).unwrap();
    let done = output(rotate(&data).arg("--secrets-key-file").arg(&outside));
    assert!(done.status.success() && !data.join("secrets.key").exists(), "{done:?}");
    let again = Running::start(broker(&data).arg("--secrets-key-file").arg(&outside));
    assert!(users(&again).contains("app"));
}

#[test]
fn a_rotation_that_cannot_open_a_secret_changes_nothing() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    Running::start(&mut broker(&data)).stop();
    let key = data.join("secrets.key");
    fs::write(&key, format!("{}\n", other_key())).unwrap();
    let said = refused(&mut rotate(&data));
    assert!(said.contains("admin") && !said.contains(&other_key()), "{said}");
    assert_eq!(fs::read_to_string(&key).unwrap().trim(), other_key());
}

#[test]
fn a_rotation_that_is_killed_leaves_keys_that_open_every_secret() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let first = Running::start(&mut broker(&data));
    for user in 0..12 {
        let made = mqadmin(&first, &format!("createUser -b BROKER -u app{user} -p {APP_SECRET}"));
        assert!(made.status.success(), "{made:?}");
    }
    first.stop();
    let mut interrupted = 0;
    for round in 0..6 {
        let before = keys(&data);
        let mut command = rotate(&data);
        // Every other one also removes keys.
        if round % 2 == 1 {
            command.arg("--drop-older");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while keys(&data) == before && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "it gets no key");
        }
        // From the moment when the file has changed to one when all secrets are sealed.
        std::thread::sleep(Duration::from_millis(4 * round));
        child.kill().unwrap();
        interrupted += usize::from(!child.wait().unwrap().success());
        // With `auth` a broker starts only if it can open every secret.
        let again = Running::start(&mut broker(&data));
        assert!(users(&again).contains("app11"));
        again.stop();
    }
    assert!(interrupted > 0, "no rotation was killed before its end");
    let done = output(rotate(&data).arg("--drop-older"));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(keys(&data), 1);
    assert!(users(&Running::start(&mut broker(&data))).contains("app11"));
}

#[test]
fn an_operator_who_has_lost_the_key_gives_users_other_secrets() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    Running::start(&mut broker(&data)).stop();
    fs::remove_file(data.join("secrets.key")).unwrap();
    let open = Running::start(broker(&data).env("REDSTART_AUTH", "false"));
    let changed = mqadmin(&open, &format!("updateUser -b BROKER -u admin -p {ADMIN_SECRET}"));
    assert!(changed.status.success(), "{changed:?}");
    let log = open.stop();
    assert!(log.contains("cannot be opened"), "{log}");
    assert!(users(&Running::start(&mut broker(&data))).contains("admin"));
}
