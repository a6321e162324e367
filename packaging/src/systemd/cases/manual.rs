//! The manual that packages bring, read on a machine by its own `man`.

use anyhow::{Context, Result, ensure};

use super::{super::yard::Yard, playbook::provide};

/// Pages, and words that each must show.
const PAGES: [(&str, &str); 5] = [
    ("bcd", "The agent of one node of a fleet"),
    ("bcd-update-hold", "bcd"),
    ("bc-gateway", "--check-config"),
    ("better-compute", "release"),
    ("better-compute-rollouts-create", "--max-failure-ratio"),
];

/// Whoever asks for a page is shown it, and has no page left once the packages are gone.
pub(super) async fn read(yard: &mut Yard) -> Result<()> {
    let mut machine = yard.machine_that_is_off("manual")?;
    provide(&machine.root(), &["man-db"])?;
    machine.boot().await?;
    yard.put_everything(&machine, &yard.packaged())?;
    for (page, words) in PAGES {
        let read = ["man", "--pager=cat", page];
        let said = machine.run(&read).with_context(|| format!("read {page}"))?;
        ensure!(said.contains(words), "{page} does not say {words}: {said}");
    }
    let purge = ["apt-get", "purge", "--yes", "--quiet"];
    let packages = ["bcd", "bc-gateway", "better-compute"];
    machine.run(&[purge.as_slice(), &packages].concat())?;
    let found = machine.try_run(&["man", "--pager=cat", "bcd"])?;
    ensure!(!found.status.success(), "a page is left behind");
    Ok(())
}
