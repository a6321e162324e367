use std::path::Path;

use bc_protocol::digest::Pin;

use super::{Config, Source};

fn file(change: &str) -> String {
    let pin = Pin::of_spki(b"1");
    let mut lines: Vec<String> = [
        "data_dir = \"/data\"",
        "listen = \"127.0.0.1:8080\"",
        "link_listen = \"0.0.0.0:8443\"",
        "link_url = \"wss://control.example:8443/link\"",
        "[downloads]",
        "dir = \"/releases\"",
        "[release]",
    ]
    .map(str::to_owned)
    .into();
    lines.push(format!("pins = [\"{pin}\"]"));
    lines.push("threshold = 1".to_owned());
    for change in change.lines() {
        let key = change.split('=').next().unwrap().trim();
        match lines.iter().position(|line| line.starts_with(key)) {
            Some(at) => change.clone_into(&mut lines[at]),
            None => lines.insert(0, change.to_owned()),
        }
    }
    lines.join("\n")
}

fn refusal(change: &str) -> String {
    Config::parse(&file(change), Path::new("control.toml"))
        .unwrap_err()
        .to_string()
}

#[test]
fn defaults_fill_what_is_left_out() {
    let config = Config::parse(&file(""), Path::new("control.toml")).unwrap();
    assert_eq!(config.offline_grace.as_secs(), 300);
    assert_eq!(
        config.lifetimes,
        crate::fleet::authority::Lifetimes::default()
    );
    assert!(config.base_url.is_none() && config.tls.is_none());
}

#[test]
fn a_typo_is_named_with_its_line_and_key() {
    let refusal = refusal("lisen = \"127.0.0.1:1\"");
    assert!(
        refusal.contains("control.toml") && refusal.contains("line 1") && refusal.contains("lisen"),
        "{refusal}"
    );
    let nested = Config::parse(
        &format!("{}\n[nodes]\ncertificate_day = 3", file("")),
        Path::new("control.toml"),
    )
    .unwrap_err()
    .to_string();
    assert!(
        nested.contains("line 11") && nested.contains("certificate_day"),
        "{nested}"
    );
}

#[test]
fn what_breaks_a_rule_is_refused_by_its_key() {
    for (change, key) in [
        ("listen = \"0.0.0.0:8080\"", "listen"),
        ("listen = \"nowhere\"", "line 2"),
        ("base_url = \"ftp://x\"", "base_url"),
        ("base_url = \"https://u:p@x\"", "base_url"),
        ("link_url = \"https://x/link\"", "link_url"),
        ("link_url = \"wss://x/other\"", "link_url"),
        ("dir = \"\"\ndir =", "line"),
        ("database_url = \"mysql://x/y\"", "database_url"),
        ("database_url = \"/a/file\"", "database_url"),
        (
            "database_url = \"postgres://x:secret@h:port/d\"",
            "database_url",
        ),
        ("database_connections = 1", "database_connections"),
        ("threshold = 0", "threshold"),
        ("threshold = 2", "threshold"),
        ("threshold = -1", "line 9"),
        ("pins = []", "pin"),
        ("pins = [\"sha256/x\"]", "pins"),
        (
            "access.authzen_url = \"http://pdp.example\"",
            "access.authzen_url",
        ),
        ("access.timeout_seconds = 2", "access.authzen_url"),
        ("limits.joins_per_second = 0", "joins_per_second"),
        (
            "webhooks.allow_networks = [\"10.0.0.0/33\"]",
            "allow_networks",
        ),
    ] {
        let refusal = refusal(change);
        assert!(refusal.contains(key), "{change}: {refusal}");
    }
}

#[test]
fn a_refusal_says_how_the_value_is_written() {
    for (change, expected) in [
        (
            "link_url = \"https://x:1/link\"",
            "link_url: expected wss://HOST:PORT/link, found https://x:1/link",
        ),
        (
            "base_url = \"ftp://x\"",
            "base_url: expected an https or http address",
        ),
        (
            "listen = \"28443\"",
            "invalid value: string \"28443\", expected an address with a port, like \"127.0.0.1:8443\"",
        ),
        (
            "metrics_listen = 9090",
            "invalid type: integer `9090`, expected an address with a port",
        ),
        (
            "metrics_listen = \"127.0.0.1:8080\"",
            "metrics_listen: expected an address that neither listen nor link_listen has, found 127.0.0.1:8080",
        ),
        (
            "metrics_listen = \"127.0.0.1:8443\"",
            "metrics_listen: expected an address that neither",
        ),
        (
            "nodes.certificate_lifetime = 30",
            "invalid type: integer `30`, expected a duration in quotes, like \"30d\"",
        ),
        (
            "nodes.certificate_lifetime = \"30\"",
            "nodes.certificate_lifetime: expected a duration like 30d",
        ),
    ] {
        let refusal = refusal(change);
        assert!(refusal.contains(expected), "{change}: {refusal}");
    }
}

