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
use crate::api::fleet::NewJoinToken;

mod create;

/// Let nodes join a pool
#[derive(Debug, Subcommand)]
pub(super) enum JoinTokensCommand {
    Create(create::Create),
}

impl JoinTokensCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
        }
    }
}

impl View for NewJoinToken {
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
