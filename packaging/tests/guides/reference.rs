//! What is looked up: the API, the metrics, the configuration. Each against what the programs really have.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use packaging::{
    docs,
    guide::{Page, Use},
};
use serde_json::Value;

use crate::{
    machine::built,
    site::{self, House},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_method_of_the_api_is_described_with_its_fields() {
    let house = House::open().await;
    let document: Value = house.get("/openapi.json").await.json().await.unwrap();
    let page = site::written().remove("api.md").unwrap();
    let schemas = &document["components"]["schemas"];
    let mut methods = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (verb, operation) in item.as_object().unwrap() {
            let name = match operation["tags"].is_null() {
                true => path,
                false => operation["operationId"].as_str().unwrap(),
            };
            let section = section(&page, &format!("### {name}\n"));
            assert!(
                section.contains(&format!("`{} {path}`", verb.to_uppercase())),
                "{name}"
            );
            let asked = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let Some(asked) = asked.as_str().and_then(|name| name.rsplit('/').next()) else {
                continue;
            };
            for (field, _) in schemas[asked]["properties"].as_object().unwrap() {
                assert!(
                    section.contains(&format!("| `{field}` |")),
                    "{name}: {field}"
                );
            }
            for (status, refusal) in operation["responses"].as_object().unwrap() {
                let word = refusal["description"]
                    .as_str()
                    .unwrap()
                    .split(", ")
                    .next()
                    .unwrap();
                assert!(status == "200" || section.contains(word), "{name}: {word}");
            }
            assert!(
                section.contains(&format!("$BETTER_COMPUTE_URL{path}")),
                "{name}: no call"
            );
            methods += 1;
        }
    }
    assert!(methods > 40, "{methods}");
    for (name, schema) in schemas.as_object().unwrap() {
        let section = section(&page, &format!("### The type {name}\n"));
        for (field, _) in schema["properties"].as_object().into_iter().flatten() {
            assert!(
                section.contains(&format!("| `{field}` |")),
                "{name}: {field}"
            );
        }
    }
    examples_fit(&document, &page);
    calls_are_understood(&house, page);
}

/// Every call, as it stands. The things that it names are not there; but it is understood.
fn calls_are_understood(house: &House, page: String) {
    let page = Page::of("api", page).unwrap();
    let mut calls = 0;
    for pair in page.blocks.windows(2) {
        let [body, call] = pair else { continue };
        if call.what != Use::Call {
            continue;
        }
        assert_eq!(body.what, Use::Json, "api.md:{}", call.line);
        std::fs::write(house.dir().join("body.json"), &body.text).unwrap();
        // One of them follows what happens for as long as it is let.
        let mut shell = Command::new("timeout");
        shell.args(["2", "bash", "-euc"]).arg(&call.text);
        shell
            .current_dir(house.dir())
            .env("BETTER_COMPUTE_URL", house.operator.url());
        let token = std::fs::read_to_string(house.operator.token_file()).unwrap();
        let output = shell.env("TOKEN", token.trim()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let error: Value = serde_json::from_str(&said).unwrap_or_default();
        let code = error["error"]["code"].as_str().unwrap_or("OK");
        let unknown_to_it = said.contains("unknown field") || said.contains("missing field");
        let fine = match code {
            "OK" | "NOT_FOUND" | "CONFLICT" | "INVALID_STATE" | "UNSUPPORTED" => true,
            // A request for a certificate, a manifest and a one-use token are no texts that a page can hold.
            "INVALID_INPUT" | "UNAUTHENTICATED" => {
                ["JoinNode", "JoinGateway", "RenewNode", "RegisterRelease"]
                    .contains(&body.word.as_str())
            }
            _ => false,
        };
        assert!(
            fine && !unknown_to_it,
            "api.md:{}: {said}\n{}",
            call.line,
            call.text
        );
        calls += 1;
    }
    assert!(calls > 40, "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_and_every_key_is_listed() {
    for page in docs::generated().await.unwrap() {
        let path = page.path.display();
        assert_eq!(
            page.found, page.wanted,
            "{path}: cargo xtask docs writes it anew"
        );
    }
}

#[test]
fn every_configuration_that_is_shown_is_taken() {
    let mut taken = 0;
    for page in Page::all().unwrap() {
        for block in page.blocks.iter().filter(|block| block.what == Use::Toml) {
            let place = format!("{}.md:{}", page.name, block.line);
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("shown.toml");
            std::fs::write(&file, &block.text).unwrap();
            let mut command = match block.word.as_str() {
                "control" => Command::new(built("better-compute")),
                "gateway" => Command::new(built("bc-gateway")),
                "node" => Command::new(built("bcd")),
                "part" => continue,
                other => panic!("{place}: whose configuration is {other}?"),
            };
            match block.word.as_str() {
                "control" => command.args(["serve", "--check-config"]),
                "gateway" => command.arg("--check-config"),
                _ => command.arg("status").arg("--state-dir").arg(dir.path()),
            };
            let output = command.arg("--config").arg(&file).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // A node that has not joined has no status, but a configuration; and the check of a gateway's looks for its
            // token too, when all else is well.
            let is_taken = match block.word.as_str() {
                "node" => output.status.code() != Some(3),
                "gateway" => output.status.success() || said.contains("cannot enrol"),
                _ => output.status.success(),
            };
            assert!(is_taken, "{place}: {said}");
            taken += 1;
        }
    }
    assert!(taken > 2, "{taken}");
}

#[test]
fn every_event_is_listed() {
    let page = Page::read("events").unwrap();
    let listed: BTreeSet<&str> = page
        .prose()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split(" | ").next().unwrap_or_default().split('`'))
        .filter(|word| is_event(word))
        .collect();
    let known = events_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../control/src"));
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(listed, known);
}

/// Every text of control's own code, tests and the command line left out, that is an event's type.
fn events_in(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir()
                && ![
                    "cli",
                    "tests",
                    "simulation",
                    "http",
                    "docs",
                    "console",
                    "bench",
                ]
                .contains(&name)
            {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                found.extend(
                    code.split('"')
                        .filter(|word| is_event(word))
                        .map(ToOwned::to_owned),
                );
            }
        }
    }
    found
}

