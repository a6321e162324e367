//! Databases for tests, and what either database has to do.
//!
//! Tests ask for a [`fresh`] one and get SQLite. One test starts a PostgreSQL server and runs every test of this crate
//! again, with its socket in [`SOCKET`]: then they get a database on that.

#[path = "../../tests/postgres/cluster.rs"]
mod cluster;

use std::{
    collections::BTreeSet,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection,
    sqlite::SqliteConnectOptions,
};

use super::{Db, DbError, Location, bulk::insert_many, postgres::Server, query, query_scalar};
use crate::db::{Bind as _, Conn};
use cluster::Cluster;

/// Where the server is on which tests are to run.
const SOCKET: &str = "BCD_TESTS_POSTGRES";

/// What every test's database is a copy of.
const TEMPLATE: &str = "template_bc";

/// The same without any table.
const EMPTY: &str = "template_empty";

/// A database of its own for one test; the folder goes when the second value does.
pub(crate) async fn fresh() -> (Db, tempfile::TempDir) {
    let (location, dir) = place().await;
    (Db::open(&location).await.unwrap(), dir)
}

/// Where a test may open a database, and open it again.
pub(crate) async fn place() -> (Location, tempfile::TempDir) {
    copy_of(TEMPLATE).await
}

/// A database whose schema was without its last steps, and which held what `script` writes, when this build opened it.
pub(crate) async fn upgraded(last_steps: usize, script: &'static str) -> (Db, tempfile::TempDir) {
    let (location, dir) = copy_of(EMPTY).await;
    let [sqlite, postgres] = super::migrations::without_last(last_steps);
    match &location {
        Location::Sqlite(path) => {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true);
            let mut conn = options.connect().await.unwrap();
            sqlite.run(&mut conn).await.unwrap();
            conn.execute(script).await.unwrap();
            conn.close().await.unwrap();
        }
        Location::Postgres(server) => {
            let mut conn = server.connect().await.unwrap();
            postgres.run(&mut conn).await.unwrap();
            conn.execute(script).await.unwrap();
            conn.close().await.unwrap();
        }
    }
    (Db::open(&location).await.unwrap(), dir)
}

async fn copy_of(template: &str) -> (Location, tempfile::TempDir) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let dir = tempfile::tempdir().unwrap();
    let Some(socket) = std::env::var_os(SOCKET) else {
        return (Location::Sqlite(dir.path().join("control.db")), dir);
    };
    let socket = Path::new(&socket);
    let name = format!("t{}", MADE.fetch_add(1, Ordering::Relaxed));
    let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
    let mut conn = PgConnection::connect(&cluster::url(socket, "postgres"))
        .await
        .unwrap();
    conn.execute(AssertSqlSafe(create)).await.unwrap();
    conn.close().await.unwrap();
    let server = Server::parse(&cluster::url(socket, &name)).unwrap();
    (
        Location::Postgres(Box::new(server.with_connections(4))),
        dir,
    )
}

