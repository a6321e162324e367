//! A store as S3 is one, as far as control asks: whole objects, parts of them, and uploads in parts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, RawQuery, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use bc_protocol::digest::Sha256;

/// The only key that is let in.
pub(crate) const KEY: &str = "AKIAEXAMPLE";

#[derive(Debug, Default)]
struct Content {
    objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    next: u32,
    reads: u32,
    unsigned: u32,
}

/// A store that is there as long as the value.
pub(crate) struct Store {
    pub(crate) url: String,
    content: Arc<Mutex<Content>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Store {
    pub(crate) async fn start() -> Self {
        let content = Arc::<Mutex<Content>>::default();
        let router = Router::new()
            .route("/releases/{*key}", any(answer))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&content));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = async move { axum::serve(listener, router).await.unwrap() };
        let task = tokio::spawn(served);
        Self { url, content, task }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.content().objects.get(key).cloned()
    }

    pub(crate) fn set(&self, key: &str, bytes: Vec<u8>) {
        self.content().objects.insert(key.to_owned(), bytes);
    }

    /// Uploads that are neither complete nor given up.
    pub(crate) fn uploads(&self) -> usize {
        self.content().uploads.len()
    }

    /// How often bytes of objects were asked for.
    pub(crate) fn reads(&self) -> u32 {
        self.content().reads
    }

    pub(crate) fn all_were_signed(&self) -> bool {
        self.content().unsigned == 0
    }
}

type Shared = Arc<Mutex<Content>>;

async fn answer(
    State(content): State<Shared>,
    method: Method,
    (Path(key), RawQuery(query)): (Path<String>, RawQuery),
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut content = content.lock().unwrap();
    let signature = headers.get(header::AUTHORIZATION);
    let signed = signature.and_then(|value| value.to_str().ok());
    if !signed.is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256") && value.contains(KEY)) {
        content.unsigned += 1;
        return StatusCode::FORBIDDEN.into_response();
    }
    let query = query.unwrap_or_default();
    let asked = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then(|| value.to_owned()))
    };
    match (method.as_str(), asked("uploadId")) {
        ("GET" | "HEAD", None) => content.read(&key, &headers, method == Method::HEAD),
        ("POST", None) => content.begin(&key),
        ("PUT", Some(upload)) => {
            let number = asked("partNumber").unwrap().parse().unwrap();
            content.part(&upload, number, &body)
        }
        ("POST", Some(upload)) => content.complete(&key, &upload),
        ("DELETE", Some(upload)) => {
            content.uploads.remove(&upload);
            StatusCode::NO_CONTENT.into_response()
        }
        other => panic!("expected what control asks of a store, found {other:?}"),
    }
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", Sha256::of(bytes))
}

impl Content {
    fn read(&mut self, key: &str, headers: &HeaderMap, head: bool) -> Response {
        let Some(object) = self.objects.get(key) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let etag = etag(object);
        let wanted = headers.get(header::IF_MATCH);
        if wanted.is_some_and(|wanted| wanted != etag.as_str()) {
            return StatusCode::PRECONDITION_FAILED.into_response();
        }
        let shared = [
            (header::ETAG, etag),
            (
                header::LAST_MODIFIED,
                "Mon, 30 Nov 2026 00:00:00 GMT".to_owned(),
            ),
        ];
        let size = object.len();
        if head {
            let length = [(header::CONTENT_LENGTH, size.to_string())];
            return (shared, length, Body::empty()).into_response();
        }
        self.reads += 1;
        let Some(range) = headers.get(header::RANGE) else {
            return (shared, object.clone()).into_response();
        };
        let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse::<usize>().unwrap().min(size - 1);
        let of = format!("bytes {first}-{last}/{size}");
        let part = object[first..=last].to_vec();
        let of = [(header::CONTENT_RANGE, of)];
        (StatusCode::PARTIAL_CONTENT, shared, of, part).into_response()
    }

    fn begin(&mut self, key: &str) -> Response {
        self.next += 1;
        let upload = self.next.to_string();
        self.uploads.insert(upload.clone(), BTreeMap::new());
        xml(&format!(
            "<InitiateMultipartUploadResult><Bucket>releases</Bucket><Key>{key}</Key>\
             <UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        ))
    }

    fn part(&mut self, upload: &str, number: u32, bytes: &[u8]) -> Response {
        let parts = self.uploads.get_mut(upload).unwrap();
        parts.insert(number, bytes.to_vec());
        ([(header::ETAG, etag(bytes))], "").into_response()
    }

    fn complete(&mut self, key: &str, upload: &str) -> Response {
        let parts = self.uploads.remove(upload).unwrap();
        let whole: Vec<u8> = parts.into_values().flatten().collect();
        let etag = etag(&whole);
        self.objects.insert(key.to_owned(), whole);
        xml(&format!(
            "<CompleteMultipartUploadResult><Key>{key}</Key><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        ))
    }
}

fn xml(text: &str) -> Response {
    ([(header::CONTENT_TYPE, "application/xml")], text.to_owned()).into_response()
}
