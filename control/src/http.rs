//! The API over HTTP.
//!
//! Takes requests, gives the answers of the areas behind it. It authenticates, asks whether the caller may, reads the
//! input and hands over; every refusal leaves as the one error object. It decides nothing else.

mod caller;
mod commands;
mod docs;
mod document;
mod downloads;
mod error;
mod events;
mod fleet;
mod frame;
mod front;
mod gateways;
mod input;
mod install;
mod join_tokens;
mod methods;
mod nodes;
mod permit;
mod pools;
mod quota;
mod releases;
mod rollouts;
pub(crate) mod sight;
mod status;
mod tokens;
mod webhooks;
mod workflows;

use std::{future::ready, sync::Arc};

pub(crate) use error::Refusal;
pub(crate) use quota::{Origin, Quotas};

use axum::{
    Router,
    http::{Method, Uri, header},
    middleware,
    response::IntoResponse,
    routing::get,
};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{
    access::{
        action::Action,
        decide::{Decide, Denied, Question, Resource},
        token::Subject,
    },
    api::{
        error::{Code, ErrorObject},
        event::Event,
        release::Published,
    },
    downloads::Downloads,
    event::webhook::Reach,
    fleet::authority::Authority,
    metrics::{Decision, Metrics, Quota},
    rollout::service::Services,
};
use document::read_only;
use front::Known;
use methods::Methods;

/// What the API needs to answer.
pub(crate) struct App {
    /// The database, whom to believe, and what rollouts need.
    pub services: Services,
    /// Who signs certificates.
    pub authority: Arc<Authority>,
    /// Who decides what callers may do.
    pub decider: Arc<dyn Decide>,
    /// Where gateways link to.
    pub link_url: String,
    /// Where this API is, for those who come from elsewhere; without a slash at its end.
    pub base_url: String,
    /// The release binaries that control serves.
    pub downloads: Option<Downloads>,
    /// How often strangers may try.
    pub quotas: Quotas,
    /// Whether callers come through something that names them in `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Where webhooks may go.
    pub reach: Reach,
    /// Places for those who watch events.
    pub watchers: Arc<Semaphore>,
    /// Cancelled when the service stops: connections that would last for ever end then.
    pub stop: CancellationToken,
}

/// Watchers at once: each is a connection and a few reads when something happens.
pub(crate) const WATCHERS_MAX: usize = 512;

impl App {
    fn metrics(&self) -> &Metrics {
        &self.services.metrics
    }

    /// Goes on only if somebody may do this: asked anew every time, and every answer is counted.
    pub(crate) async fn may(
        &self,
        subject: &Subject,
        action: Action,
        resource: Resource<'_>,
    ) -> Result<(), Denied> {
        let question = Question {
            subject,
            action,
            resource,
        };
        let decided = self.decider.decide(question).await;
        let answer = match &decided {
            Ok(()) => Decision::YES,
            Err(Denied::Undecided) => Decision::UNDECIDED,
            Err(Denied::Permission { .. } | Denied::Tenant { .. }) => Decision::NO,
        };
        self.metrics().decisions.get_or_create(&answer).inc();
        decided
    }

    /// Counts a token that is not known; whoever shows too many of them has to wait.
    pub(crate) fn count_wrong_token(&self, from: Origin, text: &str) -> Result<(), ErrorObject> {
        let counted = self.quotas.wrong_token(from, text);
        if counted.is_err() {
            self.metrics()
                .quota_exceeded
                .get_or_create(&Quota::TOKEN)
                .inc();
        }
        Ok(counted?)
    }
}

/// The state that every request shares.
pub(crate) type Shared = Arc<App>;

/// Every route, with those of whoever shows the same to people.
pub(crate) fn router(app: App, pages: Router<Shared>) -> Router {
    let app = Arc::new(app);
    let routes = routes();
    for method in routes.names() {
        app.metrics().expect_calls(method);
    }
    let known = Arc::new(Known::of(routes.names()));
    let (routes, document) = routes.finish(&app.base_url);
    let document = Bytes::from(document);
    let library = document.clone();
    let described = move || ready(openapi(document.clone()));
    let absent = move |method: Method, uri: Uri| ready(known.refuse(&method, uri.path()));
    routes
        .route("/openapi.json", get(described))
        .merge(pages)
        .merge(docs::routes(library))
        .route("/", get(front::front))
        .fallback(absent.clone())
        .method_not_allowed_fallback(absent)
        .layer(CatchPanicLayer::custom(error::panicked))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            frame::frame,
        ))
        .with_state(app)
}

/// What the API is, in OpenAPI's words, without a service that runs.
pub(crate) fn description() -> String {
    let (_, document) = routes().finish("/");
    document
}

fn routes() -> Methods {
    let json = "application/json";
    methods(Methods::new())
        .other(
            "/healthz",
            read_only("healthz", "Whether it lives", &[(200, json, "It does.")]),
            get(status::healthz),
        )
        .other(
            "/readyz",
            read_only(
                "readyz",
                "Whether it can work",
                &[
                    (200, json, "It can."),
                    (503, json, "Something is missing; it says what."),
                ],
            ),
            get(status::readyz),
        )
        .other(
            "/version",
            read_only(
                "version",
                "Which build it is",
                &[(200, json, "Its version.")],
            ),
            get(status::version),
        )
        .other(
            "/install.sh",
            read_only(
                "install",
                "What makes a machine a node",
                &[
                    (200, "text/x-shellscript", "A shell script."),
                    (404, json, "No release is registered."),
                ],
            ),
            get(install::script),
        )
        .other(
            "/api/compute/downloads/bcd/{version}/{platform}",
            downloads::described(),
            get(downloads::serve).put(downloads::publish),
        )
        .with_type::<Published>()
}

