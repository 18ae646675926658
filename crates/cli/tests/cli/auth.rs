//! A broker that asks who its callers are, and commands that say so.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use base64::Engine as _;
use tempfile::TempDir;

use crate::support;

struct Broker {
    child: Child,
    /// What it said until it was ready.
    said: Vec<String>,
}

impl Broker {
    fn start(data: &Path, more: &[&str]) -> Broker {
        Broker::start_with(data, more, &[])
    }

    fn start_with(data: &Path, more: &[&str], variables: &[(&str, &str)]) -> Broker {
        let mut command = support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data);
        command.envs(variables.iter().copied());
        command.arg("--auth=true").args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.contains("try: redstart")) {
            said.push(lines.next().expect("it says that it is ready"));
        }
        Broker { child, said }
    }

    fn at(&self, what: &str) -> String {
        let line = self.said.iter().find(|line| line.contains(what)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    fn secret(&self) -> Option<String> {
        let line = self.said.iter().find(|line| line.starts_with("administrator:"))?;
        Some(line.split("secret ").nth(1)?.split(' ').next()?.to_owned())
    }

    /// Runs a command against it as this user.
    fn run(&self, words: &[&str], credentials: Option<(&str, &str)>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.env_clear().env("REDSTART_NAMESRV", self.at("mqadmin (Remoting)"));
        command.env("NAMESRV_ADDR", self.at("mqadmin (Remoting)")).args(words);
        if let Some((user, secret)) = credentials {
            command.env("REDSTART_ACCESS_KEY", user).env("REDSTART_SECRET_KEY", secret);
        }
        support::output(&mut command)
    }
}

/// The status line of a page.
fn page(url: &str, path: &str, credentials: Option<&str>) -> String {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let authorization = credentials.map(|given| {
        format!("Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(given))
    });
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\n{}Connection: close\r\n\r\n",
        authorization.unwrap_or_default()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn the_first_start_makes_an_administrator_and_shows_its_secret_once() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(data.path(), &[]);
    let secret = broker.secret().unwrap();
    assert!(secret.len() >= 32, "{secret}");
    let refused = broker.run(&["topic", "create", "orders"], None);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("not signed"), "{said}");
    let wrong = broker.run(&["topic", "create", "orders"], Some(("admin", "wrong")));
    assert!(!wrong.status.success());
    let made = broker.run(&["topic", "create", "orders"], Some(("admin", &secret)));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let url = broker.at("operators (HTTP)");
    let admin = format!("admin:{secret}");
    assert_eq!(page(&url, "/metrics", None), "HTTP/1.1 401 Unauthorized");
    assert_eq!(page(&url, "/metrics", Some("admin:wrong")), "HTTP/1.1 401 Unauthorized");
    assert_eq!(page(&url, "/metrics", Some(&admin)), "HTTP/1.1 200 OK");
    assert_eq!(page(&url, "/healthz", None), "HTTP/1.1 200 OK", "a health check has no user");
    // Written by a thread of its own.
    let audit = || fs::read_to_string(data.path().join("audit.log")).unwrap();
    let started = std::time::Instant::now();
    while audit().lines().count() < 5 && started.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let audit = audit();
    for part in
        ["UPDATE_AND_CREATE_TOPIC", "Topic:orders", "\"http\"", "/metrics", "\"done\"", "\"unauthenticated\""]
    {
        assert!(audit.contains(part), "{part:?} is missing in: {audit}");
    }
    assert!(!audit.contains(&secret), "{audit}");
    drop(broker);
    let again = Broker::start(data.path(), &[]);
    assert_eq!(again.secret(), None, "it is not shown again");
    let listed = again.run(&["topic", "list"], Some(("admin", &secret)));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("orders"), "{listed:?}");
}

