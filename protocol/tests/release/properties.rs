//! What must hold for every input.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bc_protocol::digest::Sha256;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, cosign, sign};
use bc_protocol::release::{Artifact, verify};
use bc_protocol::sequence::Sequence;
use bc_protocol::time::Timestamp;
use proptest::prelude::*;

use super::forge::*;

fn is_refused(published: &[u8]) -> bool {
    verify(published, &trust(), PRODUCT, now()).is_err()
}

#[test]
fn one_flipped_bit_anywhere_in_the_file_is_refused() {
    let good = signed(body()).into_bytes();
    for at in 0..good.len() {
        let mut bent = good.clone();
        bent[at] ^= 1 << (at % 8);
        assert!(is_refused(&bent), "bit {} of byte {at}", at % 8);
    }
}

#[test]
fn every_beginning_of_a_file_is_refused() {
    let good = signed(body()).into_bytes();
    for end in 0..good.len() {
        assert!(is_refused(&good[..end]), "{end} bytes");
    }
}

/// Pieces of manifests: bytes at random never get past the first brace.
fn json_like() -> impl Strategy<Value = Vec<u8>> {
    let good = body();
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "null",
        "14",
        "-",
        "1e9",
        "\"manifest\"",
        "\"signatures\"",
        "\"type\"",
        "\"keys\"",
        "\"ext\"",
        "\"artifacts\"",
        "\"bettercompute.release\"",
        "\\u0000",
        "\\ud800",
        "\u{feff}",
        "é",
        " ",
    ];
    let piece = prop_oneof![
        prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        (0..good.len(), 1_usize..200).prop_map(move |(at, length)| good.as_bytes()
            [at..(at + length).min(good.len())]
            .to_vec()),
        prop::collection::vec(any::<u8>(), 1..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_file_makes_the_judge_panic(file in json_like()) {
        prop_assert!(is_refused(&file));
    }

    #[test]
    fn no_signed_body_makes_the_judge_panic(body in json_like()) {
        let verified = verify(signed(&body).as_bytes(), &trust(), PRODUCT, now());
        prop_assert!(verified.is_err() || verified.unwrap().body() == body);
    }

    #[test]
    fn no_byte_of_the_body_can_change(at in 0..body().len(), xor in 1_u8..) {
        let mut bent = body().into_bytes();
        bent[at] ^= xor;
        let signatures = [ALICE.sign(body()), BOB.sign(body())];
        prop_assert!(is_refused(published(bent, &signatures).as_bytes()));
    }

    #[test]
    fn no_byte_of_a_signature_can_change(at in 0_usize..64, xor in 1_u8..) {
        let mut bent = BOB.raw(body());
        bent[at] ^= xor;
        let bent = signature_entry(&BOB.pin().to_string(), &STANDARD.encode(bent));
        prop_assert!(is_refused(published(body(), &[ALICE.sign(body()), bent]).as_bytes()));
    }

    #[test]
    fn a_signed_body_with_a_changed_byte_is_believed_only_as_it_is(at in 0..body().len(), byte: u8) {
        let mut bent = body().into_bytes();
        bent[at] = byte;
        if let Ok(verified) = verify(signed(&bent).as_bytes(), &trust(), PRODUCT, now()) {
            prop_assert_eq!(verified.body(), bent);
        }
    }

    #[test]
    fn what_is_signed_is_believed_as_it_was_meant(
        extensions in prop::collection::btree_map("[^!].{0,20}", any::<String>(), 0..16),
        names in prop::collection::btree_set("[^/\\\\\\p{Cc}]{3,40}", 0..8),
        sequence in 1_u64..1 << 53,
        size in 1_u64..=512 << 20,
    ) {
        let artifacts: Vec<Artifact> = names
            .iter()
            .map(|name| Artifact::new(name.clone(), None, Sha256::of(name.as_bytes()), size).unwrap())
            .collect();
        let draft = draft_of(&extensions, artifacts.clone(), sequence);
        let published = sign(draft.into_body().unwrap(), &SigningKey::from_scalar(&ALICE.scalar()).unwrap()).unwrap();
        let published = cosign(&published, &SigningKey::from_scalar(&BOB.scalar()).unwrap()).unwrap();
        let verified = verify(&published, &trust(), PRODUCT, now()).unwrap();
        let read: BTreeMap<String, String> =
            verified.extensions().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        prop_assert_eq!(read, extensions);
        prop_assert_eq!(verified.sequence().get(), sequence);
        prop_assert_eq!(verified.artifacts(), artifacts);
    }
}

fn draft_of(
    extensions: &BTreeMap<String, String>,
    artifacts: Vec<Artifact>,
    sequence: u64,
) -> ManifestDraft {
    ManifestDraft {
        product: PRODUCT.to_owned(),
        version: "1.4.0".parse().unwrap(),
        sequence: Sequence::new(sequence).unwrap(),
        issued_at: Timestamp::from_unix(0).unwrap(),
        expires_at: "2027-05-28T21:00:00Z".parse().unwrap(),
        keys: vec![ALICE.public(), BOB.public()],
        extensions: extensions.clone(),
        artifacts,
    }
}
