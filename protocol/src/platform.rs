//! Operating system and processor, as releases name them; and which file of a release is the binary itself.
//!
//! Takes file names and processor labels, gives [`Platform`]s. Never looks into a file: names are all it judges.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::text::{excerpt, serde_as_text};

/// Operating system and processor in one word, such as `linux-amd64`; safe as one component of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform(String);

/// Longer than any pair in use.
const PLATFORM_CHARS_MAX: usize = 32;

impl Platform {
    /// The Linux platform of a node, from its `cpu.arch` label.
    #[must_use]
    pub fn from_arch_label(label: &str) -> Option<Self> {
        match label {
            "x86_64" | "amd64" => Some(Self("linux-amd64".to_owned())),
            "aarch64" | "arm64" => Some(Self("linux-arm64".to_owned())),
            _ => None,
        }
    }

    /// The platform that a file of a release is for, by the words of its name: `bcd_1.4.0_linux_arm64.tar.gz`.
    #[must_use]
    pub fn infer(file_name: &str) -> Option<Self> {
        // The one processor whose name holds a separator, and whose first word alone would name an older one.
        let lower = file_name
            .to_ascii_lowercase()
            .replace("x86_64", "amd64")
            .replace("x86-64", "amd64");
        let words: Vec<&str> = lower.split(['-', '_', '.']).collect();
        words.windows(2).find_map(|pair| match pair {
            [os, arch] => Some(Self(format!(
                "{}-{}",
                system_named(os)?,
                processor_named(arch)?
            ))),
            _ => None,
        })
    }

    /// The platform that this program was compiled for.
    #[must_use]
    pub fn host() -> Self {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        Self(format!(
            "{}-{}",
            system_named(os).unwrap_or(os),
            processor_named(arch).unwrap_or(arch)
        ))
    }

    /// Whether nodes of a fleet, which all run Linux, can run what is for this platform.
    #[must_use]
    pub fn is_linux(&self) -> bool {
        self.0.starts_with("linux-")
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn system_named(word: &str) -> Option<&'static str> {
    match word {
        "linux" => Some("linux"),
        "darwin" | "macos" => Some("darwin"),
        "windows" => Some("windows"),
        "freebsd" => Some("freebsd"),
        _ => None,
    }
}

fn processor_named(word: &str) -> Option<&'static str> {
    match word {
        "amd64" | "x86_64" => Some("amd64"),
        "arm64" | "aarch64" => Some("arm64"),
        "386" | "i386" | "i686" => Some("386"),
        "armv7" => Some("armv7"),
        "riscv64" => Some("riscv64"),
        "ppc64le" => Some("ppc64le"),
        "s390x" => Some("s390x"),
        _ => None,
    }
}

/// Whether a file is the program itself, ready to run: it has a platform, and its name is that of no archive, package,
/// checksum, signature or metadata.
#[must_use]
pub fn is_bare_binary(name: &str, platform: Option<&Platform>) -> bool {
    platform.is_some()
        && !name
            .to_ascii_lowercase()
            .split('.')
            .skip(1)
            .any(says_something_else)
}

/// Any word between dots counts, not only the last, so that `bcd.tar.gz.1` stays an archive.
fn says_something_else(extension: &str) -> bool {
    const ARCHIVES: &[&str] = &[
        "7z", "br", "bz2", "gz", "iso", "jar", "lz4", "lzma", "rar", "tar", "tbz2", "tgz", "txz",
        "tzst", "xz", "zip", "zst",
    ];
    const PACKAGES: &[&str] = &["apk", "appimage", "deb", "dmg", "msi", "pkg", "rpm", "snap"];
    const CHECKSUMS: &[&str] = &[
        "b3",
        "blake3",
        "digest",
        "md5",
        "md5sum",
        "sha1",
        "sha1sum",
        "sha256",
        "sha256sum",
        "sha256sums",
        "sha512",
        "sha512sum",
        "sha512sums",
        "sum",
        "sums",
    ];
    const SIGNATURES: &[&str] = &[
        "asc", "att", "bundle", "cer", "cert", "crt", "der", "gpg", "intoto", "minisig", "p7s",
        "pem", "pub", "sig", "sign", "sigstore",
    ];
    const METADATA: &[&str] = &[
        "cdx",
        "cyclonedx",
        "dbg",
        "debug",
        "dwp",
        "htm",
        "html",
        "json",
        "jsonl",
        "log",
        "manifest",
        "map",
        "md",
        "pdb",
        "provenance",
        "sbom",
        "spdx",
        "sym",
        "toml",
        "txt",
        "xml",
        "yaml",
        "yml",
    ];
    [ARCHIVES, PACKAGES, CHECKSUMS, SIGNATURES, METADATA]
        .iter()
        .any(|kind| kind.contains(&extension))
}

