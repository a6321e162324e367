//! What a whole fleet has taken.

use super::{RolloutError, Services};
use crate::db::query_scalar;

/// The version that the newest completed rollout brought, to whomever.
pub(crate) async fn newest_completed(services: &Services) -> Result<Option<String>, RolloutError> {
    let newest = query_scalar(
        "SELECT version FROM rollouts WHERE state = 'completed' ORDER BY created_at DESC, id DESC LIMIT 1",
    );
    let mut conn = services.db.reader().begin().await?;
    Ok(newest.fetch_optional(&mut conn).await?)
}
