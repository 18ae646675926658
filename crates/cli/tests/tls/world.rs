//! A broker as a process with all its addresses and its log, certificates for it and its clients, and clients that speak TLS.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

/// How long a test waits for a condition before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Broker {
    child: Child,
    pub grpc: SocketAddr,
    pub names: SocketAddr,
    pub remoting: SocketAddr,
    pub http: SocketAddr,
    log: Arc<Mutex<String>>,
    /// What it said on standard output until it was ready.
    pub said: Vec<String>,
    data: TempDir,
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Broker {
    pub fn start<S: AsRef<str>>(flags: &[S]) -> Broker {
        let data = TempDir::new().unwrap();
        let mut command = crate::support::serve(Path::new(env!("CARGO_BIN_EXE_redstart")), data.path());
        let flags = flags.iter().map(AsRef::as_ref);
        let mut child = command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, lines) = (Arc::<Mutex<String>>::default(), BufReader::new(child.stderr.take().unwrap()));
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let log = &mut *kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.contains("try: redstart")) {
            said.push(lines.next().unwrap_or_else(|| panic!("not ready: {}", log.lock().unwrap())));
        }
        let at = |what: &str| {
            let line = said.iter().find(|line| line.contains(what)).unwrap();
            let last = line.split_whitespace().last().unwrap().trim_end_matches("/metrics");
            last.trim_start_matches("https://").trim_start_matches("http://").parse().unwrap()
        };
        let (grpc, names, remoting, http) =
            (at("gRPC"), at("mqadmin (Remoting)"), at("broker (Remoting)"), at("operators (HTTP)"));
        Broker { child, grpc, names, remoting, http, log, said, data }
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log holds the text.
    pub fn logs(&self, text: &str) {
        eventually(text, || self.log().contains(text));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A certificate authority, and a directory for what it issues.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// For this common name and these DNS names or addresses.
    pub fn issue(&self, common_name: &str, names: &[&str]) -> Issued {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let at = |end: &str| self.dir.path().join(format!("{number}.{end}"));
        let issued = Issued { certificate: at("crt"), key: at("key") };
        self.issue_to(&issued, common_name, names);
        issued
    }

    /// Replaces the files.
    pub fn issue_to(&self, files: &Issued, common_name: &str, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_after = rcgen::date_time_ymd(2049, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
    }
}

impl Issued {
    /// Flags of a broker that shows this certificate.
    pub fn flags(&self) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        vec![format!("--tls-cert={}", path(&self.certificate)), format!("--tls-key={}", path(&self.key))]
    }
}

pub type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts this authority, with its own certificate if it has one. The handshake is complete; of TLS 1.3 the server
/// may still refuse the client's certificate.
pub fn connect(address: SocketAddr, trusted: &Path, own: Option<&Issued>) -> std::io::Result<TlsClient> {
    connect_with(TcpStream::connect(address).unwrap(), trusted, own)
}

pub fn connect_with(stream: TcpStream, trusted: &Path, own: Option<&Issued>) -> std::io::Result<TlsClient> {
    let config = Arc::new(client_config(trusted, own));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream);
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock)?;
    }
    Ok(client)
}

pub fn client_config(trusted: &Path, own: Option<&Issued>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match own {
        Some(own) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(&own.certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&own.key).unwrap(),
            )
            .unwrap(),
        None => builder.with_no_client_auth(),
    }
}

/// Sends a Remoting request without a body; the code of the answer and its remark.
pub fn ask(mut stream: impl Read + Write, code: u32, fields: &str) -> std::io::Result<(i64, String)> {
    let (code, remark, _) = exchange(&mut stream, code, fields, "")?;
    Ok((code, remark))
}

/// Sends a Remoting request; the code of the answer, its remark and its body.
pub fn exchange(
    stream: &mut (impl Read + Write),
    code: u32,
    fields: &str,
    body: &str,
) -> std::io::Result<(i64, String, String)> {
    let header = format!(
        r#"{{"code":{code},"language":"JAVA","version":475,"opaque":1,"flag":0,"extFields":{fields}}}"#
    );
    let mut frame = ((header.len() + body.len() + 4) as u32).to_be_bytes().to_vec();
    frame.extend((header.len() as u32).to_be_bytes());
    frame.extend(header.as_bytes());
    frame.extend(body.as_bytes());
    stream.write_all(&frame)?;
    stream.flush()?;
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer)?;
        let end = 4 + u32::from_be_bytes([0, answer[1], answer[2], answer[3]]) as usize;
        let header: serde_json::Value = serde_json::from_slice(&answer[4..end]).unwrap();
        // The broker's own requests come between, such as news of the consumer's group.
        if header["flag"].as_i64().unwrap() & IS_RESPONSE == 0 {
            continue;
        }
        let remark = header["remark"].as_str().unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(&answer[end..]).into_owned();
        return Ok((header["code"].as_i64().unwrap(), remark, body));
    }
}

/// Bit of a frame's flag.
const IS_RESPONSE: i64 = 1;

/// The request that needs nothing but a caller who is known.
pub const CLUSTER_INFO: u32 = 106;

/// The status of a page and its body.
pub fn get(mut stream: impl Read + Write, path: &str) -> std::io::Result<(u16, String)> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), body.to_owned()))
}

/// Runs a program with nothing on its standard input; `None` if it is not installed.
pub fn tool(name: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(name);
    match command.args(arguments).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        output => Some(output.unwrap()),
    }
}
