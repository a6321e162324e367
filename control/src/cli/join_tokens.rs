//! `better-compute join-tokens`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    issued::Issued,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet, second},
};
use crate::api::{
    access::{JoinToken, JoinTokens},
    fleet::NewJoinToken,
};

mod create;
mod list;
mod revoke;

/// Let nodes join a pool
#[derive(Debug, Subcommand)]
pub(super) enum JoinTokensCommand {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl JoinTokensCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Revoke(command) => command.run(online).await,
        }
    }
}

impl View for NewJoinToken {
    const SCHEMA: Option<&'static str> = Some("NewJoinToken");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("expires", Cell::new(second(self.expires_at))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl Issued for NewJoinToken {
    fn token(&self) -> &str {
        &self.token
    }
}

impl View for JoinToken {
    const SCHEMA: Option<&'static str> = Some("JoinToken");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("pool", Cell::pool(&self.pool_id)),
            ("used", Cell::new(used(self))),
            ("expires", Cell::new(second(self.expires_at))),
            ("revoked", Cell::optional(self.revoked_at.map(second))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for JoinTokens {
    const SCHEMA: Option<&'static str> = Some("JoinTokens");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self.join_tokens.iter().map(|token| {
            vec![
                Cell::new(&token.id),
                Cell::pool(&token.pool_id),
                Cell::new(used(token)),
                Cell::new(second(token.expires_at)),
                Cell::optional(token.revoked_at.map(second)),
                Cell::new(&token.created_by),
            ]
        });
        let header = ["ID", "POOL", "USED", "EXPIRES", "REVOKED", "BY"];
        Sheet::rows(&header, rows.collect())
    }

    fn names(&self) -> Vec<String> {
        let ids = self.join_tokens.iter().map(|token| token.id.to_string());
        ids.collect()
    }
}

fn used(token: &JoinToken) -> String {
    format!("{}/{}", token.used, token.uses)
}
