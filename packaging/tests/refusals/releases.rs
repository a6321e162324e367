//! Releases with one thing wrong each, made with the offline tools and a file editor.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bc_protocol::{digest::Sha256, platform::Platform};
use packaging::fleet::Keys;
use serde_json::Value;

/// What is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bad {
    FlippedByteInBody,
    FlippedByteInSignature,
    FlippedByteInBinary,
    OneSignatureTooFew,
    OlderSequence,
    OtherProduct,
}

impl Bad {
    pub(crate) const ALL: [Self; 6] = [
        Self::FlippedByteInBody,
        Self::FlippedByteInSignature,
        Self::FlippedByteInBinary,
        Self::OneSignatureTooFew,
        Self::OlderSequence,
        Self::OtherProduct,
    ];

    pub(crate) fn code_of_node(self) -> &'static str {
        match self {
            Self::FlippedByteInBody | Self::FlippedByteInSignature | Self::OneSignatureTooFew => {
                "threshold"
            }
            Self::FlippedByteInBinary => "digest",
            Self::OlderSequence => "rollback",
            Self::OtherProduct => "product",
        }
    }

    pub(crate) fn code_of_command_line(self) -> &'static str {
        self.code_of_node()
    }

    /// Control never sees a binary when a release is registered.
    pub(crate) fn code_of_control(self) -> Option<&'static str> {
        match self {
            Self::FlippedByteInBinary => None,
            Self::FlippedByteInBody
            | Self::FlippedByteInSignature
            | Self::OneSignatureTooFew
            | Self::OlderSequence
            | Self::OtherProduct => Some(self.code_of_node()),
        }
    }
}

/// How a release is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    pub(crate) product: &'a str,
    pub(crate) version: &'a str,
    pub(crate) sequence: u64,
    pub(crate) cosigned: bool,
}

impl Signed<'_> {
    pub(crate) fn well(sequence: u64) -> Self {
        Self {
            product: "bcd",
            version: "1.2.0",
            sequence,
            cosigned: true,
        }
    }
}

/// A manifest on disk, with its binary beside it.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    file: PathBuf,
    pub(crate) version: String,
    /// The binary's digest, as the section would name it.
    pub(crate) digest: Sha256,
}

impl Manifest {
    pub(crate) fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    pub(crate) fn published(&self) -> Vec<u8> {
        std::fs::read(&self.file).unwrap()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.file.parent().unwrap()
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.dir().join(format!("bcd-{}", Platform::host()))
    }
}

/// Signs releases, and spoils them.
#[derive(Debug)]
pub(crate) struct Forge {
    program: PathBuf,
    dir: PathBuf,
    keys: Keys,
}

impl Forge {
    pub(crate) fn new(program: &Path, dir: &Path) -> Self {
        let keys = Keys::make(program, &dir.join("keys")).unwrap();
        Self::with_keys(program, dir, keys)
    }

    pub(crate) fn with_keys(program: &Path, dir: &Path, keys: Keys) -> Self {
        Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            keys,
        }
    }

    pub(crate) fn pins(&self) -> &[String; 2] {
        self.keys.pins()
    }

    /// Signs a binary.
    pub(crate) fn sign(&self, binary: &Path, how: Signed<'_>) -> Manifest {
        let dir = tempfile::tempdir_in(&self.dir).unwrap().keep();
        std::fs::copy(binary, dir.join(format!("bcd-{}", Platform::host()))).unwrap();
        let [first, second] = self.keys.files();
        let cosigner = second.with_extension("pub.pem");
        self.release(&[
            "sign".as_ref(),
            dir.as_os_str(),
            "--product".as_ref(),
            how.product.as_ref(),
            "--version".as_ref(),
            how.version.as_ref(),
            "--sequence".as_ref(),
            how.sequence.to_string().as_ref(),
            "--key".as_ref(),
            first.as_os_str(),
            "--cosigners".as_ref(),
            cosigner.as_os_str(),
        ]);
        let file = dir.join("manifest.json");
        if how.cosigned {
            self.release(&[
                "cosign".as_ref(),
                file.as_os_str(),
                "--key".as_ref(),
                second.as_os_str(),
            ]);
        }
        let digest = Sha256::of(&std::fs::read(binary).unwrap());
        Manifest {
            file,
            version: how.version.to_owned(),
            digest,
        }
    }

    /// A release with one thing wrong: what a section would select it by, and the release itself.
    pub(crate) fn bad(&self, bad: Bad, binary: &Path) -> (Manifest, Manifest) {
        let well = Signed::well(6);
        let manifest = match bad {
            Bad::FlippedByteInBody => self.edited(binary, |published| {
                let mut body = STANDARD
                    .decode(published["manifest"].as_str().unwrap())
                    .unwrap();
                let at = body
                    .windows(8)
                    .position(|bytes| bytes == b"\"sha256\"")
                    .unwrap()
                    + 10;
                body[at] = if body[at] == b'0' { b'1' } else { b'0' };
                published["manifest"] = STANDARD.encode(body).into();
            }),
            Bad::FlippedByteInSignature => self.edited(binary, |published| {
                let sig = &mut published["signatures"][0]["sig"];
                let mut bytes = STANDARD.decode(sig.as_str().unwrap()).unwrap();
                bytes[40] ^= 1;
                *sig = STANDARD.encode(bytes).into();
            }),
            Bad::FlippedByteInBinary => {
                let manifest = self.sign(binary, well);
                flip_last_byte(&manifest.binary());
                manifest
            }
            Bad::OneSignatureTooFew => self.sign(
                binary,
                Signed {
                    cosigned: false,
                    ..well
                },
            ),
            Bad::OlderSequence => self.sign(
                binary,
                Signed {
                    sequence: 4,
                    ..well
                },
            ),
            Bad::OtherProduct => self.sign(
                binary,
                Signed {
                    product: "other",
                    ..well
                },
            ),
        };
        (manifest.clone(), manifest)
    }

    /// Holds a release against both pins and the newest sequence, as someone would before publishing it.
    pub(crate) fn verify(&self, manifest: &Manifest) -> Output {
        let pins = self.pins().join(",");
        Command::new(&self.program)
            .args([
                "release",
                "verify",
                manifest.path(),
                "--pins",
                &pins,
                "--threshold",
                "2",
            ])
            .args(["--floor", "5", "--dir"])
            .arg(manifest.dir())
            .output()
            .unwrap()
    }

    fn edited(&self, binary: &Path, edit: impl FnOnce(&mut Value)) -> Manifest {
        let manifest = self.sign(binary, Signed::well(6));
        let mut published: Value = serde_json::from_slice(&manifest.published()).unwrap();
        edit(&mut published);
        overwrite(&manifest.file, published.to_string().as_bytes());
        manifest
    }

    fn release(&self, args: &[&std::ffi::OsStr]) {
        let output = Command::new(&self.program)
            .arg("release")
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

fn flip_last_byte(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    overwrite(file, &bytes);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a temporary folder does not outlive a power cut"
)]
fn overwrite(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap();
}
