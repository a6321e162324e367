//! What no page of the console has sent, and what strangers may see.

use std::time::Duration;

use futures_util::StreamExt as _;
use packaging::browser::{Browser, FORM, form};
use reqwest::{Client, Response, StatusCode, header, redirect::Policy};
use serde_json::json;

use crate::house::House;

const COOKIE: &str = "__Host-better-compute";

fn client() -> Client {
    let client = Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .redirect(Policy::none())
        .timeout(Duration::from_secs(60));
    // Nothing here is encrypted; a client wants a provider all the same.
    drop(rustls::crypto::ring::default_provider().install_default());
    client.build().unwrap()
}

fn header_of(answer: &Response, name: header::HeaderName) -> String {
    let value = answer.headers().get(name);
    value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// Signs in as a browser would; gives the cookie.
async fn sign_in(house: &House, token: &str) -> (StatusCode, String) {
    let url = house.fleet.operator.url();
    let answer = client()
        .post(format!("{url}/console/sign-in"))
        .header(header::ORIGIN, url)
        .header(header::CONTENT_TYPE, FORM)
        .body(form(&[("token", token), ("next", "//evil.example/")]).unwrap())
        .send()
        .await
        .unwrap();
    let location = header_of(&answer, header::LOCATION);
    assert!(!location.contains("evil"), "{location}");
    let cookie = header_of(&answer, header::SET_COOKIE);
    (
        answer.status(),
        cookie.split(';').next().unwrap_or_default().to_owned(),
    )
}

pub(crate) async fn strangers_change_nothing(house: &House) {
    let url = house.fleet.operator.url();
    for path in ["rollouts", "fleet", "nodes", "releases", "events", "live"] {
        let answer = client().get(house.page(path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path}");
        assert!(header_of(&answer, header::LOCATION).starts_with("/console/sign-in?next="));
    }
    let answer = client()
        .get(format!("{url}/console/sign-in"))
        .send()
        .await
        .unwrap();
    let policy = header_of(&answer, header::CONTENT_SECURITY_POLICY);
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.headers()[name], value);
    }
    // Another site's form does not even sign anybody in.
    let token = form(&[("token", house.token.as_str())]).unwrap();
    for origin in [None, Some("https://evil.example"), Some("null")] {
        let mut forged = client()
            .post(format!("{url}/console/sign-in"))
            .header(header::CONTENT_TYPE, FORM)
            .body(token.clone());
        if let Some(origin) = origin {
            forged = forged.header(header::ORIGIN, origin);
        }
        let answer = forged.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{origin:?}");
        assert!(
            !answer.headers().contains_key(header::SET_COOKIE),
            "{origin:?}"
        );
    }
    assert_eq!(
        sign_in(house, "tok_x.y").await,
        (StatusCode::UNAUTHORIZED, String::new())
    );
    // A token that may look at pools may not operate the fleet.
    let small = house.api(&[
        "tokens",
        "create",
        "--subject",
        "carol",
        "--permission",
        "compute:pool:read",
    ]);
    let small = small["token"].as_str().unwrap();
    assert_eq!(
        sign_in(house, small).await,
        (StatusCode::FORBIDDEN, String::new())
    );
}

pub(crate) async fn forms_of_others_are_refused(browser: &Browser, house: &House, rollout: &str) {
    let url = house.fleet.operator.url();
    let cookies = browser.cookies().await.unwrap();
    let secret = cookies[0]["value"].as_str().unwrap();
    let cookie = format!("{COOKIE}={secret}");
    browser
        .open(&house.page(&format!("rollouts/{rollout}")))
        .await
        .unwrap();
    let token = browser
        .script("return document.querySelector('#ask-resume [name=form]').value")
        .await
        .unwrap();
    let token = token.as_str().unwrap();
    let resume = house.page(&format!("rollouts/{rollout}/resume"));
    let send = |headers: &[(&'static str, &str)], fields: Vec<(&'static str, &str)>| {
        let mut request = client()
            .post(&resume)
            .header(header::COOKIE, &cookie)
            .header(header::CONTENT_TYPE, FORM)
            .body(form(&fields).unwrap());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async move { request.send().await.unwrap().status() }
    };
    let other = format!("{}{}", &token[1..], &token[..1]);
    let own = |token| vec![("form", token)];
    assert_eq!(
        send(&[("origin", "https://evil.example")], own(token)).await,
        403
    );
    assert_eq!(
        send(
            &[("origin", url), ("sec-fetch-site", "cross-site")],
            own(token)
        )
        .await,
        403
    );
    assert_eq!(send(&[], own(token)).await, 403);
    assert_eq!(send(&[("origin", url)], own("")).await, 403);
    assert_eq!(send(&[("origin", url)], own(&other)).await, 403);
    let twice = vec![("form", token), ("form", token)];
    assert_eq!(send(&[("origin", url)], twice).await, 400);
    assert_eq!(house.api(&["rollouts", "get", rollout])["state"], "paused");
    // The API does not read the cookie.
    let answer = client()
        .post(format!("{url}/api/compute/rollouts/list"))
        .header(header::COOKIE, &cookie)
        .header(header::ORIGIN, url)
        .json(&json!({ "tenantId": "root" }))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    // And the form that all those were made of is a good one.
    assert_eq!(send(&[("origin", url)], own(token)).await, 303);
    house.api(&["rollouts", "abort", rollout, "--yes"]);
}

pub(crate) async fn a_session_ends_with_its_token(house: &House) {
    let made = house.api(&[
        "tokens",
        "create",
        "--subject",
        "dave",
        "--permission",
        "compute:fleet:admin",
    ]);
    let (status, cookie) = sign_in(house, made["token"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    let get = |path: &str| {
        client()
            .get(house.page(path))
            .header(header::COOKIE, &cookie)
            .send()
    };
    assert_eq!(get("rollouts").await.unwrap().status(), StatusCode::OK);
    // Without compute:pool:read there are no nodes.
    assert_eq!(get("nodes").await.unwrap().status(), StatusCode::FORBIDDEN);
    let live = get("live?seen=").await.unwrap();
    assert_eq!(live.status(), StatusCode::OK);
    let mut live = live.bytes_stream();
    let first = live.next().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("event: change"));
    house.api(&["tokens", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(
        get("rollouts").await.unwrap().status(),
        StatusCode::SEE_OTHER
    );
    // What was on its way may still come; then there is an end, which a stream that goes on would not have in time.
    while let Some(piece) = live.next().await {
        piece.unwrap();
    }
}
