//! Clients that prove who they are with a TLS certificate.

use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use super::world::{Authority, Broker, CLUSTER_INFO, Issued, ask, client_config, connect, get};
use bytes::{BufMut, BytesMut};
use prost::Message as _;
use redstart_auth::{
    Secret,
    signature::{SigningKey, remoting::Content},
};
use redstart_wire::v2;

const NO_PERMISSION: i64 = 16;
const SECRET: &str = "the-secret-of-admin";

struct World {
    broker: Broker,
    authority: Authority,
    /// Of the user `admin`.
    admin: Issued,
    /// Of a user that does not exist.
    stranger: Issued,
    _secret: tempfile::NamedTempFile,
}

fn start(client_auth: &str, more: &[&str]) -> World {
    let authority = Authority::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    let mut flags = authority.issue("broker", &["localhost", "127.0.0.1"]).flags();
    flags.push(format!("--tls-client-ca={}", authority.file().display()));
    flags.push(format!("--tls-client-auth={client_auth}"));
    flags.push(format!("--admin-secret-file={}", secret.path().display()));
    flags.extend(
        ["--remoting-tls=enforcing", "--grpc-tls=enforcing", "--http-tls=enforcing"].map(str::to_owned),
    );
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    let broker = Broker::start(&flags);
    let (admin, stranger) =
        (authority.issue("admin", &["app.example"]), authority.issue("stranger", &["admin"]));
    World { broker, authority, admin, stranger, _secret: secret }
}

impl World {
    fn ask(&self, own: Option<&Issued>, fields: &str) -> std::io::Result<(i64, String)> {
        ask(connect(self.broker.remoting, &self.authority.file(), own)?, CLUSTER_INFO, fields)
    }

    fn get(&self, own: Option<&Issued>, path: &str) -> u16 {
        let client = connect(self.broker.http, &self.authority.file(), own).unwrap();
        get(client, path).unwrap().0
    }

