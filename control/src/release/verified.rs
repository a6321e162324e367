//! What has been verified in this process.
//!
//! Takes a registered file and whom to believe, gives what the verifier says. The same bytes under the same pins have the same
//! verdict, whenever they are read again: a pass, and every spec that is pushed, reads the release that it is about. Refusals
//! are found anew each time.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use bc_protocol::{
    digest::Sha256,
    release::{InstalledManifest, Refusal, Trust, verify_installed},
};

use super::PRODUCT;

/// Releases that are asked for in turn are few; each takes some kilobytes.
const KEPT_MAX: usize = 32;

struct Kept {
    digest: Sha256,
    trust: Trust,
    manifest: InstalledManifest,
}

static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());

/// As [`verify_installed`], which runs once for each file and trust.
pub(crate) fn installed(published: &[u8], trust: &Trust) -> Result<InstalledManifest, Refusal> {
    let digest = Sha256::of(published);
    if let Some(manifest) = find(digest, trust) {
        return Ok(manifest);
    }
    let manifest = verify_installed(published, trust, PRODUCT)?;
    // No code panics in between.
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= KEPT_MAX {
        all.pop_front();
    }
    all.push_back(Kept {
        digest,
        trust: trust.clone(),
        manifest: manifest.clone(),
    });
    Ok(manifest)
}

fn find(digest: Sha256, trust: &Trust) -> Option<InstalledManifest> {
    let all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |kept: &&Kept| kept.digest == digest && kept.trust == *trust;
    all.iter().find(same).map(|kept| kept.manifest.clone())
}

#[cfg(test)]
mod tests {
    use bc_protocol::{digest::Pin, release::Trust};

    use super::{find, installed};
    use crate::{
        db::{query_scalar, tests::fresh},
        rollout::tests::signed,
    };

    #[tokio::test]
    async fn other_pins_or_other_bytes_are_verified_anew() {
        let (db, _dir) = fresh().await;
        signed::register(&db, "7.0.0", 70).await;
        let published: Vec<u8> = query_scalar("SELECT published FROM daemon_releases")
            .fetch_one(db.reader())
            .await
            .unwrap();
        let trust = signed::trust();
        let manifest = installed(&published, &trust).unwrap();
        let digest = bc_protocol::digest::Sha256::of(&published);
        assert_eq!(find(digest, &trust), Some(manifest.clone()));
        assert_eq!(installed(&published, &trust).unwrap(), manifest);
        let stranger = Trust::new([Pin::of_spki(b"nobody's")], 1).unwrap();
        assert!(installed(&published, &stranger).is_err());
        let mut longer = published.clone();
        longer.push(b'x');
        assert!(installed(&longer, &trust).is_err());
    }
}
