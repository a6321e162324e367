//! What an operator does in a browser, from signing in to signing out.

use packaging::browser::{Browser, ENTER, ESCAPE};
use serde_json::{Value, json};

use crate::house::House;

/// Markup that would be seen if it were any, and 500 characters without a place to break.
fn reason() -> String {
    let markup = "<img src=x onerror=\"document.title='broken'\"><b>&amp;";
    format!("{markup}{}", "w".repeat(500 - markup.chars().count()))
}

/// That the page shows a state.
async fn is(browser: &Browser, state: &str) {
    let shown = format!("document.querySelector('#state')?.textContent.trim() === '{state}'");
    browser.until(state, &shown).await.unwrap();
}

/// That a dialog is open, with the focus within.
pub(crate) async fn is_asked(browser: &Browser, what: &str) {
    let open = format!(
        "document.querySelector('#ask-{what}')?.open && document.querySelector('#ask-{what}').contains(document.activeElement)"
    );
    browser.until("a dialog asks", &open).await.unwrap();
}

pub(crate) async fn signs_in(browser: &Browser, house: &House) {
    let there = house.page("rollouts");
    browser.open(&there).await.unwrap();
    assert!(
        browser
            .url()
            .await
            .unwrap()
            .contains("/console/sign-in?next=")
    );
    browser
        .write("#token", &format!("tok_wrong.secret{ENTER}"))
        .await
        .unwrap();
    browser
        .until("a wrong token is refused", "document.querySelector('[role=alert]')?.textContent.includes('does not know that token')")
        .await
        .unwrap();
    assert_eq!(browser.cookies().await.unwrap(), Vec::<Value>::new());
    browser
        .write("#token", &format!("{}{ENTER}", house.token))
        .await
        .unwrap();
    browser
        .until(
            "somebody is signed in",
            "document.querySelector('h1')?.textContent === 'Rollouts'",
        )
        .await
        .unwrap();
    assert_eq!(browser.url().await.unwrap(), there);
    let cookies = browser.cookies().await.unwrap();
    let [cookie] = cookies.as_slice() else {
        panic!("one cookie: {cookies:?}")
    };
    for (flag, expected) in [
        ("name", json!("__Host-better-compute")),
        ("httpOnly", json!(true)),
        ("secure", json!(true)),
        ("sameSite", json!("Strict")),
        ("path", json!("/")),
    ] {
        assert_eq!(cookie[flag], expected, "{cookie}");
    }
    assert_eq!(browser.script("return document.cookie").await.unwrap(), "");
}

pub(crate) async fn sees_a_rollout_begin(browser: &Browser, house: &House) -> String {
    browser
        .until(
            "the page is live",
            "document.querySelector('#live-state[data-state=on]')",
        )
        .await
        .unwrap();
    let id = house.roll_out("1.1.0");
    // Nobody loads the page again.
    browser
        .until(
            "the new rollout is seen",
            &format!("document.getElementById('{id}')"),
        )
        .await
        .unwrap();
    browser.click(&format!("#{id} h2 a")).await.unwrap();
    is(browser, "running").await;
    browser
        .until(
            "its canary has settled and the wave soaks",
            "document.querySelector('.soak [data-until]')?.textContent.startsWith('in ')",
        )
        .await
        .unwrap();
    browser
        .until(
            "why it waits",
            "document.querySelector('#waits-soaking')?.textContent.includes('soaks until')",
        )
        .await
        .unwrap();
    id
}

