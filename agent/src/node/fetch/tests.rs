//! Downloads from servers that answer whatever the test has written down.

mod server;
mod wanted;

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    time::Duration,
};

use self::{
    server::{Script, Server, answer},
    wanted::{Wanted, quick},
};
use super::*;
use crate::{
    durable::{self, Mode},
    http::HttpError,
};

#[tokio::test]
async fn a_whole_file() {
    let wanted = Wanted::new();
    let server = Server::start(vec![wanted.whole()]).await;
    wanted.fetch(&server).await.unwrap();
    let requests = server.requests();
    assert!(requests[0].starts_with("get /bcd http/1.1\r\n"));
    assert!(requests[0].contains("\r\naccept-encoding: identity\r\n"));
    assert!(!requests[0].contains("range:"));
    let left: Vec<_> = fs::read_dir(wanted.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the file itself");
    assert_eq!(fs::metadata(wanted.path()).unwrap().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn what_is_handed_over_cannot_be_written_to() {
    use std::io::Write;
    let wanted = Wanted::new();
    let server = Server::start(vec![wanted.whole()]).await;
    let (progress, shown) = watch::channel(0);
    let seen = fetch_at(&quick(), wanted.order(&server.url), &progress)
        .await
        .unwrap();
    assert!(seen.file().write(b"x").is_err());
    assert_eq!(*shown.borrow(), 100);
}

#[tokio::test]
async fn a_broken_line_goes_on_where_it_broke() {
    let wanted = Wanted::new();
    let server = Server::start(vec![wanted.first(300_000), wanted.rest(300_000)]).await;
    let broken = wanted.fetch(&server).await.unwrap_err();
    assert_eq!((broken.code(), broken.is_final()), ("download", false));
    assert_eq!(wanted.on_disk(), 300_000);
    wanted.fetch(&server).await.unwrap();
    let requests = server.requests();
    assert!(requests[1].contains("\r\nrange: bytes=300000-\r\n"));
    assert!(requests[1].contains("\r\nif-range: \"one\"\r\n"));
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_starts_again() {
    let wanted = Wanted::new();
    let server = Server::start(vec![wanted.first(300_000), wanted.whole()]).await;
    wanted.fetch(&server).await.unwrap_err();
    wanted.fetch(&server).await.unwrap();
}

#[tokio::test]
async fn a_range_that_does_not_fit_starts_again() {
    let unsatisfiable = Script::Say(answer("416 Range Not Satisfiable", &[], b""));
    let wanted = Wanted::new();
    for useless in [wanted.rest(299_999), unsatisfiable] {
        let wanted = Wanted::new();
        let scripts = vec![wanted.first(300_000), useless, wanted.whole()];
        let server = Server::start(scripts).await;
        wanted.fetch(&server).await.unwrap_err();
        wanted.fetch(&server).await.unwrap();
        assert!(!server.requests()[2].contains("range:"));
    }
}

#[tokio::test]
async fn a_rest_of_another_file_starts_again_once() {
    let wanted = Wanted::new();
    let mut other = Wanted::new();
    other.content.reverse();
    let scripts = vec![wanted.first(300_000), other.rest(300_000), wanted.whole()];
    let server = Server::start(scripts).await;
    wanted.fetch(&server).await.unwrap_err();
    wanted.fetch(&server).await.unwrap();
    assert!(!server.requests()[2].contains("range:"));
}

#[tokio::test]
async fn bytes_of_another_release_are_never_built_upon() {
    let (wanted, mut other) = (Wanted::new(), Wanted::new());
    let server = Server::start(vec![wanted.first(300_000), other.whole()]).await;
    wanted.fetch(&server).await.unwrap_err();
    other.content.push(0);
    let second = Server::start(vec![other.whole()]).await;
    let mut order = other.order(&second.url);
    order.partial = wanted.path();
    fetch_at(&quick(), order, &watch::channel(0).0)
        .await
        .unwrap();
    assert!(!second.requests()[0].contains("range:"));
}

#[tokio::test]
async fn what_is_whole_is_not_fetched_again() {
    let wanted = Wanted::new();
    let server = Server::start(vec![wanted.first(300_000)]).await;
    wanted.fetch(&server).await.unwrap_err();
    durable::replace_file(&wanted.path(), &wanted.content, Mode::Private).unwrap();
    wanted.fetch(&server).await.unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn one_wrong_bit_is_fetched_once_more_and_then_refused() {
    let wanted = Wanted::new();
    let mut wrong = wanted.content.clone();
    wrong[123_456] ^= 1;
    let wrong = Script::Say(answer("200 OK", &["etag: \"one\""], &wrong));
    let server = Server::start(vec![wrong.clone(), wrong.clone()]).await;
    let refused = wanted.fetch(&server).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_final()), ("digest", true));
    assert_eq!(server.requests().len(), 2);
    assert_eq!(wanted.on_disk(), 0, "wrong bytes do not stay");
    let server = Server::start(vec![wrong, wanted.whole()]).await;
    wanted.fetch(&server).await.unwrap();
}

#[tokio::test]
async fn a_lying_length_is_refused_before_the_body() {
    let wanted = Wanted::new();
    for length in [wanted.content.len() - 1, wanted.content.len() + 1] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let server = Server::start(vec![Script::SayAndHang(head.into())]).await;
        let refused = wanted.fetch(&server).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_final()), ("size", true));
    }
}

