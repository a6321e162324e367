//! `better-compute tokens`.

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
    access::{Token, Tokens},
    fleet::NewToken,
};

mod create;
mod list;
mod revoke;

/// Make API tokens, and take them back
#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl TokensCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
            Self::List(command) => command.run(online).await,
            Self::Revoke(command) => command.run(online).await,
        }
    }
}

impl View for NewToken {
    const SCHEMA: Option<&'static str> = Some("NewToken");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let mut fields = vec![("id", Cell::new(&self.id))];
        let end = self.expires_at.map(second);
        fields.extend(end.map(|end| ("expires", Cell::new(end))));
        Sheet::fields(fields)
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl Issued for NewToken {
    fn token(&self) -> &str {
        &self.token
    }
}

impl View for Token {
    const SCHEMA: Option<&'static str> = Some("Token");

    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![
            ("id", Cell::new(&self.id)),
            ("subject", Cell::new(&self.subject)),
            ("permissions", Cell::new(self.permissions.join(" "))),
            ("created", Cell::new(second(self.created_at))),
            ("expires", Cell::optional(self.expires_at.map(second))),
            ("last used", Cell::optional(self.last_used_at.map(second))),
            ("revoked", Cell::optional(self.revoked_at.map(second))),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Tokens {
    const SCHEMA: Option<&'static str> = Some("Tokens");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = [
            "ID",
            "SUBJECT",
            "PERMISSIONS",
            "EXPIRES",
            "LAST USED",
            "REVOKED",
        ];
        let rows = self.tokens.iter().map(|token| {
            let mut row = vec![
                Cell::new(&token.id),
                Cell::new(&token.subject),
                Cell::new(token.permissions.join(" ")),
                Cell::optional(token.expires_at.map(second)),
                Cell::optional(token.last_used_at.map(second)),
                Cell::optional(token.revoked_at.map(second)),
            ];
            if detail == Detail::Wide {
                row.push(Cell::new(second(token.created_at)));
            }
            row
        });
        Sheet::rows(&detail.columns(&brief, &["CREATED"]), rows.collect())
    }

    fn names(&self) -> Vec<String> {
        let ids = self.tokens.iter().map(|token| token.id.to_string());
        ids.collect()
    }
}