pub(crate) async fn pauses_and_resumes(browser: &Browser, house: &House, id: &str) {
    browser
        .open(&house.page(&format!("rollouts/{id}")))
        .await
        .unwrap();
    let why = "return document.getElementById(document.querySelector('#do-resume').getAttribute('aria-describedby')).textContent";
    let why = browser.script(why).await.unwrap();
    assert!(why.as_str().unwrap().contains("nothing to resume"), "{why}");
    // By mouse.
    browser.click("#do-pause").await.unwrap();
    is_asked(browser, "pause").await;
    browser.write("#pause-reason", &reason()).await.unwrap();
    browser.click("#sure-pause").await.unwrap();
    is(browser, "paused").await;
    let rollout = house.api(&["rollouts", "get", id]);
    assert_eq!(
        (&rollout["state"], &rollout["reason"]),
        (&json!("paused"), &json!(reason()))
    );
    let events = house.api(&["events", "list", "--type", "rollout.paused"]);
    assert_eq!(events["events"][0]["actor"], "admin", "{events}");
    browser
        .until(
            "the soak alone does not open the next wave",
            "document.querySelector('.soak')?.textContent.includes('once the rollout is resumed')",
        )
        .await
        .unwrap();
    // By keyboard alone; Escape changes nothing.
    for answer in ["no", "yes"] {
        browser.tab_to("do-resume").await.unwrap();
        browser.press(ENTER).await.unwrap();
        is_asked(browser, "resume").await;
        if answer == "no" {
            browser.press(ESCAPE).await.unwrap();
            browser
                .until(
                    "the dialog is closed",
                    "!document.querySelector('dialog[open]')",
                )
                .await
                .unwrap();
            let focus = browser
                .script("return document.activeElement.id")
                .await
                .unwrap();
            assert_eq!(focus, "do-resume");
        } else {
            browser.tab_to("sure-resume").await.unwrap();
            browser.press(ENTER).await.unwrap();
        }
    }
    is(browser, "running").await;
    assert_eq!(house.api(&["rollouts", "get", id])["state"], "running");
}

pub(crate) async fn reasons_stay_text_and_break_no_layout(
    browser: &Browser,
    house: &House,
    id: &str,
) {
    house.api(&["rollouts", "pause", id, "--reason", &reason()]);
    for (width, height) in [(390, 844), (1280, 900)] {
        browser.resize(width, height).await.unwrap();
        for path in [
            "rollouts".to_owned(),
            format!("rollouts/{id}"),
            format!("rollouts/{id}/nodes"),
            "fleet".to_owned(),
            "nodes".to_owned(),
            format!("nodes/{}", house.fleet.nodes[0].id),
            "releases".to_owned(),
            "events".to_owned(),
        ] {
            browser.open(&house.page(&path)).await.unwrap();
            let seen = "return [document.documentElement.scrollWidth, document.querySelectorAll('main img, main .reason b').length, document.title]";
            let seen = browser.script(seen).await.unwrap();
            assert!(
                seen[0].as_u64().unwrap() <= u64::from(width),
                "{path} at {width}: {seen}"
            );
            assert_eq!(seen[1], 0, "{path}: markup");
            assert_ne!(seen[2], "broken", "{path}");
        }
    }
    browser
        .open(&house.page(&format!("rollouts/{id}")))
        .await
        .unwrap();
    let shown = "return [...document.querySelectorAll('.reason')].map(shown => shown.textContent)";
    let shown = browser.script(shown).await.unwrap();
    assert!(
        shown.as_array().unwrap().contains(&json!(reason())),
        "{shown}"
    );
    browser.open(&house.page("fleet")).await.unwrap();
    let pools = browser
        .script("return document.querySelector('.pools').textContent")
        .await
        .unwrap();
    assert!(
        pools.as_str().unwrap().contains("<b>compute</b>"),
        "{pools}"
    );
}

/// More people than the database has connections for readers.
pub(crate) async fn many_look_at_once(browser: &Browser, house: &House, id: &str) {
    browser
        .open(&house.page(&format!("rollouts/{id}")))
        .await
        .unwrap();
    let looks = "return Promise.all(Array.from({length: 24}, () => fetch(location.href).then(page => page.status)))";
    let seen = browser.script(looks).await.unwrap();
    assert_eq!(seen, json!([200; 24].to_vec()));
}

pub(crate) async fn aborts(browser: &Browser, house: &House, id: &str) {
    browser
        .open(&house.page(&format!("rollouts/{id}")))
        .await
        .unwrap();
    browser.click("#do-abort").await.unwrap();
    is_asked(browser, "abort").await;
    browser.click("#abort-rollback").await.unwrap();
    browser.write("#abort-reason", "not today").await.unwrap();
    browser.click("#sure-abort").await.unwrap();
    is(browser, "aborted").await;
    let rollout = house.api(&["rollouts", "get", id]);
    assert_eq!(
        (&rollout["state"], &rollout["reason"]),
        (&json!("aborted"), &json!("not today"))
    );
    // What was never begun is not called settled.
    let shown = "return [document.querySelector('#wave-2 > .meta').textContent, document.querySelector('#reason').textContent]";
    let shown = browser.script(shown).await.unwrap();
    assert_eq!(shown[0], "never opened");
    let why = shown[1].as_str().unwrap();
    assert!(
        why.contains("Aborted:") && why.contains("not today"),
        "{why}"
    );
    assert!(why.contains("It had paused before:"), "{why}");
    for (button, why) in [
        ("pause", "It was aborted."),
        ("resume", "It was aborted."),
        ("abort", "It was aborted."),
    ] {
        let barred = format!(
            "const button = document.querySelector('#do-{button}'); return [button.getAttribute('aria-disabled'), document.getElementById(button.getAttribute('aria-describedby')).textContent]"
        );
        let barred = browser.script(&barred).await.unwrap();
        assert_eq!(barred[0], "true", "{button}: {barred}");
        assert!(
            barred[1].as_str().unwrap().contains(why),
            "{button}: {barred}"
        );
    }
}

