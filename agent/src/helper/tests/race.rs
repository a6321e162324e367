//! A file that changes while it is copied.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bc_protocol::digest::Sha256;

use super::file;
use crate::content::Seen;
use crate::updater::host::tests::home::{Home, Release};
use crate::updater::host::{HostError, Source};
use crate::updater::refusal::Refused;

/// A file that another thread keeps changing, back and forth.
fn while_it_changes<T>(release: &Release, folder: &Path, work: impl FnOnce(&File) -> T) -> T {
    let changing = file(folder, &release.binary);
    let (good, last) = (
        *release.binary.last().unwrap(),
        release.binary.len() as u64 - 1,
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                changing.write_all_at(&[good ^ 1], last).unwrap();
                changing.write_all_at(&[good], last).unwrap();
            }
        });
        let from = File::open(folder.join("download")).unwrap();
        let done = work(&from);
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// I15: what was hashed is what was kept, however often the file changes in between.
#[test]
fn the_digest_that_was_judged_is_the_one_that_is_kept() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let release = Release::good("1.1.0", 11);
    let (section, digest) = (release.section(), Sha256::of(&release.binary));
    let (mut taken, mut refused) = (0, 0);
    while_it_changes(&release, folder.path(), |from| {
        for _ in 0..2_000 {
            match home.host.receive(&section, from) {
                Ok(copy) => {
                    let kept = copy.unwrap().file().try_clone().unwrap();
                    let mut kept = Seen::reading(kept).unwrap();
                    assert_eq!(kept.content().unwrap().digest, digest);
                    taken += 1;
                }
                Err(HostError::Refused(Refused::Digest { .. })) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    });
    assert!(taken > 0 && refused > 0, "{taken} {refused}");
    assert!(matches!(
        home.host.admit(&section).unwrap().source,
        Source::Download(_)
    ));
}

/// The planted bug that the test above is there for: hash what the client holds, then copy it.
#[cfg(feature = "faults")]
#[test]
fn a_copy_that_is_judged_before_it_is_made_loses_the_race() {
    let folder = tempfile::tempdir().unwrap();
    let release = Release::good("1.1.0", 11);
    let digest = Sha256::of(&release.binary);
    let until = crate::clock::instant() + std::time::Duration::from_secs(1);
    let lost = while_it_changes(&release, folder.path(), |from| {
        while crate::clock::instant() < until {
            let mut from = from.try_clone().unwrap();
            if crate::content::content_of(&mut from).unwrap().digest == digest {
                let mut copy = vec![0; release.binary.len()];
                from.read_exact_at(&mut copy, 0).unwrap();
                if Sha256::of(&copy) != digest {
                    return true;
                }
            }
        }
        false
    });
    assert!(lost, "expected the naive copy to lose within a second");
}
