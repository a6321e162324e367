use std::collections::BTreeMap;

use bc_protocol::{
    digest::Sha256,
    release::{
        Artifact, InstalledManifest, Trust,
        sign::{ManifestDraft, SigningKey, cosign, sign},
        verify_installed,
    },
    sequence::Sequence,
    time::Timestamp,
};

use super::{AdmitRefusal, Known, Verdict, decide};
use crate::release::{PRODUCT, artifact::ArtifactError};

fn key(number: u8) -> SigningKey {
    SigningKey::from_scalar(&[number; 32]).unwrap()
}

/// What one manifest says; `..release()` fills the rest.
#[derive(Clone)]
struct Made {
    version: &'static str,
    sequence: u64,
    issued: i64,
    lasts: i64,
    files: Vec<(&'static str, Option<&'static str>)>,
    keys: Vec<u8>,
    signers: Vec<u8>,
}

fn release() -> Made {
    Made {
        version: "1.0.0",
        sequence: 10,
        issued: 1_000_000,
        lasts: 1_000,
        files: vec![("bcd-linux-amd64", Some("linux-amd64"))],
        keys: vec![1, 2, 3],
        signers: vec![1],
    }
}

impl Made {
    fn manifest(&self) -> InstalledManifest {
        let artifact = |(name, platform): &(&str, Option<&str>)| {
            let platform = platform.map(|platform| platform.parse().unwrap());
            let digest = Sha256::of(name.as_bytes());
            Artifact::new((*name).to_owned(), platform, digest, 5).unwrap()
        };
        let body = ManifestDraft {
            product: PRODUCT.to_owned(),
            version: self.version.parse().unwrap(),
            sequence: Sequence::new(self.sequence).unwrap(),
            issued_at: Timestamp::from_unix(self.issued).unwrap(),
            expires_at: Timestamp::from_unix(self.issued + self.lasts).unwrap(),
            keys: self
                .keys
                .iter()
                .map(|&number| key(number).public().clone())
                .collect(),
            extensions: BTreeMap::new(),
            artifacts: self.files.iter().map(artifact).collect(),
        }
        .into_body()
        .unwrap();
        let (first, rest) = self.signers.split_first().unwrap();
        let mut published = sign(body, &key(*first)).unwrap();
        for &number in rest {
            published = cosign(&published, &key(number)).unwrap();
        }
        let trust = Trust::new([1, 2, 3].map(|number| key(number).pin()), 1).unwrap();
        verify_installed(&published, &trust, PRODUCT).unwrap()
    }
}

fn beside(candidate: Made, stored: Made) -> Result<Verdict, AdmitRefusal> {
    let stored = stored.manifest();
    let known = Known {
        same_version: Some(&stored),
        highest: Sequence::new(50).ok(),
    };
    decide(&candidate.manifest(), known)
}

fn alone(candidate: Made, highest: Option<u64>) -> Result<Verdict, AdmitRefusal> {
    let known = Known {
        same_version: None,
        highest: highest.map(|highest| Sequence::new(highest).unwrap()),
    };
    decide(&candidate.manifest(), known)
}

#[test]
fn the_same_again_is_there_already() {
    assert_eq!(beside(release(), release()), Ok(Verdict::Stored));
}

#[test]
fn one_signature_more_renews_and_one_less_does_not() {
    let both = Made {
        signers: vec![1, 2],
        ..release()
    };
    assert_eq!(beside(both.clone(), release()), Ok(Verdict::Renewal));
    assert_eq!(beside(release(), both), Ok(Verdict::Stored));
}

#[test]
fn newer_dates_and_other_keys_renew() {
    for renewal in [
        Made {
            issued: 1_000_001,
            ..release()
        },
        Made {
            issued: 1_000_001,
            lasts: 5,
            ..release()
        },
        Made {
            issued: 1_000_001,
            keys: vec![2, 3],
            signers: vec![2],
            ..release()
        },
    ] {
        assert_eq!(beside(renewal, release()), Ok(Verdict::Renewal));
    }
}

#[test]
fn what_differs_without_being_newer_is_no_renewal() {
    for other in [
        Made {
            issued: 999_999,
            ..release()
        },
        Made {
            lasts: 2_000,
            ..release()
        },
        Made {
            keys: vec![1],
            ..release()
        },
    ] {
        let refused = beside(other, release());
        assert!(
            matches!(refused, Err(AdmitRefusal::NotNewer { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn one_version_is_one_content_and_one_sequence() {
    // Also where it is newer, and where the sequence alone would be a rollback or an advance.
    for other in [
        Made {
            sequence: 11,
            ..release()
        },
        Made {
            sequence: 9,
            ..release()
        },
        Made {
            sequence: 60,
            issued: 1_000_001,
            ..release()
        },
        Made {
            files: vec![("bcd-linux-arm64", Some("linux-arm64"))],
            ..release()
        },
        Made {
            files: vec![],
            issued: 1_000_001,
            ..release()
        },
    ] {
        let refused = beside(other, release());
        assert!(
            matches!(refused, Err(AdmitRefusal::OtherContent { .. })),
            "{refused:?}"
        );
    }
}

// I18
#[test]
fn sequences_only_grow() {
    assert_eq!(alone(release(), None), Ok(Verdict::New));
    assert_eq!(alone(release(), Some(9)), Ok(Verdict::New));
    for highest in [10, 11] {
        let refused = alone(release(), Some(highest));
        assert!(
            matches!(refused, Err(AdmitRefusal::Rollback { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_rollback_is_named_before_its_artifacts() {
    let bare = Made {
        files: vec![],
        ..release()
    };
    assert!(matches!(
        alone(bare.clone(), Some(10)),
        Err(AdmitRefusal::Rollback { .. })
    ));
    assert_eq!(alone(bare, Some(9)), Err(ArtifactError::NoLinux.into()));
}

#[test]
fn every_platform_has_one_binary_and_linux_has_one() {
    let linux = ("bcd-linux-amd64", Some("linux-amd64"));
    let archive = ("bcd_linux_amd64.tar.gz", Some("linux-amd64"));
    let windows = ("bcd.windows", Some("windows-amd64"));
    let twin = ("bcd2-linux-amd64", Some("linux-amd64"));
    let nothing = ("SHA256SUMS", None);
    for (files, accepted) in [
        (vec![linux], true),
        (vec![linux, archive, nothing, windows], true),
        (vec![archive, nothing], false),
        (vec![windows], false),
        (vec![linux, twin], false),
        (vec![], false),
    ] {
        let decided = alone(
            Made {
                files: files.clone(),
                ..release()
            },
            None,
        );
        assert_eq!(decided.is_ok(), accepted, "{files:?}: {decided:?}");
    }
}