#[test]
fn free_ports_and_other_addresses_do_not_collide() {
    for change in [
        "metrics_listen = \"127.0.0.1:0\"",
        "metrics_listen = \"127.0.0.2:8080\"",
        "listen = \"127.0.0.1:0\"\nlink_listen = \"127.0.0.1:0\"",
    ] {
        Config::parse(&file(change), Path::new("control.toml")).unwrap();
    }
}

#[test]
fn the_database_is_a_file_or_a_server() {
    let location = |change: &str| {
        let config = Config::parse(&file(change), Path::new("control.toml")).unwrap();
        format!("{:?}", config.database.location().unwrap())
    };
    for own in ["", "database_url = \"sqlite:\""] {
        assert!(location(own).contains("\"/data/control.db\""));
    }
    assert!(location("database_url = \"sqlite:/fast/c.db\"").contains("\"/fast/c.db\""));
    let server = location("database_url = \"postgres://bc:secret@db.example/bc\"");
    assert!(
        server.contains("db.example") && !server.contains("secret"),
        "{server}"
    );
}

#[test]
fn a_password_comes_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    let change = format!(
        "database_url = \"postgres://bc@db.example/bc\"\ndatabase_password_file = \"{}\"",
        path.display()
    );
    let config = Config::parse(&file(&change), Path::new("control.toml")).unwrap();
    let refused = config.database.location().unwrap_err().to_string();
    assert!(
        refused.contains("database_password_file") && refused.contains("password"),
        "{refused}"
    );
    std::fs::File::create(&path).unwrap();
    config.database.location().unwrap();
}

#[test]
fn an_open_address_needs_tls_or_a_proxy() {
    let listen = "listen = \"0.0.0.0:8080\"";
    let behind_proxy = file(&format!("{listen}\nbehind_proxy = true"));
    Config::parse(&behind_proxy, Path::new("control.toml")).unwrap();
    let tls = format!("{}\n[tls]\ncertificate = \"c\"\nkey = \"k\"", file(listen));
    Config::parse(&tls, Path::new("control.toml")).unwrap();
}

#[test]
fn binaries_must_come_from_somewhere() {
    let text = file("").replace("dir = \"/releases\"", "");
    let refusal = Config::parse(&text, Path::new("control.toml")).unwrap_err();
    assert!(refusal.to_string().contains("downloads.dir"), "{refusal}");
}

#[test]
fn binaries_are_in_a_folder_or_in_a_store() {
    let source = |blob: &str| {
        let text = file("").replace("dir = \"/releases\"", &format!("blob = \"{blob}\""));
        let config = Config::parse(&text, Path::new("control.toml"));
        config.map(|config| config.downloads.source.unwrap())
    };
    let folder = Source::Folder("/srv/releases".into());
    assert_eq!(source("file:///srv/releases").unwrap(), folder);
    for blob in ["s3://bucket/a", "gs://bucket", "az://container/a/b"] {
        match source(blob) {
            Ok(found) => assert_eq!(found, Source::Store(blob.parse().unwrap())),
            Err(refusal) => {
                let refusal = refusal.to_string();
                assert!(cfg!(not(feature = "blob")) && refusal.contains("feature blob"));
            }
        }
    }
    for blob in [
        "",
        "releases",
        "file://host/releases",
        "ftp://host/releases",
        "https://host/releases",
        "s3://user:secret@bucket/a",
        "s3://bucket/a?x=y",
    ] {
        let refusal = source(blob).unwrap_err().to_string();
        assert!(refusal.contains("blob"), "{blob}: {refusal}");
    }
    let both = refusal("dir = \"/releases\"\nblob = \"file:///a\"");
    assert!(both.contains("blob"), "{both}");
}

#[test]
fn the_example_that_help_shows_holds_and_has_every_key() {
    let example = include_str!("example.toml");
    Config::parse(example, Path::new("example.toml")).unwrap();
    for key in [
        "data_dir",
        "database_url",
        "database_password_file",
        "database_connections",
        "listen",
        "base_url",
        "link_listen",
        "link_url",
        "behind_proxy",
        "downloads_url",
        "[tls]",
        "[release]",
        "[downloads]",
        "offline_grace_seconds",
        "certificate_lifetime",
        "metrics_listen",
        "authzen_url",
        "authzen_token_file",
        "timeout_seconds",
        "joins_per_second",
        "wrong_tokens_per_minute",
        "allow_networks",
    ] {
        let named = example.lines().any(|line| line.starts_with(key));
        assert!(named, "{key}");
    }
}
