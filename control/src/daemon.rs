//! How a machine becomes a node with one line: the script that does it.
//!
//! Takes what control offers to new machines, gives a POSIX shell script that brings all else with it. Pure: it reads no
//! release and no clock.

use bc_protocol::{digest::Sha256, release::Trust, version::Version};

/// What new machines are offered.
#[derive(Clone, Debug)]
pub(crate) struct Offer<'a> {
    /// Where control answers.
    pub control: &'a str,
    /// What downloads' addresses begin with.
    pub downloads: &'a str,
    /// What they start with.
    pub version: &'a Version,
    /// The digest of its binary for amd64.
    pub amd64: Option<Sha256>,
    /// The digest of its binary for arm64.
    pub arm64: Option<Sha256>,
    /// Whom they are to believe.
    pub trust: &'a Trust,
    /// As whom the node runs.
    pub rights: Rights,
}

/// As whom a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// As root.
    Root,
    /// As a user of its own, with a helper.
    Unprivileged,
}

/// The files that a package would bring, by their names in the script.
const FILES: [(&str, &str); 12] = [
    (
        "bcd.service",
        include_str!("../../packaging/systemd/bcd.service"),
    ),
    (
        "bcd-watchdog.service",
        include_str!("../../packaging/systemd/bcd-watchdog.service"),
    ),
    (
        "bcd-helper.service",
        include_str!("../../packaging/systemd/bcd-helper.service"),
    ),
    (
        "bcd-helper.socket",
        include_str!("../../packaging/systemd/bcd-helper.socket"),
    ),
    (
        "bcd-preflight.socket",
        include_str!("../../packaging/systemd/bcd-preflight.socket"),
    ),
    (
        "bcd-preflight@.service",
        include_str!("../../packaging/systemd/bcd-preflight@.service"),
    ),
    (
        "unprivileged.conf",
        include_str!("../../packaging/systemd/unprivileged.conf"),
    ),
    (
        "older-bcd.conf",
        include_str!("../../packaging/systemd/older-bcd.conf"),
    ),
    (
        "older-bcd-helper.conf",
        include_str!("../../packaging/systemd/older-bcd-helper.conf"),
    ),
    ("older.sh", include_str!("../../packaging/systemd/older.sh")),
    (
        "bcd.sysusers",
        include_str!("../../packaging/systemd/bcd.sysusers"),
    ),
    (
        "bcd.tmpfiles",
        include_str!("../../packaging/systemd/bcd.tmpfiles"),
    ),
];

const SCRIPT: &str = include_str!("daemon/install.sh");

/// The script for an offer.
pub(crate) fn install_script(offer: &Offer<'_>) -> String {
    let pins: Vec<String> = offer.trust.pins().iter().map(ToString::to_string).collect();
    let digest = |digest: Option<Sha256>| digest.map(|digest| digest.to_string());
    let rights = match offer.rights {
        Rights::Root => "root",
        Rights::Unprivileged => "unprivileged",
    };
    let words = [
        ("@CONTROL@", quoted(offer.control)),
        ("@VERSION@", quoted(offer.version.as_str())),
        ("@DOWNLOADS@", quoted(offer.downloads)),
        (
            "@SHA256_AMD64@",
            quoted(&digest(offer.amd64).unwrap_or_default()),
        ),
        (
            "@SHA256_ARM64@",
            quoted(&digest(offer.arm64).unwrap_or_default()),
        ),
        ("@RIGHTS@", quoted(rights)),
        // A Rust string's form is TOML's too, for what addresses and pins consist of.
        ("@CONTROL_TOML@", format!("{:?}", offer.control)),
        ("@PINS@", format!("{pins:?}")),
        ("@THRESHOLD@", offer.trust.threshold().to_string()),
    ];
    let mut script = SCRIPT.to_owned();
    for (name, text) in FILES {
        script = script.replace(&format!("@@{name}@@\n"), text);
    }
    for (name, text) in words {
        script = script.replace(name, &text);
    }
    script
}

/// As the shell reads it: nothing in it means anything.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{Offer, Rights, install_script, quoted};
    use bc_protocol::{digest::Sha256, release::Trust, version::Version};
    use std::process::{Command, Stdio};

    fn script(control: &str) -> String {
        let pin = format!("sha256/{}", "A".repeat(43) + "=").parse().unwrap();
        let version: Version = "1.4.0".parse().unwrap();
        install_script(&Offer {
            control,
            downloads: "https://control.example/api/compute/downloads",
            version: &version,
            amd64: Some(Sha256::of(b"the agent")),
            arm64: None,
            trust: &Trust::new([pin], 1).unwrap(),
            rights: Rights::Unprivileged,
        })
    }

    #[test]
    fn a_script_says_everything_and_leaves_no_gap() {
        let script = script("https://control.example");
        assert!(script.contains("control='https://control.example'\n"));
        assert!(script.contains("rights='unprivileged'\n"));
        assert!(script.contains("sha256_arm64=''\n"));
        assert!(script.contains("control = \"https://control.example\"\n"));
        assert!(script.contains("ExecStart=/usr/lib/bcd/bcd exec node\n"));
        let gaps: Vec<&str> = script.lines().filter(|line| line.contains("@@")).collect();
        assert_eq!(gaps, Vec::<&str>::new());
        for name in [
            "@CONTROL",
            "@VERSION",
            "@PINS",
            "@THRESHOLD",
            "@RIGHTS",
            "@SHA",
        ] {
            assert!(!script.contains(name), "{name}");
        }
    }

    #[test]
    fn nothing_in_an_address_means_anything_to_the_shell() {
        assert_eq!(quoted("a'b$(c)"), r"'a'\''b$(c)'");
        let mut shell = Command::new("sh");
        shell.args(["-n", "-c", &script("https://a.example/'$(false)")]);
        assert!(shell.stderr(Stdio::inherit()).status().unwrap().success());
    }

    #[test]
    fn shellcheck_has_nothing_to_say() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("install.sh");
        std::io::Write::write_all(
            &mut std::fs::File::create(&file).unwrap(),
            script("https://control.example").as_bytes(),
        )
        .unwrap();
        match Command::new("shellcheck").arg(&file).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success(), "{said}");
            }
            Err(_) => assert!(
                std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_none(),
                "shellcheck is missing"
            ),
        }
    }
}
