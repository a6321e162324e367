//! Gateways: who may be one, and where nodes find them.
//!
//! Takes an operator's permission and a gateway's request, gives a certificate for both roles. A token is good for one
//! key: the same key may redeem it again after a lost answer, another one never.

pub(crate) mod remove;

use std::time::Duration;

use bc_protocol::id::GatewayId;
use serde_json::json;
use thiserror::Error;
use url::Url;

use super::{
    authority::{Authority, AuthorityError, CertifiedKey, RequestError},
    facts::FactsError,
};
use crate::{
    access::bearer::Bearer,
    api::gateway::{EnrolGateway, Gateway, JoinGateway, JoinedGateway, NewGateway},
    chance,
    clock::Moment,
    db::{
        Db, Row,
        column::{moment, moment_option, parsed},
        query,
    },
    event::outbox::{Draft, publish},
};

pub(crate) const NAME_CHARS_MAX: usize = 63;

/// Time enough to carry the token to the gateway's machine.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a gateway does not enrol.
#[derive(Debug, Error)]
pub(crate) enum GatewayError {
    /// The database failed.
    #[error("the database failed")]
    Sql(#[from] sqlx::Error),
    /// The certificate cannot be made.
    #[error("the gateway's certificate cannot be made")]
    Authority(#[from] AuthorityError),
    /// The sessions of one that is removed cannot be ended.
    #[error("the gateway's sessions cannot be ended")]
    Facts(#[from] FactsError),
    /// The request is no good.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The name is no name.
    #[error("expected a name of 1 to {NAME_CHARS_MAX} letters, digits, '.', '_' or '-'")]
    Name,
    /// The address is no address of a gateway.
    #[error(
        "expected an address like wss://HOST[:PORT]/session, with at most 253 letters of host and 63 between its dots, found another form"
    )]
    Url,
    /// Another gateway has the name.
    #[error("expected a name that no other gateway has, found one named {name}")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is none to remove.
    #[error("expected a gateway of this control, found none of that id")]
    NotFound,
    /// No token of that text.
    #[error("expected an enrolment token of this control, found one that it does not know")]
    UnknownToken,
    /// Its time is over.
    #[error("expected an enrolment token that is valid, found one that expired at {at}")]
    Expired {
        /// When.
        at: Moment,
    },
    /// Another key has redeemed it.
    #[error("expected an enrolment token that is unused, found one that another key has redeemed")]
    Redeemed,
}

/// Makes a token that lets one gateway enrol.
pub(crate) async fn enrol(
    db: &Db,
    actor: &str,
    request: &EnrolGateway,
    now: Moment,
) -> Result<NewGateway, GatewayError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let length = request.name.len();
    if !(1..=NAME_CHARS_MAX).contains(&length) || !request.name.bytes().all(plain) {
        return Err(GatewayError::Name);
    }
    host_of(&request.url)?;
    let expires_at = now.plus(TOKEN_LIFE);
    let bearer = Bearer::fresh(GatewayId::random(now.unix_ms(), chance::bits()));
    let written = query(
        "INSERT INTO gateways
             (id, name, url, token_sha256, token_expires_at, created_at, created_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING",
    )
    .bind(bearer.id().as_str())
    .bind(&request.name)
    .bind(&request.url)
    .bind(bearer.digest().as_bytes().as_slice())
    .bind(expires_at.millis())
    .bind(now.millis())
    .bind(actor);
    let mut tx = db.begin().await?;
    let written = written.execute(&mut *tx).await?;
    if written.rows_affected() == 0 {
        return Err(GatewayError::Taken {
            name: request.name.clone(),
        });
    }
    let draft = Draft {
        kind: "gateway.created",
        subject: format!("gateway/{}", bearer.id()),
        tenant: &request.tenant_id,
        actor,
        data: json!({ "name": request.name, "url": request.url }),
    };
    publish(&mut tx, draft, now);
    tx.commit().await?;
    Ok(NewGateway {
        id: bearer.id().clone(),
        token: bearer.reveal(),
        expires_at,
    })
}

/// Where an enrolled gateway links to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enrolment<'a> {
    /// The authority that signs.
    pub authority: &'a Authority,
    /// `wss://HOST:PORT/link`
    pub link_url: &'a str,
}

/// Redeems a token.
pub(crate) async fn join(
    db: &Db,
    enrolment: Enrolment<'_>,
    bearer: &str,
    request: &JoinGateway,
    now: Moment,
) -> Result<JoinedGateway, GatewayError> {
    let bearer = Bearer::<GatewayId>::parse(bearer).ok_or(GatewayError::UnknownToken)?;
    let mut tx = db.begin().await?;
    let row = query("SELECT * FROM gateways WHERE id = $1")
        .bind(bearer.id().as_str())
        .for_update()
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(GatewayError::UnknownToken)?;
    if !bearer.matches(row.try_get("token_sha256")?) {
        return Err(GatewayError::UnknownToken);
    }
    let key = CertifiedKey::from_request(&request.csr)?;
    let redeemed: Option<&[u8]> = row.try_get("spki")?;
    match redeemed {
        Some(spki) if spki == key.spki() => {}
        Some(_) => return Err(GatewayError::Redeemed),
        None => {
            let at = moment(&row, "token_expires_at")?;
            if at <= now {
                return Err(GatewayError::Expired { at });
            }
            query("UPDATE gateways SET spki = $2, enrolled_at = $3 WHERE id = $1")
                .bind(bearer.id().as_str())
                .bind(key.spki())
                .bind(now.millis())
                .execute(&mut *tx)
                .await?;
        }
    }
    let host = host_of(row.try_get("url")?)?;
    let certificate = enrolment
        .authority
        .issue_gateway(&key, bearer.id(), &host, now)?;
    tx.commit().await?;
    tracing::info!(gateway = %bearer.id(), key = %key.pin(), "a gateway has enrolled");
    Ok(JoinedGateway {
        gateway_id: bearer.id().clone(),
        certificate,
        authorities: enrolment.authority.pem().to_owned(),
        link_url: enrolment.link_url.to_owned(),
    })
}

/// The gateways, by name.
pub(crate) async fn list(db: &Db) -> Result<Vec<Gateway>, GatewayError> {
    let rows = query("SELECT * FROM gateways ORDER BY name")
        .fetch_all(db.reader())
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

fn read(row: &Row) -> Result<Gateway, sqlx::Error> {
    Ok(Gateway {
        id: parsed(row, "id")?,
        name: row.try_get("name")?,
        url: row.try_get("url")?,
        enrolled: row.try_get::<Option<i64>>("enrolled_at")?.is_some(),
        linked: row.try_get("linked")?,
        since: moment_option(row, "linked_since")?,
    })
}

/// The host of a gateway's address, which its certificate is for.
pub(super) fn host_of(address: &str) -> Result<String, GatewayError> {
    let url = Url::parse(address).map_err(|_| GatewayError::Url)?;
    let plain = url.scheme() == "wss"
        && url.path() == "/session"
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.port() != Some(0);
    url.host_str()
        .filter(|host| plain && is_resolvable(host))
        .map(str::to_owned)
        .ok_or(GatewayError::Url)
}

/// Whether any resolver takes the name; an address is short enough.
fn is_resolvable(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    name.len() <= 253 && name.split('.').all(|label| label.len() <= 63)
}
