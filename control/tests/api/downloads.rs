//! Release binaries: whole, in part, and never anything else.

use reqwest::header;

use crate::server::{Release, Server, log, read};

const PATH: &str = "/api/compute/downloads/bcd/1.0.0/linux-amd64";

async fn served() -> (Server, Release) {
    let server = Server::start();
    let release = Release::new("1.0.0", 1);
    release.put(&server);
    assert_eq!(server.register(&release.manifest()).await.0, 200);
    (server, release)
}

#[tokio::test]
async fn a_binary_comes_whole_and_in_parts() {
    let (server, release) = served().await;
    let whole = server.get(PATH).send().await.unwrap();
    assert_eq!(whole.status(), 200);
    let etag = whole.headers()[header::ETAG].clone();
    assert_eq!(whole.content_length(), Some(release.bytes.len() as u64));
    assert!(!whole.headers().contains_key(header::CONTENT_ENCODING));
    assert_eq!(whole.bytes().await.unwrap(), release.bytes);
    let part = server.get(PATH).header(header::RANGE, "bytes=1000-");
    let part = part
        .header(header::IF_RANGE, etag.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(part.status(), 206);
    let size = release.bytes.len();
    let of = format!("bytes 1000-{}/{size}", size - 1);
    assert_eq!(part.headers()[header::CONTENT_RANGE], of);
    assert_eq!(part.bytes().await.unwrap(), release.bytes[1000..]);
    let other = server.get(PATH).header(header::RANGE, "bytes=1000-");
    let other = other
        .header(header::IF_RANGE, "\"other\"")
        .send()
        .await
        .unwrap();
    assert_eq!(other.status(), 200);
    let behind = server.get(PATH).header(header::RANGE, "bytes=9999999-");
    assert_eq!(behind.send().await.unwrap().status(), 416);
    let known = server.get(PATH).header(header::IF_NONE_MATCH, etag.clone());
    assert_eq!(known.send().await.unwrap().status(), 304);
    let tag = etag.to_str().unwrap();
    for (wanted, status) in [
        (tag.to_owned(), 200),
        (format!("\"other\", {tag}"), 200),
        ("*".to_owned(), 200),
        ("\"other\"".to_owned(), 412),
        // It compares strongly.
        (format!("W/{tag}"), 412),
    ] {
        let asked = server.get(PATH).header(header::IF_MATCH, &wanted);
        assert_eq!(asked.send().await.unwrap().status(), status, "{wanted}");
    }
    // A range is of GET alone.
    let head = server.head(PATH).header(header::RANGE, "bytes=9999999-");
    let head = head.send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(
        head.headers()[header::CONTENT_LENGTH],
        release.bytes.len().to_string()
    );
}

#[tokio::test]
async fn only_what_a_registered_release_lists_is_served() {
    let (server, _) = served().await;
    Release::new("2.0.0", 2).put(&server);
    std::fs::write(server.releases_dir().join("secret"), "x").unwrap();
    for path in [
        "2.0.0/linux-amd64",
        "1.0.0/linux-arm64",
        "1.0.0/bcd-linux-amd64",
        "1.0.0/..%2Fsecret",
        "..%2F..%2Fdata/linux-amd64",
        "%2E%2E/secret",
        "1.0.0/linux-amd64%00",
        "1.0.0/%ff",
    ] {
        let path = format!("/api/compute/downloads/bcd/{path}");
        let (status, error) = read(server.get(&path).send().await.unwrap()).await;
        assert_eq!(status, 404, "{path}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_what_was_signed_is_never_served() {
    let (server, release) = served().await;
    let path = server.releases_dir().join("1.0.0/bcd-linux-amd64");
    assert_eq!(server.get(PATH).send().await.unwrap().status(), 200);
    let mut flipped = release.bytes.clone();
    flipped[7] ^= 1;
    for wrong in [flipped, b"short".to_vec()] {
        std::fs::write(&path, wrong).unwrap();
        let (status, error) = read(server.get(PATH).send().await.unwrap()).await;
        assert_eq!(status, 500);
        let told = error["error"].to_string();
        assert!(
            told.contains("requestId") && !told.contains("releases"),
            "{told}"
        );
        assert!(log(server.dir.path()).contains("bcd-linux-amd64"));
    }
    std::fs::remove_file(&path).unwrap();
    let (status, error) = read(server.get(PATH).send().await.unwrap()).await;
    assert_eq!(
        (status, &error["error"]["details"]["reason"]),
        (404, &"absent".into())
    );
    release.put(&server);
    assert_eq!(server.get(PATH).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_binary_is_taken_if_it_is_the_one_that_was_signed() {
    let server = Server::start();
    let release = Release::new("1.0.0", 1);
    let reader = server.token("root", &["compute:pool:read"]).await;
    let put = async |token: &str, path: &str, bytes: Vec<u8>| {
        let url = format!("{}{path}", server.url);
        let sent = server.client().put(url).bearer_auth(token).body(bytes);
        read(sent.send().await.unwrap()).await
    };
    let bytes = || release.bytes.clone();
    // Short ones: a refusal does not wait for what it does not read.
    let few = || b"few".to_vec();
    assert_eq!(put(&server.admin, PATH, few()).await.0, 404);
    assert_eq!(server.register(&release.manifest()).await.0, 200);
    assert_eq!(put("x", PATH, few()).await.0, 401);
    assert_eq!(put(&reader, PATH, few()).await.0, 403);
    let mut flipped = bytes();
    flipped[7] ^= 1;
    let mut longer = bytes();
    longer.push(0);
    for wrong in [flipped, longer, bytes()[1..].to_vec(), Vec::new()] {
        let (status, error) = put(&server.admin, PATH, wrong).await;
        assert_eq!(status, 400, "{error}");
        assert_eq!(error["error"]["details"]["field"], "body");
        assert_eq!(server.get(PATH).send().await.unwrap().status(), 404);
    }
    for _ in 0..2 {
        let (status, taken) = put(&server.admin, PATH, bytes()).await;
        assert_eq!(
            (status, taken["size"].as_u64()),
            (200, Some(bytes().len() as u64))
        );
    }
    let served = server.get(PATH).send().await.unwrap();
    assert_eq!(served.bytes().await.unwrap(), release.bytes);
    // What is not there yet is no fault of control's, though a node that fetches it is worth a line.
    let said = log(server.dir.path());
    assert!(
        !said.contains("ERROR") && said.contains("nobody has published"),
        "{said}"
    );
    // Nothing is left of what was refused.
    let folder = std::fs::read_dir(server.releases_dir().join("1.0.0")).unwrap();
    assert_eq!(folder.count(), 1);
    let events = server
        .call(
            "events/list",
            serde_json::json!({ "tenantId": "root", "types": ["release.published"] }),
        )
        .await;
    assert_eq!(events["events"].as_array().unwrap().len(), 2);
}