fn openapi(document: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document)
}

#[rustfmt::skip]
fn methods(to: Methods) -> Methods {
    use Code::{Conflict, InvalidState, NotFound};
    to
        .method("releases/register", "Register a signed release, or renew one", &[Conflict], releases::register)
        .method("releases/list", "Every release, highest sequence first", &[], releases::list)
        .method("releases/get", "One release", &[NotFound, Conflict], releases::get)
        .method("rollouts/create", "Begin to bring a release to nodes", &[NotFound, Conflict, InvalidState], rollouts::create)
        .method("rollouts/list", "The 100 newest rollouts, newest first", &[], rollouts::list)
        .method("rollouts/get", "One rollout with its nodes", &[NotFound], rollouts::get)
        .method("rollouts/pause", "Start no more nodes for now", &[NotFound, InvalidState], rollouts::pause)
        .method("rollouts/resume", "Go on, and accept the wave's failures so far", &[NotFound, InvalidState], rollouts::resume)
        .method("rollouts/abort", "End it; what is in flight fails or goes back", &[NotFound, InvalidState], rollouts::abort)
        .method("rollouts/plan", "What creating it would begin; nothing is stored", &[NotFound, Conflict, InvalidState], rollouts::plan)
        .method("rollouts/explain", "Why a node is where it is, in one sentence", &[NotFound], rollouts::explain)
        .method("rollouts/retry", "Try failed nodes of a completed rollout again", &[NotFound, InvalidState], rollouts::retry)
        .method("fleet/freeze", "Start nothing more in the tenant", &[], fleet::freeze)
        .method("fleet/unfreeze", "Let nodes start again", &[], fleet::unfreeze)
        .method("fleet/summary", "The tenant's nodes, counted by pool", &[], fleet::summary)
        .method("workflows/create", "Count work on a node against its pool's budget", &[NotFound, Conflict], workflows::create)
        .method("workflows/list", "The 100 newest workflows, newest first", &[], workflows::list)
        .method("workflows/update", "Move a workflow", &[NotFound, InvalidState], workflows::update)
        .method("pools/create", "Make a pool", &[Conflict], pools::create)
        .method("pools/list", "The tenant's pools, by name", &[], pools::list)
        .method("pools/get", "One pool", &[NotFound], pools::get)
        .method("pools/update", "Change a pool's name or policy", &[NotFound, Conflict, InvalidState], pools::update)
        .method("pools/archive", "Take a pool out of use; its nodes stay, and rollouts leave them out", &[NotFound], pools::archive)
        .method("pools/unarchive", "Take an archived pool into use again", &[NotFound, Conflict], pools::unarchive)
        .method("nodes/join", "Make a node of a key that shows a join token", &[], nodes::join)
        .method("nodes/renew", "A new certificate for a node's recorded key", &[], nodes::renew)
        .method("nodes/list", "The tenant's nodes", &[NotFound], nodes::list)
        .method("nodes/get", "One node and what it last said", &[NotFound], nodes::get)
        .method("nodes/update", "Set labels and maintenance", &[NotFound], nodes::update)
        .method("nodes/remove", "End a node's membership", &[NotFound], nodes::remove)
        .method("commands/create", "Have a node do something once", &[NotFound, Conflict], commands::create)
        .method("commands/list", "The 100 newest commands, newest first", &[], commands::list)
        .method("commands/get", "One command with its report", &[NotFound], commands::get)
        .method("joinTokens/create", "Let nodes join a pool for a while", &[NotFound, InvalidState], join_tokens::create)
        .method("joinTokens/list", "Join tokens, without their secrets", &[NotFound], join_tokens::list)
        .method("joinTokens/revoke", "Let nobody in with a join token any more", &[NotFound], join_tokens::revoke)
        .method("gateways/enrol", "Let one gateway enrol, once", &[Conflict], gateways::enrol)
        .method("gateways/join", "Make a gateway of a key that shows an enrolment token", &[], gateways::join)
        .method("gateways/list", "Every gateway", &[], gateways::list)
        .method("gateways/remove", "End a gateway's membership", &[NotFound], gateways::remove)
        .method("tokens/create", "Make an API token", &[], tokens::create)
        .method("tokens/list", "API tokens, without their secrets", &[], tokens::list)
        .method("tokens/revoke", "Take an API token back", &[NotFound, InvalidState], tokens::revoke)
        .method("events/list", "What happened", &[], events::list)
        .method("webhooks/create", "Send a tenant's events somewhere", &[], webhooks::create)
        .method("webhooks/list", "Where a tenant's events are sent", &[], webhooks::list)
        .method("webhooks/delete", "Send no more events there", &[NotFound], webhooks::delete)
        .method("webhooks/test", "Send one webhook an event, to see it arrive", &[NotFound], webhooks::test)
        .method("webhooks/deliveries", "How a webhook's deliveries stand", &[NotFound], webhooks::deliveries)
        .stream::<Event, _, _, _, _>("events/watch", "What happens, as server-sent events", events::watch)
}
