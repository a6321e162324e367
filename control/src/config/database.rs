//! Where the database is, as the configuration says it.
//!
//! Takes the keys of the file, gives a location. A password may stand in a file of its own, which is read when the
//! database is opened and not before.

use std::path::{Path, PathBuf};

use crate::db::{Location, postgres::Server};

/// The password that systemd hands over, where no file is named.
const CREDENTIAL: &str = "database-password";

/// Connections that somebody may ask for, of each kind.
pub(super) const CONNECTIONS: std::ops::RangeInclusive<u32> = 2..=500;

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    location: Location,
    password_file: Option<PathBuf>,
}

/// A password's file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("database_password_file: expected a password in {}", path.display())]
pub(crate) struct PasswordError {
    path: PathBuf,
    source: std::io::Error,
}

/// An address that is none of the forms.
pub(super) struct NoAddress;

impl Database {
    /// Reads `database_url`; none of it is a file in the data folder.
    pub(super) fn parse(url: Option<&str>, data_dir: &Path) -> Result<Self, NoAddress> {
        let location = match url.map(|url| (url, url.strip_prefix("sqlite:"))) {
            None | Some((_, Some(""))) => Location::Sqlite(data_dir.join("control.db")),
            Some((_, Some(path))) => Location::Sqlite(path.into()),
            Some((url, None)) => {
                let ours = ["postgres://", "postgresql://"].iter();
                if !ours.clone().any(|scheme| url.starts_with(scheme)) {
                    return Err(NoAddress);
                }
                Location::Postgres(Box::new(Server::parse(url).map_err(|_| NoAddress)?))
            }
        };
        Ok(Self {
            location,
            password_file: None,
        })
    }

    pub(super) fn with_password_file(mut self, file: Option<PathBuf>) -> Self {
        self.password_file = file;
        self
    }

    pub(super) fn with_connections(mut self, max: Option<u32>) -> Self {
        if let (Location::Postgres(server), Some(max)) = (&mut self.location, max) {
            **server = Server::clone(server).with_connections(max);
        }
        self
    }

    /// Where it is, with the password.
    pub(crate) fn location(&self) -> Result<Location, PasswordError> {
        let Location::Postgres(server) = &self.location else {
            return Ok(self.location.clone());
        };
        let Some(path) = self.password_path() else {
            return Ok(self.location.clone());
        };
        let password = std::fs::read_to_string(&path);
        let password = password.map_err(|source| PasswordError { path, source })?;
        let server = Server::clone(server).with_password(password.trim_end());
        Ok(Location::Postgres(Box::new(server)))
    }

    /// The folder of a file that only one service may have open.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.location {
            Location::Sqlite(path) => path.parent(),
            Location::Postgres(_) => None,
        }
    }

    fn password_path(&self) -> Option<PathBuf> {
        self.password_file.clone().or_else(|| {
            let folder = std::env::var_os("CREDENTIALS_DIRECTORY")?;
            Some(Path::new(&folder).join(CREDENTIAL)).filter(|path| path.exists())
        })
    }
}
