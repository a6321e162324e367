//! The same calls, the same answers, on the other database.

#[path = "../postgres/cluster.rs"]
mod cluster;
mod tls;

use std::{path::Path, process::Command};

use cluster::Cluster;

use crate::server::{Server, serve, write_config};

/// Where the server is on which tests are to run.
const SOCKET: &str = "BCD_TESTS_POSTGRES";

/// Edits the rows of a folder's database by hand, where it is on a server; false where it is not.
pub(crate) fn edit(dir: &Path, statement: &str) -> bool {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return false;
    };
    cluster::sql(Path::new(&socket), &database_of(dir), statement);
    true
}

/// The name of a folder's database.
fn database_of(dir: &Path) -> String {
    let name = dir.file_name().unwrap().to_str().unwrap();
    let name = name.chars().filter(char::is_ascii_alphanumeric);
    name.collect()
}

/// The line of a configuration that names the database of a folder, where tests run on a server.
pub(crate) fn database_line(dir: &Path) -> String {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return String::new();
    };
    let socket = Path::new(&socket);
    let name = database_of(dir);
    let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    if cluster::sql(socket, "postgres", &there) == "0" {
        cluster::sql(socket, "postgres", &format!("CREATE DATABASE \"{name}\""));
    }
    format!("database_url = {:?}\n", cluster::url(socket, &name))
}

#[test]
fn everything_holds_on_postgresql_too() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let run = Command::new(std::env::current_exe().unwrap())
        .env(SOCKET, cluster.socket())
        .args(["--skip", "postgres::"])
        // Of these the database sees nothing.
        .args(["--skip", "downloads::", "--skip", "a_connection_that"])
        // Copies are made of files; a server has its own tools for that.
        .args(["--skip", "backup::", "--skip", "full::"])
        // It counts lines, of which there is one more.
        .args(["--skip", "named_by_line_and_key"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
}

#[test]
fn a_second_control_needs_the_authority_of_the_first() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.create("bc", "template1");
    let line = format!(
        "database_url = {:?}\ndatabase_connections = 3\n",
        cluster.url("bc")
    );
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for folder in &folders {
        write_config(folder.path(), &line);
    }
    let [one, two] = folders;
    let one = Server::start_in(one);
    let refused = serve(two.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("authority"),
        "{said}"
    );
    assert!(
        !two.path().join("data/admin.token").exists(),
        "there is an administrator already"
    );

    for file in ["authority.pem", "authority.key", "admin.token"] {
        let file = Path::new("data").join(file);
        std::fs::copy(one.dir.path().join(&file), two.path().join(&file)).unwrap();
    }
    let two = Server::start_in(two);
    assert_eq!(one.admin, two.admin);
    assert!(two.stop().success() && one.stop().success());
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let line = format!("database_url = {:?}\n", cluster::url(&nowhere, "bc"));
    write_config(dir.path(), &line);
    let refused = serve(dir.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("database"),
        "{said}"
    );
}

/// What the guide says of a restored database is what is done here: positions of events, specs and links go on above
/// those that may have been given out since the copy.
#[tokio::test]
async fn a_database_that_was_restored_goes_on_above_what_was_given_out() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.create("bc", "template1");
    let folder = || {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("database_url = {:?}\n", cluster.url("bc"));
        write_config(dir.path(), &line);
        dir
    };
    let server = Server::start_in(folder());
    server.pool("kept").await;
    let dir = server.kill();
    // As a copy and its restoration.
    cluster.create("copy", "bc");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/docs/backup.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, said) = guide.split_once("\npsql ").unwrap();
    let (said, _) = said.split_once("```").unwrap();
    let statements: Vec<&str> = said.split('\'').skip(1).step_by(2).collect();
    assert_eq!(statements.len(), 3, "{said}");
    let server = Server::start_in(dir);
    server.pool("lost").await;
    let list = serde_json::json!({ "tenantId": "root" });
    let lost = server.call("events/list", list.clone()).await;
    let dir = server.kill();
    for statement in statements {
        cluster.sql("copy", statement);
    }
    let config = std::fs::read_to_string(dir.path().join("control.toml")).unwrap();
    let (old, new) = (cluster.url("bc"), cluster.url("copy"));
    std::fs::write(dir.path().join("control.toml"), config.replace(&old, &new)).unwrap();
    let server = Server::start_in(dir);
    let pools = server.call("pools/list", list.clone()).await;
    assert_eq!(pools["pools"].as_array().unwrap().len(), 1, "{pools}");
    server.pool("new").await;
    let mut after = list;
    after["after"] = lost["next"].clone();
    let new = server.call("events/list", after).await;
    assert_eq!(new["events"][0]["data"]["name"], "new", "{new}");
}
