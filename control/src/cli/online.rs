//! What a command that talks to control works with.
//!
//! Takes flags, variables and files, gives a client and a printer. Refuses to send a token where others can read it.

use std::{fs::File, io::Read, path::Path};

use bc_protocol::id::{NodeId, PoolId};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use super::{
    client::{CallError, Client, Roots, is_loopback},
    exit::Exit,
    failure::Failure,
    globals::Globals,
    limits::CA_BYTES_MAX,
    named::{is_meant, is_part, only},
    pools::called,
    print::{Answer, Output, Printer, View, note},
    secret::Secret,
    settings::{Cleartext, Environment, Settings, TokenSource, output_at_least},
    sheet::{Headers, PoolNames, Room},
};
use crate::api::fleet::{ListNodes, ListPools, Node, Nodes, Pool, Pools};

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
        self.tell_if_empty(method, &answer);
        Ok(Exit::Done)
    }

    /// Says whose nothing an empty table is: a tenant that is spelled wrongly has nothing either.
    pub(super) fn tell_if_empty<T: View>(&self, method: &'static str, answer: &Answer<T>) {
        let sheet = self.printer.sheet(answer);
        if !sheet.is_some_and(|(sheet, _)| sheet.is_empty_table()) {
            return;
        }
        let tenant = &self.client.tenant;
        let first = match method {
            "pools/list" => "; `better-compute pools create` makes a pool",
            "nodes/list" => "; `better-compute join-tokens create` lets nodes join",
            "releases/list" => "; `better-compute releases publish` brings a release",
            "rollouts/list" => "; `better-compute rollouts create` begins one",
            "gateways/list" => "; `better-compute gateways enrol` lets one in",
            _ => "",
        };
        note(&format!("nothing found in tenant {tenant}{first}"));
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
            .map(|pool| (pool.id.to_string(), called(&pool.name, pool.archived_at)));
        names.collect()
    }

    async fn pools(&self) -> Result<Vec<Pool>, CallError> {
        let request = ListPools {
            tenant_id: self.client.tenant.clone(),
        };
        let pools = self.client.call::<Pools>("pools/list", &request).await?;
        Ok(pools.value.pools)
    }

    /// The pool in use that people mean by an id or a name.
    pub(super) async fn pool(&self, named: &str) -> Result<PoolId, Failure> {
        self.pool_in(named, PoolScope::Used).await
    }

    /// As [`pool`](Self::pool), of pools that are archived too, if the scope says so.
    pub(super) async fn pool_in(&self, named: &str, scope: PoolScope) -> Result<PoolId, Failure> {
        if let Ok(id) = named.parse() {
            return Ok(id);
        }
        let (pools, others): (Vec<_>, Vec<_>) = self
            .pools()
            .await?
            .into_iter()
            .partition(|pool| pool.name == named);
        let (archived, used): (Vec<_>, Vec<_>) = pools
            .into_iter()
            .partition(|pool| pool.archived_at.is_some());
        let name = || named.to_owned();
        let found = match scope {
            PoolScope::Used if used.is_empty() && !archived.is_empty() => {
                return Err(Failure::ArchivedPool { name: name() });
            }
            PoolScope::Used => used,
            PoolScope::UsedFirst if used.is_empty() => archived,
            PoolScope::UsedFirst => used,
            PoolScope::ArchivedFirst if archived.is_empty() => used,
            PoolScope::ArchivedFirst => archived,
        };
        match found.as_slice() {
            [pool] => Ok(pool.id.clone()),
            [] => match part_of(named, others) {
                ids if ids.is_empty() => Err(Failure::NoPool { name: name() }),
                ids => only(named, ids),
            },
            several => Err(Failure::Ambiguous {
                what: "pool",
                named: name(),
                found: several.iter().map(|pool| pool.id.to_string()).collect(),
            }),
        }
    }

    /// The node that people mean by an id, a part of one, or a hostname.
    pub(super) async fn node(&self, named: &NodeName) -> Result<NodeId, Failure> {
        if let Ok(id) = named.0.parse() {
            return Ok(id);
        }
        let request = ListNodes {
            tenant_id: self.client.tenant.clone(),
            pool_id: None,
            after: None,
            limit: None,
        };
        let listed = self.client.call::<Nodes>("nodes/list", &request).await?;
        let nodes = listed.value.nodes.into_iter();
        let meant: Vec<NodeId> = nodes
            .filter(|node| named.means(node))
            .map(|node| node.id)
            .collect();
        if meant.is_empty() {
            return Err(Failure::NoNode {
                name: named.0.clone(),
            });
        }
        only(&named.0, meant)
    }
}

/// How a node may be named on the command line: its id, the beginning or end of it, or its hostname.
#[derive(Clone, Debug)]
pub(super) struct NodeName(String);

/// Why a text names no node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a node's id, 4 or more characters of its beginning or end, or its hostname")]
pub(super) struct NoNodeName;

impl std::str::FromStr for NodeName {
    type Err = NoNodeName;

    fn from_str(text: &str) -> Result<Self, NoNodeName> {
        if text.is_empty() || text.starts_with(NodeId::PREFIX) && !is_part::<NodeId>(text) {
            return Err(NoNodeName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl NodeName {
    fn means(&self, node: &Node) -> bool {
        let hostname = node.labels.get("hostname");
        hostname == Some(&self.0)
            || is_part::<NodeId>(&self.0) && is_meant::<NodeId>(&self.0, node.id.as_str())
    }
}

/// The pools that a part of an id may mean.
fn part_of(named: &str, pools: Vec<Pool>) -> Vec<PoolId> {
    let ids = pools.into_iter().map(|pool| pool.id);
    ids.filter(|id| is_part::<PoolId>(named) && is_meant::<PoolId>(named, id.as_str()))
        .collect()
}

/// Which pools a name may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolScope {
    /// Those in use.
    Used,
    /// An archived one where none in use has the name.
    UsedFirst,
    /// One in use where no archived one has the name.
    ArchivedFirst,
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