#[test]
fn everything_holds_on_postgresql_too() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.create(EMPTY, "template1");
    // Tests write bytes in the one form that both databases read.
    cluster.sql(EMPTY, "CREATE DOMAIN blob AS bytea");
    cluster.create(TEMPLATE, EMPTY);
    let location = Location::Postgres(Box::new(Server::parse(&cluster.url(TEMPLATE)).unwrap()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { Db::open(&location).await.unwrap().close().await });

    let run = Command::new(std::env::current_exe().unwrap())
        .env(SOCKET, cluster.socket())
        .args(["--skip", "everything_holds_on_postgresql_too"])
        // Pure ones, which would only take time.
        .args(["--skip", "rollout::tests::scenarios", "--skip", "cli::"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
}

#[tokio::test]
async fn opening_again_finds_what_was_committed_and_nothing_else() {
    let (location, _dir) = place().await;
    let db = Db::open(&location).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    query("INSERT INTO counters (name, value) VALUES ('kept', 1)")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin().await.unwrap();
    query("INSERT INTO counters (name, value) VALUES ('dropped', 1)")
        .execute(&mut tx)
        .await
        .unwrap();
    drop(tx);
    db.close().await;

    let again = Db::open(&location).await.unwrap();
    let names: Vec<String> = query_scalar("SELECT name FROM counters")
        .fetch_all(again.reader())
        .await
        .unwrap();
    assert_eq!(names, ["kept"]);
}

#[tokio::test]
async fn a_database_that_a_newer_build_has_changed_is_refused() {
    let (location, _dir) = place().await;
    let db = Db::open(&location).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, $1, 0)",
    )
    .bind(vec![0])
    .execute(&mut tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    db.close().await;
    let refused = Db::open(&location).await.unwrap_err();
    assert!(matches!(refused, DbError::Migrate(_)), "{refused:?}");
}

#[tokio::test]
async fn readers_cannot_write() {
    let (db, _dir) = fresh().await;
    let refused = query("DELETE FROM counters").execute(db.reader()).await;
    assert!(refused.is_err());
    let mut conn = db.reader().begin().await.unwrap();
    let refused = query("DELETE FROM counters").execute(&mut conn).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_reader_sees_one_moment() {
    let (db, _dir) = fresh().await;
    let count = "SELECT count(*) FROM counters";
    let mut conn = db.reader().begin().await.unwrap();
    let before: i64 = query_scalar(count).fetch_one(&mut conn).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    query("INSERT INTO counters (name, value) VALUES ('new', 1)")
        .execute(&mut tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let after: i64 = query_scalar(count).fetch_one(&mut conn).await.unwrap();
    assert_eq!(before, after);
    let now: i64 = query_scalar(count).fetch_one(db.reader()).await.unwrap();
    assert_eq!(now, before + 1);
}

#[tokio::test]
async fn many_rows_go_in_as_they_are() {
    let (db, _dir) = fresh().await;
    let mut tx = db.begin().await.unwrap();
    let rows = (0..40_000_u32).map(|number| [format!("{number:05}").value(), number.value()]);
    let rows: Vec<_> = rows.collect();
    insert_many(&mut tx, "counters (name, value)", rows.into_iter())
        .await
        .unwrap();
    let none: [[crate::db::Value; 2]; 0] = [];
    insert_many(&mut tx, "counters (name, value)", none.into_iter())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let row = query("SELECT count(*) AS rows, max(value) AS most, max(name) AS last FROM counters")
        .fetch_one(db.reader())
        .await
        .unwrap();
    assert_eq!(
        (row.get::<i64>("rows"), row.get::<i64>("most")),
        (40_000, 39_999)
    );
    assert_eq!(row.get::<&str>("last"), "39999");
}

/// Whatever the server's own collation is.
#[tokio::test]
async fn texts_compare_by_their_bytes() {
    let (db, _dir) = fresh().await;
    let mut tx = db.begin().await.unwrap();
    for name in ["b", "B", "a-b", "ab", "a_b", "é"] {
        query("INSERT INTO counters (name, value) VALUES ($1, 1)")
            .bind(name)
            .execute(&mut tx)
            .await
            .unwrap();
    }
    let names: Vec<String> = query_scalar("SELECT name FROM counters ORDER BY name")
        .fetch_all(&mut tx)
        .await
        .unwrap();
    assert_eq!(names, ["B", "a-b", "a_b", "ab", "b", "é"]);
    let below: i64 = query_scalar("SELECT count(*) FROM counters WHERE name < $1")
        .bind("a")
        .fetch_one(&mut tx)
        .await
        .unwrap();
    assert_eq!(below, 1);
}

#[tokio::test]
async fn json_is_read_alike() {
    let (db, _dir) = fresh().await;
    let text = r#"{"cpu.arch": "x86_64", "progress": {"attempt": "a\"b"}, "none": null}"#;
    let row = query(
        "SELECT json_extract($1, '$.\"cpu.arch\"') AS arch, json_extract($1, '$.progress.attempt') AS attempt,
                json_extract($1, '$.none') AS none, json_extract($1, '$.missing.deep') AS missing",
    )
    .bind(text)
    .fetch_one(db.reader())
    .await
    .unwrap();
    assert_eq!(row.get::<&str>("arch"), "x86_64");
    assert_eq!(row.get::<&str>("attempt"), "a\"b");
    assert_eq!(row.get::<Option<&str>>("none"), None);
    assert_eq!(row.get::<Option<&str>>("missing"), None);
}

/// Tables, columns and indexes, as the database itself tells them.
async fn schema(db: &Db) -> BTreeSet<String> {
    let mut conn = db.reader().begin().await.unwrap();
    let text = match *conn {
        Conn::Sqlite(_) => {
            "SELECT m.name || '.' || c.name FROM sqlite_master m CROSS JOIN pragma_table_info(m.name) c
             WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' AND m.name <> '_sqlx_migrations'
             UNION ALL SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        }
        Conn::Postgres(_) => {
            "SELECT table_name || '.' || column_name FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'
             UNION ALL SELECT indexname::text FROM pg_indexes
             WHERE schemaname = 'public' AND indexname NOT LIKE '%\\_pkey' AND indexname NOT LIKE '%\\_key'"
        }
    };
    let names: Vec<String> = query_scalar(text).fetch_all(&mut conn).await.unwrap();
    names.into_iter().collect()
}

#[tokio::test]
async fn the_schema_is_the_same_in_both() {
    let dir = tempfile::tempdir().unwrap();
    let file = Location::Sqlite(dir.path().join("control.db"));
    let file = schema(&Db::open(&file).await.unwrap()).await;
    let (other, _dir) = fresh().await;
    assert!(file.contains("rollout_nodes.state") && file.contains("rollout_rows_waiting"));
    let other = schema(&other).await;
    let differences: Vec<_> = file.symmetric_difference(&other).collect();
    assert!(differences.is_empty(), "{differences:?}");
}
