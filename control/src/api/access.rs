//! `tokens.*` and `joinTokens.*`, but for what makes them.

use bc_protocol::id::{JoinTokenId, PoolId, TenantId, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words;
use crate::clock::Moment;

/// `tokens.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListTokens {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
}

/// `tokens.revoke`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneToken {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::TokenId)]
    pub token_id: TokenId,
}

/// An API token, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    /// Its id.
    #[schema(value_type = words::TokenId)]
    pub id: TokenId,
    /// Who holds it.
    pub subject: String,
    /// What it allows.
    pub permissions: Vec<String>,
    /// When it was made.
    pub created_at: Moment,
    /// When it stops working; absent: when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// When it was last used, to within an hour; absent: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Moment>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Moment>,
}

/// `tokens.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Tokens {
    /// The tokens, oldest first; revoked ones too.
    pub tokens: Vec<Token>,
}

/// `joinTokens.list`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListJoinTokens {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Of one pool only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::PoolId>)]
    pub pool_id: Option<PoolId>,
}

/// `joinTokens.revoke`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OneJoinToken {
    /// Whose.
    #[schema(value_type = words::TenantId)]
    pub tenant_id: TenantId,
    /// Which.
    #[schema(value_type = words::JoinTokenId)]
    pub join_token_id: JoinTokenId,
}

/// A join token, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JoinToken {
    /// Its id.
    #[schema(value_type = words::JoinTokenId)]
    pub id: JoinTokenId,
    /// The pool that nodes join with it.
    #[schema(value_type = words::PoolId)]
    pub pool_id: PoolId,
    /// How many nodes have joined with it.
    pub used: u32,
    /// How many may.
    pub uses: u32,
    /// When it stops working.
    pub expires_at: Moment,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Moment>,
    /// When it was made.
    pub created_at: Moment,
    /// By whom.
    pub created_by: String,
}

/// `joinTokens.list`'s answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JoinTokens {
    /// The tokens, oldest first; used-up, expired and revoked ones too.
    pub join_tokens: Vec<JoinToken>,
}
