//! What is installed: two builds, under any number of names.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::super::{done, machine::Machine};
use crate::{
    build::{self, AgentBuild, Fault, Shipping, Target},
    dist,
};

pub(super) async fn built(
    version: &'static str,
    fault: Option<Fault>,
    dir: &Path,
) -> Result<Vec<u8>> {
    let to = dir.join(version);
    build::agent(AgentBuild { version, fault }, &to).await?;
    strip(&to)?;
    Ok(std::fs::read(&to)?)
}

/// What is left out is for debuggers alone, and two thirds of every download.
pub(super) fn strip(program: &Path) -> Result<()> {
    if dist::has("strip") {
        done(Command::new("strip").arg(program))?;
    }
    Ok(())
}

pub(super) fn shipping(version: &str) -> Shipping {
    Shipping {
        version: version.to_owned(),
        epoch: 1_700_000_000,
        target: Target::here(),
    }
}

/// Installs packages by the machine's own package manager.
pub(super) fn put(machine: &Machine, packages: &[PathBuf]) -> Result<()> {
    let mut words = vec![
        "apt-get",
        "install",
        "--yes",
        "--quiet",
        "--no-install-recommends",
        "--allow-downgrades",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    for (number, package) in packages.iter().enumerate() {
        let there = format!("root/{number}.deb");
        std::fs::copy(package, machine.root().join(&there))?;
        words.push(format!("/{there}"));
    }
    machine.run(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(())
}

/// The same binary, which says that it is another version.
pub(super) fn renamed(binary: &[u8], from: &str, to: &str) -> Result<Vec<u8>> {
    ensure!(
        from.len() == to.len(),
        "expected a version as long as {from}, found {to}"
    );
    let mut renamed = Vec::with_capacity(binary.len());
    let mut rest = binary;
    let mut times = 0;
    while let Some(at) = rest
        .windows(from.len())
        .position(|window| window == from.as_bytes())
    {
        let (before, found) = rest.split_at(at);
        renamed.extend_from_slice(before);
        renamed.extend_from_slice(to.as_bytes());
        rest = found.get(from.len()..).unwrap_or_default();
        times += 1;
    }
    renamed.extend_from_slice(rest);
    ensure!(times > 0, "expected a binary that names {from}, found none");
    Ok(renamed)
}

/// The version that many further on: its digits are read as one number, so that it stays as long as it is.
pub(super) fn counted(version: &str, by: u64) -> Result<String> {
    let digits: String = version.chars().filter(char::is_ascii_digit).collect();
    let all = |c: char| c.is_ascii_digit() || c == '.';
    ensure!(
        version.chars().all(all),
        "expected a version of digits and points, found {version}"
    );
    let number = digits.parse::<u64>()?.saturating_add(by).to_string();
    let number = format!("{number:0>width$}", width = digits.len());
    ensure!(
        number.len() == digits.len(),
        "no version as long as {version} is {by} further on"
    );
    let mut digits = number.chars();
    let next = |c: char| if c == '.' { Some('.') } else { digits.next() };
    Ok(version.chars().filter_map(next).collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign's files do not outlive a power cut"
)]
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{counted, renamed};

    #[test]
    fn a_version_counts_on_within_its_length() {
        assert_eq!(counted("6.6.100", 7).unwrap(), "6.6.107");
        assert_eq!(counted("6.6.100", 800).unwrap(), "6.6.900");
        assert_eq!(counted("0.1.0", 25).unwrap(), "0.3.5");
        assert_eq!(counted("0.1.0", 800).unwrap(), "8.1.0");
        assert!(counted("9.9.0", 10).is_err());
        assert!(counted("1.0.0-rc.1", 1).is_err());
    }

    #[test]
    fn a_version_is_replaced_wherever_it_is_named() {
        assert_eq!(
            renamed(b"a1.0.0b1.0.0", "1.0.0", "1.0.7").unwrap(),
            b"a1.0.7b1.0.7"
        );
        assert!(renamed(b"nothing", "1.0.0", "1.0.7").is_err());
        assert!(renamed(b"1.0.0", "1.0.0", "1.0.10").is_err());
    }
}
