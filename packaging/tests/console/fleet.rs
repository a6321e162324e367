//! What an operator sees of a fleet as a whole.

use packaging::browser::Browser;
use serde_json::Value;

use crate::{house::House, story::is_asked};

/// Who is linked, where to read on, and that a tenant's name may be a slip.
pub(crate) async fn knows_where_it_is(browser: &Browser, house: &House) {
    browser.open(&house.page("fleet")).await.unwrap();
    let seen = "const card = document.querySelector('#h-gateways').closest('section'); return [card.querySelector('#gateways-linked').textContent, card.querySelectorAll('.badge.is-linked').length, document.querySelectorAll('#unknown-tenant').length]";
    let seen = browser.script(seen).await.unwrap();
    assert_eq!(seen, serde_json::json!(["1 of 1 linked", 1, 0]));
    let guides = "return Promise.all([...document.querySelectorAll('.foot a')].map(link => fetch(link.href).then(page => page.status)))";
    let guides = browser.script(guides).await.unwrap();
    assert_eq!(guides, serde_json::json!([200, 200, 200]));
    let there = format!("{}/console/t/nope/nodes", house.fleet.operator.url());
    browser.open(&there).await.unwrap();
    let said = "return document.querySelector('#unknown-tenant')?.textContent";
    let said = browser.script(said).await.unwrap();
    let said = said.as_str().unwrap_or_default();
    assert!(
        said.contains("Nothing is in tenant nope") && said.contains("root"),
        "{said}"
    );
}

/// Every group of events can be chosen, and the choice is answered.
pub(crate) async fn finds_events(browser: &Browser, house: &House) {
    for kind in ["gateway.*", "join-token.*", "token.*"] {
        let query = kind.replace('*', "%2A");
        browser
            .open(&house.page(&format!("events?kind={query}")))
            .await
            .unwrap();
        let seen = "return [document.querySelector('#kind').value, [...document.querySelectorAll('.event .kind')].map(kind => kind.textContent)]";
        let seen = browser.script(seen).await.unwrap();
        assert_eq!(seen[0], kind);
        let shown = seen[1].as_array().unwrap();
        assert!(!shown.is_empty(), "{kind}");
        let group = kind.trim_end_matches('*');
        for one in shown {
            assert!(one.as_str().unwrap().starts_with(group), "{kind}: {one}");
        }
    }
}

pub(crate) async fn freezes(browser: &Browser, house: &House) {
    browser.open(&house.page("fleet")).await.unwrap();
    browser.click("#do-freeze").await.unwrap();
    is_asked(browser, "freeze").await;
    browser
        .write("#freeze-reason", "a storm <b>")
        .await
        .unwrap();
    browser.click("#sure-freeze").await.unwrap();
    browser
        .until(
            "the fleet is frozen",
            "document.querySelector('.notice.warn')?.textContent.includes('a storm <b>')",
        )
        .await
        .unwrap();
    assert_eq!(
        house.api(&["fleet", "summary"])["frozen"]["reason"],
        "a storm <b>"
    );
    browser.click("#do-unfreeze").await.unwrap();
    is_asked(browser, "unfreeze").await;
    browser.click("#sure-unfreeze").await.unwrap();
    browser.until("it is not", "!document.querySelector('.notice.warn') && document.querySelector('#do-unfreeze[aria-disabled]')").await.unwrap();
    assert_eq!(house.api(&["fleet", "summary"])["frozen"], Value::Null);
}
