//! PostgreSQL: one database that several control processes share.
//!
//! Takes where the server is, gives connections that write and others that cannot. Each has time-outs: a process that
//! was stopped in the middle of a transaction loses it, and with it the locks for which others wait.

use std::{fmt, str::FromStr, time::Duration};

use sqlx::{
    Connection as _, PgConnection, PgPool,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};

use super::{DbError, migrations};

/// Releases before this one lack what the schema uses.
const OLDEST: i64 = 150_000;

/// Connections of each kind, where the configuration names no other number.
pub(crate) const CONNECTIONS_DEFAULT: u32 = 10;

/// How long somebody waits for a connection before he is told that there is none.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// No statement of ours needs nearly as long. In milliseconds, as the server counts.
const STATEMENT_TIMEOUT_MS: u32 = 30_000;

/// Locks are held for milliseconds. Whoever holds one for so long is stuck, and loses it by the next limit.
const LOCK_TIMEOUT_MS: u32 = 15_000;

/// A transaction that says nothing for so long belongs to a process that was stopped.
const IDLE_TIMEOUT_MS: u32 = 10_000;

/// How the server plans. A pass is some twenty statements of a few rows each, whose planning took ten times as long as they
/// do: so each is planned once for a connection, whatever its values. Tables may be empty by then and large soon after, so that
/// what an index leads to is found by it, as on SQLite; most of it is in memory. Nothing here is worth compiling, or reading
/// by several workers.
const PLANS: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("random_page_cost", "1.1"),
    ("max_parallel_workers_per_gather", "0"),
    ("jit", "off"),
];

/// Statements that a connection keeps prepared, plans included: more than there are. One that was thrown away costs its
/// planning again, which takes longer than running it.
const STATEMENTS_KEPT: usize = 400;

/// A connection that lay idle for no longer is not asked whether the server is still there: each such question is a way
/// there and back before every transaction.
const ASKED_AFTER: Duration = Duration::from_secs(1);

/// What a server says to a wrong password, or to none.
const WRONG_PASSWORD: &str = "28P01";

const PASSWORD_MEND: &str = "; the password is what the file of database_password_file holds";

/// Where a server is, and how many connections to keep.
#[derive(Clone)]
pub(crate) struct Server {
    options: PgConnectOptions,
    connections_max: u32,
}

impl Server {
    /// Reads `postgres://USER@HOST[:PORT]/DATABASE`. Off this machine the server has to prove who it is, unless the
    /// address itself says otherwise.
    pub(crate) fn parse(url: &str) -> Result<Self, sqlx::Error> {
        let mut options = PgConnectOptions::from_str(url)?;
        let is_near = options.get_socket().is_some()
            || ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&options.get_host());
        if !is_near && !url.contains("sslmode") && !url.contains("ssl-mode") {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        Ok(Self {
            options,
            connections_max: CONNECTIONS_DEFAULT,
        })
    }

    /// With a password that came another way than by the address.
    #[must_use]
    pub(crate) fn with_password(mut self, password: &str) -> Self {
        self.options = self.options.password(password);
        self
    }

    /// With another number of connections of each kind.
    #[must_use]
    pub(crate) fn with_connections(mut self, max: u32) -> Self {
        self.connections_max = max;
        self
    }

    /// One connection, to whatever is there.
    #[cfg(test)]
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect_with(&self.options).await
    }

    fn bounded(&self) -> PgConnectOptions {
        self.options
            .clone()
            .application_name("better-compute")
            .statement_cache_capacity(STATEMENTS_KEPT)
            .options(PLANS)
            .options([
                ("statement_timeout", STATEMENT_TIMEOUT_MS.to_string()),
                ("lock_timeout", LOCK_TIMEOUT_MS.to_string()),
                (
                    "idle_in_transaction_session_timeout",
                    IDLE_TIMEOUT_MS.to_string(),
                ),
            ])
    }

    /// Why it cannot be opened, once, and with what was asked for.
    fn refused(&self, error: &sqlx::Error) -> DbError {
        let options = &self.options;
        let at = options.get_socket().map_or_else(
            || format!("{}:{}", options.get_host(), options.get_port()),
            |socket| socket.display().to_string(),
        );
        let user = options.get_username().to_owned();
        let told = error.as_database_error();
        let code = told.and_then(DatabaseError::code);
        let is_password = code.is_some_and(|code| code.as_ref() == WRONG_PASSWORD);
        DbError::Refused {
            at,
            // PostgreSQL takes the user's name for the database's, where none is given.
            database: options.get_database().unwrap_or(&user).to_owned(),
            user,
            problem: told.map_or_else(|| error.to_string(), |told| told.message().to_owned()),
            mend: if is_password { PASSWORD_MEND } else { "" },
        }
    }

    fn pool(&self) -> PgPoolOptions {
        PgPoolOptions::new()
            .max_connections(self.connections_max)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|conn, lay| {
                Box::pin(async move {
                    if lay.idle_for > ASKED_AFTER {
                        conn.ping().await?;
                    }
                    Ok(true)
                })
            })
    }
}

/// Without the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("host", &self.options.get_host())
            .field("database", &self.options.get_database())
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}

/// Connects, and brings the schema up to this build's. Gives writers and readers.
pub(super) async fn open(server: &Server) -> Result<(PgPool, PgPool), DbError> {
    // Without time-outs: a step of the schema's history may take long. Of several processes that start at once, one takes
    // the steps and the others wait for it.
    let mut conn = PgConnection::connect_with(&server.options)
        .await
        .map_err(|error| server.refused(&error))?;
    check_version(&mut conn).await?;
    migrations::postgres().run(&mut conn).await?;
    conn.close().await?;
    let options = server.bounded();
    let writer = server.pool().connect_with(options.clone()).await?;
    let read_only = options.options([("default_transaction_read_only", "on")]);
    let reader = server.pool().connect_with(read_only).await?;
    Ok((writer, reader))
}

async fn check_version(conn: &mut PgConnection) -> Result<(), DbError> {
    let (number, found): (i64, String) = sqlx::query_as(
        "SELECT current_setting('server_version_num')::bigint, current_setting('server_version')",
    )
    .fetch_one(conn)
    .await?;
    new_enough(number, found)
}

/// Judges a server by the number of its version, and tells it by its text.
fn new_enough(number: i64, found: String) -> Result<(), DbError> {
    if number >= OLDEST {
        return Ok(());
    }
    Err(DbError::Postgres { found })
}

#[cfg(test)]
mod tests {
    use super::{Server, new_enough};

    #[test]
    fn a_server_that_is_not_there_is_named_with_what_was_asked_of_it() {
        let server = Server::parse("postgres://bc:secret@127.0.0.1:5433/fleet").unwrap();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let said = server.refused(&sqlx::Error::Io(refused)).to_string();
        let whole = "the database fleet at 127.0.0.1:5433 cannot be opened by bc: ";
        assert!(said.starts_with(whole), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn servers_before_fifteen_are_refused_by_their_version() {
        for (number, found) in [
            (90_624, "9.6.24"),
            (140_012, "14.12 (Debian 14.12-1)"),
            (149_999, "14.9999"),
        ] {
            let refusal = new_enough(number, found.to_owned()).unwrap_err();
            let expected = format!("expected PostgreSQL 15 or newer, found {found}");
            assert_eq!(refusal.to_string(), expected);
        }
        for (number, found) in [(150_000, "15beta1"), (150_008, "15.8"), (180_001, "18.1")] {
            new_enough(number, found.to_owned()).unwrap();
        }
    }
}
