//! Debian's kind of package, by `dpkg-deb`.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::{
    Compression,
    layout::{Package, date, packaging},
    run_to_end, write,
};
use crate::build::Shipping;

/// What the scripts of a package are called.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs what is laid out below `root`.
pub(super) fn pack(
    package: &Package,
    root: &Path,
    out: &Path,
    (compression, shipping): (Compression, &Shipping),
) -> Result<PathBuf> {
    let staged = tempfile::tempdir()?;
    let tree = staged.path().join("tree");
    run_to_end(Command::new("cp").arg("-a").arg(root).arg(&tree))?;
    let control = tree.join("DEBIAN");
    write(&control.join("control"), &about(package, shipping))?;
    for script in SCRIPTS {
        let to = control.join(script);
        write(&to, &script_of(package, script)?)?;
        std::fs::set_permissions(&to, Permissions::from_mode(0o755))?;
    }
    std::fs::set_permissions(&control, Permissions::from_mode(0o755))?;
    date(&tree, shipping.epoch)?;
    let name = format!(
        "{}_{}_{}.deb",
        package.name,
        debian_version(&shipping.version),
        shipping.target.debian()
    );
    let file = out.join(name);
    let mut pack = Command::new("dpkg-deb");
    pack.env("SOURCE_DATE_EPOCH", shipping.epoch.to_string());
    // One thread: what several compress depends on how many there are.
    let how = match compression {
        Compression::Best => "-Zxz",
        Compression::None => "-Znone",
    };
    pack.args(["--root-owner-group", how, "--threads-max=1", "--build"]);
    run_to_end(pack.arg(&tree).arg(&file))?;
    Ok(file)
}

/// The package's own script, with what is common to all services where there is none.
fn script_of(package: &Package, script: &str) -> Result<String> {
    let own = packaging(&format!("debian/{}.{script}", package.name));
    let text = if own.is_file() {
        std::fs::read_to_string(own)?
    } else {
        std::fs::read_to_string(packaging(&format!("debian/service.{script}")))?
    };
    Ok(text.replace("@NAME@", package.name))
}

fn about(package: &Package, shipping: &Shipping) -> String {
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: bcd fleet updates <maintainers@bcd.invalid>\n\
         Section: admin\nPriority: optional\nDepends: systemd (>= 247)\nRecommends: ca-certificates\n\
         Description: {}\n {}\n",
        package.name,
        debian_version(&shipping.version),
        shipping.target.debian(),
        package.summary,
        package.description,
    )
}

/// A version that comes before another's must sort before it: `1.0.0-rc.1` is older than `1.0.0`.
fn debian_version(version: &str) -> String {
    version.replacen('-', "~", 1).replace('-', ".")
}

#[cfg(test)]
mod tests {
    use super::debian_version;

    #[test]
    fn versions_that_come_before_sort_before() {
        for (ours, theirs) in [
            ("1.4.0", "1.4.0"),
            ("1.4.0-rc.1", "1.4.0~rc.1"),
            ("1.4.0-a-b", "1.4.0~a.b"),
            ("1.4.0+build.7", "1.4.0+build.7"),
        ] {
            assert_eq!(debian_version(ours), theirs);
        }
    }
}
