//! What this machine is like, as labels.
//!
//! Takes the owner's labels, gives them with what the system says of itself; where both name one thing, the system
//! knows better. Read anew for every Hello.

use std::{collections::BTreeMap, path::Path};

use bc_protocol::limits::{LABEL_BYTES_MAX, LABELS_MAX};

use crate::durable;

/// Where systems say what they are, the owner's file first.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// Bytes of an os-release file: ten times what any distribution writes.
const OS_RELEASE_BYTES_MAX: u64 = 64 << 10;

/// The labels of this machine.
pub(crate) fn current(configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut own = BTreeMap::from([("cpu.arch", std::env::consts::ARCH.to_owned())]);
    if let Ok(names) = nix::sys::utsname::uname() {
        own.insert("hostname", names.nodename().to_string_lossy().into_owned());
        own.insert(
            "kernel.release",
            names.release().to_string_lossy().into_owned(),
        );
    }
    for (name, text) in OS_RELEASE
        .iter()
        .find_map(|path| durable::read_bounded(Path::new(path), OS_RELEASE_BYTES_MAX).ok())
        .map(|bytes| os_release(&String::from_utf8_lossy(&bytes)))
        .unwrap_or_default()
    {
        own.insert(name, text);
    }
    merged(own, configured)
}

fn merged(
    own: BTreeMap<&'static str, String>,
    configured: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = own
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), bounded(text)))
        .collect();
    for (name, text) in configured {
        if labels.len() < LABELS_MAX && !labels.contains_key(name) {
            labels.insert(name.clone(), text.clone());
        }
    }
    labels
}

fn os_release(text: &str) -> Vec<(&'static str, String)> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let label = match key.trim() {
                "ID" => "os.id",
                "VERSION_ID" => "os.version",
                _ => return None,
            };
            let value = value.trim().trim_matches(['"', '\'']);
            Some((label, value.to_owned()))
        })
        .collect()
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LABEL_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_release_in_every_spelling() {
        let text = "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n# ID=x\nnonsense\nID_LIKE=y\n";
        assert_eq!(
            os_release(text),
            [
                ("os.id", "debian".to_owned()),
                ("os.version", "12".to_owned())
            ]
        );
        assert_eq!(os_release("ID='arch'"), [("os.id", "arch".to_owned())]);
    }

    #[test]
    fn the_system_knows_better_than_the_owner() {
        let own = BTreeMap::from([("cpu.arch", "x86_64".to_owned()), ("os.id", String::new())]);
        let configured = BTreeMap::from([
            ("cpu.arch".to_owned(), "vax".to_owned()),
            ("rack".to_owned(), "7".to_owned()),
        ]);
        assert_eq!(
            merged(own, &configured),
            BTreeMap::from([
                ("cpu.arch".to_owned(), "x86_64".to_owned()),
                ("rack".to_owned(), "7".to_owned()),
            ])
        );
    }

    #[test]
    fn labels_always_fit_a_hello() {
        let own = BTreeMap::from([("hostname", "é".repeat(LABEL_BYTES_MAX))]);
        let configured = (0..LABELS_MAX)
            .map(|n| (format!("label{n:03}"), "x".to_owned()))
            .collect();
        let labels = merged(own, &configured);
        assert_eq!(labels.len(), LABELS_MAX);
        assert!(labels.values().all(|text| text.len() <= LABEL_BYTES_MAX));
        assert!(labels.contains_key("hostname"));
    }

    #[test]
    fn this_machine_has_a_processor() {
        assert_eq!(
            current(&BTreeMap::new())
                .get("cpu.arch")
                .map(String::as_str),
            Some(std::env::consts::ARCH)
        );
    }
}
