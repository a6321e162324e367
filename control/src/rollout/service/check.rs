//! The rules of requests that need no database.
//!
//! Takes a request's fields, gives checked terms or the field and the rule that it breaks. What one value alone must
//! be is in the API's types already.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::{
    id::{NodeId, PoolId},
    share::{Percent, Share},
};

use super::RolloutError;
use crate::{
    api::{
        reason::{self, NoReason},
        rollout::CreateRollout,
    },
    rollout::{limits, snapshot::Scope, store::create::Reach},
};

/// A create request whose fields hold.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub pools: Option<BTreeSet<PoolId>>,
    pub reach: Reach,
    pub scope: Scope,
    pub waves: Vec<Percent>,
    pub max_failure_ratio: Share,
    pub soak: Duration,
    pub timeout: Duration,
}

/// Checks a create request.
pub(super) fn create(request: &CreateRollout) -> Result<Checked, RolloutError> {
    key(request.idempotency_key.as_deref())?;
    let scope = if request.include_maintenance {
        Scope::MaintenanceToo
    } else {
        Scope::NotInMaintenance
    };
    let default_ratio = Share::from_millionths(limits::FAILURE_PPM_DEFAULT).unwrap_or(Share::ZERO);
    Ok(Checked {
        pools: request.pool_ids.as_deref().map(pools).transpose()?,
        reach: reach(request)?,
        scope,
        waves: waves(request.waves.as_deref())?,
        max_failure_ratio: request.max_failure_ratio.unwrap_or(default_ratio),
        soak: soak(request.soak_seconds.unwrap_or(limits::SOAK_SECONDS_DEFAULT))?,
        timeout: timeout(
            request
                .upgrade_timeout_seconds
                .unwrap_or(limits::TIMEOUT_SECONDS_DEFAULT),
        )?,
    })
}

/// An operator's reason.
pub(super) fn reason(reason: String) -> Result<String, RolloutError> {
    match reason::check(&reason) {
        Ok(()) => Ok(reason),
        Err(NoReason::TooLong { found }) => Err(invalid("reason", "at most 500 characters", found)),
        Err(NoReason::Control { found }) => {
            let rule = "text without control characters";
            Err(invalid("reason", rule, found.escape_default()))
        }
    }
}

fn invalid(field: &'static str, rule: &'static str, found: impl ToString) -> RolloutError {
    RolloutError::Invalid {
        field,
        rule,
        found: found.to_string(),
    }
}

fn key(key: Option<&str>) -> Result<(), RolloutError> {
    let Some(key) = key else {
        return Ok(());
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:/+=-".contains(&byte);
    if key.is_empty() || key.len() > limits::KEY_CHARS_MAX || !key.bytes().all(allowed) {
        let rule = "1 to 128 letters, digits or any of ._~:/+=-";
        return Err(invalid("idempotencyKey", rule, "another text"));
    }
    Ok(())
}

fn pools(listed: &[PoolId]) -> Result<BTreeSet<PoolId>, RolloutError> {
    if !(1..=limits::POOLS_MAX).contains(&listed.len()) {
        return Err(invalid("poolIds", "1 to 1000 pools", listed.len()));
    }
    Ok(listed.iter().cloned().collect())
}

fn reach(request: &CreateRollout) -> Result<Reach, RolloutError> {
    match (&request.node_ids, &request.selector) {
        (Some(_), Some(_)) => Err(invalid("selector", "nodeIds or selector, not both", "both")),
        (Some(nodes), None) => {
            if !(1..=limits::NODES_MAX).contains(&nodes.len()) {
                return Err(invalid("nodeIds", "1 to 10000 nodes", nodes.len()));
            }
            let nodes: BTreeSet<NodeId> = nodes.iter().cloned().collect();
            Ok(Reach::Nodes(nodes))
        }
        (None, Some(labels)) => {
            if !(1..=limits::SELECTOR_MAX).contains(&labels.len()) {
                return Err(invalid("selector", "1 to 64 labels", labels.len()));
            }
            Ok(Reach::Selector(labels.clone()))
        }
        (None, None) => Ok(Reach::Everything),
    }
}

fn waves(given: Option<&[Percent]>) -> Result<Vec<Percent>, RolloutError> {
    let Some(waves) = given else {
        return Ok(limits::WAVES_DEFAULT
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect());
    };
    if !(1..=limits::WAVES_MAX).contains(&waves.len()) {
        return Err(invalid("waves", "1 to 10 percentages", waves.len()));
    }
    let falls = waves
        .iter()
        .zip(waves.iter().skip(1))
        .find(|(one, next)| one >= next);
    if let Some((one, next)) = falls {
        let found = format!("{next} after {one}");
        return Err(invalid("waves", "percentages that strictly rise", found));
    }
    match waves.last() {
        Some(last) if *last == Percent::HUNDRED => Ok(waves.to_vec()),
        Some(last) => Err(invalid("waves", "100 as the last percentage", last)),
        None => Err(invalid("waves", "1 to 10 percentages", 0)),
    }
}

fn soak(seconds: f64) -> Result<Duration, RolloutError> {
    // Compared before it is converted: a conversion of what is not a number would panic.
    if !(0.0..=limits::SOAK_SECONDS_MAX).contains(&seconds) {
        return Err(invalid("soakSeconds", "0 to 604800", seconds));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn timeout(seconds: f64) -> Result<Duration, RolloutError> {
    if !limits::TIMEOUT_SECONDS.contains(&seconds) {
        return Err(invalid("upgradeTimeoutSeconds", "60 to 86400", seconds));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_reason_is_text_for_people() {
        for good in [
            "",
            "größer 🚀",
            "first line\n\tsecond line",
            &"é".repeat(500),
        ] {
            assert_eq!(reason(good.to_owned()).unwrap(), good);
        }
        for (bad, found) in [
            ("nul\0", "\\u{0}"),
            ("\u{1b}[31mred", "\\u{1b}"),
            ("over\rwritten", "\\r"),
            ("c1\u{9b}", "\\u{9b}"),
        ] {
            let refusal = reason(bad.to_owned()).unwrap_err();
            let said = refusal.to_string();
            assert!(said.contains(found), "{bad:?}: {said}");
        }
        assert!(reason("x".repeat(501)).is_err());
    }
}
