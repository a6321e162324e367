//! Joining at a control that the test plays.

mod mending;

use std::{fs, os::unix::fs::MetadataExt, sync::mpsc};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    authority::Authority,
    config::PlainHttp,
    durable::{self, Mode},
    identity::Identity,
};

const TOKEN: &str = "bcjt_01abc.s3cret";

/// A machine that has not joined.
struct Machine {
    folder: TempDir,
    labels: BTreeMap<String, String>,
    web: Web,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
            labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
            web: Web {
                plain_http: PlainHttp::Loopback,
                ca_file: None,
                earliest: None,
            },
        };
        machine.token(&format!("{TOKEN}\n"));
        machine
    }

    fn token(&self, text: &str) {
        durable::replace_file(&self.token_file(), text.as_bytes(), Mode::Private).unwrap();
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn identity(&self) -> PathBuf {
        self.folder.path().join("identity")
    }

    fn join(&self, control: &Url) -> Result<Joined, JoinError> {
        run(&Join {
            control,
            token_file: &self.token_file(),
            identity: &self.identity(),
            labels: &self.labels,
            web: &self.web,
        })
    }
}

/// What control hears.
struct Heard {
    head: String,
    body: serde_json::Value,
}

impl Heard {
    fn csr(&self) -> &str {
        self.body["csr"].as_str().unwrap()
    }
}

type Answer = Box<dyn Fn(&Heard) -> Option<(u16, String)> + Send>;

/// Control in a thread of its own, for joins block. It answers one request after the other; without an answer it hangs
/// up.
struct Control {
    url: Url,
    heard: mpsc::Receiver<Heard>,
}

impl Control {
    fn start(answers: Vec<Answer>) -> Self {
        Self::serve(answers, None)
    }

    fn serve(answers: Vec<Answer>, tls: Option<TlsAcceptor>) -> Self {
        let (url_out, url) = mpsc::channel();
        let (heard_out, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                url_out.send(listener.local_addr().unwrap()).unwrap();
                for answer in answers {
                    let (stream, _) = listener.accept().await.unwrap();
                    match &tls {
                        None => serve_one(stream, &answer, &heard_out).await,
                        Some(tls) => {
                            // Who does not believe our certificate asks for nothing.
                            if let Ok(stream) = tls.accept(stream).await {
                                serve_one(stream, &answer, &heard_out).await;
                            }
                        }
                    }
                }
            });
        });
        let address = url.recv().unwrap();
        Self {
            url: format!("http://{address}").parse().unwrap(),
            heard,
        }
    }
}

async fn serve_one<S>(mut stream: S, answer: &Answer, heard: &mpsc::Sender<Heard>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    let request = Heard {
        head,
        body: serde_json::from_slice(&body).unwrap(),
    };
    if let Some((status, body)) = answer(&request) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
        // The client may have heard enough.
        drop(stream.write_all((head + &body).as_bytes()).await);
    }
    heard.send(request).unwrap();
}

/// Answers as control does.
fn accepts(authority: Authority) -> Answer {
    Box::new(move |heard| {
        let node_id = NodeId::derived(&[b"node"]);
        let membership = authority.membership(heard.csr(), &node_id, "wss://gw:1/session");
        Some((200, serde_json::to_string(&membership).unwrap()))
    })
}

fn says(status: u16, body: &str) -> Answer {
    let body = body.to_owned();
    Box::new(move |_| Some((status, body.clone())))
}

fn node_id() -> NodeId {
    NodeId::derived(&[b"node"])
}

