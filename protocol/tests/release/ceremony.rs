//! Making a release with several signers, and reading it back.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::digest::Sha256;
use bc_protocol::platform::Platform;
use bc_protocol::release::manifest::ArtifactError;
use bc_protocol::release::sign::{KeyError, ManifestDraft, SignError, SigningKey, cosign, sign};
use bc_protocol::release::{Artifact, PublicKey, Refusal, VerifiedManifest, verify};
use bc_protocol::sequence::Sequence;

use super::forge::*;

fn key(signer: Signer) -> SigningKey {
    SigningKey::from_scalar(&signer.scalar()).unwrap()
}

fn draft() -> ManifestDraft {
    let empty = Sha256::of(b"");
    let file =
        |name: &str| Artifact::new(name.to_owned(), Platform::infer(name), empty, 7).unwrap();
    ManifestDraft {
        product: PRODUCT.to_owned(),
        version: "v1.4.0".parse().unwrap(),
        sequence: Sequence::new(14).unwrap(),
        issued_at: "2026-11-29T21:00:00Z".parse().unwrap(),
        expires_at: "2027-05-28T21:00:00Z".parse().unwrap(),
        keys: vec![ALICE.public(), BOB.public(), CAROL.public()],
        extensions: BTreeMap::new(),
        artifacts: vec![file("bcd-linux-arm64"), file("bcd-linux-amd64")],
    }
}

fn signed_by_two(draft: ManifestDraft) -> VerifiedManifest {
    let published = cosign(
        &sign(draft.into_body().unwrap(), &key(ALICE)).unwrap(),
        &key(BOB),
    )
    .unwrap();
    verify(&published, &trust(), PRODUCT, now()).unwrap()
}

#[test]
fn a_draft_becomes_the_body_that_was_written_by_hand() {
    assert_eq!(
        String::from_utf8(draft().into_body().unwrap()).unwrap(),
        body()
    );
}

#[test]
fn two_signers_make_the_file_that_was_written_by_hand() {
    let published = cosign(
        &sign(draft().into_body().unwrap(), &key(ALICE)).unwrap(),
        &key(BOB),
    )
    .unwrap();
    assert_eq!(String::from_utf8(published).unwrap(), signed(body()));
}

#[test]
fn a_verified_manifest_tells_what_was_signed() {
    let verified = signed_by_two(draft());
    let linux: Platform = "linux-amd64".parse().unwrap();
    assert_eq!(verified.version().as_str(), "1.4.0");
    assert_eq!(verified.sequence().get(), 14);
    assert_eq!(
        verified.signers(),
        &BTreeSet::from([ALICE.pin(), BOB.pin()])
    );
    assert_eq!(
        verified.artifact_for(&linux).unwrap().name(),
        "bcd-linux-amd64"
    );
    assert_eq!(verified.body(), body().as_bytes());
    assert_eq!(verified.published(), signed(body()).as_bytes());
    assert_eq!(
        verified.artifact_for(&"darwin-arm64".parse().unwrap()),
        None
    );
}

#[test]
fn one_signature_is_too_few_until_the_second_comes() {
    let published = sign(draft().into_body().unwrap(), &key(ALICE)).unwrap();
    let refused = verify(&published, &trust(), PRODUCT, now()).unwrap_err();
    assert_eq!(
        refused,
        Refusal::Threshold {
            need: 2.try_into().unwrap(),
            have: 1
        }
    );
}

#[test]
fn signing_again_changes_nothing() {
    let once = sign(draft().into_body().unwrap(), &key(ALICE)).unwrap();
    assert_eq!(cosign(&once, &key(ALICE)).unwrap(), once);
}

#[test]
fn a_key_that_the_body_does_not_list_cannot_sign() {
    let refused = SignError::Unlisted { pin: MALLORY.pin() };
    let published = sign(draft().into_body().unwrap(), &key(ALICE)).unwrap();
    assert_eq!(cosign(&published, &key(MALLORY)), Err(refused.clone()));
    assert_eq!(
        sign(draft().into_body().unwrap(), &key(MALLORY)),
        Err(refused)
    );
}

