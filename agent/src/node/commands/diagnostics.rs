//! What a node says when it is asked how it is.
//!
//! Takes the parts that are wanted, gives one text of a bounded size: every part has its share, and a cut is marked where
//! it was made. It changes nothing, and nothing secret leaves the node.

use std::{fmt::Write as _, fs, os::unix::fs::MetadataExt as _, path::Path};

use bc_protocol::{command::Part, limits::REPORT_BYTES_MAX, session::Facts};
use nix::sys::{statvfs::statvfs, utsname::uname};

use super::scrub::scrub;
use crate::{
    config::{Config, PlainHttp},
    doctor, durable, logs,
    node::memory,
    paths::Paths,
};

/// What a report is made from.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// The owner's configuration.
    pub(crate) config: Config,
    /// The node's folder.
    pub(crate) paths: Paths,
}

/// Bytes of what is read of one file: a report shows less.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Files that a listing names: the node's own folders have a few dozen.
const LISTED_MAX: usize = 200;

/// Collects the parts of these words, or all of them.
pub(super) async fn collect(sources: &Sources, facts: &Facts, words: &[String]) -> Vec<u8> {
    let mut report = String::new();
    for (part, word) in parts(words) {
        let body = match part {
            None => format!("this version does not know the part {word:?}"),
            Some(part) => body(part, sources, facts).await,
        };
        let most = part.map_or(512, bytes_max);
        section(&mut report, &word, &body, most);
    }
    let key = durable::read_unlinked(&sources.paths.identity().join("node.key"), FILE_BYTES_MAX);
    let key = key.ok().flatten().unwrap_or_default();
    let clean = scrub(&report, &String::from_utf8_lossy(&key));
    cut(&clean, REPORT_BYTES_MAX).into_bytes()
}

/// The parts that are wanted, in the order of a report, and then the words that name none.
fn parts(words: &[String]) -> Vec<(Option<Part>, String)> {
    let named = |part: &Part| words.is_empty() || words.iter().any(|word| word == part.word());
    let known = Part::ALL
        .into_iter()
        .filter(named)
        .map(|part| (Some(part), part.word().to_owned()));
    let unknown = words
        .iter()
        .filter(|word| word.parse::<Part>().is_err())
        .map(|word| (None, word.clone()));
    known.chain(unknown).collect()
}

/// A part's share: together they are less than a report may have.
fn bytes_max(part: Part) -> usize {
    match part {
        Part::Versions => 4 << 10,
        Part::Doctor | Part::Config => 16 << 10,
        Part::Disk => 24 << 10,
        Part::Status | Part::Record => 48 << 10,
        Part::Log => 64 << 10,
    }
}

async fn body(part: Part, sources: &Sources, facts: &Facts) -> String {
    match part {
        Part::Versions => versions(facts),
        Part::Status => status(&sources.paths, facts),
        Part::Doctor => doctor(sources).await,
        Part::Record => record(&sources.paths),
        Part::Config => config(&sources.config),
        Part::Disk => disk(&sources.paths),
        Part::Log => logs::tail(),
    }
}

fn section(report: &mut String, word: &str, body: &str, most: usize) {
    let body = cut(body.trim_end(), most);
    say(report, format_args!("== {word}\n{body}\n"));
}

/// The end of a long text says most about what happened, its beginning what it is: the middle is cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mark = format!("\n[cut: {} bytes in all]\n", text.len());
    let room = most.saturating_sub(mark.len());
    let head = text.floor_char_boundary(room / 4);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(room - room / 4));
    let (head, tail) = (text.get(..head), text.get(tail..));
    format!(
        "{}{mark}{}",
        head.unwrap_or_default(),
        tail.unwrap_or_default()
    )
}

fn say(into: &mut String, text: std::fmt::Arguments<'_>) {
    if into.write_fmt(text).is_err() {
        tracing::debug!("a line of a report is lost");
    }
}

fn versions(facts: &Facts) -> String {
    let mut text = format!("bcd {} for {}\n", facts.version, facts.platform);
    if let Some(helper) = &facts.helper {
        say(&mut text, format_args!("helper {helper}\n"));
    }
    match uname() {
        Ok(name) => say(
            &mut text,
            format_args!(
                "{} {} {}\n",
                name.sysname().display(),
                name.release().display(),
                name.machine().display()
            ),
        ),
        Err(error) => say(
            &mut text,
            format_args!("the kernel does not say: {error}\n"),
        ),
    }
    text.push_str(&file(Path::new("/etc/os-release")));
    text
}

fn status(paths: &Paths, facts: &Facts) -> String {
    let mut text = match serde_json::to_string_pretty(facts) {
        Ok(json) => json,
        Err(error) => format!("facts cannot be written: {error}"),
    };
    match memory::session(paths).ok().flatten() {
        Some(note) => say(
            &mut text,
            format_args!(
                "\nsession: {} {} since {}",
                if note.connected {
                    "with"
                } else {
                    "none; last with"
                },
                note.gateway.as_deref().unwrap_or("nobody"),
                note.since
            ),
        ),
        None => text.push_str("\nsession: unknown"),
    }
    text
}

async fn doctor(sources: &Sources) -> String {
    let mut text = String::new();
    for finding in doctor::examine(&sources.config, &sources.paths).await {
        let word = if finding.good { "good" } else { "WRONG" };
        say(
            &mut text,
            format_args!("{word:<6}{:<10}{}\n", finding.check, finding.found),
        );
        if let Some(mend) = finding.mend {
            say(&mut text, format_args!("{:16}to mend: {mend}\n", ""));
        }
    }
    text
}

