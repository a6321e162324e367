//! `release verify`.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use bc_protocol::digest::Pin;
use bc_protocol::release::{Artifact, Manifest, Trust, VerifiedManifest, verify};
use bc_protocol::sequence::ReleaseFloor;
use clap::Args;

use super::Format;
use super::failure::Failure;
use super::file;
use crate::clock::Moment;
use crate::release::PRODUCT;

/// Check that enough of the keys you trust signed a release
///
/// Prints who signed and what is inside. With a folder, every file of the release must be there with its size and
/// digest. Ends with 0, or with 1 and the reason.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The signed manifest, or the folder that holds it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The pins of the keys you trust
    #[arg(long, value_name = "PIN", required = true, num_args = 1.., value_delimiter = ',')]
    pins: Vec<Pin>,
    /// How many of them must have signed
    #[arg(long, value_name = "K")]
    threshold: usize,
    /// The folder that holds the release's files
    #[arg(long = "dir", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The program that it must be a release of
    #[arg(long, default_value = PRODUCT)]
    product: String,
    /// The newest sequence that was confirmed: an older release is refused
    #[arg(long, value_name = "SEQUENCE", default_value_t = ReleaseFloor::NONE)]
    floor: ReleaseFloor,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,
}

impl Verify {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let trust = Trust::new(self.pins, self.threshold)?;
        let now = Moment::now().timestamp().map_err(Failure::Expiry)?;
        let published = file::read_published(&file::manifest_at(self.file))?;
        let verified = verify(&published, &trust, &self.product, now)?;
        if !self.floor.admits(verified.sequence()) {
            return Err(Failure::Rollback {
                floor: self.floor,
                found: verified.sequence(),
            });
        }
        if let Some(folder) = &self.folder {
            for artifact in verified.artifacts() {
                check_file(&folder.join(artifact.name()), artifact)?;
            }
        }
        match self.output {
            Format::Text => print_text(&verified, &trust, self.folder.as_deref(), out),
            Format::Json => print_json(&verified, &trust, out),
        }
        .map_err(Failure::output)
    }
}

/// Looks at those of the release's files that lie beside its manifest, and says how many there are. A signer may have
/// been given the manifest alone.
pub(super) fn check_beside(manifest: &Manifest, path: &Path) -> Result<usize, Failure> {
    let folder = file::folder_of(path);
    let mut found = 0;
    for artifact in manifest.artifacts() {
        match check_file(&folder.join(artifact.name()), artifact) {
            Ok(()) => found += 1,
            Err(Failure::Missing { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

/// Says how many of the files were looked at.
pub(super) fn print_beside(
    manifest: &Manifest,
    found: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = manifest.artifacts().len();
    match found {
        0 => writeln!(
            out,
            "none of its files lies beside it: nobody has compared them here"
        ),
        _ => writeln!(
            out,
            "{found} of its {all} files lie beside it, and are what it says"
        ),
    }
}

/// The size is looked at first: it is free, and the better message.
fn check_file(path: &Path, artifact: &Artifact) -> Result<(), Failure> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::Missing {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(Failure::file("read", path)(error)),
    };
    if !found.is_file() {
        return Err(Failure::NotAFile {
            path: path.to_owned(),
        });
    }
    let wrong_size = |found| Failure::Size {
        path: path.to_owned(),
        expected: artifact.size(),
        found,
    };
    if found.len() != artifact.size() {
        return Err(wrong_size(found.len()));
    }
    let (sha256, size) = file::measure(path)?;
    if size != artifact.size() {
        return Err(wrong_size(size));
    }
    if sha256 != artifact.sha256() {
        return Err(Failure::Digest {
            path: path.to_owned(),
            expected: artifact.sha256(),
            found: sha256,
        });
    }
    Ok(())
}

fn print_text(
    verified: &VerifiedManifest,
    trust: &Trust,
    folder: Option<&Path>,
    out: &mut dyn Write,
) -> io::Result<()> {
    print_contents(verified, out)?;
    writeln!(
        out,
        "signed by {} pinned keys, {} needed",
        verified.signers().len(),
        trust.threshold()
    )?;
    for pin in verified.signers() {
        writeln!(out, "  {pin}")?;
    }
    match folder {
        Some(folder) => writeln!(
            out,
            "every file in {} has its size and digest",
            folder.display()
        ),
        None => Ok(()),
    }
}

/// What a manifest says, for a person.
pub(super) fn print_contents(manifest: &Manifest, out: &mut dyn Write) -> io::Result<()> {
    // A product and extensions may hold anything that JSON can: escaped, they cannot fake a line of this output.
    let product = manifest.product().escape_debug();
    writeln!(
        out,
        "{product} {}, sequence {}",
        manifest.version(),
        manifest.sequence()
    )?;
    writeln!(
        out,
        "issued {}, expires {}",
        manifest.issued_at(),
        manifest.expires_at()
    )?;
    for (name, text) in manifest.extensions() {
        writeln!(out, "{} = {}", name.escape_debug(), text.escape_debug())?;
    }
    writeln!(out, "files")?;
    for artifact in manifest.artifacts() {
        let platform = artifact
            .platform()
            .map_or("-", |platform| platform.as_str());
        writeln!(
            out,
            "  {}  {platform}  {} bytes  {}",
            artifact.sha256(),
            artifact.size(),
            artifact.name().escape_debug()
        )?;
    }
    writeln!(out, "keys that may sign")?;
    for key in manifest.keys() {
        writeln!(out, "  {}", key.pin())?;
    }
    Ok(())
}

fn print_json(verified: &VerifiedManifest, trust: &Trust, out: &mut dyn Write) -> io::Result<()> {
    let mut shown = json(verified);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("signers".to_owned(), serde_json::json!(verified.signers()));
        fields.insert("threshold".to_owned(), serde_json::json!(trust.threshold()));
    }
    writeln!(out, "{shown:#}")
}

/// What a manifest says, for a program.
pub(super) fn json(manifest: &Manifest) -> serde_json::Value {
    let keys: Vec<Pin> = manifest.keys().iter().map(|key| key.pin()).collect();
    serde_json::json!({
        "product": manifest.product(),
        "version": manifest.version(),
        "sequence": manifest.sequence(),
        "issuedAt": manifest.issued_at(),
        "expiresAt": manifest.expires_at(),
        "ext": manifest.extensions().collect::<std::collections::BTreeMap<_, _>>(),
        "keys": keys,
        "artifacts": manifest.artifacts(),
    })
}
