//! Whether anything may start in a tenant.
//!
//! Takes an operator's word, keeps it in the tenant's row. A pass holds that row as it is until it has written what it
//! planned, so that once the word has been answered nothing starts that was planned before it.

use bc_protocol::id::TenantId;

use crate::{
    db::{Conn, Row, Tx, column::moment_option, query},
    rollout::snapshot::Freeze,
};

/// Why nothing starts in a tenant, if nothing does.
pub(crate) async fn read(
    conn: &mut Conn,
    tenant: &TenantId,
) -> Result<Option<Freeze>, sqlx::Error> {
    let row = query("SELECT * FROM fleets WHERE tenant = $1")
        .bind(tenant.as_str())
        .fetch_optional(conn)
        .await?;
    row.map_or(Ok(None), |row| of_row(&row))
}

/// What a row says that has a fleet's columns.
pub(super) fn of_row(row: &Row) -> Result<Option<Freeze>, sqlx::Error> {
    let Some(since) = moment_option(row, "frozen_since")? else {
        return Ok(None);
    };
    Ok(Some(Freeze {
        reason: row.try_get("frozen_reason")?,
        by: row.try_get("frozen_by")?,
        since,
    }))
}

/// Makes the tenant's row, if there is none yet.
pub(crate) async fn begin(tx: &mut Tx, tenant: &TenantId) -> Result<(), sqlx::Error> {
    query("INSERT INTO fleets (tenant) VALUES ($1) ON CONFLICT (tenant) DO NOTHING")
        .bind(tenant.as_str())
        .execute(tx)
        .await?;
    Ok(())
}

/// Keeps an operator's word. One that is frozen already stays frozen since it was.
pub(crate) async fn write(
    tx: &mut Tx,
    tenant: &TenantId,
    freeze: Option<&Freeze>,
) -> Result<(), sqlx::Error> {
    begin(tx, tenant).await?;
    query(
        "UPDATE fleets SET frozen_reason = $2, frozen_by = $3,
             frozen_since = CASE WHEN $4 IS NULL THEN NULL ELSE coalesce(frozen_since, $4) END
         WHERE tenant = $1",
    )
    .bind(tenant.as_str())
    .bind(freeze.map(|freeze| freeze.reason.as_str()))
    .bind(freeze.map(|freeze| freeze.by.as_str()))
    .bind(freeze.map(|freeze| freeze.since.millis()))
    .execute(tx)
    .await?;
    Ok(())
}

/// Alice's word.
#[cfg(test)]
pub(crate) fn of(reason: &str, since: crate::clock::Moment) -> Freeze {
    Freeze {
        reason: reason.to_owned(),
        by: "alice".to_owned(),
        since,
    }
}
