//! Every page by axe-core, in light and dark, on a desk and on a phone.

use std::path::Path;

use packaging::browser::{self, Browser, Scheme};

use crate::house::House;

/// What is wrong on the page, if it is serious.
const LOOK: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
        (found) => done(found.violations
            .filter((one) => ['serious', 'critical'].includes(one.impact))
            .map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`)),
        (error) => done([String(error)]));";

/// Guides of every kind: words, commands with what they print, tables, the API's methods.
const GUIDES: [&str; 5] = [
    "index.html",
    "first-rollout.html",
    "configuration.html",
    "security.html",
    "api.html",
];

pub(crate) async fn everybody_can_use_it(browser: &Browser, house: &House, rollout: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(axe) = browser::axe(folder).unwrap() else {
        let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
        assert!(!required, "axe-core could not be fetched with npm");
        return;
    };
    let node = &house.fleet.nodes[0].id;
    let pages = [
        "rollouts".to_owned(),
        format!("rollouts/{rollout}"),
        format!("rollouts/{rollout}/nodes"),
        "fleet".to_owned(),
        "nodes".to_owned(),
        format!("nodes/{node}"),
        "releases".to_owned(),
        "events".to_owned(),
        "../../sign-in?kept=1".to_owned(),
        "nothing".to_owned(),
    ];
    let mut found = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.prefer(scheme).await.unwrap();
        for width in [1280, 390] {
            browser.resize(width, 900).await.unwrap();
            for page in &pages {
                browser.open(&house.page(page)).await.unwrap();
                browser.script(&axe).await.unwrap();
                let violations = browser.script_later(LOOK).await.unwrap();
                if violations != serde_json::json!([]) {
                    found.push(format!("{page} {scheme:?} {width}: {violations:#}"));
                }
            }
        }
    }
    browser.resize(1280, 900).await.unwrap();
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.prefer(scheme).await.unwrap();
        for page in GUIDES {
            let address = format!("{}/docs/{page}", house.fleet.operator.url());
            browser.open(&address).await.unwrap();
            browser.script(&axe).await.unwrap();
            let violations = browser.script_later(LOOK).await.unwrap();
            if violations != serde_json::json!([]) {
                found.push(format!("{page} {scheme:?}: {violations:#}"));
            }
        }
    }
    // A dialog is a page of its own to those who hear it.
    browser
        .open(&house.page(&format!("rollouts/{rollout}")))
        .await
        .unwrap();
    browser.click("#do-abort").await.unwrap();
    browser.script(&axe).await.unwrap();
    let violations = browser.script_later(LOOK).await.unwrap();
    if violations != serde_json::json!([]) {
        found.push(format!("dialog: {violations:#}"));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    browser.prefer(Scheme::Light).await.unwrap();
    browser.resize(1280, 900).await.unwrap();
}