fn record(paths: &Paths) -> String {
    let mut text = String::new();
    for copy in paths.record_copies() {
        say(
            &mut text,
            format_args!("{}\n{}\n", copy.display(), cut(&file(&copy), 20 << 10)),
        );
    }
    text
}

/// What the configuration means, value by value: what it says in so many words could hold anything.
fn config(config: &Config) -> String {
    let mut text = String::new();
    let gateways: Vec<_> = config.gateways.iter().map(ToString::to_string).collect();
    let plain = match config.plain_http {
        PlainHttp::Loopback => "to this machine",
        PlainHttp::Anywhere => "everywhere",
    };
    let control = config.control.as_ref().map(ToString::to_string);
    let update = &config.update;
    say(
        &mut text,
        format_args!(
            "control {}\nstate_dir {}\ngateways {gateways:?}\nlabels {:?}\npackage_binary {}\n\
             http without tls {plain}\nca_file {:?}\nuser {:?}\nhelper_socket {:?}\n\
             threshold {}\nwatchdog_deadline {:?}\nstable_for {:?}\n",
            control.as_deref().unwrap_or("none"),
            config.state_dir.display(),
            config.labels,
            config.package_binary.display(),
            config.ca_file,
            config.node.user,
            config.node.helper_socket,
            update.trust.threshold(),
            update.watchdog_deadline,
            update.stable_for,
        ),
    );
    for pin in update.trust.pins() {
        say(&mut text, format_args!("pin {pin}\n"));
    }
    text
}

fn disk(paths: &Paths) -> String {
    let root = paths.root();
    let mut text = match statvfs(root) {
        Ok(disk) => format!(
            "{}: {} of {} MiB free, {} of {} inodes free\n",
            root.display(),
            disk.blocks_available().saturating_mul(disk.fragment_size()) >> 20,
            disk.blocks().saturating_mul(disk.fragment_size()) >> 20,
            disk.files_available(),
            disk.files()
        ),
        Err(error) => format!("{}: {error}\n", root.display()),
    };
    let mut left = LISTED_MAX;
    list(root, &mut text, &mut left);
    if left == 0 {
        text.push_str("[more files are not listed]\n");
    }
    text
}

/// Names, sizes and owners; nothing of what is inside, and no link is followed.
fn list(folder: &Path, text: &mut String, left: &mut usize) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            say(text, format_args!("{}: {error}\n", folder.display()));
            return;
        }
    };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    for path in found {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        say(
            text,
            format_args!(
                "{:06o} {:>6} {:>10} {}\n",
                about.mode(),
                about.uid(),
                about.len(),
                path.display()
            ),
        );
        if about.is_dir() {
            list(&path, text, left);
        }
    }
}

fn file(path: &Path) -> String {
    match durable::read_bounded(path, FILE_BYTES_MAX) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("{}: {error}\n", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{durable::Mode, node::session::facts};

    fn sources(folder: &Path) -> Sources {
        let text = format!(
            "state_dir = {folder:?}\nlabels = {{ proxy = \"http://alice:hunter2@proxy\" }}\n\n[update]\n\
             release_pins = [\"sha256/UNhY4JhezH9gQYqvDMWrWH9CwlcKiECVqejMrND2VFw=\"]\nthreshold = 1\n"
        );
        let file = folder.join("bcd.toml");
        durable::replace_file(&file, text.as_bytes(), Mode::Readable).unwrap();
        Sources {
            config: Config::load(&file).unwrap(),
            paths: Paths::new(folder),
        }
    }

    async fn report(sources: &Sources, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        String::from_utf8(collect(sources, &facts(7), &words).await).unwrap()
    }

    #[tokio::test]
    async fn parts_come_in_order_and_unknown_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = report(&sources(folder.path()), &["disk", "versions", "weather"]).await;
        let heads: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("== "))
            .collect();
        assert_eq!(heads, ["== versions", "== disk", "== weather"]);
        assert!(
            text.contains("bcd.toml") && text.contains("does not know"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn nothing_secret_leaves_the_node_and_a_cut_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let identity = sources.paths.identity();
        durable::create_folder(&identity, 0o700).unwrap();
        let key =
            "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEG\n-----END PRIVATE KEY-----\n";
        durable::replace_file(&identity.join("node.key"), key.as_bytes(), Mode::Private).unwrap();
        let [copy, _] = sources.paths.record_copies();
        let log = format!(
            "{} MIGHAgEAMBMGByqGSM49AgEG bcjt_01aryz6s41.s3cr3t https://a:b@c/ {}",
            "x".repeat(1000),
            "y".repeat(100 << 10)
        );
        durable::replace_file(&copy, log.as_bytes(), Mode::Readable).unwrap();
        let text = report(&sources, &[]).await;
        for secret in ["hunter2", "MIGHAgEAMBMGByqGSM49AgEG", "s3cr3t", "a:b@"] {
            assert!(!text.contains(secret), "{secret}");
        }
        assert!(text.len() <= REPORT_BYTES_MAX);
        assert!(text.contains("[cut: "), "{text}");
        for part in Part::ALL {
            assert!(text.contains(&format!("== {part}\n")), "{part}");
        }
    }

    #[test]
    fn shares_fit_into_a_report() {
        let all: usize = Part::ALL.into_iter().map(bytes_max).sum();
        assert!(all + 16 * 600 < REPORT_BYTES_MAX);
        let long = "é".repeat(1000);
        assert!(cut(&long, 100).len() <= 100);
        assert_eq!(cut("short", 100), "short");
    }
}
