//! Releases that a key of the tests has signed.

use bc_protocol::{
    digest::Sha256,
    release::{
        Artifact, Trust,
        sign::{ManifestDraft, SigningKey, sign},
    },
    sequence::Sequence,
};

use crate::{clock::Moment, db::Db, release::PRODUCT, release::store};

fn key() -> SigningKey {
    SigningKey::from_scalar(&[7; 32]).unwrap()
}

/// Whom the tests believe.
pub(crate) fn trust() -> Trust {
    Trust::new([key().pin()], 1).unwrap()
}

/// Registers a release with one binary, for `linux-amd64`, whose bytes are its version.
pub(crate) async fn register(db: &Db, version: &str, sequence: u64) {
    let now = Moment::now();
    let artifact = Artifact::new(
        "bcd-linux-amd64".to_owned(),
        Some("linux-amd64".parse().unwrap()),
        Sha256::of(version.as_bytes()),
        5,
    );
    let body = ManifestDraft {
        product: PRODUCT.to_owned(),
        version: version.parse().unwrap(),
        sequence: Sequence::new(sequence).unwrap(),
        issued_at: now.timestamp().unwrap(),
        expires_at: now
            .plus(std::time::Duration::from_secs(86_400))
            .timestamp()
            .unwrap(),
        keys: vec![key().public().clone()],
        extensions: std::collections::BTreeMap::new(),
        artifacts: vec![artifact.unwrap()],
    }
    .into_body()
    .unwrap();
    let published = sign(body, &key()).unwrap();
    let by = store::Registrar {
        tenant: &"root".parse().unwrap(),
        actor: "alice",
    };
    store::register(db, &published, &trust(), by, now)
        .await
        .unwrap();
}
