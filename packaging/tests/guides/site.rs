//! The site that control serves: what it sends, and whether every link in it leads somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    time::Duration,
};

use packaging::fleet::{Keys, Operator, Service};

use crate::machine::built;

/// Every file of the site, by its name.
pub(crate) fn written() -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(built("better-compute"))
        .args(["docs", "--out"])
        .arg(dir.path().join("site"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let entries = std::fs::read_dir(dir.path().join("site")).unwrap();
    let files = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    });
    files.collect()
}

/// A control without nodes.
pub(crate) struct House {
    control: Service,
    pub(crate) operator: Operator,
    // Last: control ends before its folder goes.
    dir: tempfile::TempDir,
}

impl House {
    pub(crate) async fn open() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("bcd-docs-")
            .tempdir()
            .unwrap();
        let program = built("better-compute");
        let keys = Keys::make(&program, &dir.path().join("keys")).unwrap();
        let [api, link] = crate::shell::free_ports();
        let config = dir.path().join("control.toml");
        let text = format!(
            "data_dir = {:?}\nlisten = \"127.0.0.1:{api}\"\nlink_listen = \"127.0.0.1:{link}\"\n\
             downloads_url = \"http://127.0.0.1:9\"\n\n\
             [release]\npins = {:?}\nthreshold = 2\n",
            dir.path().join("data"),
            keys.pins(),
        );
        std::fs::write(&config, text).unwrap();
        let mut control = Service::new("control", &program, &dir.path().join("logs"));
        control.args(["serve", "--config"]).arg(&config);
        control.start().unwrap();
        let url = format!("http://127.0.0.1:{api}");
        let operator = Operator::new(&program, &url, &dir.path().join("data/admin.token"));
        operator.ready(&mut control).await.unwrap();
        Self {
            control,
            operator,
            dir,
        }
    }

    /// A folder for whatever is needed beside it.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        let address = format!("{}{path}", self.operator.url());
        let answer = client().get(address).send().await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.control.log()))
    }
}

/// It trusts nobody, since nothing here speaks TLS, and follows nothing.
fn client() -> reqwest::Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

#[test]
fn every_link_leads_somewhere() {
    let files = written();
    let pages: BTreeMap<&String, &String> = files
        .iter()
        .filter(|(name, _)| name.ends_with(".html"))
        .collect();
    assert!(pages.len() > 3, "{:?}", pages.keys());
    let mut followed = 0;
    for (name, page) in &pages {
        for address in attributes(page, "href") {
            if address.starts_with("https://") {
                continue;
            }
            assert!(!address.contains(':'), "{name}: {address}");
            let (file, anchor) = address.split_once('#').unwrap_or((address, ""));
            let file = if file.is_empty() { name.as_str() } else { file };
            let there = files.get(file);
            let there = there.unwrap_or_else(|| panic!("{name}: there is no {file}"));
            let ids: BTreeSet<&str> = attributes(there, "id").collect();
            assert!(
                anchor.is_empty() || ids.contains(anchor),
                "{name}: {file} has no {anchor}"
            );
            followed += 1;
        }
    }
    assert!(followed > 100, "{followed}");
}

#[test]
fn a_page_needs_nothing_but_itself_and_its_style() {
    for (name, page) in written().iter().filter(|(name, _)| name.ends_with(".html")) {
        let sources: Vec<&str> = attributes(page, "src").collect();
        assert!(
            sources.iter().all(|source| !source.contains("//")),
            "{name}: {sources:?}"
        );
        for forbidden in [
            "<script",
            " style=",
            " onclick=",
            "javascript:",
            "<iframe",
            "<form",
        ] {
            assert!(!page.contains(forbidden), "{name}: {forbidden}");
        }
        let ids: Vec<&str> = attributes(page, "id").collect();
        let distinct: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "{name}: {ids:?}");
        assert!(
            page.contains("<html lang=\"en\">") && page.contains("name=\"viewport\""),
            "{name}"
        );
        assert_eq!(page.matches("<h1").count(), 1, "{name}");
        assert!(
            page.contains("href=\"#text\"") && page.contains("<main id=\"text\""),
            "{name}"
        );
    }
    let style = &written()["style.css"];
    assert!(
        style.contains("prefers-color-scheme: dark") && !style.contains("url("),
        "{style}"
    );
}

/// The values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {name}=\"");
    let parts: Vec<&str> = page.split(opening.as_str()).skip(1).collect();
    parts.into_iter().filter_map(|part| part.split('"').next())
}

#[tokio::test(flavor = "multi_thread")]
async fn control_serves_the_same_site_to_everybody() {
    let house = House::open().await;
    let front = house.get("/docs").await;
    assert_eq!(front.status(), 308);
    assert_eq!(front.headers()["location"], "docs/");
    let files = written();
    for (name, text) in files.iter().chain([(&String::new(), &files["index.html"])]) {
        let answer = house.get(&format!("/docs/{name}")).await;
        assert_eq!(answer.status(), 200, "{name}");
        let policy = answer.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert!(answer.headers().get("set-cookie").is_none());
        assert_eq!(&answer.text().await.unwrap(), text, "{name}");
    }
    let missing = house.get("/docs/..%2f..%2fetc%2fpasswd").await;
    assert_eq!(missing.status(), 404);
    assert!(missing.text().await.unwrap().contains("No such page"));
}