#[test]
fn what_no_reader_would_accept_is_not_signed() {
    let signs = |change: fn(&mut ManifestDraft)| {
        let mut bent = draft();
        change(&mut bent);
        bent.into_body().map_err(|error| error.code())
    };
    assert!(signs(|_| {}).is_ok());
    assert_eq!(
        signs(|draft| draft.sequence = Sequence::PACKAGED),
        Err("malformed")
    );
    assert_eq!(
        signs(|draft| draft.keys.push(ALICE.public())),
        Err("malformed")
    );
    assert_eq!(
        signs(|draft| draft.artifacts.extend(draft.artifacts.clone())),
        Err("malformed")
    );
    assert_eq!(
        signs(|draft| drop(draft.extensions.insert("!must".into(), String::new()))),
        Err("malformed")
    );
    assert_eq!(
        signs(|draft| drop(draft.extensions.insert("x".into(), "x".repeat(70_000)))),
        Err("malformed")
    );
    assert_eq!(
        signs(|draft| draft.expires_at = draft.issued_at),
        Err("never-valid")
    );
    assert_eq!(
        sign(
            body_with(r#""sequence":14"#, r#""sequence":14.0"#).into_bytes(),
            &key(ALICE)
        )
        .unwrap_err()
        .code(),
        "malformed"
    );
    assert_eq!(
        sign(
            body_with(r#""sequence":14,"#, r#""sequence":14, "#).into_bytes(),
            &key(ALICE)
        )
        .unwrap_err()
        .code(),
        "not-canonical"
    );
}

#[test]
fn artifacts_are_plain_files_of_a_bounded_size() {
    let file = |name: &str, size| Artifact::new(name.to_owned(), None, Sha256::of(b""), size);
    assert!(file("bcd", 1).is_ok() && file("bcd", 512 << 20).is_ok());
    assert!(matches!(
        file("bcd", 0),
        Err(ArtifactError::Size { found: 0, .. })
    ));
    assert!(matches!(
        file("bcd", (512 << 20) + 1),
        Err(ArtifactError::Size { .. })
    ));
    assert!(matches!(file("../bcd", 1), Err(ArtifactError::Name { .. })));
}

#[test]
fn between_two_bare_binaries_of_one_platform_nobody_chooses() {
    let mut two = draft();
    two.artifacts.push(
        Artifact::new(
            "bcd2-linux-amd64".into(),
            Platform::infer("x-linux-amd64"),
            Sha256::of(b""),
            7,
        )
        .unwrap(),
    );
    let mut archive = draft();
    archive.artifacts.push(
        Artifact::new(
            "bcd-linux-amd64.tar.gz".into(),
            Platform::infer("x-linux-amd64"),
            Sha256::of(b""),
            7,
        )
        .unwrap(),
    );
    let linux: Platform = "linux-amd64".parse().unwrap();
    assert_eq!(signed_by_two(two).artifact_for(&linux), None);
    assert_eq!(
        signed_by_two(archive).artifact_for(&linux).unwrap().name(),
        "bcd-linux-amd64"
    );
}

#[test]
fn only_dates_and_keys_may_differ_in_one_release() {
    let first = signed_by_two(draft());
    let same = |change: fn(&mut ManifestDraft)| {
        let mut bent = draft();
        change(&mut bent);
        let other = signed_by_two(bent);
        assert_eq!(
            first.is_same_release_as(&other),
            other.is_same_release_as(&first)
        );
        first.is_same_release_as(&other)
    };
    assert!(same(|_| {}));
    assert!(same(
        |draft| draft.issued_at = "2026-11-30T21:00:00Z".parse().unwrap()
    ));
    assert!(same(
        |draft| draft.expires_at = "2028-05-28T21:00:00Z".parse().unwrap()
    ));
    assert!(same(|draft| draft.keys.push(MALLORY.public())));
    assert!(!same(|draft| draft.version = "1.4.1".parse().unwrap()));
    assert!(!same(|draft| draft.sequence = Sequence::new(15).unwrap()));
    assert!(!same(|draft| drop(draft.artifacts.pop())));
    assert!(!same(|draft| drop(
        draft.extensions.insert("note".into(), String::new())
    )));
}

#[test]
fn keys_survive_their_files() {
    let alice = key(ALICE);
    let read = SigningKey::from_pem(&alice.to_pem().unwrap()).unwrap();
    assert_eq!(read.pin(), ALICE.pin());
    assert_eq!(
        PublicKey::from_pem(&alice.public().to_pem().unwrap()).unwrap(),
        ALICE.public()
    );
}

#[test]
fn other_files_are_no_keys() {
    let alice = key(ALICE);
    let (private, public) = (alice.to_pem().unwrap(), alice.public().to_pem().unwrap());
    assert_eq!(SigningKey::from_pem(&public).unwrap_err(), KeyError::NotPem);
    assert_eq!(SigningKey::from_pem("").unwrap_err(), KeyError::NotPem);
    assert!(PublicKey::from_pem(&private).is_err());
    assert!(PublicKey::from_pem(&public[1..]).is_err());
    assert_eq!(
        SigningKey::from_scalar(&[0; 32]).unwrap_err(),
        KeyError::Scalar
    );
    assert_eq!(
        SigningKey::from_scalar(&[0xff; 32]).unwrap_err(),
        KeyError::Scalar
    );
}

#[test]
fn a_private_key_does_not_show_in_debug_output() {
    assert_eq!(
        format!("{:?}", key(ALICE)),
        format!("SigningKey({})", ALICE.pin())
    );
}
