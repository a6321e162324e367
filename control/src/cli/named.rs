//! Things by their ids, or by a part of one.
//!
//! Takes what somebody wrote, gives the id that he means: a whole one as it is, without a question to control; a
//! beginning or an end by looking through what control lists, as git does with its digests. Never guesses: a part that
//! several things share is refused with all of them.

use std::{fmt, str::FromStr};

use bc_protocol::id::{
    CommandId, GatewayId, IdError, JoinTokenId, NodeId, PoolId, RolloutId, TokenId, WebhookId,
    WorkflowId,
};
use serde_json::{Value, json};

use super::{failure::Failure, online::Online};

/// Shorter parts are refused: they would mean something else tomorrow.
const PART_LEAST: usize = 4;

/// What is put before the end of an id that stands for all of it.
const ELLIPSIS: char = '…';

/// An id whose things control can list.
pub(super) trait Listed: FromStr<Err = IdError> + fmt::Display + Clone {
    /// What such an id begins with.
    const PREFIX: &'static str;
    /// What such a thing is called.
    const WHAT: &'static str;
    /// Who lists them,
    const METHOD: &'static str;
    /// under this name.
    const LIST: &'static str;
}

macro_rules! listed {
    ($($id:ident: $what:literal, $method:literal, $list:literal;)*) => {
        $(impl Listed for $id {
            const PREFIX: &'static str = $id::PREFIX;
            const WHAT: &'static str = $what;
            const METHOD: &'static str = $method;
            const LIST: &'static str = $list;
        })*
    };
}

listed! {
    RolloutId: "rollout", "rollouts/list", "rollouts";
    NodeId: "node", "nodes/list", "nodes";
    PoolId: "pool", "pools/list", "pools";
    WorkflowId: "workflow", "workflows/list", "workflows";
    CommandId: "command", "commands/list", "commands";
    WebhookId: "webhook", "webhooks/list", "webhooks";
    TokenId: "token", "tokens/list", "tokens";
    JoinTokenId: "join token", "joinTokens/list", "joinTokens";
    GatewayId: "gateway", "gateways/list", "gateways";
}

/// An id, or what somebody wrote of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named<I> {
    /// All of it.
    Whole(I),
    /// Its beginning or its end, with or without the prefix.
    Part(String),
}

/// Why a text names nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a {what}'s id, or {PART_LEAST} or more characters of its beginning or end")]
pub(super) struct NoName {
    what: &'static str,
}

impl<I: Listed> FromStr for Named<I> {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        if is_part::<I>(text) {
            Ok(Self::Part(text.to_owned()))
        } else {
            Err(NoName { what: I::WHAT })
        }
    }
}

/// Whether a text may be a part of an id of this kind.
pub(super) fn is_part<I: Listed>(text: &str) -> bool {
    let part = bare::<I>(text);
    part.len() >= PART_LEAST && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether the text is the beginning or the end of an id.
pub(super) fn is_meant<I: Listed>(text: &str, id: &str) -> bool {
    let part = bare::<I>(text);
    let tail = id.strip_prefix(I::PREFIX).unwrap_or(id);
    tail.starts_with(part) || tail.ends_with(part)
}

/// A part without what is no part of it.
fn bare<I: Listed>(text: &str) -> &str {
    let part = text.strip_prefix(I::PREFIX).unwrap_or(text);
    part.trim_matches(ELLIPSIS)
}

impl Online {
    /// The id that is meant. A whole one is taken as it is, whether there is such a thing or not.
    pub(super) async fn id<I: Listed>(&self, named: &Named<I>) -> Result<I, Failure> {
        match named {
            Named::Whole(id) => Ok(id.clone()),
            Named::Part(part) => self.id_of(part).await,
        }
    }

    /// The only id of which this is a part.
    pub(super) async fn id_of<I: Listed>(&self, part: &str) -> Result<I, Failure> {
        let request = json!({ "tenantId": self.client.tenant });
        let answer = self.client.call::<Value>(I::METHOD, &request).await?;
        only(part, found::<I>(part, &answer.value))
    }
}

/// The ids in a list that this may be a part of.
fn found<I: Listed>(part: &str, answer: &Value) -> Vec<I> {
    let listed = answer.get(I::LIST).and_then(Value::as_array);
    let ids = listed
        .into_iter()
        .flatten()
        .filter_map(|one| one.get("id")?.as_str());
    ids.filter(|id| is_meant::<I>(part, id))
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// The one that was found.
pub(super) fn only<I: Listed>(named: &str, found: Vec<I>) -> Result<I, Failure> {
    match found.as_slice() {
        [id] => Ok(id.clone()),
        [] => Err(Failure::NoSuch {
            what: I::WHAT,
            method: I::METHOD,
            named: named.to_owned(),
        }),
        several => Err(Failure::Ambiguous {
            what: I::WHAT,
            named: named.to_owned(),
            found: several.iter().map(ToString::to_string).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "rollout_4k2m8x1q00000000000000zzzz";

    #[test]
    fn a_whole_id_is_taken_as_it_is() {
        let named: Named<RolloutId> = ID.parse().unwrap();
        assert_eq!(named, Named::Whole(ID.parse().unwrap()));
    }

    #[test]
    fn a_beginning_and_an_end_are_parts_with_or_without_the_prefix() {
        for text in ["rollout_4k2m", "4k2m8x", "…zzzz", "rollout_…0zzzz", "0zzzz"] {
            let named: Named<RolloutId> = text.parse().unwrap();
            assert_eq!(named, Named::Part(text.to_owned()));
            assert!(is_meant::<RolloutId>(text, ID), "{text}");
        }
        assert!(!is_meant::<RolloutId>("2m8x", ID), "the middle is none");
    }

    #[test]
    fn what_is_too_short_or_another_kind_is_refused() {
        for text in [
            "",
            "rollout_",
            "4k2",
            "rollout_4k2",
            "a b c d",
            "node_4k2m8x",
            "…",
        ] {
            let refused = text.parse::<Named<RolloutId>>().unwrap_err();
            assert_eq!(
                refused.to_string(),
                "expected a rollout's id, or 4 or more characters of its beginning or end",
                "{text}"
            );
        }
    }

    #[test]
    fn several_are_all_named_and_none_is_said() {
        let other = "rollout_4k2m9000000000000000000000";
        let answer = json!({"rollouts": [{"id": ID}, {"id": other}]});
        let meant = |part| only::<RolloutId>(part, found(part, &answer));
        assert_eq!(meant("4k2m8").unwrap().to_string(), ID);
        assert_eq!(
            meant("4k2m").unwrap_err().to_string(),
            format!("expected one rollout, found \"4k2m\" for {ID}, {other}")
        );
        assert_eq!(
            meant("gone").unwrap_err().to_string(),
            "expected a rollout's id or a part of one, found \"gone\" for none that is listed"
        );
    }
}
