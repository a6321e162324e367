//! Which addresses are asked, and what is shown of them.

use super::*;

fn server(url: &str, plain: PlainHttp) -> Result<Server, HttpError> {
    Server::of(&url.parse().unwrap(), plain, Reach::Anywhere)
}

#[test]
fn only_https_leaves_the_machine() {
    for (url, loopback, anywhere) in [
        ("https://example.org/x", true, true),
        ("http://127.0.0.1:8080/x", true, true),
        ("http://[::1]/x", true, true),
        ("http://localhost/x", true, true),
        ("http://example.org/x", false, true),
        ("http://127.0.0.1.example.org/x", false, true),
        ("ftp://127.0.0.1/x", false, false),
        ("file:///etc/shadow", false, false),
        ("data:text/plain,x", false, false),
        ("https://me@example.org/x", false, false),
        ("https://me:pass@example.org/x", false, false),
        ("https://:pass@example.org/x", false, false),
    ] {
        assert_eq!(server(url, PlainHttp::Loopback).is_ok(), loopback, "{url}");
        assert_eq!(server(url, PlainHttp::Anywhere).is_ok(), anywhere, "{url}");
    }
}

#[test]
fn http_to_this_machine_stays_on_it() {
    let local = server("http://localhost/x", PlainHttp::Loopback).unwrap();
    assert_eq!(local.reach, Reach::Loopback);
    let far = server("https://localhost/x", PlainHttp::Loopback).unwrap();
    assert_eq!(far.reach, Reach::Anywhere);
}

#[test]
fn a_password_is_never_shown() {
    let url = "https://me:secret@example.org/x?y".parse().unwrap();
    let text = shown(&url);
    assert!(!text.contains("secret") && !text.contains("me:"), "{text}");
    let text = server(url.as_str(), PlainHttp::Anywhere)
        .unwrap_err()
        .to_string();
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_request_names_what_the_address_does() {
    let url = "http://localhost:81/a/b?c=d#e".parse().unwrap();
    assert_eq!(target(&url), "/a/b?c=d");
    assert_eq!(authority(&url), "localhost:81");
}
