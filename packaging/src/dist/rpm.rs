//! Fedora's kind of package, by `rpmbuild`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    Compression,
    layout::{Package, packaging},
    run_to_end, write,
};
use crate::build::Shipping;

/// The scripts of a package, in the words of a spec.
const SCRIPTS: [&str; 3] = ["post", "preun", "postun"];

/// Packs what is laid out below `root`.
pub(super) fn pack(
    package: &Package,
    root: &Path,
    out: &Path,
    (compression, shipping): (Compression, &Shipping),
) -> Result<PathBuf> {
    let staged = tempfile::tempdir()?;
    let spec = staged.path().join(format!("{}.spec", package.name));
    write(&spec, &about(package, root, shipping)?)?;
    let mut pack = Command::new("rpmbuild");
    pack.env("SOURCE_DATE_EPOCH", shipping.epoch.to_string());
    pack.args(["-bb", "--quiet", "--target", shipping.target.fedora()]);
    for define in [
        format!("_topdir {}", staged.path().display()),
        format!("_rpmdir {}", staged.path().display()),
        format!("staged {}", root.display()),
        "_rpmfilename packed.rpm".to_owned(),
        "_buildhost reproducible".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "_build_id_links none".to_owned(),
        // Other programs strip and change what is packed otherwise.
        "__os_install_post %{nil}".to_owned(),
        "debug_package %{nil}".to_owned(),
    ] {
        pack.arg("--define").arg(define);
    }
    let how = match compression {
        Compression::Best => "w6.xzdio",
        Compression::None => "w0.ufdio",
    };
    pack.arg("--define").arg(format!("_binary_payload {how}"));
    run_to_end(pack.arg(&spec))?;
    let file = out.join(format!(
        "{}-{}-1.{}.rpm",
        package.name,
        rpm_version(&shipping.version),
        shipping.target.fedora()
    ));
    std::fs::copy(staged.path().join("packed.rpm"), &file).context("rpmbuild packed nothing")?;
    Ok(file)
}

fn about(package: &Package, root: &Path, shipping: &Shipping) -> Result<String> {
    let mut text = format!(
        "Name: {}\nVersion: {}\nRelease: 1\nSummary: {}\nLicense: Apache-2.0\nRequires: systemd >= 247\n\
         AutoReqProv: no\n\n%description\n{}\n\n%install\nmkdir -p %{{buildroot}}\ncp -a %{{staged}}/. %{{buildroot}}/\n\n",
        package.name,
        rpm_version(&shipping.version),
        package.summary,
        package.description
    );
    for script in SCRIPTS {
        let own = packaging(&format!("rpm/{}.{script}", package.name));
        let from = if own.is_file() {
            own
        } else {
            packaging(&format!("rpm/service.{script}"))
        };
        let lines = std::fs::read_to_string(from)?.replace("@NAME@", package.name);
        text.push_str(&format!("%{script}\n{lines}\n"));
    }
    text.push_str("%files\n%defattr(-,root,root,-)\n");
    let files = files(root, root)?;
    for folder in own_folders(package, &files) {
        text.push_str(&format!("%dir /{}\n", folder.display()));
    }
    for file in files {
        text.push_str(&format!("/{}\n", file.display()));
    }
    Ok(text)
}

/// Folders that nobody else has anything in: they go with the package. Others belong to whoever had them first.
fn own_folders(package: &Package, files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let folders = files.iter().filter_map(|file| file.parent());
    let own = folders.filter(|folder| folder.ends_with(package.name));
    own.map(Path::to_owned).collect()
}

/// Every file below `dir`, by its path below `root`.
fn files(root: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(root, &entry.path())?);
        } else {
            found.push(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

fn rpm_version(version: &str) -> String {
    version.replacen('-', "~", 1).replace('-', ".")
}
