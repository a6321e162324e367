//! The guides' own commands, literally as they stand on the page, on machines with systemd.
//!
//! A machine for control, gateway, a node and the operator's desk, and another one that begins with nothing. They share a
//! network that is nobody else's, so that ports are those of the pages; a folder that both see stands for what people carry
//! from one to the other. Who runs the commands is root: `sudo` there does what it is told.
//!
//! What the pages' own values stand for is all in this file: names of machines are loopback, a package that a page names is
//! made under that name, and [`GIVEN`] has the values of variables that a page exports.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    super::{
        machine::Machine,
        yard::{PACKAGED, Yard},
    },
    playbook::provide,
};
use crate::{
    build::Target,
    fleet::replace,
    guide::{Page, Place, printed},
};

/// The pages of a fleet, in the order of what they need of each other.
const FLEET: [&str; 8] = [
    "install",
    "configuration",
    "owner",
    "metrics",
    "events",
    "unprivileged",
    "too-old",
    "upgrade-control",
];

/// Those of a database, with which a control begins anew.
const DATABASE: [&str; 2] = ["cluster", "backup"];

/// Every page that machines are taken through.
pub fn pages() -> impl Iterator<Item = &'static str> {
    FLEET.into_iter().chain(DATABASE)
}

/// What a page exports, and what is put in its place.
const GIVEN: [(&str, &str); 1] = [("VERSION", PACKAGED)];

/// What packages say that they are, the older ones first.
const VERSIONS: [&str; 2] = [PACKAGED, "6.6.900"];

/// The names that pages have for machines.
const HOSTS: &str = "127.0.0.1 localhost control.example gateway.example db.example\n";

/// Where both machines see the folder.
const DESK: &str = "/srv/desk";

/// There is nobody here but root.
const SUDO: &str = "#!/bin/sh\n\
    if [ \"$1\" = -u ]; then user=$2; shift 2; exec runuser -u \"$user\" -- \"$@\"; fi\n\
    exec \"$@\"\n";

/// What the page needs that everything else goes on from.
pub(super) async fn installed(yard: &Yard) -> Result<()> {
    walk(yard, &[&["install"]], &[]).await
}

/// All of them.
pub(super) async fn walked(yard: &Yard) -> Result<()> {
    walk(yard, &[&FLEET, &DATABASE], &["postgresql"]).await
}

async fn walk(yard: &Yard, parts: &[&[&str]], debians_own: &[&str]) -> Result<()> {
    let mut all = Vec::new();
    for names in parts {
        let pages = names.iter().map(|name| Page::read(name));
        all.append(&mut steps(&pages.collect::<Result<Vec<_>>>()?));
    }
    let desk = Desk::open(yard, &all)?;
    let first = desk.machine(yard, "--private-network", debians_own).await?;
    let network = format!("--network-namespace-path=/proc/{}/ns/net", first.leader()?);
    let other = desk.machine(yard, &network, &[]).await?;
    for (number, step) in all.iter().enumerate() {
        let machine = match step.place {
            Place::First | Place::Last => &first,
            Place::Other => &other,
        };
        desk.take(machine, number, step)
            .with_context(|| step.name.clone())?;
    }
    Ok(())
}

/// A block of a page.
struct Step {
    name: String,
    place: Place,
    text: String,
    prints: Option<String>,
}

/// Every page's blocks, and then those of the end, of the last page first.
fn steps(pages: &[Page]) -> Vec<Step> {
    let of = |page: &Page, is_wanted: fn(Place) -> bool| -> Vec<Step> {
        let blocks = page.with_printed().filter_map(|(block, printed)| {
            let place = block.place().filter(|place| is_wanted(*place))?;
            Some(Step {
                name: format!("{}.md:{}", page.name, block.line),
                place,
                text: block.text.clone(),
                prints: printed.map(str::to_owned),
            })
        });
        blocks.collect()
    };
    let first = pages
        .iter()
        .flat_map(|page| of(page, |place| place != Place::Last));
    let last = pages
        .iter()
        .rev()
        .flat_map(|page| of(page, |place| place == Place::Last));
    first.chain(last).collect()
}

