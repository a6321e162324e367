//! Every reason not to install a release, by a real node and by a real helper: each has its code, and leaves what is
//! durable as it was.

use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    platform::Platform,
    release::Artifact,
    release::sign::{ManifestDraft, SigningKey},
    sequence::Sequence,
    session::Outcome,
    spec::DaemonSection,
    time::Timestamp,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::fleet::{Fleet, Release, publish};
use super::node::Node;
use super::session::Session;
use super::{outcome, spec, upgrade};

/// The release that the node has confirmed, whose floor the others meet.
const CONFIRMED: u64 = 5;

/// A release with one thing wrong.
struct Bad {
    what: &'static str,
    code: &'static str,
    section: DaemonSection,
    served: Vec<u8>,
    slot: SpareSlot,
}

/// Whether the release had to be in its slot to be refused: it is run there, and nothing names it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpareSlot {
    Untouched,
    Written,
}

/// What the good release would be, from which each bad one differs.
struct Forge<'a> {
    fleet: &'a Fleet,
    confirmed: &'a Release,
}

impl Forge<'_> {
    fn draft(&self, binary: &[u8], platform: &str) -> ManifestDraft {
        let platform: Platform = platform.parse().unwrap();
        let (digest, size) = (Sha256::of(binary), binary.len() as u64);
        let artifact = Artifact::new(format!("bcd-{platform}"), Some(platform), digest, size);
        ManifestDraft {
            product: "bcd".to_owned(),
            version: self.confirmed.version.clone(),
            sequence: Sequence::new(CONFIRMED + 1).unwrap(),
            issued_at: Timestamp::from_unix(1_700_000_000).unwrap(),
            expires_at: Timestamp::from_unix(4_000_000_000).unwrap(),
            keys: vec![self.fleet.signer.public().clone()],
            extensions: Default::default(),
            artifacts: vec![artifact.unwrap()],
        }
    }

    fn bad(&self, what: &'static str, code: &'static str, spoil: impl FnOnce(&mut Making)) -> Bad {
        let mut served = self.confirmed.bytes.clone();
        served.extend(what.as_bytes());
        let mut making = Making {
            platform: Platform::host().to_string(),
            signed: served.clone(),
            served,
            edit: Box::new(|_| {}),
            body: Box::new(|body| body),
            signer: None,
            published: None,
            select: Box::new(|_| {}),
            slot: SpareSlot::Untouched,
        };
        spoil(&mut making);
        let mut draft = self.draft(&making.signed, &making.platform);
        (making.edit)(&mut draft);
        if let Some(stranger) = &making.signer {
            draft.keys = vec![stranger.public().clone()];
        }
        let version = draft.version.clone();
        let body = (making.body)(draft.into_body().unwrap());
        let signature = match (making.published, &making.signer) {
            (Some(published), _) => published,
            (None, Some(stranger)) => bc_protocol::release::sign::sign(body, stranger).unwrap(),
            (None, None) => publish(&body, &self.fleet.raw_signer),
        };
        let mut section = DaemonSection {
            version,
            url: format!("{}/bcd", self.fleet.control),
            sha256: Sha256::of(&making.signed),
            signature,
            attempt: AttemptId::derived(&[what.as_bytes()]),
        };
        (making.select)(&mut section);
        Bad {
            what,
            code,
            section,
            served: making.served,
            slot: making.slot,
        }
    }

    fn all(&self) -> Vec<Bad> {
        let other = match Platform::host().as_str() {
            "linux-arm64" => "linux-amd64",
            _ => "linux-arm64",
        };
        vec![
            self.bad("no manifest at all", "malformed", |making| {
                making.published = Some(b"{}".to_vec());
            }),
            self.bad("nobody's signature", "threshold", |making| {
                making.signer = Some(SigningKey::from_scalar(&[9; 32]).unwrap());
            }),
            self.bad("a space in the body", "not-canonical", |making| {
                making.body = Box::new(|body| [b" ".as_slice(), &body].concat());
            }),
            self.bad("another product", "product", |making| {
                making.edit = Box::new(|draft| draft.product = "other".to_owned());
            }),
            self.bad("long over", "expired", |making| {
                making.edit = Box::new(|draft| {
                    draft.expires_at = Timestamp::from_unix(1_700_000_001).unwrap();
                });
            }),
            self.bad("below the floor", "rollback", |making| {
                making.edit =
                    Box::new(|draft| draft.sequence = Sequence::new(CONFIRMED - 1).unwrap());
            }),
            self.bad("another binary of that sequence", "rollback", |making| {
                making.edit = Box::new(|draft| draft.sequence = Sequence::new(CONFIRMED).unwrap());
            }),
            self.bad("a section of another version", "version", |making| {
                making.select = Box::new(|section| section.version = "7.7.7".parse().unwrap());
            }),
            self.bad("for other machines alone", "platform", |making| {
                making.platform = other.to_owned();
            }),
            self.bad("a section of another digest", "digest", |making| {
                making.select = Box::new(|section| section.sha256 = Sha256::of(b"other"));
            }),
            self.bad("a binary with a wrong bit", "digest", |making| {
                *making.served.last_mut().unwrap() ^= 1;
            }),
            self.bad("a binary that is too long", "size", |making| {
                making.served.push(0);
            }),
            self.bad("made for another machine", "platform", |making| {
                making.signed[18] ^= 0xff;
                making.served.clone_from(&making.signed);
            }),
            self.bad("of another version than it says", "preflight", |making| {
                making.edit = Box::new(|draft| draft.version = "7.7.7".parse().unwrap());
                making.slot = SpareSlot::Written;
            }),
        ]
    }
}

