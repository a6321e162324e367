//! Whether the same checkout gives the same bytes, wherever it lies.
//!
//! Takes what was made, makes it again in another folder, gives how many files are the same; one that differs is an
//! error that names it. Signatures are not made again: they say when.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use bc_protocol::digest::Sha256;

use super::{Builds, Dist, Sources, compile, packages, sbom};
use crate::build::{Checkout, Shipping};

/// Makes everything again. What is shipped is compiled again too, out of a copy of the checkout; daily builds are only
/// packed again.
pub(super) async fn compare(
    from: &Checkout,
    dist: &Dist,
    shipping: &Shipping,
    sources: &Sources,
) -> Result<usize> {
    let elsewhere = tempfile::Builder::new().prefix("bcd-again-").tempdir()?;
    let out = elsewhere.path().join("out");
    std::fs::create_dir_all(&out)?;
    let again = match dist.builds {
        Builds::Shipped => {
            let copy = from.copied_to(elsewhere.path())?;
            // The manual is text that was written here: no compiler has a part in what it says.
            Sources {
                manuals: sources.manuals.clone(),
                ..compile((&copy, dist.builds), shipping, &out).await?
            }
        }
        Builds::Daily => sources.clone(),
    };
    packages(&out, &again, (dist.builds.compression(), shipping))?;
    sbom::write(&out.join("sbom.cdx.json"), &shipping.version)?;
    same(&dist.out, &out)
}

/// Every file below `again` is one below `first` too, byte by byte. Gives how many there are.
fn same(first: &Path, again: &Path) -> Result<usize> {
    let made = digests(again, again)?;
    let differing: Vec<_> = made
        .iter()
        .filter(|(name, digest)| digest_of(&first.join(name)).ok() != Some(**digest))
        .map(|(name, _)| name.display().to_string())
        .collect();
    ensure!(
        differing.is_empty(),
        "expected the same bytes from another folder, found others in {}",
        differing.join(", ")
    );
    Ok(made.len())
}

fn digests(root: &Path, dir: &Path) -> Result<BTreeMap<PathBuf, Sha256>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(digests(root, &path)?);
        } else {
            let name = path.strip_prefix(root)?.to_owned();
            found.insert(name, digest_of(&path)?);
        }
    }
    Ok(found)
}

fn digest_of(path: &Path) -> Result<Sha256> {
    Ok(Sha256::of(&std::fs::read(path)?))
}

#[cfg(test)]
mod tests {
    use std::{fs::create_dir_all, path::Path};

    use super::same;
    use crate::dist::write;

    #[test]
    fn one_byte_that_differs_is_named_and_what_is_there_once_too() {
        let dir = tempfile::tempdir().unwrap();
        let (first, again) = (dir.path().join("first"), dir.path().join("again"));
        let put = |root: &Path, name: &str, text: &str| {
            create_dir_all(root).unwrap();
            write(&root.join(name), text).unwrap();
        };
        for root in [&first, &again] {
            put(root, "bin/bcd", "a program");
            put(root, "bcd.deb", "a package");
        }
        // What says when it was made is made once.
        put(&first, "release/manifest.json", "signed");
        assert_eq!(same(&first, &again).unwrap(), 2);
        put(&again, "bin/bcd", "a programme");
        put(&again, "bcd.rpm", "another package");
        let error = same(&first, &again).unwrap_err().to_string();
        assert!(error.ends_with("bcd.rpm, bin/bcd"), "{error}");
    }
}
