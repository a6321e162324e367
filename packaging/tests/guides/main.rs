//! The guides do what they say: every command in them is run, or its flags are held against the program.
//!
//! A block of `sh` is run as it stands, page by page, in one shell and a folder of its own, against the real programs on
//! loopback. What stands behind the word says what else it needs:
//!
//! - `sh source`: run in this checkout, in the turn of whoever builds;
//! - `sh last`: run after every page that goes on from this one;
//! - `sh machine`: needs systemd and root. Programs, verbs, flags, units and files in it have to exist; the block itself is
//!   run by `cargo xtask systemd-fleet`, page by page, on machines with systemd. `sh machine other` is for a machine that
//!   has nothing yet, `sh machine last` for when what goes on from it has been gone through.
//!
//! A block of `out` is what the block before it prints, with `…` for whatever is there. A line of the form
//! `export NAME=127.0.0.1:PORT` gets a port that is free.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

#[path = "../../../control/tests/postgres/cluster.rs"]
mod cluster;

mod machine;
mod reference;
mod shell;
mod site;

use cluster::Cluster;
use packaging::{
    guide::{Page, Use},
    systemd,
};
use shell::Walk;

/// The fleet in one folder, and what goes on from it. Then pages of their own.
const FLEET: &[&str] = &[
    "first-rollout",
    "paused",
    "roll-forward",
    "work",
    "events",
    "backup",
    "upgrade-control",
];
const SIGNING: &[&str] = &["signing"];
const CLUSTER: &[&str] = &["cluster"];

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_in_one_folder() {
    Walk::through(FLEET).await.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_two_people_sign() {
    Walk::through(SIGNING).await.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controls_on_one_database() {
    let Some(database) = Cluster::start() else {
        return;
    };
    database.create("bc", "template1");
    let walk = Walk::through(CLUSTER).await.with_agent("1.0.0").await;
    walk.with("DATABASE_URL", &database.url("bc"))
        .finish()
        .await;
}

#[test]
fn no_page_has_a_command_that_nobody_runs() {
    for page in Page::all().unwrap() {
        let mut walks = FLEET.iter().chain(SIGNING).chain(CLUSTER);
        let walked = walks.any(|walked| *walked == page.name);
        for block in &page.blocks {
            let place = format!("{}.md:{}", page.name, block.line);
            match block.what {
                Use::Run | Use::Source | Use::Last => {
                    assert!(walked, "{place}: no walk goes over this page");
                }
                Use::Machine => {
                    let walked = systemd::guides().any(|walked| walked == page.name);
                    assert!(walked, "{place}: no machine is taken through this page");
                    machine::hold(&place, &block.text);
                }
                Use::Shown => machine::is_no_command(&place, &block.text),
                Use::Call => panic!("{place}: calls stand on the page of the API"),
                Use::Printed | Use::Json | Use::Toml => {}
            }
        }
    }
}

#[test]
fn every_page_is_about_one_thing_and_begins_with_its_name() {
    for page in Page::all().unwrap() {
        let titles = page.prose().filter(|line| line.starts_with("# ")).count();
        assert_eq!(titles, 1, "{}", page.name);
        assert!(page.text.starts_with("# "), "{}", page.name);
    }
}