/// What a node says while it downloads is no event; its page moves all the same.
pub(crate) async fn sees_a_node_at_work(browser: &Browser, house: &House) {
    let node = house.joins_slowly().await;
    let made = house.api(&[
        "rollouts",
        "create",
        "--version",
        "1.1.0",
        "--node",
        &node,
        "--waves",
        "100",
        "--yes",
    ]);
    browser
        .open(&house.page(&format!("nodes/{node}")))
        .await
        .unwrap();
    browser
        .until(
            "the node downloads",
            "window.seen = document.querySelector('progress')?.value",
        )
        .await
        .unwrap();
    browser
        .until(
            "it is seen to go on, on the same page",
            "window.seen > 0 && document.querySelector('progress')?.value > window.seen",
        )
        .await
        .unwrap();
    house.api(&["rollouts", "abort", made["id"].as_str().unwrap(), "--yes"]);
    house.api(&["nodes", "remove", &node, "--yes"]);
}

pub(crate) async fn sees_why_a_release_failed(browser: &Browser, house: &House) -> String {
    let id = house.roll_out("1.2.0");
    browser
        .open(&house.page(&format!("rollouts/{id}")))
        .await
        .unwrap();
    is(browser, "paused").await;
    browser
        .until(
            "failures are grouped by cause",
            "document.querySelector('.causes')?.textContent.includes('no-welcome')",
        )
        .await
        .unwrap();
    browser.click(".causes .head a").await.unwrap();
    browser
        .until(
            "its nodes that failed are listed",
            "document.querySelectorAll('tbody tr').length === 1",
        )
        .await
        .unwrap();
    browser.click("tbody th a").await.unwrap();
    browser
        .until(
            "the node's page explains",
            "document.querySelector('#explanation')?.textContent.includes('no-welcome')",
        )
        .await
        .unwrap();
    let log = browser
        .script("return document.querySelector('#h-attempt').closest('section').textContent")
        .await
        .unwrap();
    assert!(log.as_str().unwrap().contains("1.2.0"), "{log}");
    id
}

pub(crate) async fn no_page_breaks_its_policy(browser: &Browser, house: &House) {
    let violations = |lines: Vec<String>| -> Vec<String> {
        lines
            .into_iter()
            .filter(|line| line.contains("Content Security Policy"))
            .collect()
    };
    let complaints = browser.complaints().await.unwrap();
    assert_eq!(
        violations(complaints),
        Vec::<String>::new(),
        "on every page so far"
    );
    browser.open(&house.page("rollouts")).await.unwrap();
    let inline = "const script = document.createElement('script'); script.textContent = 'document.title = 1'; document.body.append(script); return document.title";
    let title = browser.script(inline).await.unwrap();
    assert_ne!(title, "1", "a script of the page itself ran");
    let complaints = violations(browser.complaints().await.unwrap());
    assert_eq!(
        complaints.len(),
        1,
        "the browser would have told: {complaints:?}"
    );
}

pub(crate) async fn signs_out(browser: &Browser, house: &House) {
    browser.open(&house.page("rollouts")).await.unwrap();
    browser
        .click("form[action='/console/sign-out'] button")
        .await
        .unwrap();
    browser
        .until(
            "somebody is asked for a token",
            "document.querySelector('#token')",
        )
        .await
        .unwrap();
    assert_eq!(browser.cookies().await.unwrap(), Vec::<Value>::new());
    browser.open(&house.page("rollouts")).await.unwrap();
    assert!(browser.url().await.unwrap().contains("/console/sign-in"));
}