#[tokio::test]
async fn an_endless_body_ends_behind_the_signed_size() {
    let wanted = Wanted::new();
    let piece = vec![7; 65_536];
    let endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let server = Server::start(vec![Script::Repeat(endless, piece, Duration::ZERO)]).await;
    let refused = wanted.fetch(&server).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_final()), ("size", true));
    assert!(wanted.on_disk() <= wanted.content.len() as u64);
}

#[tokio::test]
async fn a_drip_is_cut_off() {
    let wanted = Wanted::new();
    let drip = Script::Repeat(
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        b"x".to_vec(),
        Duration::from_millis(10),
    );
    let server = Server::start(vec![drip.clone(), drip]).await;
    let rate = Pace {
        window: Duration::from_millis(200),
        window_bytes_min: 1000,
        ..quick()
    };
    let refused = wanted.fetch_at(&rate, &server).await.unwrap_err();
    assert!(
        matches!(refused, FetchError::Slow(Slow::Dripping { .. })),
        "{refused}"
    );
    let total = Pace {
        total: Duration::from_millis(200),
        ..quick()
    };
    let refused = wanted.fetch_at(&total, &server).await.unwrap_err();
    assert!(matches!(refused, FetchError::Overdue(_)), "{refused}");
    assert!(!refused.is_final());
}

#[tokio::test]
async fn silence_is_cut_off_everywhere() {
    let wanted = Wanted::new();
    let short = Duration::from_millis(200);
    let silent_head = Server::start(vec![Script::SayAndHang(b"HTTP/1.1 2".to_vec())]).await;
    let mut pace = quick();
    pace.patience.head = short;
    let refused = wanted.fetch_at(&pace, &silent_head).await.unwrap_err();
    assert!(
        matches!(refused, FetchError::Http(HttpError::Overdue { .. })),
        "{refused}"
    );
    let head = b"HTTP/1.1 200 OK\r\n\r\nsome".to_vec();
    let silent_body = Server::start(vec![Script::SayAndHang(head)]).await;
    let pace = Pace {
        stall: short,
        ..quick()
    };
    let refused = wanted.fetch_at(&pace, &silent_body).await.unwrap_err();
    assert!(
        matches!(refused, FetchError::Slow(Slow::Stalled(_))),
        "{refused}"
    );
    assert_eq!(wanted.on_disk(), 4, "what came is kept");
}

