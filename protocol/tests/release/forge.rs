//! Makes published manifests by hand, good and bad, from fixed keys.
//!
//! Shares no code with the signer under test: bodies are plain text in canonical form, so that a test can bend any byte
//! of them and still sign the result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bc_protocol::digest::Pin;
use bc_protocol::release::{PublicKey, Trust};
use bc_protocol::time::Timestamp;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::EncodePublicKey as _;

/// One fixed key: alice, bob and carol are trusted, mallory is not.
#[derive(Clone, Copy)]
pub(crate) struct Signer(u8);

pub(crate) const ALICE: Signer = Signer(1);
pub(crate) const BOB: Signer = Signer(2);
pub(crate) const CAROL: Signer = Signer(3);
pub(crate) const MALLORY: Signer = Signer(4);

impl Signer {
    /// A key beyond the four that have names.
    pub(crate) const fn numbered(number: u8) -> Self {
        Self(number)
    }

    pub(crate) fn private(self) -> p256::ecdsa::SigningKey {
        p256::ecdsa::SigningKey::from_slice(&[self.0; 32]).unwrap()
    }

    pub(crate) fn scalar(self) -> [u8; 32] {
        [self.0; 32]
    }

    pub(crate) fn spki(self) -> Vec<u8> {
        self.private()
            .verifying_key()
            .to_public_key_der()
            .unwrap()
            .into_vec()
    }

    pub(crate) fn public(self) -> PublicKey {
        PublicKey::from_spki(&self.spki()).unwrap()
    }

    pub(crate) fn pin(self) -> Pin {
        Pin::of_spki(&self.spki())
    }

    /// The entry of this key in a body.
    pub(crate) fn entry(self) -> String {
        key_entry(&self.pin().to_string(), &STANDARD.encode(self.spki()))
    }

    /// The signature over `body`, as the file holds it.
    pub(crate) fn sign(self, body: impl AsRef<[u8]>) -> String {
        signature_entry(&self.pin().to_string(), &STANDARD.encode(self.raw(body)))
    }

    pub(crate) fn raw(self, body: impl AsRef<[u8]>) -> [u8; 64] {
        let signature: p256::ecdsa::Signature = self.private().sign(body.as_ref());
        signature.to_bytes().into()
    }
}

pub(crate) fn key_entry(kid: &str, spki: &str) -> String {
    format!(r#"{{"alg":"ES256","kid":"{kid}","spki":"{spki}"}}"#)
}

pub(crate) fn signature_entry(kid: &str, sig: &str) -> String {
    format!(r#"{{"kid":"{kid}","sig":"{sig}"}}"#)
}

/// Two of alice, bob and carol.
pub(crate) fn trust() -> Trust {
    Trust::new([ALICE.pin(), BOB.pin(), CAROL.pin()], 2).unwrap()
}

/// Two days after the good body was issued.
pub(crate) fn now() -> Timestamp {
    "2026-12-01T21:00:00Z".parse().unwrap()
}

pub(crate) const PRODUCT: &str = "bcd";

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(crate) fn artifact(name: &str, platform: &str) -> String {
    format!(r#"{{"name":"{name}","platform":"{platform}","sha256":"{DIGEST}","size":7}}"#)
}

/// The body that every vector is a variation of, byte for byte canonical.
pub(crate) fn body() -> String {
    let artifacts = [
        artifact("bcd-linux-amd64", "linux-amd64"),
        artifact("bcd-linux-arm64", "linux-arm64"),
    ]
    .join(",");
    let keys = [ALICE, BOB, CAROL].map(Signer::entry).join(",");
    [
        format!(r#"{{"artifacts":[{artifacts}],"#),
        r#""expiresAt":"2027-05-28T21:00:00Z","issuedAt":"2026-11-29T21:00:00Z","#.to_owned(),
        format!(r#""keys":[{keys}],"#),
        r#""product":"bcd","sequence":14,"spec":1,"type":"bettercompute.release","version":"1.4.0"}"#.to_owned(),
    ]
    .concat()
}

/// The good body with one thing changed; the thing must be there.
pub(crate) fn body_with(from: &str, to: &str) -> String {
    replaced(&body(), from, to)
}

pub(crate) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in {text}");
    text.replacen(from, to, 1)
}

/// The published file of a body with those signatures.
pub(crate) fn published(body: impl AsRef<[u8]>, signatures: &[String]) -> String {
    file(&STANDARD.encode(body), &signatures.join(","))
}

pub(crate) fn file(manifest: &str, signatures: &str) -> String {
    format!(r#"{{"manifest":"{manifest}","signatures":[{signatures}]}}"#)
}

/// The published file of a body that alice and bob signed.
pub(crate) fn signed(body: impl AsRef<[u8]>) -> String {
    let signatures = [ALICE.sign(&body), BOB.sign(&body)];
    published(body, &signatures)
}
