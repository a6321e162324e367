//! Release binaries in an object store that speaks as S3 does.

mod store;

use reqwest::header;
use serde_json::Value;

use crate::server::{Release, Server, read, write_config};
use store::Store;

const PATH: &str = "/api/compute/downloads/bcd/1.0.0/linux-amd64";
const OBJECT: &str = "fleet/1.0.0/bcd-linux-amd64";

/// Large enough for several parts.
fn release() -> Release {
    Release {
        bytes: (0..12_u32 << 20)
            .map(|at| u8::try_from(at / 7 % 256).unwrap())
            .collect(),
        ..Release::new("1.0.0", 1)
    }
}

fn started(store: &Store) -> Server {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "downloads = { blob = \"s3://releases/fleet\" }");
    let environment = [
        ("AWS_ENDPOINT", store.url.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "here"),
        ("AWS_ACCESS_KEY_ID", store::KEY),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    Server::start_with(dir, &environment)
}

async fn put(server: &Server, bytes: Vec<u8>) -> (u16, Value) {
    let url = format!("{}{PATH}", server.url);
    let sent = server.client().put(url).bearer_auth(&server.admin);
    read(sent.body(bytes).send().await.unwrap()).await
}

#[tokio::test]
async fn what_is_published_lies_in_the_store_and_is_served_from_there() {
    let store = Store::start().await;
    let server = started(&store);
    let release = release();
    assert_eq!(server.register(&release.manifest()).await.0, 200);
    // Nothing there yet: control's own words, and none of the store's.
    let (status, error) = read(server.get(PATH).send().await.unwrap()).await;
    assert_eq!(status, 404);
    assert_eq!(error["error"]["details"]["reason"], "absent", "{error}");
    assert!(!error.to_string().contains("releases"), "{error}");

    let mut flipped = release.bytes.clone();
    flipped[7] ^= 1;
    for wrong in [flipped, b"short".to_vec()] {
        assert_eq!(put(&server, wrong).await.0, 400);
        assert_eq!(store.object(OBJECT), None);
        assert_eq!(store.uploads(), 0, "parts of a refused upload are left");
    }
    for _ in 0..2 {
        let (status, answer) = put(&server, release.bytes.clone()).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(store.object(OBJECT).as_ref(), Some(&release.bytes));
    }

    let whole = server.get(PATH).send().await.unwrap();
    assert_eq!(whole.status(), 200);
    let etag = whole.headers()[header::ETAG].clone();
    assert_eq!(whole.bytes().await.unwrap(), release.bytes);
    let part = server.get(PATH).header(header::RANGE, "bytes=7000000-");
    let part = part.header(header::IF_RANGE, etag.clone());
    let part = part.send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.bytes().await.unwrap(), release.bytes[7_000_000..]);
    let known = server.get(PATH).header(header::IF_NONE_MATCH, etag);
    assert_eq!(known.send().await.unwrap().status(), 304);
    let head = server.head(PATH).send().await.unwrap();
    assert_eq!(head.headers()[header::CONTENT_LENGTH], "12582912");
    assert!(store.all_were_signed());
}

#[tokio::test]
async fn an_object_that_is_not_what_was_signed_is_never_served() {
    let store = Store::start().await;
    let server = started(&store);
    let release = release();
    assert_eq!(server.register(&release.manifest()).await.0, 200);
    store.set(OBJECT, release.bytes.clone());
    assert_eq!(server.get(PATH).send().await.unwrap().status(), 200);
    // The whole was read once to be hashed, and once to be sent; from then on it is only sent.
    let before = store.reads();
    assert_eq!(server.get(PATH).send().await.unwrap().status(), 200);
    assert_eq!(store.reads(), before + 1);
    let mut flipped = release.bytes.clone();
    flipped[11_000_000] ^= 1;
    for wrong in [flipped, b"short".to_vec()] {
        store.set(OBJECT, wrong);
        let (status, _) = read(server.get(PATH).send().await.unwrap()).await;
        assert_eq!(status, 500);
    }
    store.set(OBJECT, release.bytes.clone());
    assert_eq!(server.get(PATH).send().await.unwrap().status(), 200);
}