    /// A gRPC call without a signature.
    async fn call(&self, own: Option<&Issued>) -> Result<v2::Code, Box<dyn std::error::Error>> {
        let mut config = client_config(&self.authority.file(), own);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = tokio::net::TcpStream::connect(self.broker.grpc).await?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect("localhost".try_into()?, stream).await?;
        let (mut client, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        let request = http::Request::post("http://localhost/apache.rocketmq.v2.MessagingService/QueryRoute")
            .header("content-type", "application/grpc")
            .header("x-mq-client-id", "c")
            .body(())?;
        let topic = v2::Resource { name: "TBW102".to_owned(), ..Default::default() };
        let message = v2::QueryRouteRequest { topic: Some(topic), endpoints: None }.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(message.len() as u32);
        frame.put_slice(&message);
        let (answer, mut body) = client.send_request(request, false)?;
        body.send_data(frame.freeze(), true)?;
        let mut answer = answer.await?.into_body();
        let mut bytes = BytesMut::new();
        while let Some(part) = answer.data().await {
            bytes.extend_from_slice(&part?);
        }
        let answer = v2::QueryRouteResponse::decode(bytes.get(5..).unwrap_or_default())?;
        Ok(answer.status.unwrap_or_default().code())
    }
}

/// The fields of a request that `admin` has signed.
fn signed_by_admin() -> String {
    let key = SigningKey::new(&Secret::new(SECRET));
    let signature = Content::new([("AccessKey", "admin")], b"").sign(&key);
    format!(r#"{{"AccessKey":"admin","Signature":"{signature}"}}"#)
}

#[tokio::test]
async fn a_certificate_stands_for_its_user_on_every_port() {
    let world = start("required", &["--auth=true"]);
    let (admin, stranger) = (Some(&world.admin), Some(&world.stranger));

    assert_eq!(world.ask(admin, "{}").unwrap().0, 0);
    let (code, why) = world.ask(stranger, "{}").unwrap();
    assert!(code == NO_PERMISSION && why.contains("no user \"stranger\""), "{code} {why}");
    assert!(world.ask(None, &signed_by_admin()).is_err(), "no certificate");
    assert!(world.ask(Some(&Authority::new().issue("admin", &[])), "{}").is_err(), "of another authority");

    assert_eq!(world.ask(admin, &signed_by_admin()).unwrap().0, 0);
    let (code, why) = world.ask(stranger, &signed_by_admin()).unwrap();
    assert!(code == NO_PERMISSION && why.contains("another user"), "{code} {why}");
    let forged = signed_by_admin().replace(":\"admin\"", ":\"admin2\"");
    assert_eq!(world.ask(admin, &forged).unwrap().0, NO_PERMISSION, "a signature is checked all the same");

    let code = world.call(admin).await.unwrap();
    assert!(!matches!(code, v2::Code::Unauthorized | v2::Code::Forbidden), "{code:?}");
    assert_eq!(world.call(stranger).await.unwrap(), v2::Code::Unauthorized);
    assert!(world.call(None).await.is_err());

    assert_eq!((world.get(None, "/healthz"), world.get(None, "/metrics")), (200, 403));
    assert_eq!((world.get(admin, "/metrics"), world.get(stranger, "/metrics")), (200, 401));
}

#[test]
fn an_optional_certificate_leaves_signatures_to_the_others_and_its_user_may_be_a_dns_name() {
    let world = start("optional", &["--auth=true", "--tls-client-user=dns"]);
    assert_eq!(world.ask(None, &signed_by_admin()).unwrap().0, 0);
    assert_eq!(world.ask(None, "{}").unwrap().0, NO_PERMISSION);
    assert_eq!(world.ask(Some(&world.stranger), "{}").unwrap().0, 0, "its DNS name is admin");
    assert_eq!(world.ask(Some(&world.admin), "{}").unwrap().0, NO_PERMISSION);
}

#[test]
fn without_auth_a_certificate_is_only_verified() {
    let world = start("required", &[]);
    assert_eq!(world.ask(Some(&world.stranger), "{}").unwrap().0, 0);
    assert!(world.ask(None, "{}").is_err());
    assert_eq!((world.get(None, "/metrics"), world.get(Some(&world.stranger), "/metrics")), (403, 200));
}

#[test]
fn settings_that_would_verify_nobody_are_refused() {
    let authority = Authority::new();
    let ca = format!("--tls-client-ca={}", authority.file().display());
    let absent = "--tls-client-ca=no-such.pem".to_owned();
    let enforcing = ["--remoting-tls=enforcing", "--grpc-tls=enforcing"];
    for (flags, said) in [
        (vec![ca.as_str()], "`tls_client_auth` is none"),
        (vec!["--tls-client-auth=optional"], "--tls-client-ca"),
        (vec![&ca, "--tls-client-auth=required"], "`remoting_tls` is permissive"),
        (vec![&ca, "--tls-client-auth=required", enforcing[0]], "`grpc_tls` is permissive"),
        (vec![&absent, "--tls-client-auth=required", enforcing[0], enforcing[1]], "no-such.pem"),
    ] {
        let data = tempfile::TempDir::new().unwrap();
        let mut command: Command =
            super::support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data.path());
        let output = super::support::output(command.args(&flags));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{flags:?}: {error}");
    }
}

/// A command that shows a certificate and signs nothing.
fn command(world: &World, own: Option<&Issued>, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redstart"));
    command.env_clear().env("REDSTART_TLS_CA", world.authority.file());
    let names = world.broker.names.to_string();
    command.env("REDSTART_NAMESRV", &names).env("NAMESRV_ADDR", &names);
    if let Some(own) = own {
        command.env("REDSTART_TLS_CERT", &own.certificate).env("REDSTART_TLS_KEY", &own.key);
    }
    let words = words.replace("NAMES", &names).replace("GRPC", &world.broker.grpc.to_string());
    crate::support::output(command.args(words.split(' ')))
}

#[test]
fn commands_show_their_certificate_and_need_no_secret() {
    let world = start("required", &["--auth"]);
    let done = |own, words| {
        let done = command(&world, own, words);
        (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    for words in [
        "topic create orders",
        "topic list",
        "user list",
        "mqadmin clusterList",
        "bench produce --protocol remoting --server NAMES --topic orders --seconds 1",
        "bench produce --protocol grpc --server GRPC --topic orders --seconds 1",
    ] {
        let (is_done, said) = done(Some(&world.admin), words);
        assert!(is_done, "{words}: {said}");
    }
    let (is_done, said) = done(Some(&world.stranger), "topic list");
    assert!(!is_done && said.contains("no user"), "{said}");
    let (is_done, said) = done(None, "topic list");
    assert!(!is_done, "{said}");
    // A certificate without its key is an error.
    let flag = format!("topic list --tls-cert {}", world.admin.certificate.display());
    let (is_done, said) = done(None, &flag);
    assert!(!is_done && said.contains("belong together"), "{said}");
    let flags = format!("{flag} --tls-key {}", world.admin.key.display());
    let (is_done, said) = done(None, &flags);
    assert!(is_done && said.contains("orders"), "{said}");
}
