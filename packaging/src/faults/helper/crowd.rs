//! Many clients of one helper at once.
//!
//! Whatever the order that they were served in, it was some order: the node stands as one of them leaves it, every word
//! was one of those that the operation has, and nothing is kept open.

use std::{
    collections::BTreeMap,
    fs::File,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Result;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{Helper, client::Request};
use crate::{
    faults::{checker::look, script::BOOT, yard::Yard},
    fleet::now,
};

/// Clients at once: as many as the helper takes.
const CLIENTS: u64 = 12;

/// Requests of each.
const REQUESTS: usize = 25;

/// Crowds, each on a new machine.
const CROWDS: u64 = 6;

/// Lets them ask; gives what is wrong afterwards, by crowd.
pub(super) fn run(yard: &Yard) -> Result<Vec<Vec<String>>> {
    (0..CROWDS).map(|seed| crowd(yard, seed)).collect()
}

fn crowd(yard: &Yard, seed: u64) -> Result<Vec<String>> {
    let state = yard.folder.join(format!("crowd-{seed}"));
    // Set by a confirmation: then the helper makes room for the binary that was confirmed.
    let over = AtomicBool::new(false);
    yard.run(&state, &BOOT, &[])?;
    let _watchdog = yard.watchdog(&state, &BOOT)?;
    let helper = Helper::start(yard, &state, "crowd")?;
    let open = helper.settled()?;
    let floors: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (helper, over) = (&helper, &over);
                let rng = StdRng::seed_from_u64(seed * CLIENTS + client);
                scope.spawn(move || ask(yard, helper, rng, over))
            })
            .collect();
        clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a client died")))
            })
            .collect()
    });
    let mut wrong = Vec::new();
    for found in floors {
        wrong.extend(found?);
    }
    if !over.load(Ordering::Relaxed) && !helper.answers()? {
        wrong.push("I17: the helper answers nobody any more".to_owned());
    }
    if !helper.comes_back_to(open)? {
        wrong.push("I17: the helper keeps a descriptor".to_owned());
    }
    drop(helper);
    let seen = look(&state)?;
    wrong.extend(seen.absolute(&yard.known));
    wrong.extend(seen.copies_agree().err());
    Ok(wrong)
}

/// One client's requests; gives the words that no operation has.
fn ask(
    yard: &Yard,
    helper: &Helper<'_>,
    mut rng: StdRng,
    over: &AtomicBool,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let words = BTreeMap::from([
        ("stage", &["done", "ended", "trial-waits", "busy"][..]),
        ("activate", &["done", "ended", "trial-waits", "busy"][..]),
        ("confirm", &["done", "not-on-trial", "busy"][..]),
        ("cancel", &["done", "ended", "trial-waits", "busy"][..]),
    ]);
    for _ in 0..REQUESTS {
        let sequence = rng.random_range(1..=3_u64);
        let section = yard.section(&format!("spec-{sequence}-first"))?;
        let binary = File::open(yard.folder.join(format!("binary-{sequence}")))?;
        let digest = yard.digest_of(sequence)?;
        let (what, request) = match rng.random_range(0..24) {
            0..9 => ("stage", Request::stage(&section, &binary)),
            9..18 => ("activate", Request::activate(&section)),
            18 => ("confirm", Request::confirm(&digest)),
            _ => ("cancel", Request::cancel(&yard.attempt(sequence, "first"))),
        };
        let Some(answer) = helper.hear(&request)? else {
            if is_over(over) {
                break;
            }
            wrong.push(format!("I16: {what} of {sequence} was not answered"));
            continue;
        };
        if what == "confirm" && answer.word == "done" {
            over.store(true, Ordering::Relaxed);
        }
        let is_known = words
            .get(what)
            .is_some_and(|words| words.contains(&answer.word.as_str()));
        if !is_known {
            wrong.push(format!("I16: {what} of {sequence} was answered {answer:?}"));
        }
    }
    Ok(wrong)
}

/// Whether the helper has made room. Whoever asked for it hears it before he can say so.
fn is_over(over: &AtomicBool) -> bool {
    let until = now() + Duration::from_secs(2);
    while !over.load(Ordering::Relaxed) && now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    over.load(Ordering::Relaxed)
}
