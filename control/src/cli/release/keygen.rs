//! `release keygen`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use bc_protocol::release::sign::SigningKey;
use clap::Args;
use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

use super::Format;
use super::failure::Failure;
use super::file::NewFile;

/// Make a key for signing releases
///
/// The private key goes to the file named (mode 0600), the public key beside it with the ending .pub.pem. Prints the
/// key's pin, which is what nodes and control are configured with. Neither file is ever overwritten.
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// Where to put the private key, such as `release-1.pem`
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,
}

impl Keygen {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let public_path = public_path_of(&self.out);
        let cannot_use = |source| Failure::Key {
            path: self.out.clone(),
            source,
        };
        // Both names are taken before either is filled, and both are kept or none: half a pair is of no use.
        let mut private_file = NewFile::create(self.out.clone(), 0o600)?;
        let mut public_file = NewFile::create(public_path.clone(), 0o644)?;
        let key = draw()?;
        let public_pem = key
            .public()
            .to_pem()
            .map_err(|error| cannot_use(error.into()))?;
        private_file.fill(key.to_pem().map_err(cannot_use)?.as_bytes())?;
        public_file.fill(public_pem.as_bytes())?;
        private_file.keep();
        public_file.keep();
        match self.output {
            Format::Text => writeln!(out, "{}", key.pin()),
            Format::Json => {
                let made = serde_json::json!({
                    "pin": key.pin(),
                    "privateKey": self.out.to_string_lossy(),
                    "publicKey": public_path.to_string_lossy(),
                });
                writeln!(out, "{made:#}")
            }
        }
        .map_err(Failure::output)
    }
}

/// `K.pem` has `K.pub.pem` beside it.
fn public_path_of(private: &Path) -> PathBuf {
    let name = private.as_os_str().as_bytes();
    let stem = name.strip_suffix(b".pem").unwrap_or(name);
    PathBuf::from(OsString::from_vec([stem, b".pub.pem"].concat()))
}

fn draw() -> Result<SigningKey, Failure> {
    loop {
        let mut scalar = Zeroizing::new([0; 32]);
        SysRng.try_fill_bytes(&mut *scalar).map_err(|error| {
            Failure::file("draw a key from", "the system's randomness")(std::io::Error::other(
                error,
            ))
        })?;
        // Numbers beyond the curve's order are drawn again: folding them back would favour some keys.
        if let Ok(key) = SigningKey::from_scalar(&scalar) {
            return Ok(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::public_path_of;
    use std::path::Path;

    #[test]
    fn the_public_key_lies_beside_the_private_one() {
        for (private, public) in [
            ("K.pem", "K.pub.pem"),
            ("keys/release-1.pem", "keys/release-1.pub.pem"),
            ("K", "K.pub.pem"),
            ("K.key", "K.key.pub.pem"),
        ] {
            assert_eq!(public_path_of(Path::new(private)), Path::new(public));
        }
    }
}