#[test]
fn a_machine_becomes_a_node() {
    let machine = Machine::new();
    let control = Control::start(vec![accepts(Authority::new())]);
    assert_eq!(machine.join(&control.url).unwrap(), Joined::Now(node_id()));
    let heard = control.heard.recv().unwrap();
    assert!(
        heard
            .head
            .starts_with("POST /api/compute/nodes/join HTTP/1.1\r\n")
    );
    assert!(
        heard
            .head
            .contains(&format!("\r\nauthorization: Bearer {TOKEN}\r\n"))
    );
    assert_eq!(heard.body["labels"]["rack"], "7");
    assert_eq!(heard.body["labels"]["cpu.arch"], std::env::consts::ARCH);
    assert_eq!(heard.body.as_object().unwrap().len(), 2);
    let identity = Identity::load(&machine.identity()).unwrap();
    assert_eq!(identity.node_id(), &node_id());
    assert_eq!(identity.gateways(), ["wss://gw:1/session"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(machine.identity()), 0o700);
    assert_eq!(mode(machine.identity().join("node.key")), 0o600);
    let key = fs::read_to_string(machine.identity().join("node.key")).unwrap();
    assert!(!heard.body.to_string().contains(key.lines().nth(1).unwrap()));
}

#[test]
fn control_may_live_below_a_path() {
    let machine = Machine::new();
    let control = Control::start(vec![accepts(Authority::new())]);
    let below = control.url.join("/fleet/").unwrap();
    machine.join(&below).unwrap();
    let head = control.heard.recv().unwrap().head;
    assert!(
        head.starts_with("POST /fleet/api/compute/nodes/join HTTP/1.1\r\n"),
        "{head}"
    );
}

#[test]
fn joining_twice_asks_nobody() {
    let machine = Machine::new();
    let control = Control::start(vec![accepts(Authority::new())]);
    machine.join(&control.url).unwrap();
    fs::remove_file(machine.token_file()).unwrap();
    let again = machine.join(&"https://nowhere.invalid".parse().unwrap());
    assert_eq!(again.unwrap(), Joined::Already(node_id()));
}

#[test]
fn a_lost_answer_is_asked_for_with_the_same_key() {
    let machine = Machine::new();
    let lost: Answer = Box::new(|_| None);
    let control = Control::start(vec![lost, accepts(Authority::new())]);
    assert!(matches!(
        machine.join(&control.url),
        Err(JoinError::NotReached(_) | JoinError::Cut(_))
    ));
    assert!(Identity::load(&machine.identity()).is_err());
    machine.join(&control.url).unwrap();
    let key_of = |heard: Heard| {
        let request = rcgen::CertificateSigningRequestParams::from_pem(heard.csr()).unwrap();
        rcgen::PublicKeyData::der_bytes(&request.public_key).to_vec()
    };
    let (first, second) = (control.heard.recv().unwrap(), control.heard.recv().unwrap());
    assert_eq!(key_of(first), key_of(second));
}

#[test]
fn controls_refusal_is_passed_on() {
    let machine = Machine::new();
    let body = r#"{"error":{"code":"UNAUTHENTICATED","message":"the join token expired at noon","details":{}}}"#;
    let control = Control::start(vec![says(401, body)]);
    let refused = machine.join(&control.url).unwrap_err().to_string();
    assert!(refused.contains("UNAUTHENTICATED"), "{refused}");
    assert!(
        refused.contains("the join token expired at noon"),
        "{refused}"
    );
}

#[test]
fn what_answers_but_is_not_control() {
    for (status, body) in [
        (200, "<html>"),
        (200, "{}"),
        (502, "bad gateway"),
        (302, ""),
        (404, "{\"error\":\"x\"}"),
    ] {
        let machine = Machine::new();
        let control = Control::start(vec![says(status, body)]);
        let refused = machine.join(&control.url).unwrap_err();
        assert!(
            matches!(refused, JoinError::NotControl { .. }),
            "{status} {body}: {refused}"
        );
        assert!(Identity::load(&machine.identity()).is_err());
    }
}

#[test]
fn an_answer_without_an_end() {
    let machine = Machine::new();
    let control = Control::start(vec![says(200, &" ".repeat(ANSWER_BYTES_MAX + 1))]);
    assert!(matches!(machine.join(&control.url), Err(JoinError::Cut(_))));
}

#[test]
fn a_certificate_for_somebody_else_is_not_kept() {
    let others_key: Answer = Box::new(|_| {
        let key = KeyPair::generate().unwrap();
        let membership =
            Authority::new().membership(&pem_request_of(&key).unwrap(), &node_id(), "wss://gw/");
        Some((200, serde_json::to_string(&membership).unwrap()))
    });
    let others_name: Answer = Box::new(|heard| {
        let mut membership = Authority::new().membership(heard.csr(), &node_id(), "wss://gw/");
        membership.node_id = NodeId::derived(&[b"another"]);
        Some((200, serde_json::to_string(&membership).unwrap()))
    });
    let nowhere_to_go: Answer = Box::new(|heard| {
        let mut membership = Authority::new().membership(heard.csr(), &node_id(), "wss://gw/");
        membership.gateways.clear();
        Some((200, serde_json::to_string(&membership).unwrap()))
    });
    for answer in [others_key, others_name, nowhere_to_go] {
        let machine = Machine::new();
        let control = Control::start(vec![answer]);
        let refused = machine.join(&control.url).unwrap_err();
        assert!(matches!(refused, JoinError::Identity(_)), "{refused}");
        let left: Vec<_> = fs::read_dir(machine.identity()).unwrap().collect();
        assert_eq!(left.len(), 1, "only the key");
    }
}

#[test]
fn control_is_not_there() {
    let machine = Machine::new();
    let gone = Control::start(vec![]);
    let refused = machine.join(&gone.url).unwrap_err();
    assert!(matches!(refused, JoinError::NotReached(_)), "{refused}");
    assert!(
        refused.to_string().contains("cannot be reached"),
        "{refused}"
    );
}

#[test]
fn a_token_does_not_travel_in_the_clear() {
    let machine = Machine::new();
    let refused = machine.join(&"http://control.example".parse().unwrap());
    assert!(matches!(
        refused,
        Err(JoinError::NotReached(HttpError::Address { .. }))
    ));
}

#[test]
fn what_is_no_token() {
    let machine = Machine::new();
    let url: Url = "http://127.0.0.1:1".parse().unwrap();
    for text in [
        "",
        "hello",
        "bcjt_",
        "bcjt_x",
        "bcjt_.y",
        "bcjt_x.",
        "bcjt_x.y\nz",
        "bcjt_x.\u{1}",
    ] {
        machine.token(text);
        assert!(
            matches!(machine.join(&url), Err(JoinError::Token(_))),
            "{text:?}"
        );
    }
    machine.token(&"x".repeat(2000));
    let refused = machine.join(&url);
    assert!(matches!(refused, Err(JoinError::TokenFile { .. })));
    fs::remove_file(machine.token_file()).unwrap();
    let refused = machine.join(&url);
    assert!(matches!(refused, Err(JoinError::TokenFile { .. })));
    assert!(!machine.identity().exists(), "nothing half done");
}

#[test]
fn https_with_the_owners_root() {
    let web = Authority::new();
    let mut machine = Machine::new();
    let ca_file = machine.folder.path().join("ca.pem");
    durable::replace_file(&ca_file, web.pem().as_bytes(), Mode::Readable).unwrap();
    machine.web.ca_file = Some(ca_file);
    let acceptor = TlsAcceptor::from(web.web("localhost", 2020));
    let control = Control::serve(vec![accepts(Authority::new())], Some(acceptor));
    let url = format!("https://localhost:{}", control.url.port().unwrap());
    let joined = machine.join(&url.parse().unwrap()).unwrap();
    assert_eq!(joined, Joined::Now(node_id()));
}

#[test]
fn https_with_a_root_that_nobody_knows() {
    let (known, unknown) = (Authority::new(), Authority::new());
    let mut machine = Machine::new();
    let ca_file = machine.folder.path().join("ca.pem");
    durable::replace_file(&ca_file, known.pem().as_bytes(), Mode::Readable).unwrap();
    machine.web.ca_file = Some(ca_file);
    let acceptor = TlsAcceptor::from(unknown.web("localhost", 2020));
    let control = Control::serve(vec![accepts(Authority::new())], Some(acceptor));
    let url = format!("https://localhost:{}", control.url.port().unwrap());
    let refused = machine.join(&url.parse().unwrap()).unwrap_err();
    assert!(
        matches!(
            refused,
            JoinError::NotReached(HttpError::Unreachable { .. })
        ),
        "{refused}"
    );
    assert!(control.heard.recv().is_err(), "no request, so no token");
}