#[test]
fn the_administrators_secret_comes_from_a_file_and_mqadmin_finds_its_own_in_tools_yml() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("secret");
    fs::write(&file, "secret-of-a-file\n").unwrap();
    let broker = Broker::start(&data.path().join("data"), &["--admin-secret-file", file.to_str().unwrap()]);
    assert_eq!(broker.secret(), None, "it is known already");
    fs::create_dir(data.path().join("conf")).unwrap();
    fs::write(data.path().join("conf/tools.yml"), "accessKey: admin\nsecretKey: secret-of-a-file\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command
        .env_clear()
        .env("ROCKETMQ_HOME", data.path())
        .env("NAMESRV_ADDR", broker.at("mqadmin (Remoting)"));
    let listed =
        support::output(command.args(["mqadmin", "listUser", "-b", &broker.at("broker (Remoting)")]));
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("admin") && !text.contains("secret-of-a-file"), "{listed:?}");
}

#[test]
fn the_administrators_secret_comes_from_a_variable() {
    let data = TempDir::new().unwrap();
    let given = [("REDSTART_ADMIN_SECRET", "secret-of-a-variable")];
    let broker = Broker::start_with(data.path(), &["--listen", "0.0.0.0", "--audit-log", "off"], &given);
    assert_eq!(broker.secret(), None, "it is known already");
    let port = broker.at("mqadmin (Remoting)").rsplit(':').next().unwrap().to_owned();
    let words = ["topic", "create", "orders", "--namesrv", &format!("127.0.0.1:{port}")];
    let made = broker.run(&words, Some(("admin", "secret-of-a-variable")));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(!data.path().join("audit.log").exists(), "it is off");
}

/// A broker whose administrator has this secret, and the folder with its data.
fn with_administrator(secret: &str) -> (TempDir, Broker) {
    let data = TempDir::new().unwrap();
    let file = data.path().join("secret");
    fs::write(&file, secret).unwrap();
    let broker = Broker::start(&data.path().join("data"), &["--admin-secret-file", file.to_str().unwrap()]);
    (data, broker)
}

