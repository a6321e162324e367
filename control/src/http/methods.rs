//! Routes that describe themselves.
//!
//! Takes a path, a sentence and a handler, gives the route and its place in the API's description, both from the
//! handler's own types: what is served and what is described cannot differ. It handles nothing itself.

use axum::{
    Json, Router,
    extract::State,
    handler::Handler,
    http::HeaderMap,
    response::Response,
    routing::{MethodRouter, post},
};
use serde::{Serialize, de::DeserializeOwned};
use utoipa::ToSchema;

use super::{
    Refusal, Shared,
    caller::{Caller, OneUse, Visitor},
    document::{Access, Described, Document, METHODS},
    input::Input,
    permit::Permit,
};
use crate::api::error::Code;

/// Routes, and the description that grows with them.
pub(super) struct Methods {
    router: Router<Shared>,
    document: Document,
}

impl Methods {
    pub(super) fn new() -> Self {
        Self {
            router: Router::new(),
            document: Document::new(),
        }
    }

    /// `POST /api/compute/<path>`: one method of the API.
    pub(super) fn method<M, Marker>(
        mut self,
        path: &str,
        summary: &str,
        refusals: &'static [Code],
        method: M,
    ) -> Self
    where
        M: Method<Marker>,
    {
        let described = Described::of::<M::Asked, M::Given>(M::ACCESS).refusing(refusals);
        self.document.method(path, summary, described);
        self.router = self
            .router
            .route(&format!("{METHODS}{path}"), method.route());
        self
    }

    /// A method whose answer is a stream of events, each as its one type describes it.
    pub(super) fn stream<E, P, A, Fut, F>(mut self, path: &str, summary: &str, watch: F) -> Self
    where
        E: ToSchema,
        P: Permit,
        A: DeserializeOwned + ToSchema + Send + 'static,
        Fut: Future<Output = Result<Response, Refusal>> + Send + 'static,
        F: Fn(State<Shared>, Caller<P>, HeaderMap, Input<A>) -> Fut + Clone + Send + Sync + 'static,
    {
        let described = Described::of::<A, E>(Access::ApiToken(P::ANY_OF)).streamed();
        self.document.method(path, summary, described);
        self.router = self.router.route(&format!("{METHODS}{path}"), post(watch));
        self
    }

    /// Something else than a method, with a description of its own.
    pub(super) fn other(
        mut self,
        path: &str,
        described: utoipa::openapi::PathItem,
        route: MethodRouter<Shared>,
    ) -> Self {
        self.document.other(path, described);
        self.router = self.router.route(path, route);
        self
    }

    /// A type that only such a description names.
    pub(super) fn with_type<T: ToSchema>(mut self) -> Self {
        self.document.add_type::<T>();
        self
    }

    /// The methods so far.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.document.methods()
    }

    /// The routes, and the text that describes them to those who reach them at `base`.
    pub(super) fn finish(self, base: &str) -> (Router<Shared>, String) {
        (self.router, self.document.text(base))
    }
}

/// A handler whose types say what it takes and gives.
pub(super) trait Method<Marker> {
    /// The request's body.
    type Asked: ToSchema;
    /// The answer's body.
    type Given: ToSchema;
    /// Who may call.
    const ACCESS: Access;

    fn route(self) -> MethodRouter<Shared>;
}

impl<F, Fut, P, A, G> Method<(Caller<P>, A, G, Fut)> for F
where
    F: Fn(State<Shared>, Caller<P>, Input<A>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Json<G>, Refusal>> + Send + 'static,
    P: Permit,
    A: DeserializeOwned + ToSchema + Send + 'static,
    G: Serialize + ToSchema + 'static,
{
    type Asked = A;
    type Given = G;
    const ACCESS: Access = Access::ApiToken(P::ANY_OF);

    fn route(self) -> MethodRouter<Shared> {
        route(self)
    }
}

impl<F, Fut, A, G> Method<(OneUse, A, G, Fut)> for F
where
    F: Fn(State<Shared>, OneUse, Input<A>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Json<G>, Refusal>> + Send + 'static,
    A: DeserializeOwned + ToSchema + Send + 'static,
    G: Serialize + ToSchema + 'static,
{
    type Asked = A;
    type Given = G;
    const ACCESS: Access = Access::OneUseToken;

    fn route(self) -> MethodRouter<Shared> {
        route(self)
    }
}

impl<F, Fut, A, G> Method<(Visitor, A, G, Fut)> for F
where
    F: Fn(State<Shared>, Visitor, Input<A>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Json<G>, Refusal>> + Send + 'static,
    A: DeserializeOwned + ToSchema + Send + 'static,
    G: Serialize + ToSchema + 'static,
{
    type Asked = A;
    type Given = G;
    const ACCESS: Access = Access::Anybody;

    fn route(self) -> MethodRouter<Shared> {
        route(self)
    }
}

fn route<H, T>(handler: H) -> MethodRouter<Shared>
where
    H: Handler<T, Shared>,
    T: 'static,
{
    post(handler)
}
