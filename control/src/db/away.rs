//! Whether the database is away.
//!
//! Takes an error of whatever layer, gives whether it says that the database does not answer, rather than that something
//! was wrong with what it was asked. Pure.

use std::error::Error;

/// PostgreSQL's own words for it: shutting down, crashed, starting, too many connections.
const TOLD: [&str; 4] = ["57P01", "57P02", "57P03", "53300"];

/// Its class of errors about connections.
const CONNECTION_CLASS: &str = "08";

/// Whether this, or what caused it, says that the database does not answer.
pub(crate) fn is_away(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return says_so(error);
        }
        next = error.source();
    }
    false
}

fn says_so(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Database(told) = error {
        let code = told.code();
        return code.is_some_and(|code| {
            TOLD.contains(&code.as_ref()) || code.starts_with(CONNECTION_CLASS)
        });
    }
    matches!(
        error,
        sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::is_away;
    use crate::access::token::TokenError;

    #[test]
    fn a_lost_connection_is_found_below_whatever_failed_by_it() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        for cause in [
            sqlx::Error::PoolTimedOut,
            sqlx::Error::PoolClosed,
            sqlx::Error::Io(refused()),
        ] {
            assert!(is_away(&TokenError::Sql(cause)));
        }
        for other in [sqlx::Error::RowNotFound, sqlx::Error::Protocol("x".into())] {
            assert!(!is_away(&TokenError::Sql(other)));
        }
        assert!(!is_away(&refused()), "somebody else's socket");
    }
}
