//! What a preflight may look at where the node runs as root: copies in a folder of their own.
//!
//! Takes the node's folder and configuration, gives a folder that holds what a node starts with, for anybody inside to
//! read and for nobody to change. The folder above it is root's alone, so that only a process that was started inside gets
//! there. It is gone with its value; what a cut left behind goes before the next one is made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::CONFIG_BYTES_MAX;
use crate::durable;
use crate::node::limits::STATE_FILE_BYTES_MAX;
use crate::paths::Paths;
use crate::updater::limits::RECORD_BYTES_MAX;

/// The configuration's name inside.
pub(super) const CONFIG: &str = "bcd.toml";

/// A folder to run a preflight in.
#[derive(Debug)]
pub(super) struct View {
    outer: PathBuf,
    inner: PathBuf,
}

impl View {
    pub(super) fn make(paths: &Paths, config: &Path) -> io::Result<Self> {
        let outer = paths.preflight();
        let view = Self {
            inner: outer.join("view"),
            outer,
        };
        view.remove()?;
        create_folder(&view.outer)?;
        let copies = Copies { to: &view.inner };
        copies.folder("")?;
        copies.file(config, CONFIG, CONFIG_BYTES_MAX)?;
        for copy in paths.record_copies() {
            if let Some(name) = copy.file_name().and_then(|name| name.to_str()) {
                copies.file(&copy, name, RECORD_BYTES_MAX)?;
            }
        }
        for (from, name) in [(paths.identity(), "identity"), (paths.state(), "state")] {
            copies.all_files(&from, name)?;
        }
        Ok(view)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.inner
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.outer) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "a preflight's folder cannot be removed");
        }
    }
}

/// It need not survive a cut.
fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

struct Copies<'a> {
    to: &'a Path,
}

impl Copies<'_> {
    fn folder(&self, name: &str) -> io::Result<()> {
        let path = self.to.join(name);
        create_folder(&path)?;
        show(&File::open(path)?, 0o755)
    }

    /// What is no plain file, is not there or is longer than what a node keeps there is left out: the preflight says
    /// what it misses.
    fn file(&self, from: &Path, name: &str, bytes_max: u64) -> io::Result<()> {
        let bytes = match durable::read_bounded(from, bytes_max) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(from = %from.display(), %error, "left out of the preflight's view");
                return Ok(());
            }
        };
        let mut copy = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.to.join(name))?;
        copy.write_all(&bytes)?;
        show(&copy, 0o644)
    }

    fn all_files(&self, from: &Path, name: &str) -> io::Result<()> {
        self.folder(name)?;
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry?;
            if let (true, Some(file)) = (entry.file_type()?.is_file(), entry.file_name().to_str()) {
                let to = format!("{name}/{file}");
                self.file(&entry.path(), &to, STATE_FILE_BYTES_MAX)?;
            }
        }
        Ok(())
    }
}

/// By its mode alone, whatever the umask: to give it away would take a right that the node's unit does not have.
fn show(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::{CONFIG, View};
    use crate::durable::{self, Mode};
    use crate::paths::Paths;
    use nix::unistd::geteuid;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    #[test]
    fn what_a_node_reads_is_shown_and_nothing_else_and_then_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().join("node"));
        let config = folder.path().join("owners.toml");
        durable::create_folder(&paths.identity(), 0o700).unwrap();
        durable::create_folder(&paths.state(), 0o700).unwrap();
        let [record, _] = paths.record_copies();
        for (path, bytes) in [
            (&config, "config"),
            (&record, "record"),
            (&paths.identity().join("node.key"), "key"),
            (&paths.node_spec(), "spec"),
        ] {
            durable::replace_file(path, bytes.as_bytes(), Mode::Private).unwrap();
        }
        symlink(&config, paths.state().join("link")).unwrap();
        // What a cut left behind.
        fs::create_dir_all(paths.preflight().join("view/old")).unwrap();
        let view = View::make(&paths, &config).unwrap();
        for (name, bytes) in [
            (CONFIG, "config"),
            ("update.json", "record"),
            ("identity/node.key", "key"),
            ("state/node-spec.json", "spec"),
        ] {
            let copy = view.folder().join(name);
            assert_eq!(fs::read_to_string(&copy).unwrap(), bytes);
            let found = fs::metadata(&copy).unwrap();
            assert_eq!(found.uid(), geteuid().as_raw());
            assert_eq!(found.permissions().mode() & 0o7777, 0o644);
        }
        for name in ["old", "update.json.1", "state/link"] {
            assert!(!view.folder().join(name).exists(), "{name}");
        }
        let outer = fs::metadata(paths.preflight()).unwrap();
        assert_eq!(outer.uid(), geteuid().as_raw());
        assert_eq!(outer.permissions().mode() & 0o7777, 0o700);
        drop(view);
        assert!(!paths.preflight().exists());
    }
}
