//! The API's description, in OpenAPI's words.
//!
//! Takes methods one after another with the types that they carry, gives one JSON text. Knows no handler and no rule.

use std::collections::BTreeMap;

use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, InfoBuilder, OpenApiBuilder, PathItem, Paths, Ref, RefOr,
        Required, ResponseBuilder, ResponsesBuilder,
        path::{OperationBuilder, PathItemBuilder},
        request_body::RequestBodyBuilder,
        schema::{ComponentsBuilder, Schema},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::api::error::{Code, ErrorBody};

/// What the paths of methods begin with.
pub(super) const METHODS: &str = "/api/compute/";

const BEARER: &str = "bearer";

const ABOUT: &str = "Registry of releases, planner of rollouts, and the fleet that they move through. Every method is \
     a POST with one JSON object in and one out; fields that a method does not know are refused. Every answer names its \
     request in the header `x-request-id`.";

/// Who may call a method.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// Whoever holds an API token that allows it.
    ApiToken,
    /// Whoever holds a token made for this one purpose.
    OneUseToken,
    /// Anybody: the request speaks for itself.
    Anybody,
}

impl Access {
    fn sentence(self) -> &'static str {
        match self {
            Self::ApiToken => "Needs an API token that allows it.",
            Self::OneUseToken => "Needs a join token or an enrolment token.",
            Self::Anybody => "Needs no token: the request is signed itself.",
        }
    }

    fn security(self) -> SecurityRequirement {
        match self {
            Self::ApiToken | Self::OneUseToken => SecurityRequirement::new(BEARER, [""; 0]),
            Self::Anybody => SecurityRequirement::default(),
        }
    }

    /// What every method of this kind may answer beside its own refusals.
    fn codes(self) -> &'static [Code] {
        const NAMED: [Code; 10] = [
            Code::InvalidInput,
            Code::Unauthenticated,
            Code::AccessDenied,
            Code::NotFound,
            Code::Conflict,
            Code::InvalidState,
            Code::QuotaExceeded,
            Code::Unsupported,
            Code::Internal,
            Code::Unavailable,
        ];
        match self {
            Self::ApiToken | Self::OneUseToken | Self::Anybody => &NAMED,
        }
    }
}

type Schemas = Vec<(String, RefOr<Schema>)>;

/// What a method takes and gives.
pub(super) struct Described {
    access: Access,
    asked: String,
    given: String,
    content: &'static str,
    schemas: Schemas,
}

impl Described {
    /// The same, with many answers one after another.
    pub(super) fn streamed(mut self) -> Self {
        self.content = "text/event-stream";
        self
    }

    pub(super) fn of<A: ToSchema, G: ToSchema>(access: Access) -> Self {
        let mut schemas = Schemas::new();
        collect::<A>(&mut schemas);
        collect::<G>(&mut schemas);
        Self {
            access,
            asked: A::name().into_owned(),
            given: G::name().into_owned(),
            content: "application/json",
            schemas,
        }
    }
}

fn collect<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// The description as far as it has come.
pub(super) struct Document {
    paths: Paths,
    schemas: BTreeMap<String, RefOr<Schema>>,
}

impl Document {
    pub(super) fn new() -> Self {
        let mut schemas = Schemas::new();
        collect::<ErrorBody>(&mut schemas);
        Self {
            paths: Paths::new(),
            schemas: schemas.into_iter().collect(),
        }
    }

    /// Adds a method of the API.
    pub(super) fn method(&mut self, path: &str, summary: &str, described: Described) {
        let Described {
            access,
            asked,
            given,
            content,
            schemas,
        } = described;
        self.schemas.extend(schemas);
        let body = RequestBodyBuilder::new()
            .content("application/json", refers_to(&asked))
            .required(Some(Required::True))
            .build();
        let done = ResponseBuilder::new()
            .description("It is done; the answer.")
            .content(content, refers_to(&given));
        let group = path.split('/').next().unwrap_or_default();
        let mut operation = OperationBuilder::new()
            .tag(group)
            .summary(Some(summary))
            .description(Some(access.sentence()))
            .operation_id(Some(path.replace('/', ".")))
            .security(access.security())
            .request_body(Some(body))
            .response("200", done);
        for (status, codes) in by_status(access.codes()) {
            let refused = ResponseBuilder::new()
                .description(codes.join(", "))
                .content("application/json", refers_to("ErrorBody"));
            operation = operation.response(status.to_string(), refused);
        }
        let item = PathItem::new(HttpMethod::Post, operation);
        self.other(&format!("{METHODS}{path}"), item);
    }

    /// Adds something else.
    pub(super) fn other(&mut self, path: &str, described: PathItem) {
        self.paths.paths.insert(path.to_owned(), described);
    }

    /// The paths of all methods.
    pub(super) fn methods(&self) -> impl Iterator<Item = &str> {
        self.paths
            .paths
            .keys()
            .filter_map(|path| path.strip_prefix(METHODS))
    }

    pub(super) fn text(self) -> String {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API token of `tokens.create`, or the one-use token that the method names.",
            ))
            .build();
        let components = ComponentsBuilder::new()
            .schemas_from_iter(self.schemas)
            .security_scheme(BEARER, SecurityScheme::Http(bearer))
            .build();
        let info = InfoBuilder::new()
            .title("better-compute control")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some(ABOUT))
            .build();
        let document = OpenApiBuilder::new()
            .info(info)
            .paths(self.paths)
            .components(Some(components))
            .build();
        // Texts, numbers and ordered maps always have a JSON form.
        document.to_json().unwrap_or_default()
    }
}

fn refers_to(schema: &str) -> utoipa::openapi::Content {
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .build()
}

/// Two codes may share a status.
fn by_status(codes: &[Code]) -> BTreeMap<u16, Vec<&'static str>> {
    let mut found = BTreeMap::<u16, Vec<&str>>::new();
    for code in codes {
        found.entry(code.status()).or_default().push(code.word());
    }
    found
}

/// A path of its own kind: what it is for, and what its good answer is.
pub(super) fn read_only(summary: &str, kinds: &[(u16, &str, &str)]) -> PathItem {
    let mut responses = ResponsesBuilder::new();
    for (status, content, about) in kinds {
        let mut response = ResponseBuilder::new().description(*about);
        if !content.is_empty() {
            response = response.content(*content, ContentBuilder::new().build());
        }
        responses = responses.response(status.to_string(), response);
    }
    let operation = OperationBuilder::new()
        .summary(Some(summary))
        .security(SecurityRequirement::default())
        .responses(responses.build());
    PathItemBuilder::new()
        .operation(HttpMethod::Get, operation)
        .build()
}