fn is_event(word: &str) -> bool {
    const KINDS: [&str; 11] = [
        "command",
        "fleet",
        "gateway",
        "join-token",
        "node",
        "pool",
        "release",
        "rollout",
        "token",
        "webhook",
        "workflow",
    ];
    let Some((kind, what)) = word.split_once('.') else {
        return false;
    };
    KINDS.contains(&kind)
        && !what.is_empty()
        && what
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// From a heading to the next of its kind.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let at = page.find(heading);
    let from = &page[at.unwrap_or_else(|| panic!("the page has no {heading}"))..];
    let end = from[heading.len()..]
        .find("\n### ")
        .map(|end| end + heading.len());
    &from[..end.unwrap_or(from.len())]
}

/// Every object that a page shows is one that the API takes or gives.
fn examples_fit(document: &Value, api: &str) {
    let mut pages = Page::all().unwrap();
    pages.push(Page::of("api", api.to_owned()).unwrap());
    let mut shown = 0;
    for page in &pages {
        for block in page.blocks.iter().filter(|block| block.what == Use::Json) {
            let place = format!("{}.md:{}", page.name, block.line);
            let value: Value = serde_json::from_str(&block.text)
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let mut compiler = boon::Compiler::new();
            compiler
                .add_resource("openapi.json", document.clone())
                .unwrap();
            let mut schemas = boon::Schemas::new();
            let address = format!("openapi.json#/components/schemas/{}", block.word);
            let index = compiler
                .compile(&address, &mut schemas)
                .unwrap_or_else(|error| panic!("{place}: {}: {error}", block.word));
            if let Err(error) = schemas.validate(&value, index) {
                panic!("{place}: {error}");
            }
            shown += 1;
        }
    }
    assert!(shown > 40, "{shown}");
}

/// Whoever has the program alone begins with the example that its help ends with: it has to be whole, on any terminal.
#[test]
fn the_examples_in_the_help_can_be_copied() {
    for (program, args, example) in [
        (
            "better-compute",
            &["serve", "--help"][..],
            include_str!("../../../control/src/config/example.toml"),
        ),
        (
            "bc-gateway",
            &["--help"],
            include_str!("../../../gateway/src/config/example.toml"),
        ),
        (
            "bcd",
            &["join", "--help"],
            include_str!("../../../agent/src/config/example.toml"),
        ),
    ] {
        let help = std::process::Command::new(built(program))
            .args(args)
            .env("COLUMNS", "60")
            .output()
            .unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains(example.trim_end()), "{program}: {help}");
    }
}
