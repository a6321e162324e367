//! `release sign`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bc_protocol::platform::Platform;
use bc_protocol::release::sign::{ManifestDraft, SigningKey, Unjudged, sign};
use bc_protocol::release::{Artifact, Manifest, PublicKey};
use bc_protocol::sequence::Sequence;
use bc_protocol::time::Timestamp;
use bc_protocol::version::Version;
use clap::Args;

use super::failure::Failure;
use super::{file, verify};
use crate::cli::span;
use crate::clock::Moment;
use crate::release::artifact;

/// Sign every file of a folder as one release
///
/// Writes manifest.json into that folder. The platform of a file is read off its name, as in bcd-linux-amd64. Each
/// cosigner adds a signature later, with "release cosign".
#[derive(Debug, Args)]
pub(crate) struct Sign {
    /// The folder that holds the release's files
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The program that this is a release of
    #[arg(long)]
    product: String,
    /// The version, such as 1.4.0
    #[arg(long)]
    version: Version,
    /// The release's place among all releases: above every earlier one
    #[arg(long)]
    sequence: Sequence,
    /// The private key to sign with
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public keys that may sign too
    #[arg(long, value_name = "PUB", num_args = 1.., value_delimiter = ',')]
    cosigners: Vec<PathBuf>,
    /// How long the release may be installed anew
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "180d", value_parser = span::release_life)]
    expires: Duration,
    /// A further fact to be signed, as NAME=TEXT
    #[arg(long = "ext", value_name = "NAME=TEXT", value_parser = extension)]
    extensions: Vec<(String, String)>,
}

impl Sign {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let key = file::read_signing_key(&self.key)?;
        let keys = self.listed_keys(&key)?;
        let issued_at = Moment::now().timestamp().map_err(Failure::Expiry)?;
        let draft = ManifestDraft {
            product: self.product,
            version: self.version,
            sequence: self.sequence,
            issued_at,
            expires_at: later_by(issued_at, self.expires)?,
            keys,
            extensions: self.extensions.into_iter().collect::<BTreeMap<_, _>>(),
            artifacts: artifacts_of(&self.folder)?,
        };
        let published = sign(draft.into_body()?, &key)?;
        let path = self.folder.join(file::MANIFEST_NAME);
        let before = signers_of(&path);
        file::replace(&path, &published)?;
        let signed = Unjudged::open(&published)?;
        let pin = key.pin();
        print_contents_and_doubts(signed.manifest(), out)
            .and_then(|()| file::warn_of_readers(&self.key, out))
            .and_then(|()| writeln!(out, "signed by\n  {pin}\nwritten to {}", path.display()))
            .and_then(|()| match before {
                0 => Ok(()),
                1 => writeln!(out, "it replaces one that 1 key had signed"),
                _ => writeln!(
                    out,
                    "it replaces one that {before} keys had signed: they sign anew"
                ),
            })
            .map_err(Failure::output)
    }

    /// The signer's key and the cosigners', each once: a signer who is also named a cosigner is one signer.
    fn listed_keys(&self, signer: &SigningKey) -> Result<Vec<PublicKey>, Failure> {
        let mut listed = BTreeSet::from([signer.pin()]);
        let mut keys = vec![signer.public().clone()];
        for path in &self.cosigners {
            let cosigner = file::read_public_key(path)?;
            if listed.insert(cosigner.pin()) {
                keys.push(cosigner);
            }
        }
        Ok(keys)
    }
}

/// How many keys had signed what is about to be replaced; what nobody can read nobody had signed.
fn signers_of(path: &Path) -> usize {
    let published = file::read_published(path).ok();
    let opened = published.and_then(|published| Unjudged::open(&published).ok());
    opened.map_or(0, |opened| opened.signers().len())
}

/// Every file of the folder, measured. What is neither a file nor leads to one stops it: leaving something out in
/// silence would publish another release than the one that was meant.
fn artifacts_of(folder: &Path) -> Result<Vec<Artifact>, Failure> {
    let failed = || Failure::file("read", folder);
    let mut artifacts = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let path = entry.path();
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| Failure::Name { path: path.clone() })?;
        if name == file::MANIFEST_NAME || name.starts_with(file::STAGED_PREFIX) {
            continue;
        }
        if !fs::metadata(&path)
            .map_err(Failure::file("read", &path))?
            .is_file()
        {
            return Err(Failure::NotAFile { path });
        }
        let (sha256, size) = file::measure(&path)?;
        let platform = Platform::infer(&name);
        artifacts.push(Artifact::new(name, platform, sha256, size)?);
    }
    if artifacts.is_empty() {
        return Err(Failure::NoFiles {
            path: folder.to_owned(),
        });
    }
    Ok(artifacts)
}

/// What control would refuse to register is better heard of before the cosigners are asked.
fn print_contents_and_doubts(manifest: &Manifest, out: &mut dyn Write) -> io::Result<()> {
    verify::print_contents(manifest, out)?;
    match artifact::check(manifest) {
        Ok(()) => Ok(()),
        Err(problem) => writeln!(out, "warning: control will not register this: {problem}"),
    }
}

fn later_by(moment: Timestamp, span: Duration) -> Result<Timestamp, Failure> {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix(moment.unix().saturating_add(seconds)).map_err(Failure::Expiry)
}

fn extension(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .ok_or_else(|| format!("expected NAME=TEXT, found {text:?}"))
}