#[tokio::test]
async fn encodings_are_refused() {
    let wanted = Wanted::new();
    let gzip = Script::Say(answer(
        "200 OK",
        &["content-encoding: gzip"],
        &wanted.content,
    ));
    let server = Server::start(vec![gzip]).await;
    let refused = wanted.fetch(&server).await.unwrap_err();
    assert!(matches!(refused, FetchError::Encoding(_)), "{refused}");
}

fn redirect(location: &str) -> Script {
    let location = format!("location: {location}");
    Script::Say(answer("302 Found", &[&location], b""))
}

#[tokio::test]
async fn three_redirects_and_not_four() {
    let wanted = Wanted::new();
    let hops = ["/1", "2?x=y", "/3"];
    let mut scripts: Vec<_> = hops.iter().map(|hop| redirect(hop)).collect();
    scripts.push(wanted.whole());
    let server = Server::start(scripts).await;
    wanted.fetch(&server).await.unwrap();
    assert!(server.requests()[2].starts_with("get /2?x=y http/1.1\r\n"));
    let wanted = Wanted::new();
    let server = Server::start(vec![redirect("/again"); 5]).await;
    let refused = wanted.fetch(&server).await.unwrap_err();
    assert!(matches!(refused, FetchError::Redirect { .. }), "{refused}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn redirects_stay_on_their_scheme_and_carry_no_names() {
    let wanted = Wanted::new();
    for location in [
        "file:///etc/shadow",
        "https://127.0.0.1/bcd",
        "ftp://127.0.0.1/bcd",
        "//me:secret@127.0.0.1/bcd",
        "http://example.org/bcd",
        "http://",
    ] {
        let server = Server::start(vec![redirect(location)]).await;
        let refused = wanted.fetch(&server).await.unwrap_err();
        assert!(
            matches!(refused, FetchError::Redirect { .. }),
            "{location}: {refused}"
        );
        assert!(!refused.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn addresses_that_are_not_asked() {
    let wanted = Wanted::new();
    for url in [
        "http://example.org/bcd",
        "https://me@127.0.0.1/",
        "file:///etc/shadow",
    ] {
        let order = wanted.order(&url.parse().unwrap());
        let refused = fetch(order, &watch::channel(0).0).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_final()), ("url", true), "{url}");
    }
}

#[tokio::test]
async fn statuses_are_tried_again_later() {
    let wanted = Wanted::new();
    for status in [
        "404 Not Found",
        "429 Too Many Requests",
        "503 Service Unavailable",
    ] {
        let server = Server::start(vec![Script::Say(answer(status, &[], b"no"))]).await;
        let refused = wanted.fetch(&server).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_final()), ("download", false));
    }
    let gone = Server::start(vec![]).await;
    gone.task.abort();
    let refused = wanted.fetch(&gone).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_final()), ("download", false));
}

#[tokio::test]
async fn a_link_in_the_files_place_is_not_followed() {
    let wanted = Wanted::new();
    let victim = wanted.folder.path().join("victim");
    durable::replace_file(&victim, b"precious", Mode::Private).unwrap();
    symlink(&victim, wanted.path()).unwrap();
    let server = Server::start(vec![wanted.whole()]).await;
    let refused = wanted.fetch(&server).await.unwrap_err();
    assert_eq!(refused.code(), "disk");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[tokio::test]
async fn a_try_that_was_given_up_does_not_disturb_the_next() {
    let wanted = Wanted::new();
    let mut bytes = answer("200 OK", &["etag: \"one\""], &wanted.content);
    bytes.truncate(bytes.len() - 1000);
    let server = Server::start(vec![Script::SayAndHang(bytes), wanted.whole()]).await;
    let (progress, mut shown) = watch::channel(0);
    let order = wanted.order(&server.url);
    let mut given_up = Box::pin(fetch_at(&Pace::USUAL, order, &progress));
    // Given up as soon as most of it is on its way to the disk.
    tokio::select! {
        _ = &mut given_up => panic!("it cannot end"),
        changed = shown.wait_for(|percent| *percent > 90) => drop(changed.unwrap()),
    }
    drop(given_up);
    wanted.fetch(&server).await.unwrap();
}
