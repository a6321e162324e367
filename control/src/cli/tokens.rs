//! `better-compute tokens`.

use clap::Subcommand;

use super::{
    exit::Exit,
    failure::Failure,
    issued::Issued,
    online::Online,
    print::{Detail, View},
    sheet::{Cell, Sheet},
};
use crate::api::fleet::NewToken;

mod create;

/// Make API tokens
#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    Create(create::Create),
}

impl TokensCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::Create(command) => command.run(online).await,
        }
    }
}

impl View for NewToken {
    fn sheet(&self, _detail: Detail) -> Sheet {
        Sheet::fields(vec![("id", Cell::new(&self.id))])
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
