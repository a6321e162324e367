//! Starting and stopping.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    time::Duration,
};

use serde_json::json;

use crate::server::{Server, read, serve, write_config};

#[tokio::test]
async fn it_says_that_it_lives_and_which_it_is() {
    let server = Server::start();
    for (path, key) in [
        ("/healthz", "status"),
        ("/readyz", "status"),
        ("/version", "version"),
    ] {
        let (status, answer) = read(server.get(path).send().await.unwrap()).await;
        assert_eq!(status, 200);
        assert!(answer[key].is_string(), "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_first_token_is_private_and_stays_the_same() {
    let server = Server::start();
    let path = server.dir.path().join("data/admin.token");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let admin = server.admin.clone();
    let again = Server::start_in(server.kill());
    assert_eq!(again.admin, admin);
    again
        .call("pools/list", json!({ "tenantId": "root" }))
        .await;
}

/// A second authority would lock out every node and gateway that believes the first.
#[test]
fn a_lost_authority_is_not_made_anew() {
    let server = Server::start();
    let dir = server.kill();
    let data = dir.path().join("data");
    let files = ["authority.pem", "authority.key"].map(|name| data.join(name));
    let kept = files.clone().map(|file| std::fs::read(file).unwrap());
    let refused = |found: &str| {
        let done = serve(dir.path(), &[]);
        assert!(!done.status.success());
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            said.contains(&format!("believes, found {found} in")),
            "{said}"
        );
    };
    for file in &files {
        std::fs::remove_file(file).unwrap();
    }
    refused("none");
    assert!(files.iter().all(|file| !file.exists()));
    let stranger = Server::start().kill();
    for file in &files {
        let theirs = stranger.path().join("data").join(file.file_name().unwrap());
        std::fs::copy(theirs, file).unwrap();
    }
    refused("another one");
    for (file, kept) in files.iter().zip(kept) {
        std::fs::write(file, kept).unwrap();
    }
    drop(Server::start_in(dir));
}

#[test]
fn it_stops_when_it_is_told_to() {
    assert!(Server::start().stop().success());
}

#[test]
fn a_connection_that_asks_for_nothing_is_closed() {
    let server = Server::start();
    let address = server.url.strip_prefix("http://").unwrap();
    let said: [&[u8]; 3] = [b"", b"P", b"POST /api/compute/pools/list HTTP/1.1\r\nX: "];
    std::thread::scope(|threads| {
        for words in said {
            threads.spawn(move || {
                let mut socket = TcpStream::connect(address).unwrap();
                socket.write_all(words).unwrap();
                socket
                    .set_read_timeout(Some(Duration::from_secs(25)))
                    .unwrap();
                let mut answer = Vec::new();
                // An answer before the end is fine; no end is a time-out, which is an error.
                let ended = socket.read_to_end(&mut answer);
                assert!(ended.is_ok(), "{words:?}: {ended:?}");
            });
        }
    });
}

#[tokio::test]
async fn a_connection_that_nobody_uses_does_not_keep_it() {
    let server = Server::start();
    let list = json!({ "tenantId": "root" });
    let answer = server
        .post("pools/list", &server.admin)
        .json(&list)
        .send()
        .await
        .unwrap();
    let client = server.client();
    drop(answer.bytes().await.unwrap());
    let begun = std::time::Instant::now();
    assert!(server.stop().success());
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    drop(client);
}

#[test]
fn a_second_service_on_one_folder_is_refused() {
    let server = Server::start();
    let second = serve(server.dir.path(), &[]);
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(
        told.contains("serve.lock") && told.contains("only service"),
        "{told}"
    );
}

#[test]
fn a_configuration_that_does_not_hold_is_named_by_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "");
    assert!(serve(dir.path(), &["--check-config"]).status.success());
    for (more, expected) in [
        ("lisen = \"127.0.0.1:1\"", vec!["line 1", "lisen"]),
        ("base_url = \"ftp://x\"", vec!["base_url"]),
        (
            "nodes = { certificate_lifetime = '1s' }",
            vec!["nodes.certificate_lifetime"],
        ),
        (
            "tls = { certificate = \"/nowhere\", key = \"/nowhere\" }",
            vec!["/nowhere"],
        ),
        (
            "tls = { certificate = \"/dev/null\", key = \"/dev/null\" }",
            vec!["/dev/null"],
        ),
    ] {
        write_config(dir.path(), more);
        for arguments in [&["--check-config"][..], &[]] {
            let ended = serve(dir.path(), arguments);
            let told = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{more}: {told}");
            assert!(
                expected.iter().all(|word| told.contains(word)),
                "{more}: {told}"
            );
        }
    }
    assert!(!dir.path().join("data").exists(), "nothing was begun");
}

#[test]
fn a_check_tells_of_releases_that_would_be_served_from_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "");
    std::fs::remove_dir(dir.path().join("releases")).unwrap();
    let ended = serve(dir.path(), &["--check-config"]);
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("downloads.dir"), "{told}");
}

#[tokio::test]
async fn with_a_certificate_it_speaks_tls() {
    let dir = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let tls = format!(
        "tls = {{ certificate = \"{}\", key = \"{}\" }}",
        certificate.display(),
        key.display()
    );
    write_config(dir.path(), &tls);
    let server = Server::start_in(dir);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    server
        .call("pools/list", json!({ "tenantId": "root" }))
        .await;
}

/// The certificate that a server shows now.
async fn certificate(server: &Server) -> Vec<u8> {
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_info(true)
        .build()
        .unwrap();
    let answer = client.get(format!("{}/healthz", server.url)).send().await;
    let answer = answer.unwrap();
    let shown = answer.extensions().get::<reqwest::tls::TlsInfo>();
    shown.unwrap().peer_certificate().unwrap().to_vec()
}

#[tokio::test]
async fn a_certificate_that_has_changed_is_shown_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let renew = || {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&cert, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        pair.cert.der().to_vec()
    };
    let first = renew();
    let (at, of) = (cert.display(), key.display());
    let tls = format!("tls = {{ certificate = \"{at}\", key = \"{of}\" }}");
    write_config(dir.path(), &tls);
    let server = Server::start_in(dir);
    assert_eq!(certificate(&server).await, first);
    // Half of a renewal, or none: what was shown before still is.
    std::fs::write(&cert, "nothing").unwrap();
    server.reload();
    let told = "is still shown";
    while !crate::server::log(server.dir.path()).contains(told) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(certificate(&server).await, first);
    let second = renew();
    server.reload();
    for _ in 0..500 {
        if certificate(&server).await == second {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(certificate(&server).await, second);
    assert!(server.stop().success());
}

#[test]
fn a_reload_without_a_certificate_changes_nothing() {
    let server = Server::start();
    server.reload();
    assert!(server.stop().success());
}

#[test]
fn an_authority_without_its_key_is_not_replaced() {
    let server = Server::start();
    let dir = server.kill();
    std::fs::remove_file(dir.path().join("data/authority.key")).unwrap();
    let ended = serve(dir.path(), &[]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        String::from_utf8(ended.stderr)
            .unwrap()
            .contains("authority.key")
    );
}
