//! One real service on a port of its own, and what tests ask of it.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Once,
    time::Duration,
};

use bc_protocol::{
    digest::Sha256,
    platform::Platform,
    release::{
        Artifact,
        sign::{ManifestDraft, SigningKey, cosign, sign},
    },
    sequence::Sequence,
    time::Timestamp,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::{contract::Contract, postgres::database_line};

const BINARY: &str = env!("CARGO_BIN_EXE_better-compute");

pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_scalar(&[number; 32]).unwrap()
}

/// A service that runs until the value goes.
pub(crate) struct Server {
    pub(crate) dir: tempfile::TempDir,
    child: Child,
    pub(crate) url: String,
    /// Where metrics are, if the configuration says so.
    pub(crate) metrics: Option<String>,
    pub(crate) admin: String,
    client: Client,
    contract: tokio::sync::OnceCell<Contract>,
}

impl Server {
    /// Starts on an empty data folder, with keys 1 and 2 pinned, and both needed.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_config(dir.path(), "");
        Self::start_in(dir)
    }

    pub(crate) fn start_in(dir: tempfile::TempDir) -> Self {
        Self::start_with(dir, &[])
    }

    /// Starts it with more in its environment.
    pub(crate) fn start_with(dir: tempfile::TempDir, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(BINARY)
            .envs(environment.iter().copied())
            .args(["serve", "--config"])
            .arg(dir.path().join("control.toml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(
                std::fs::File::create(dir.path().join("log")).unwrap(),
            ))
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let metrics = line.split_once(" metrics ");
        let metrics = metrics.map(|(_, at)| at.trim().to_owned());
        let url = line.split(' ').find(|word| word.starts_with("http"));
        let url = url
            .unwrap_or_else(|| panic!("{line:?}: {}", log(dir.path())))
            .to_owned();
        let admin = std::fs::read_to_string(dir.path().join("data/admin.token")).unwrap();
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            rustls::crypto::ring::default_provider()
                .install_default()
                .unwrap();
        });
        let client = Client::builder()
            .timeout(Duration::from_secs(120))
            .tls_danger_accept_invalid_certs(true)
            .build()
            .unwrap();
        Self {
            dir,
            child,
            url,
            metrics,
            admin: admin.trim().to_owned(),
            client,
            contract: tokio::sync::OnceCell::new(),
        }
    }

    /// How this service describes itself.
    pub(crate) async fn contract(&self) -> &Contract {
        let document = || async {
            let answer = self.get("/openapi.json").send().await.unwrap();
            Contract::of(answer.json().await.unwrap())
        };
        self.contract.get_or_init(document).await
    }

    /// A client that holds its connections as long as it lives.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Kills it as a power cut would, and gives its folder to the next.
    pub(crate) fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// Asks it to read its certificate again.
    pub(crate) fn reload(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    }

    /// Asks it to stop, and gives how it ended.
    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }

    pub(crate) fn post(&self, method: &str, token: &str) -> RequestBuilder {
        self.client
            .post(format!("{}/api/compute/{method}", self.url))
            .bearer_auth(token)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    pub(crate) fn head(&self, path: &str) -> RequestBuilder {
        self.client.head(format!("{}{path}", self.url))
    }

    /// Calls a method as somebody; gives the status and the answer, which is one that the description allows.
    pub(crate) async fn call_as(&self, token: &str, method: &str, body: Value) -> (u16, Value) {
        let answer = self.post(method, token).json(&body).send().await.unwrap();
        let (status, answer) = read(answer).await;
        self.contract().await.check(method, status, &answer);
        (status, answer)
    }

    /// Calls a method as the admin; it has to succeed.
    pub(crate) async fn call(&self, method: &str, body: Value) -> Value {
        let (status, answer) = self.call_as(&self.admin, method, body).await;
        assert_eq!(status, 200, "{method}: {answer}");
        answer
    }

    /// Calls a method as the admin; it has to be refused. Gives the error.
    pub(crate) async fn refused(&self, method: &str, body: Value) -> Value {
        let (status, answer) = self.call_as(&self.admin, method, body).await;
        assert_ne!(status, 200, "{method}: {answer}");
        answer["error"].clone()
    }

    pub(crate) async fn pool(&self, name: &str) -> String {
        let pool = self
            .call("pools/create", json!({ "tenantId": "root", "name": name }))
            .await;
        pool["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn token(&self, tenant: &str, permissions: &[&str]) -> String {
        let request = json!({ "tenantId": tenant, "subject": "bob", "permissions": permissions });
        let token = self.call("tokens/create", request).await;
        token["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn register(&self, manifest: &[u8]) -> (u16, Value) {
        let manifest: Value = serde_json::from_slice(manifest).unwrap();
        let request = json!({ "tenantId": "root", "manifest": manifest });
        self.call_as(&self.admin, "releases/register", request)
            .await
    }

    pub(crate) fn releases_dir(&self) -> PathBuf {
        self.dir.path().join("releases")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already: then there is nothing to do.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) async fn read(answer: Response) -> (u16, Value) {
    let status = answer.status();
    assert!(answer.headers().contains_key("x-request-id"), "{status}");
    let is_json = answer.headers()["content-type"] == "application/json";
    let text = answer.text().await.unwrap();
    assert!(is_json, "{status}: {text}");
    let body: Value = serde_json::from_str(&text).unwrap();
    if status != StatusCode::OK {
        let error = body["error"].as_object().unwrap();
        assert!(
            error["code"].is_string() && error["message"].is_string(),
            "{body}"
        );
    }
    (status.as_u16(), body)
}

/// The configuration of a service that listens anywhere on loopback; `more` comes first.
pub(crate) fn write_config(dir: &Path, more: &str) {
    let (one, two) = (key(1).pin(), key(2).pin());
    let base = dir.display();
    let more = if more.contains("database_url") {
        more.to_owned()
    } else {
        database_line(dir) + more
    };
    std::fs::create_dir_all(dir.join("releases")).unwrap();
    let downloads = if more.contains("downloads") {
        String::new()
    } else {
        format!("downloads = {{ dir = \"{base}/releases\" }}")
    };
    let text = format!(
        "{more}
data_dir = \"{base}/data\"
listen = \"127.0.0.1:0\"
link_listen = \"127.0.0.1:0\"
{downloads}
release = {{ pins = [\"{one}\", \"{two}\"], threshold = 2 }}
"
    );
    std::fs::write(dir.join("control.toml"), text).unwrap();
}

/// Runs `serve` where it is expected to end by itself.
pub(crate) fn serve(dir: &Path, more: &[&str]) -> Output {
    Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(dir.join("control.toml"))
        .args(more)
        .output()
        .unwrap()
}

pub(crate) fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

/// A release of one binary, signed by keys 1 and 2 unless told otherwise.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) product: &'static str,
    pub(crate) version: &'static str,
    pub(crate) sequence: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) issued: i64,
    pub(crate) expires: i64,
    pub(crate) signers: Vec<u8>,
}

impl Release {
    pub(crate) fn new(version: &'static str, sequence: u64) -> Self {
        Self {
            product: "bcd",
            version,
            sequence,
            bytes: version.repeat(100_000).into_bytes(),
            issued: 1_700_000_000,
            expires: 4_000_000_000,
            signers: vec![1, 2],
        }
    }

    pub(crate) fn manifest(&self) -> Vec<u8> {
        let platform: Platform = "linux-amd64".parse().unwrap();
        let size = self.bytes.len().try_into().unwrap();
        let digest = Sha256::of(&self.bytes);
        let artifact = Artifact::new("bcd-linux-amd64".to_owned(), Some(platform), digest, size);
        let body = ManifestDraft {
            product: self.product.to_owned(),
            version: self.version.parse().unwrap(),
            sequence: Sequence::new(self.sequence).unwrap(),
            issued_at: Timestamp::from_unix(self.issued).unwrap(),
            expires_at: Timestamp::from_unix(self.expires).unwrap(),
            keys: [1, 2, 3].map(|number| key(number).public().clone()).into(),
            extensions: std::collections::BTreeMap::new(),
            artifacts: vec![artifact.unwrap()],
        }
        .into_body()
        .unwrap();
        let (first, rest) = self.signers.split_first().unwrap();
        let published = sign(body, &key(*first)).unwrap();
        rest.iter().fold(published, |published, &number| {
            cosign(&published, &key(number)).unwrap()
        })
    }

    /// Puts the binary where control serves it from.
    pub(crate) fn put(&self, server: &Server) -> PathBuf {
        let dir = server.releases_dir().join(self.version);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("bcd-linux-amd64");
        std::fs::write(&path, &self.bytes).unwrap();
        path
    }
}