/// The folder that both machines see.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    /// With what a person has who begins: the packages that the pages name, and the release's folder.
    fn open(yard: &Yard, steps: &[Step]) -> Result<Self> {
        let desk = Self {
            dir: tempfile::Builder::new().prefix("bcd-desk-").tempdir()?,
        };
        let texts = steps.iter().map(|step| step.text.as_str());
        for (name, version) in packages(texts) {
            let made = yard.packages(version)?;
            let program = name.split('_').next().unwrap_or_default();
            let is_it = |path: &&PathBuf| {
                let file = path.file_name().and_then(|file| file.to_str());
                file.is_some_and(|file| file.starts_with(&format!("{program}_")))
            };
            let package = made.iter().find(is_it);
            let package = package.with_context(|| format!("nobody makes {name}"))?;
            std::fs::copy(package, desk.file(&name))?;
        }
        let platform = Target::here().platform();
        let platform = platform.context("releases have no name for these machines")?;
        std::fs::create_dir(desk.file("release"))?;
        let binary = desk.file("release").join(format!("bcd-{platform}"));
        std::fs::copy(yard.binary(PACKAGED)?, &binary)?;
        runnable(&binary)?;
        std::fs::create_dir(desk.file(".steps"))?;
        Ok(desk)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A machine that sees the folder.
    async fn machine(&self, yard: &Yard, network: &str, debians_own: &[&str]) -> Result<Machine> {
        let mut machine = yard.machine_that_is_off("guide")?;
        if !debians_own.is_empty() {
            provide(&machine.root(), debians_own)?;
        }
        let root = machine.root();
        replace(&root.join("etc/hosts"), HOSTS)?;
        program(&root.join("usr/local/bin/sudo"), SUDO)?;
        let bind = format!("--bind={}:{DESK}", self.dir.path().display());
        machine.told(&["--boot", network, &bind]);
        machine.boot().await?;
        Ok(machine)
    }

    /// Runs a block where those before it have left off: in their folder, with their variables.
    fn take(&self, machine: &Machine, number: usize, step: &Step) -> Result<()> {
        replace(
            &self.file(&format!(".steps/{number}.sh")),
            &given(&step.text),
        )?;
        let base = format!("{DESK}/.steps/{number}");
        let around = format!(
            "exec >{base}.out 2>&1\n\
             cd {DESK}; export HOME=/root\n\
             if [ -e .steps/variables ]; then source .steps/variables; cd \"$PWD\"; fi\n\
             set -eEuo pipefail\n\
             set -a; source {base}.sh; set +a\n\
             export -p >{DESK}/.steps/variables\n"
        );
        let words = ["timeout", "300", "bash", "-c", &around];
        let output = machine.try_run(&words)?;
        let printed = std::fs::read_to_string(self.file(&format!(".steps/{number}.out")))?;
        ensure!(
            output.status.success(),
            "the block failed ({}):\n{}\nIt printed:\n{printed}\n{}",
            output.status,
            step.text,
            journal(machine)
        );
        if let Some(said) = &step.prints
            && let Some(difference) = printed::differs(said, &printed)
        {
            bail!("{difference}");
        }
        Ok(())
    }
}

/// The packages that blocks install, each with its version: of one program's, those that are named later are newer.
fn packages<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<(String, &'static str)> {
    let mut named: Vec<(String, &'static str)> = Vec::new();
    let words = texts.flat_map(str::split_whitespace);
    let names = words.filter_map(|word| {
        word.strip_prefix("./")
            .filter(|word| word.ends_with(".deb"))
    });
    for name in names {
        if named.iter().any(|(before, _)| before == name) {
            continue;
        }
        let program = |name: &str| name.split('_').next().map(str::to_owned);
        let [older, newer] = VERSIONS;
        let is_first = named
            .iter()
            .all(|(before, _)| program(before) != program(name));
        named.push((name.to_owned(), if is_first { older } else { newer }));
    }
    named
}

/// The block, with what is put in place of what it exports.
fn given(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let exported = line
            .strip_prefix("export ")
            .and_then(|rest| rest.split_once('='));
        let value = exported.and_then(|(name, _)| GIVEN.iter().find(|(given, _)| *given == name));
        match value {
            Some((name, value)) => format!("export {name}={value}\n"),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// The last that everything of ours has said.
fn journal(machine: &Machine) -> String {
    let words = "journalctl --no-pager --lines 40 --output short-precise -u better-compute -u bc-gateway -u 'bcd*'";
    machine.shell(words).unwrap_or_default()
}

fn program(path: &Path, text: &str) -> Result<()> {
    replace(path, text)?;
    runnable(path)
}

fn runnable(path: &Path) -> Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PACKAGED, Page, given, packages, steps};

    #[test]
    fn a_package_that_is_named_later_is_newer() {
        let texts = [
            "apt install ./bcd_1.4.0_amd64.deb\nls ./bcd_1.4.0_amd64.deb",
            "./b_1_x.deb ./bcd_1.5.0_amd64.deb",
        ];
        let found = packages(texts.into_iter());
        let expected = [
            ("bcd_1.4.0_amd64.deb", PACKAGED),
            ("b_1_x.deb", PACKAGED),
            ("bcd_1.5.0_amd64.deb", "6.6.900"),
        ];
        assert_eq!(
            found,
            expected.map(|(name, version)| (name.to_owned(), version))
        );
    }

    #[test]
    fn what_a_page_exports_may_have_another_value() {
        assert_eq!(
            given("export VERSION=1.4.0\nexport A=b\n"),
            format!("export VERSION={PACKAGED}\nexport A=b\n")
        );
    }

    #[test]
    fn what_is_last_comes_last() {
        let block = |word: &str, text: &str| format!("```sh machine{word}\n{text}\n```\n\n");
        let page = |name: &str| {
            let text = block(" last", "1")
                + &block(" last", "2")
                + &block("", "3")
                + &block(" other", "4");
            Page::of(name, text).unwrap()
        };
        let order: Vec<String> = steps(&[page("a"), page("b")])
            .iter()
            .map(|step| format!("{}{}", &step.name[..1], step.text.trim()))
            .collect();
        assert_eq!(order, ["a3", "a4", "b3", "b4", "b1", "b2", "a1", "a2"]);
    }
}
