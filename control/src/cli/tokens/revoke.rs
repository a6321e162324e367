//! `tokens revoke`.

use bc_protocol::id::TokenId;
use clap::Args;

use crate::{
    api::access::{ListTokens, OneToken, Token, Tokens},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        named::Named,
        online::Online,
    },
};

/// Take an API token back: nobody is known by it any more
#[derive(Debug, Args)]
pub(in crate::cli) struct Revoke {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "TOKEN_ID")]
    token: Named<TokenId>,
    #[command(flatten)]
    consent: Consent,
}

impl Revoke {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let token_id = online.id(&self.token).await?;
        if self.consent.is_open() {
            confirm(&question(online, &token_id).await?, &self.consent)?;
        }
        let request = OneToken {
            tenant_id: online.client.tenant.clone(),
            token_id,
        };
        online.show::<Token>("tokens/revoke", &request).await
    }
}

/// Says whose it is: an id alone tells nobody that it is the wrong one, or his own.
async fn question(online: &Online, token: &TokenId) -> Result<String, Failure> {
    let request = ListTokens {
        tenant_id: online.client.tenant.clone(),
    };
    let listed = online
        .client
        .call::<Tokens>("tokens/list", &request)
        .await?;
    let mut tokens = listed.value.tokens.into_iter();
    let whose = tokens.find(|listed| listed.id == *token);
    let whose = whose.map(|found| format!(" of {}", found.subject));
    Ok(format!(
        "Revoke the token {token}{}? Whoever uses it is locked out at once.",
        whose.unwrap_or_default()
    ))
}
