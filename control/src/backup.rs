//! A copy of everything that control must not lose, and the way back from it.
//!
//! Takes a configuration. `backup` gives one file beside a service that runs: the database as it was at one moment, and
//! the authority that every node and gateway trusts. `restore` makes a data folder of such a file, for a service that
//! does not run. What may have happened since the copy is left room for: positions of events and generations of specs
//! go on far above those that may have been given out.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use sqlx::{
    Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use thiserror::Error;

use crate::{
    config::{Config, ConfigError, PasswordError},
    db::{
        Location,
        lock::{LockError, ServeLock},
    },
    files,
    serve::logs::{print_failure, print_line},
};

/// Files of the data folder that no database can be without.
const AUTHORITY: [&str; 2] = ["authority.pem", "authority.key"];

/// More than any control gives out between two backups.
const ROOM: i64 = 1_000_000;

/// How long the copy waits for a writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Copy everything that control must not lose into one file, beside a service that runs
///
/// The file holds the database as it was at one moment, and the authority's key: keep it as you keep that. With
/// PostgreSQL use pg_dump, and keep authority.pem and authority.key of the data folder beside it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The service's configuration
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/better-compute/control.toml"
    )]
    config: PathBuf,
    /// Where to write the copy; nothing may be there
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Make a service's data folder of a copy that `backup` wrote
///
/// The service must not run, and its data folder must hold no database. What has happened since the copy is lost, but
/// nothing that nodes have confirmed is undone: a node whose floor is above what the copy knows is told nothing older,
/// and its next report says what it runs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The service's configuration
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/better-compute/control.toml"
    )]
    config: PathBuf,
    /// The copy
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

/// Why there is no copy, or nothing was made of one.
#[derive(Debug, Error)]
pub(crate) enum BackupError {
    /// The configuration is no good.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database's password.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The service runs.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another tool's work.
    #[error("expected a database in a file, found one on a PostgreSQL server: pg_dump copies that")]
    Postgres,
    /// Nothing is overwritten.
    #[error("expected nothing at {}, found a file", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The copy is damaged, or none of ours.
    #[error("expected a copy that `better-compute backup` wrote and nobody changed, found {found}")]
    Damaged {
        /// What is wrong with it.
        found: String,
    },
}

/// Runs `backup`.
pub(crate) fn back_up(args: &BackupArgs) -> ExitCode {
    let done = block_on(copy(&args.config, &args.out));
    ended(done.map(|()| format!("{} is written", args.out.display())))
}

/// Runs `restore`.
pub(crate) fn restore(args: &RestoreArgs) -> ExitCode {
    let done = block_on(make(&args.config, &args.from));
    ended(done.map(|(path, token)| restored(&path, &token)))
}

/// Says what was restored, and what no copy holds.
fn restored(database: &Path, token: &Path) -> String {
    let line = format!("{} is restored", database.display());
    if token.exists() {
        return line;
    }
    format!(
        "{line}; no API token is in a copy: put the old {} in its place, or start with `better-compute serve --new-admin-token`",
        token.display()
    )
}

fn block_on<T>(work: impl Future<Output = Result<T, BackupError>>) -> Result<T, BackupError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io_at(Path::new("the runtime")))?;
    runtime.block_on(work)
}

fn ended(done: Result<String, BackupError>) -> ExitCode {
    match done {
        Ok(line) => {
            print_line(&line);
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_failure(&error);
            ExitCode::FAILURE
        }
    }
}

async fn copy(config: &Path, out: &Path) -> Result<(), BackupError> {
    let config = Config::load(config)?;
    let database = file_of(&config)?;
    refuse_existing(out)?;
    let folder = match out.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    // A folder of its own, which others cannot look into: the copy is secret from its first byte on.
    let staging = tempfile::Builder::new()
        .prefix(".backup-")
        .tempdir_in(folder)
        .map_err(io_at(folder))?;
    let staged = staging.path().join("copy");
    let mut source = connect(&database, SqliteJournalMode::Wal).await?;
    sqlx::query("VACUUM INTO $1")
        .bind(staged.to_string_lossy().into_owned())
        .execute(&mut source)
        .await?;
    source.close().await?;
    fs::set_permissions(&staged, Permissions::from_mode(0o600)).map_err(io_at(&staged))?;
    keep_authority(&staged, &config.data_dir).await?;
    File::open(&staged)
        .and_then(|file| file.sync_all())
        .map_err(io_at(&staged))?;
    // A link, not a rename: it does not replace what somebody has put there meanwhile.
    fs::hard_link(&staged, out).map_err(|source| {
        if source.kind() == io::ErrorKind::AlreadyExists {
            let path = out.to_owned();
            return BackupError::Exists { path };
        }
        io_at(out)(source)
    })?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_at(folder))
}

