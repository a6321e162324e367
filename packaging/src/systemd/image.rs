//! The root file system that every machine is a copy of: a small Debian with systemd.
//!
//! Made once, by debootstrap, from where this machine gets its own packages; kept below `target`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{done, tell};

/// What it has beside the least.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,ca-certificates,curl,iproute2";

/// Which Debian.
const SUITE: &str = "bookworm";

/// The folder that it lies in; made now if it is not there yet.
pub fn base() -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/systemd");
    std::fs::create_dir_all(&target)?;
    let root = target.canonicalize()?.join(SUITE);
    if root.is_dir() {
        return Ok(root);
    }
    tell("making a Debian: a minute or two, once");
    // Under another name until it is whole.
    let half = target.join(format!("{SUITE}.half"));
    if half.is_dir() {
        std::fs::remove_dir_all(&half)?;
    }
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
    debootstrap.arg(&half).arg(mirror()?);
    done(&mut debootstrap)?;
    // What was downloaded is installed.
    done(Command::new("chroot").arg(&half).args(["apt-get", "clean"]))?;
    std::fs::rename(&half, &root)?;
    Ok(root)
}

/// Where this machine's own packages come from.
fn mirror() -> Result<String> {
    let mut texts = vec![PathBuf::from("/etc/apt/sources.list")];
    let further = std::fs::read_dir("/etc/apt/sources.list.d");
    texts.extend(
        further
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path()),
    );
    texts.sort();
    texts
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|text| archive_in(&text))
        .context("expected apt to know a Debian archive, found none")
}

/// The first address of a Debian archive in a list of sources, of either form.
fn archive_in(text: &str) -> Option<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    words
        .find(|word| word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::archive_in;

    #[test]
    fn an_archive_is_found_in_either_form_of_a_list() {
        let old = "# deb http://gone.example/debian\ndeb [arch=amd64] http://one.example/debian/ x main\n";
        assert_eq!(
            archive_in(old).as_deref(),
            Some("http://one.example/debian/")
        );
        let new = "Types: deb\nURIs: http://two.example/debian\nSuites: x\n";
        assert_eq!(
            archive_in(new).as_deref(),
            Some("http://two.example/debian")
        );
        assert_eq!(archive_in("URIs: https://other.example/packages\n"), None);
    }
}
