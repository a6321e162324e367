//! A body of a manifest: signed by the right keys, whatever it says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bc_protocol::digest::Pin;
use bc_protocol::release::{Refusal, Trust, verify};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::EncodePublicKey as _;

/// Judges a body that two keys signed. One that is believed is the only form of what it says.
pub(crate) fn hold(body: &[u8]) {
    // Most bodies do not parse: those are not worth two signatures.
    match judge(body, &[]) {
        Err(Refusal::Malformed(_)) => return,
        Err(Refusal::Threshold { have: 0, .. }) => {}
        other => panic!("expected no signer of a file without signatures, found {other:?}"),
    }
    match judge(body, &[1, 2]) {
        Ok(found) => {
            assert_eq!(found, body, "the judged bytes are others");
            let read: serde_json::Value = serde_json::from_slice(body).unwrap();
            let canonical = serde_json_canonicalizer::to_vec(&read).unwrap();
            assert_eq!(canonical, body, "believed in a form that is not canonical");
        }
        Err(Refusal::Malformed(problem)) => panic!("malformed once it is signed: {problem}"),
        Err(
            Refusal::Threshold { .. }
            | Refusal::NotCanonical(_)
            | Refusal::Product { .. }
            | Refusal::Expired { .. },
        ) => {}
    }
}

fn judge(body: &[u8], signers: &[u8]) -> Result<Vec<u8>, Refusal> {
    let signatures: Vec<_> = signers
        .iter()
        .map(|number| {
            let signature: Signature = key(*number).sign(body);
            let sig = STANDARD.encode(signature.to_bytes());
            format!(r#"{{"kid":"{}","sig":"{sig}"}}"#, pin(*number))
        })
        .collect();
    let file = format!(
        r#"{{"manifest":"{}","signatures":[{}]}}"#,
        STANDARD.encode(body),
        signatures.join(",")
    );
    let trust = Trust::new([pin(1), pin(2)], 2).unwrap();
    let now = "2026-12-01T21:00:00Z".parse().unwrap();
    verify(file.as_bytes(), &trust, "bcd", now).map(|verified| verified.body().to_vec())
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number; 32]).unwrap()
}

fn pin(number: u8) -> Pin {
    let spki = key(number).verifying_key().to_public_key_der().unwrap();
    Pin::of_spki(spki.as_bytes())
}
