//! A desk with two keys and a release, and the program on it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A folder with two keys, and a release that the first has signed and the second may.
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) pins: [String; 2],
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn refused_for(&self, reason: &str) {
        assert_eq!(self.code, 1, "{self:?}");
        assert!(
            self.err.starts_with(&format!("error[{reason}]: ")),
            "{self:?}"
        );
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
    }

    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pins = ["a", "b"].map(|name| {
            let made = run(folder.path(), &["keygen", "--out", &format!("{name}.pem")]).done();
            made.trim_end().to_owned()
        });
        let desk = Self { folder, pins };
        desk.put("release/bcd-linux-amd64", b"the program for one processor");
        desk.put("release/bcd_1.4.0_linux_arm64", b"the program for another");
        desk.put("release/README.md", b"read me");
        desk
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run(self.folder.path(), args)
    }

    pub(crate) fn sign_with(&self, more: &[&str]) -> Ended {
        let usual = [
            "sign",
            "release",
            "--product",
            "bcd",
            "--sequence",
            "14",
            "--key",
            "a.pem",
        ];
        self.run(&[&usual, more].concat())
    }

    pub(crate) fn sign(&self) -> String {
        self.sign_with(&["--version", "v1.4.0", "--cosigners", "b.pub.pem"])
            .done()
    }

    pub(crate) fn cosign(&self) -> String {
        self.run(&["cosign", MANIFEST, "--key", "b.pem"]).done()
    }

    pub(crate) fn verify(&self, threshold: &str, more: &[&str]) -> Ended {
        let pins = self.pins.join(",");
        let usual = [
            "verify",
            MANIFEST,
            "--pins",
            &pins,
            "--threshold",
            threshold,
        ];
        self.run(&[&usual, more].concat())
    }

    pub(crate) fn published(&self) -> Vec<u8> {
        fs::read(self.path(MANIFEST)).unwrap()
    }

    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub(crate) const MANIFEST: &str = "release/manifest.json";

pub(crate) fn run(folder: &Path, args: &[&str]) -> Ended {
    let mut program = Command::new(env!("CARGO_BIN_EXE_better-compute"));
    // No server, no network, no home: nothing but the folder is there to be used.
    let output = program
        .env_clear()
        .current_dir(folder)
        .arg("release")
        .args(args)
        .output()
        .unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