type Change<T> = Box<dyn FnOnce(&mut T)>;

struct Making {
    platform: String,
    signed: Vec<u8>,
    served: Vec<u8>,
    edit: Change<ManifestDraft>,
    body: Box<dyn FnOnce(Vec<u8>) -> Vec<u8>>,
    signer: Option<SigningKey>,
    published: Option<Vec<u8>>,
    select: Change<DaemonSection>,
    slot: SpareSlot,
}

/// Brings a node to the confirmed release.
async fn confirmed(fleet: &Fleet, release: &Release) -> Session {
    let mut first = fleet.session().await;
    first.say(spec(1, fleet.section(release, "good"))).await;
    upgrade(&mut first).await;
    let mut session = fleet.session().await;
    session.facts_until(|facts| facts.trial.is_none()).await;
    session
}

#[tokio::test]
async fn a_node_refuses_every_bad_release_by_its_code_and_changes_nothing() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(CONFIRMED);
    fleet.serve(&release);
    let node = Node::new(&fleet);
    node.join();
    let _supervise = node.supervise();
    let mut session = confirmed(&fleet, &release).await;
    let forge = Forge {
        fleet: &fleet,
        confirmed: &release,
    };
    for (number, bad) in forge.all().into_iter().enumerate() {
        let before = node.durable();
        fleet.serve_bytes(&bad.served);
        let attempt = bad.section.attempt.clone();
        session.say(spec(number as u64 + 2, bad.section)).await;
        let facts = session
            .facts_until(|facts| {
                let last = facts.last_attempt.as_ref();
                last.is_some_and(|last| last.id == attempt && last.is_final)
            })
            .await;
        assert_eq!(
            outcome(&facts),
            Some((Outcome::Refused, true)),
            "{}",
            bad.what
        );
        let last = facts.last_attempt.clone().unwrap();
        assert_eq!(last.code, bad.code, "{}: {}", bad.what, last.message);
        assert_eq!(facts.digest, release.digest, "{}", bad.what);
        assert_unchanged(&before, &node.durable(), bad.what, bad.slot);
    }
}

/// The helper trusts no node's judgement: asked directly, it refuses the same.
#[tokio::test]
async fn a_helper_refuses_every_bad_release_by_its_code_and_changes_nothing() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(CONFIRMED);
    fleet.serve(&release);
    let node = Node::helped(&fleet, nix::unistd::geteuid().as_raw());
    node.join();
    let supervise = node.supervise();
    // Where no record is, there is nothing to help with.
    node.booted().await;
    let _helper = node.helper();
    let session = confirmed(&fleet, &release).await;
    supervise.terminate();
    drop(session);
    let forge = Forge {
        fleet: &fleet,
        confirmed: &release,
    };
    for bad in forge.all() {
        let before = node.durable();
        let answer = stage(&node, &bad);
        assert_eq!(
            (&answer["answer"], &answer["outcome"]),
            (&json!("ended"), &json!("refused")),
            "{}: {answer}",
            bad.what
        );
        assert_eq!(answer["code"], bad.code, "{}: {answer}", bad.what);
        assert_unchanged(&before, &node.durable(), bad.what, bad.slot);
    }
}

fn assert_unchanged(
    before: &[(String, String)],
    after: &[(String, String)],
    what: &str,
    slot: SpareSlot,
) {
    let relevant = |state: &[(String, String)]| -> Vec<(String, String)> {
        let state = state.iter().filter(|(name, _)| {
            // The confirmed release lies in the other one.
            slot == SpareSlot::Untouched || !name.starts_with("slots/a")
        });
        state.cloned().collect()
    };
    assert_eq!(relevant(before), relevant(after), "{what}");
}

/// Hands the release to the helper, with its binary as an open file.
fn stage(node: &Node, bad: &Bad) -> Value {
    let mut binary = tempfile::tempfile().unwrap();
    binary.write_all(&bad.served).unwrap();
    let request = json!({
        "version": 1,
        "operation": "update.stage",
        "arguments": {"section": bad.section, "binary": "descriptor"},
    })
    .to_string();
    let mut stream = UnixStream::connect(node.path("helper.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let descriptors = [binary.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let first = [IoSlice::new(&length)];
    sendmsg(&stream, &first, &mut control, SendFlags::empty()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut reply).unwrap();
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    reply["answer"].clone()
}