#[test]
fn users_and_rules_are_made_and_asked_about_by_commands() {
    let secret = "secret-of-the-administrator";
    let (folder, broker) = with_administrator(secret);
    let run = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let done = broker.run(&words, Some(("admin", secret)));
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        (done.status.success(), said, String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let good = |words: &str| {
        let (success, said, error) = run(words);
        assert!(success, "{words}: {said} {error}");
        said
    };
    let json = |words: &str| -> serde_json::Value { serde_json::from_str(&good(words)).unwrap() };

    let made = json("user create app --json");
    let own = made["secret"].as_str().unwrap().to_owned();
    assert!(own.len() >= 32, "{made}");
    let file = folder.path().join("secret-of-other");
    fs::write(&file, "secret-of-other\n").unwrap();
    let other = json(&format!("user create other --json --secret-file {}", file.display()));
    assert_eq!(other.get("secret"), None, "it is known already");
    assert!(run("user create app").2.contains("exists already"));
    assert!(run("user show nobody").2.contains("there is no user nobody"));

    good("acl grant app Topic:orders-* Pub,Sub --source 127.0.0.0/8");
    good("acl deny app Topic:orders-secret Pub");
    assert!(run("acl grant app Topic:orders Publish").2.contains("Publish"), "a word that is no action");
    let rules = good("acl show app");
    assert!(rules.contains("Topic:orders-secret  Deny") && rules.contains("127.0.0.0/8"), "{rules}");
    assert_eq!(json("acl list --json")["rules"].as_array().unwrap().len(), 2);

    let test = |rest: &str| run(&format!("auth test --user app --action Pub --resource {rest}"));
    assert!(test("Topic:orders-eu").0);
    let (allowed, said, _) = test("Topic:orders-secret");
    assert!(!allowed && said.starts_with("deny: the Custom rule 'Deny Pub Topic:orders-secret'"), "{said}");
    let (allowed, said, _) = test("Topic:orders-eu --source 192.0.2.1");
    assert!(!allowed && said.contains("no rule allows it"), "{said}");
    // The broker decides the same.
    let send = |topic: &str, secret: &str| {
        broker
            .run(&["mqadmin", "sendMessage", "-t", topic, "-p", "x"], Some(("app", secret)))
            .status
            .success()
    };
    good("topic create orders-eu");
    good("topic create orders-secret");
    assert!(send("orders-eu", &own) && !send("orders-secret", &own));

    let changed = json("user set-secret app --json")["secret"].as_str().unwrap().to_owned();
    assert!(!send("orders-eu", &own) && send("orders-eu", &changed));
    good("user disable app");
    assert!(good("user list").contains("disabled") && !send("orders-eu", &changed));
    assert!(test("Topic:orders-eu").1.contains("the user is disabled"));
    good("user enable app");
    assert!(send("orders-eu", &changed));

    good("acl revoke app Topic:orders-secret --yes");
    assert!(test("Topic:orders-secret").0);
    assert!(!run("user delete app").0, "there is no terminal to ask on");
    good("user delete app --yes");
    assert!(!good("user list").contains("app") && !good("acl list").contains("app"));
}

#[test]
fn the_load_generator_signs_over_both_protocols() {
    let secret = "secret-of-the-administrator";
    let (_folder, broker) = with_administrator(secret);
    for (protocol, at) in [("grpc", "gRPC"), ("remoting", "mqadmin (Remoting)")] {
        let (server, names) = (broker.at(at), broker.at("mqadmin (Remoting)"));
        let load = ["bench", "produce", "--create", "--until", "50", "--json", "--protocol", protocol];
        let words = [&load[..], &["--server", &server, "--namesrv", &names, "--topic", protocol]].concat();
        let done = broker.run(&words, Some(("admin", secret)));
        assert!(done.status.success(), "{protocol}: {}", String::from_utf8_lossy(&done.stderr));
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(report["failures"].as_u64().unwrap_or(0), 0, "{report}");
        let refused = broker.run(&words, None);
        assert!(!refused.status.success(), "{protocol}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("not signed"), "{protocol}: {said}");
    }
}

#[test]
fn a_context_names_server_user_and_tls() {
    let secret = "secret-of-the-administrator";
    let (folder, broker) = with_administrator(secret);
    let names = broker.at("mqadmin (Remoting)");
    let file = folder.path().join("contexts.toml");
    let (ca, secret_file) = (folder.path().join("data/tls.crt"), folder.path().join("secret"));
    let context = |name: &str, more: &str| {
        let (secret_file, ca) = (secret_file.display(), ca.display());
        format!(
            "[{name}]\nnamesrv = \"{names}\"\ngrpc = \"{}\"\naccess_key = \"admin\"\nsecret_key_file = \"{secret_file}\"\n{}\n",
            broker.at("gRPC"),
            more.replace("CA", &ca.to_string())
        )
    };
    let contexts = [
        context("plain", ""),
        context("verified", "tls = true\ntls_ca = \"CA\""),
        context("insecure", "tls_insecure = true"),
        context("foreign", "tls = true"),
    ];
    fs::write(&file, contexts.concat()).unwrap();
    let run = |words: &[&str], name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
        command.env_clear().args(words).args(["--context", name, "--contexts-file"]).arg(&file);
        // Roots that did not sign the broker's certificate: none of a system's did, and a container may have no system's.
        command.env("SSL_CERT_FILE", folder.path().join("other.pem"));
        support::output(&mut command)
    };
    let other = folder.path().join("other");
    drop(Broker::start(&other, &[]));
    fs::copy(other.join("tls.crt"), folder.path().join("other.pem")).unwrap();
    for name in ["plain", "verified", "insecure"] {
        let created = run(&["topic", "create", name], name);
        assert!(created.status.success(), "{name}: {}", String::from_utf8_lossy(&created.stderr));
        let warned = String::from_utf8_lossy(&created.stderr).contains("without verification");
        assert_eq!(warned, name == "insecure");
        for protocol in ["grpc", "remoting"] {
            let load = ["bench", "produce", "--until", "20", "--topic", name, "--protocol", protocol];
            let sent = run(&load, name);
            assert!(sent.status.success(), "{name} {protocol}: {}", String::from_utf8_lossy(&sent.stderr));
        }
    }
    let foreign = run(&["topic", "list"], "foreign");
    let said = String::from_utf8_lossy(&foreign.stderr).into_owned();
    assert!(!foreign.status.success() && said.contains("certificate"), "{said}");
    let unknown = run(&["topic", "list"], "unknown");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        said.contains("there is no context unknown; there are foreign, insecure, plain, verified"),
        "{said}"
    );
}
