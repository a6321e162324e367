//! The console in a real browser, before a real control with a real rollout.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod accessible;
mod fleet;
mod forged;
mod house;
mod story;

use house::House;
use packaging::browser::{self, Browser};

/// What is missing, unless everything is required.
fn passed_over() -> bool {
    let Some(package) = browser::missing() else {
        return false;
    };
    let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
    assert!(!required, "{package} is not installed");
    #[expect(
        clippy::print_stderr,
        reason = "whoever reads the test's output should know"
    )]
    {
        eprintln!("passed over: {package} is not installed");
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_what_runs_why_it_waits_and_stops_it() {
    if passed_over() {
        return;
    }
    let house = House::start().await;
    forged::strangers_change_nothing(&house).await;
    let browser = Browser::start().await.unwrap();
    browser.resize(1280, 900).await.unwrap();
    story::signs_in(&browser, &house).await;
    let good = story::sees_a_rollout_begin(&browser, &house).await;
    story::pauses_and_resumes(&browser, &house, &good).await;
    story::reasons_stay_text_and_break_no_layout(&browser, &house, &good).await;
    story::many_look_at_once(&browser, &house, &good).await;
    story::aborts(&browser, &house, &good).await;
    story::sees_a_node_at_work(&browser, &house).await;
    fleet::knows_where_it_is(&browser, &house).await;
    fleet::finds_events(&browser, &house).await;
    let bad = story::sees_why_a_release_failed(&browser, &house).await;
    accessible::everybody_can_use_it(&browser, &house, &bad).await;
    story::no_page_breaks_its_policy(&browser, &house).await;
    fleet::freezes(&browser, &house).await;
    forged::forms_of_others_are_refused(&browser, &house, &bad).await;
    forged::a_session_ends_with_its_token(&house).await;
    story::signs_out(&browser, &house).await;
    browser.quit().await.unwrap();
}
