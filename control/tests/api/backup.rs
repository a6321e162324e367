//! A copy beside a service that runs, and a service that goes on from it.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Output};

use serde_json::json;

use crate::server::{Server, write_config};

fn run(dir: &Path, args: &[&str]) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_better-compute"))
        .args(args)
        .arg("--config")
        .arg(dir.join("control.toml"))
        .output()
        .unwrap()
}

fn refused(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{said}");
}

#[tokio::test]
async fn a_service_goes_on_from_a_copy_that_was_made_while_it_ran() {
    let server = Server::start();
    let pool = server.pool("edge").await;
    let out = server.dir.path().join("copy");
    let args = ["backup", "--out", out.to_str().unwrap()];
    let done = run(server.dir.path(), &args);
    assert!(done.status.success(), "{done:?}");
    let mode = std::fs::metadata(&out).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    refused(&run(server.dir.path(), &args), "expected nothing at");
    // What came after the copy is lost with the machine.
    server.pool("lost").await;
    let list = json!({ "tenantId": "root" });
    let events = server.call("events/list", list.clone()).await;
    let authority = std::fs::read(server.dir.path().join("data/authority.pem")).unwrap();
    let token = server.admin.clone();
    let restore = ["restore", "--from", out.to_str().unwrap()];
    refused(&run(server.dir.path(), &restore), "locked");
    let old = server.kill();
    refused(&run(old.path(), &restore), "expected nothing at");

    let new = tempfile::tempdir().unwrap();
    write_config(new.path(), "");
    let done = run(new.path(), &restore);
    assert!(done.status.success(), "{done:?}");
    let restored = std::fs::read(new.path().join("data/authority.pem")).unwrap();
    assert_eq!(restored, authority);
    // The first token's file is no part of the copy: whoever has a token keeps it.
    std::fs::write(new.path().join("data/admin.token"), &token).unwrap();
    let server = Server::start_in(new);
    let pools = server.call("pools/list", list.clone()).await;
    assert_eq!(pools["pools"].as_array().unwrap().len(), 1);
    assert_eq!(pools["pools"][0]["id"], pool);
    // No position is given out twice: whoever goes on behind the lost event misses none of the new ones.
    server.pool("new").await;
    let mut after = list;
    after["after"] = events["next"].clone();
    let new = server.call("events/list", after).await;
    assert_eq!(new["events"][0]["data"]["name"], "new");
}

#[tokio::test]
async fn a_file_that_is_no_copy_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_config(dir.path(), "");
    let from = dir.path().join("from");
    for content in ["", "no database at all, and long enough to look like one"] {
        std::fs::write(&from, content).unwrap();
        let done = run(dir.path(), &["restore", "--from", from.to_str().unwrap()]);
        refused(&done, "expected a copy");
        assert!(!dir.path().join("data/control.db").exists());
        assert!(!dir.path().join("data/authority.key").exists());
    }
}