/// Why a text is no platform.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "expected a platform like linux-amd64 of at most {PLATFORM_CHARS_MAX} characters, found \"{}\"",
    excerpt(found)
)]
pub struct PlatformError {
    found: String,
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let is_word_char = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let well_formed = text.split_once('-').is_some_and(|(os, arch)| {
            !os.is_empty()
                && !arch.is_empty()
                && os.bytes().all(is_word_char)
                && arch.bytes().all(|byte| is_word_char(byte) || byte == b'_')
        });
        if !well_formed || text.len() > PLATFORM_CHARS_MAX {
            return Err(PlatformError {
                found: text.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

serde_as_text!(Platform);

#[cfg(test)]
mod tests {
    use super::{Platform, is_bare_binary};

    #[test]
    fn platforms_are_two_words() {
        for text in [
            "linux-amd64",
            "linux-arm64",
            "darwin-arm64",
            "linux-x86_64",
            "a-b",
        ] {
            assert_eq!(text.parse::<Platform>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "linux",
            "-",
            "linux-",
            "-amd64",
            "Linux-amd64",
            "linux-amd64-musl",
            "linux_amd64",
            "linux/amd64",
            "linux-..",
            "linux-amd64 ",
            "linux-amd64\n",
            "linux-éa",
        ] {
            assert!(text.parse::<Platform>().is_err(), "{text:?}");
        }
        assert!(
            format!("linux-{}", "a".repeat(26))
                .parse::<Platform>()
                .is_ok()
        );
        assert!(
            format!("linux-{}", "a".repeat(27))
                .parse::<Platform>()
                .is_err()
        );
    }

    #[test]
    fn a_file_name_tells_its_platform() {
        for (name, platform) in [
            ("bcd-linux-amd64", Some("linux-amd64")),
            ("bcd-linux-x86_64", Some("linux-amd64")),
            ("bcd-linux-x86-64", Some("linux-amd64")),
            ("bcd-linux-x86", None),
            ("bcd_1.4.0_linux_arm64.tar.gz", Some("linux-arm64")),
            ("bcd_Linux_aarch64", Some("linux-arm64")),
            ("bcd-1.4.0-linux-amd64.sha256", Some("linux-amd64")),
            ("bcd-darwin-arm64", Some("darwin-arm64")),
            ("bcd-windows-amd64.exe", Some("windows-amd64")),
            ("linux-amd64", Some("linux-amd64")),
            ("bcd.linux.amd64", Some("linux-amd64")),
            ("bcd-amd64", None),
            ("bcd-linux", None),
            ("bcd-amd64-linux", None),
            ("bcdlinux-amd64", None),
            ("SHA256SUMS", None),
            ("", None),
        ] {
            assert_eq!(
                Platform::infer(name).as_ref().map(Platform::as_str),
                platform,
                "{name}"
            );
        }
    }

    #[test]
    fn only_the_program_itself_is_a_bare_binary() {
        for name in [
            "bcd-linux-amd64",
            "bcd",
            "bcd-1.4.0-linux-amd64",
            "bcd_1.4.0_linux_amd64",
            "bcd-windows-amd64.exe",
            "bcd-linux-amd64-1.4.0",
            "bcd.linux.amd64",
            "json",
            "zip-linux-amd64",
        ] {
            assert!(is_bare_binary(name, Some(&linux_amd64())), "{name}");
        }
        for name in [
            "bcd_1.4.0_linux_arm64.tar.gz",
            "bcd-linux-amd64.tgz",
            "bcd-linux-amd64.zip",
            "bcd-linux-amd64.tar.gz.1",
            "bcd_1.4.0_linux_amd64.deb",
            "bcd-linux-amd64.RPM",
            "bcd-linux-amd64.sha256",
            "bcd-linux-amd64.SHA256SUM",
            "bcd-linux-amd64.sig",
            "bcd-linux-amd64.asc",
            "bcd-linux-amd64.spdx.json",
            "bcd-linux-amd64.sbom",
            "bcd-linux-amd64.txt",
            "bcd-linux-amd64.debug",
        ] {
            assert!(!is_bare_binary(name, Some(&linux_amd64())), "{name}");
        }
    }

    #[test]
    fn a_file_of_no_platform_is_no_binary() {
        assert!(!is_bare_binary("bcd", None));
    }

    #[test]
    fn labels_of_processors_that_we_build_for_have_a_platform() {
        for (label, platform) in [
            ("x86_64", Some("linux-amd64")),
            ("amd64", Some("linux-amd64")),
            ("aarch64", Some("linux-arm64")),
            ("arm64", Some("linux-arm64")),
            ("riscv64", None),
            ("X86_64", None),
            ("", None),
        ] {
            assert_eq!(
                Platform::from_arch_label(label)
                    .as_ref()
                    .map(Platform::as_str),
                platform,
                "{label}"
            );
        }
    }

    #[test]
    fn the_hosts_platform_is_one_that_parses() {
        let host = Platform::host();
        assert_eq!(host.as_str().parse::<Platform>().unwrap(), host);
        assert_eq!(host.is_linux(), cfg!(target_os = "linux"));
    }

    fn linux_amd64() -> Platform {
        "linux-amd64".parse().unwrap()
    }
}