/// Puts the authority into the copy, and looks whether it is whole.
async fn keep_authority(copy: &Path, data_dir: &Path) -> Result<(), BackupError> {
    let mut copy = connect(copy, SqliteJournalMode::Delete).await?;
    sqlx::query("CREATE TABLE backup_files (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT")
        .execute(&mut copy)
        .await?;
    for name in AUTHORITY {
        let path = data_dir.join(name);
        let content = fs::read(&path).map_err(io_at(&path))?;
        sqlx::query("INSERT INTO backup_files (name, content) VALUES ($1, $2)")
            .bind(name)
            .bind(content)
            .execute(&mut copy)
            .await?;
    }
    check(&mut copy).await?;
    Ok(copy.close().await?)
}

/// Gives the database, and where an administrator's token would lie.
async fn make(config: &Path, from: &Path) -> Result<(PathBuf, PathBuf), BackupError> {
    let config = Config::load(config)?;
    let database = file_of(&config)?;
    crate::serve::make_private(&config.data_dir).map_err(io_at(&config.data_dir))?;
    let _lock = ServeLock::take(&config.data_dir)?;
    refuse_existing(&database)?;
    for name in AUTHORITY {
        refuse_existing(&config.data_dir.join(name))?;
    }
    let folder = database.parent().unwrap_or(&config.data_dir);
    let staging = tempfile::Builder::new()
        .prefix(".restore-")
        .tempdir_in(folder)
        .map_err(io_at(folder))?;
    let staged = staging.path().join("control.db");
    fs::copy(from, &staged).map_err(io_at(from))?;
    fs::set_permissions(&staged, Permissions::from_mode(0o600)).map_err(io_at(&staged))?;
    let opened = connect(&staged, SqliteJournalMode::Delete).await;
    let mut copy = opened.map_err(|error| BackupError::Damaged {
        found: error.to_string(),
    })?;
    check(&mut copy).await?;
    let files = authority_of(&mut copy).await?;
    leave_room(&mut copy).await?;
    copy.close().await?;
    for (name, content) in files {
        let path = config.data_dir.join(name);
        files::replace_private(&path, &content).map_err(io_at(&path))?;
    }
    // The database last: without it nothing has been restored.
    File::open(&staged)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&staged, &database))
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(io_at(&database))?;
    Ok((database, config.data_dir.join("admin.token")))
}

async fn authority_of(
    copy: &mut SqliteConnection,
) -> Result<Vec<(&'static str, Vec<u8>)>, BackupError> {
    let mut files = Vec::new();
    for name in AUTHORITY {
        let content: Result<Vec<u8>, sqlx::Error> =
            sqlx::query_scalar("SELECT content FROM backup_files WHERE name = $1")
                .bind(name)
                .fetch_one(&mut *copy)
                .await;
        let content = content.map_err(|error| BackupError::Damaged {
            found: format!("one without {name}: {error}"),
        })?;
        files.push((name, content));
    }
    Ok(files)
}

/// What was given out after the copy was made is not given out again.
async fn leave_room(copy: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut tx = copy.begin().await?;
    for sql in [
        "DROP TABLE backup_files",
        "UPDATE counters SET value = value + $1",
        "UPDATE nodes SET generation = generation + $1",
        "UPDATE gateways SET link = link + $1",
    ] {
        let mut statement = sqlx::query(sql);
        if sql.contains("$1") {
            statement = statement.bind(ROOM);
        }
        statement.execute(&mut *tx).await?;
    }
    tx.commit().await
}

async fn check(copy: &mut SqliteConnection) -> Result<(), BackupError> {
    let found: Result<String, sqlx::Error> = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(copy)
        .await;
    let found = found.unwrap_or_else(|error| error.to_string());
    if found == "ok" {
        return Ok(());
    }
    Err(BackupError::Damaged { found })
}

async fn connect(path: &Path, journal: SqliteJournalMode) -> Result<SqliteConnection, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(journal)
        .busy_timeout(BUSY_TIMEOUT);
    SqliteConnection::connect_with(&options).await
}

fn file_of(config: &Config) -> Result<PathBuf, BackupError> {
    match config.database.location()? {
        Location::Sqlite(path) => Ok(path),
        Location::Postgres(_) => Err(BackupError::Postgres),
    }
}

fn refuse_existing(path: &Path) -> Result<(), BackupError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(BackupError::Exists {
            path: path.to_owned(),
        }),
        Err(source) => Err(io_at(path)(source)),
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> BackupError + '_ {
    move |source| BackupError::Io {
        path: path.to_owned(),
        source,
    }
}
