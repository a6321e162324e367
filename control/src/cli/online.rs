//! What a command that talks to control works with.
//!
//! Takes flags, variables and files, gives a client and a printer. Refuses to send a token where others can read it.

use std::{fs::File, io::Read, path::Path};

use bc_protocol::id::PoolId;
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use super::{
    client::{CallError, Client, Roots, is_loopback},
    exit::Exit,
    failure::Failure,
    globals::Globals,
    limits::CA_BYTES_MAX,
    print::{Answer, Output, Printer, View},
    secret::Secret,
    settings::{Cleartext, Environment, Settings, TokenSource, output_at_least},
    sheet::{Headers, PoolNames, Room},
};
use crate::api::fleet::{ListPools, Pool, Pools};

/// A control to talk to, and a way to show what it says.
#[derive(Clone, Debug)]
pub(super) struct Online {
    /// Calls control.
    pub client: Client,
    /// Shows answers.
    pub printer: Printer,
}

impl Online {
    /// Reads what the flags, the variables and the config file name.
    pub(super) fn open(flags: &Globals, environment: &Environment) -> Result<Self, Failure> {
        let settings = Settings::load(flags, environment)?;
        let token = match &settings.token {
            Some(token) => read_token(&token.value)?,
            None => return Err(Failure::NoToken),
        };
        Ok(Self {
            client: client(&settings, &token)?,
            printer: printer(flags, &settings),
        })
    }

    /// Calls a method and shows its answer.
    pub(super) async fn show<T: View + DeserializeOwned>(
        &self,
        method: &'static str,
        request: &impl Serialize,
    ) -> Result<Exit, Failure> {
        let answer = self.client.call::<T>(method, request).await?;
        self.show_answer(&answer).await?;
        Ok(Exit::Done)
    }

    /// Shows an answer, pools by their names where people read it.
    pub(super) async fn show_answer<T: View>(&self, answer: &Answer<T>) -> Result<(), Failure> {
        let Some((sheet, style)) = self.printer.sheet(answer) else {
            return Ok(self.printer.show(answer)?);
        };
        let sheet = if sheet.has_pools() {
            sheet.with_pools(&self.pool_names().await, style)
        } else {
            sheet
        };
        Ok(self.printer.show_sheet(sheet)?)
    }

    /// Pools' names. Whoever may not look at pools sees their ids.
    async fn pool_names(&self) -> PoolNames {
        let pools = self.pools().await.unwrap_or_default();
        let names = pools
            .into_iter()
            .map(|pool| (pool.id.to_string(), pool.name));
        names.collect()
    }

    async fn pools(&self) -> Result<Vec<Pool>, CallError> {
        let request = ListPools {
            tenant_id: self.client.tenant.clone(),
        };
        let pools = self.client.call::<Pools>("pools/list", &request).await?;
        Ok(pools.value.pools)
    }

    /// The pool that people mean by an id or a name.
    pub(super) async fn pool(&self, named: &str) -> Result<PoolId, Failure> {
        if let Ok(id) = named.parse() {
            return Ok(id);
        }
        self.pools()
            .await?
            .into_iter()
            .find(|pool| pool.name == named && pool.archived_at.is_none())
            .map(|pool| pool.id)
            .ok_or_else(|| Failure::NoPool {
                name: named.to_owned(),
            })
    }
}

/// A client for the control of these settings, as the holder of `token`.
pub(super) fn client(settings: &Settings, token: &Secret) -> Result<Client, Failure> {
    let url = settings.url.value.clone();
    refuse_cleartext(&url, settings.cleartext)?;
    Ok(Client::new(
        url,
        settings.tenant.value.clone(),
        token,
        &roots(settings)?,
    )?)
}

/// Whom to believe that a server is control.
pub(super) fn roots(settings: &Settings) -> Result<Roots, Failure> {
    match &settings.ca_file {
        Some(file) => Ok(Roots::Only(read_bounded(&file.value)?)),
        None => Ok(Roots::System),
    }
}

/// A printer after these settings.
pub(super) fn printer(flags: &Globals, settings: &Settings) -> Printer {
    printer_of(flags, settings.output.value)
}

/// A printer where there are no settings.
pub(super) fn printer_at_least(flags: &Globals, environment: &Environment) -> Printer {
    printer_of(flags, output_at_least(flags, environment))
}

fn printer_of(flags: &Globals, output: Output) -> Printer {
    Printer {
        output,
        query: flags.query.clone(),
        headers: if flags.no_headers {
            Headers::Hidden
        } else {
            Headers::Shown
        },
        room: Room::of_stdout(),
    }
}

/// The token itself.
pub(super) fn read_token(source: &TokenSource) -> Result<Secret, Failure> {
    let secret = match source {
        TokenSource::Given(secret) => secret.clone(),
        TokenSource::File(path) => Secret::read(path).map_err(|source| Failure::Read {
            path: path.clone(),
            source,
        })?,
    };
    if secret.expose().is_empty() {
        return Err(Failure::NoToken);
    }
    Ok(secret)
}

fn refuse_cleartext(url: &Url, cleartext: Cleartext) -> Result<(), Failure> {
    let readable = url.scheme() == "http" && !is_loopback(url);
    match cleartext {
        Cleartext::Refused if readable => Err(Failure::Cleartext {
            host: url.host_str().unwrap_or_default().to_owned(),
        }),
        Cleartext::Refused | Cleartext::Allowed => Ok(()),
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |source| Failure::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(failed)?
        .take(CA_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}
