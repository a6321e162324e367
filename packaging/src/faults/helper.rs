//! The same updates through the real helper, which is stopped everywhere.
//!
//! The node's part is played by [`client`]; root's slots and record are what the checker looks at. A thread of the helper
//! is traced alone, from just before a request on, so that every call has its number.

pub(super) mod client;
mod crowd;
mod points;
mod process;

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{
    Extent, Figures,
    checker::look,
    explore::{self, Walk},
    script::Step,
    yard::{Exit, Yard},
};
use client::Request;
pub(super) use process::Helper;

/// The script through the helper, undisturbed, and what a stranger may not do.
pub(super) fn run(yard: &Yard) -> Result<Figures> {
    let mut figures = Figures::default();
    figures.count("strangers at the helper", strangers(yard)?);
    for found in crowd::run(yard)? {
        figures.count("crowds at the helper", found);
    }
    let walk = explore::walk_by(yard, "helper-node", &|state, step| {
        asked(yard, state, step, "walk").with_context(|| step.name)
    })?;
    figures.add(walk.figures);
    Ok(figures)
}

/// Kills of the helper and errors of its calls, at every explored step.
pub(super) fn stopped(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    points::run(yard, walk, extent)
}

/// One step: the node's part through a helper of its own, the start by the boot loader.
pub(super) fn asked(yard: &Yard, state: &Path, step: &Step, name: &str) -> Result<Exit> {
    if step.act.is_a_start() {
        return yard.run(state, step, &[]);
    }
    let _watchdog = yard.watchdog(state, step)?;
    let helper = Helper::start(yard, state, name)?;
    let before = helper.settled()?;
    let exit = helper.ask(&step.act)?;
    if !helper.comes_back_to(before)? {
        // The caller knows no better word: an answer that leaves something behind is none.
        return Ok(Exit::Leaked);
    }
    Ok(exit)
}

/// I14: whoever is not the node's user gets nothing, whatever he asks for.
fn strangers(yard: &Yard) -> Result<Vec<String>> {
    let state = yard.folder.join("strange");
    let mut wrong = Vec::new();
    yard.run(&state, &super::script::BOOT, &[])?;
    let helper = Helper::serving_another(yard, &state)?;
    let before = look(&state)?;
    let section = yard.section("spec-1-first")?;
    let binary = std::fs::File::open(yard.folder.join("binary-1"))?;
    for request in [
        Request::status(),
        Request::stage(&section, &binary),
        Request::activate(&section),
    ] {
        let answer = request.ask(helper.socket())?;
        if answer.as_ref().is_none_or(|answer| answer.word != "denied") {
            wrong.push(format!("I14: a stranger was answered {answer:?}"));
        }
    }
    if look(&state)? != before {
        wrong.push("I14: a stranger has changed something".to_owned());
    }
    Ok(wrong)
}
