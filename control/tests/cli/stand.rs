//! A control on loopback, and the command line beside it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use insta::Settings;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_better-compute");

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What a command printed that must have ended well.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The same, as JSON.
    pub(crate) fn json(self) -> Value {
        let out = self.done();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// What a command said that must have ended with `code`, and printed nothing.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        self.err
    }
}

/// A folder that is somebody's home, and the command line of somebody there.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path)
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
        path
    }

    /// The program without anything from this machine's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args))
    }
}

/// A control that runs, and its administrator's home.
pub(crate) struct Control {
    pub(crate) home: Home,
    pub(crate) url: String,
    serve: Child,
}

impl Control {
    pub(crate) fn start() -> Self {
        Self::at(Home::new(), "")
    }

    /// In a home that may have files already, which more lines of the configuration name.
    pub(crate) fn at(home: Home, more: &str) -> Self {
        let pin = home.run(&["release", "keygen", "--out", "key.pem"]).done();
        home.write("pin", pin.trim());
        home.write("more", more);
        let (serve, url) = serve(&home, &config(&home, "127.0.0.1:0"));
        Self { home, url, serve }
    }

    /// The program as the administrator runs it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("BETTER_COMPUTE_URL", &self.url).env(
            "BETTER_COMPUTE_TOKEN_FILE",
            self.home.path("data/admin.token"),
        );
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["-o", "json"]].concat()).json()
    }

    pub(crate) fn id(&self, args: &[&str]) -> String {
        self.run(&[args, &["-o", "name"]].concat())
            .done()
            .trim()
            .to_owned()
    }

    pub(crate) fn kill(&mut self) {
        self.serve.kill().unwrap();
        self.serve.wait().unwrap();
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        let address = self.url.strip_prefix("http://").unwrap().to_owned();
        let (serve, url) = serve(&self.home, &config(&self.home, &address));
        assert_eq!(url, self.url);
        self.serve = serve;
    }

    /// Signs a release of one file and registers it.
    pub(crate) fn register(&self, version: &str, sequence: &str) -> Ended {
        let dir = self.home.text(&format!("downloads/{version}"));
        self.home.write(
            &format!("downloads/{version}/bcd-linux-amd64"),
            &format!("bcd {version}"),
        );
        self.home
            .run(&[
                "release",
                "sign",
                &dir,
                "--product",
                "bcd",
                "--version",
                version,
                "--sequence",
                sequence,
                "--key",
                "key.pem",
            ])
            .done();
        self.run(&["releases", "register", &format!("{dir}/manifest.json")])
    }

    /// Joins nodes with a token, as `bcd join` does.
    pub(crate) fn join(&self, token: &str, nodes: usize) -> Vec<String> {
        (0..nodes)
            .map(|number| {
                let key = KeyPair::generate().unwrap();
                let csr = CertificateParams::default()
                    .serialize_request(&key)
                    .unwrap()
                    .pem()
                    .unwrap();
                let hostname = format!("host-{number}");
                let request =
                    json!({"csr": csr, "labels": {"cpu.arch": "x86_64", "hostname": hostname}});
                let joined = self.post("nodes/join", token, &request);
                joined["nodeId"].as_str().unwrap().to_owned()
            })
            .collect()
    }

    /// A rollout over a pool of three nodes, none of which will ever come online.
    pub(crate) fn rollout(&self) -> String {
        self.ready_for_rollouts();
        self.id(&["rollouts", "create", "--version", "1.1.0"])
    }

    /// Three nodes in a pool, and a release for them.
    pub(crate) fn ready_for_rollouts(&self) {
        self.run(&["pools", "create", "edge"]).done();
        let token = self
            .run(&["join-tokens", "create", "--pool", "edge", "--uses", "3"])
            .done();
        self.join(token.trim(), 3);
        self.register("1.1.0", "1").done();
    }

    fn post(&self, method: &str, token: &str, body: &Value) -> Value {
        let address = self.url.strip_prefix("http://").unwrap();
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /api/compute/{method} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may be dead already; either way it does not outlive the test.
        let _dead_already = self.serve.kill();
        let _reaped = self.serve.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Compares what people see; ids, tokens and times differ from run to run.
pub(crate) fn seen(name: &str, text: &str) {
    let mut settings = Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    // As long as what they stand for, so that columns stay where they are.
    for digits in [52, 26] {
        let id = format!("(pool|node|rel|tok|gw|rollout|bcjt|wf|cmd|evt|whk)_[0-9a-z]{{{digits}}}");
        settings.add_filter(&id, format!("${{1}}_{}", "0".repeat(digits)));
    }
    // What tables show of the long ones.
    settings.add_filter(
        r"(node|rollout|wf|cmd)_[0-9a-z]{12}\b",
        format!("${{1}}_{}", "0".repeat(12)),
    );
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2000-00-00T00:00:00Z");
    let exact = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z";
    settings.add_filter(exact, "2000-00-00T00:00:00.000Z");
    settings.add_filter(r"sha256/[A-Za-z0-9+/]{43}=", "sha256/(pin)");
    settings.add_filter(r"request [0-9A-Z]{26}", "request (id)");
    settings.add_filter(r#""requestId": "[0-9A-Z]{26}""#, r#""requestId": "(id)""#);
    // Which node comes first differs, too.
    settings.add_filter(r"host-\d", "host-N");
    settings.add_filter(r"whsec_[A-Za-z0-9+/=]+", "whsec_(secret)");
    settings.add_filter(r"(bcjt|tok|gw)_0{26}\.[A-Za-z0-9_-]+", "${1}_(id).(secret)");
    settings.add_filter(r"http://127\.0\.0\.1:\d+", "http://HOST");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn config(home: &Home, listen: &str) -> PathBuf {
    home.write("downloads/.keep", "");
    let [data, downloads] = ["data", "downloads"].map(|name| home.text(name));
    let [pin, more] = ["pin", "more"].map(|name| fs::read_to_string(home.path(name)).unwrap());
    home.write(
        "control.toml",
        &format!(
            "data_dir = {data:?}\nlisten = {listen:?}\nlink_listen = \"127.0.0.1:0\"\n\
             [release]\npins = [{pin:?}]\nthreshold = 1\n[downloads]\ndir = {downloads:?}\n{more}"
        ),
    )
}

/// Starts control and waits until it says where it listens.
fn serve(home: &Home, config: &Path) -> (Child, String) {
    let log = File::create(home.path("control.log")).unwrap();
    let mut serve = home
        .command(&["serve", "--config", config.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line
        .split_whitespace()
        .find(|word| word.starts_with("http"))
        .unwrap_or_else(|| {
            panic!(
                "control said {line:?}: {}",
                fs::read_to_string(home.path("control.log")).unwrap()
            )
        });
    (serve, url.to_owned())
}
