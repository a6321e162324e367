//! The API's description, in OpenAPI's words.
//!
//! Takes methods one after another with the types that they carry, gives one JSON text. Knows no handler and no rule.

mod bounds;
mod flat;

use std::collections::BTreeMap;

use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, InfoBuilder, OpenApiBuilder, PathItem, Paths, Ref, RefOr,
        Required, ResponseBuilder, ResponsesBuilder, ServerBuilder,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItemBuilder},
        request_body::RequestBodyBuilder,
        schema::{ComponentsBuilder, ObjectBuilder, Schema, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::{
    access::action::Action,
    api::error::{Code, ErrorBody},
};

/// What the paths of methods begin with.
pub(super) const METHODS: &str = "/api/compute/";

const BEARER: &str = "bearer";

const ABOUT: &str = "Registry of releases, planner of rollouts, and the fleet that they move through. Every method is \
     a POST with one JSON object in and one out; fields that a method does not know are refused. Every answer names its \
     request in the header `x-request-id`.";

/// Who may call a method.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// Whoever holds an API token with one of these permissions.
    ApiToken(&'static [Action]),
    /// Whoever holds a token made for this one purpose.
    OneUseToken,
    /// Anybody: the request speaks for itself.
    Anybody,
}

impl Access {
    pub(super) fn sentence(self) -> String {
        match self {
            Self::ApiToken(any_of) => {
                let each = any_of
                    .iter()
                    .map(|action| format!("`{action}` on `{}`", action.resource()));
                let each: Vec<String> = each.collect();
                format!("Needs an API token with {}.", each.join(", or "))
            }
            Self::OneUseToken => "Needs a join token or an enrolment token.".to_owned(),
            Self::Anybody => "Needs no token: the request is signed itself.".to_owned(),
        }
    }

    /// One requirement for each permission that is enough. What a bearer token must allow stands as its roles.
    pub(super) fn security(self) -> Vec<SecurityRequirement> {
        match self {
            Self::ApiToken(any_of) => any_of
                .iter()
                .map(|action| SecurityRequirement::new(BEARER, [action.word()]))
                .collect(),
            Self::OneUseToken => vec![SecurityRequirement::new(BEARER, [""; 0])],
            Self::Anybody => vec![SecurityRequirement::default()],
        }
    }

    /// What every method of this kind may answer beside its own refusals.
    pub(super) fn codes(self) -> &'static [Code] {
        const SAID: [Code; 6] = [
            Code::InvalidInput,
            Code::Unauthenticated,
            Code::AccessDenied,
            Code::QuotaExceeded,
            Code::Internal,
            Code::Unavailable,
        ];
        const SIGNED: [Code; 5] = [
            Code::InvalidInput,
            Code::AccessDenied,
            Code::QuotaExceeded,
            Code::Internal,
            Code::Unavailable,
        ];
        match self {
            Self::ApiToken(_) | Self::OneUseToken => &SAID,
            Self::Anybody => &SIGNED,
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
    refusals: &'static [Code],
    parameters: Vec<Parameter>,
    schemas: Schemas,
}

impl Described {
    /// The same, with many answers one after another, from behind the one that the caller has seen last.
    pub(super) fn streamed(mut self) -> Self {
        self.content = "text/event-stream";
        let last_seen = ParameterBuilder::new()
            .name("Last-Event-ID")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "The `id:` line of the last message that came, which is its event's `position`: the stream goes on \
                 behind it. It counts more than `after`.",
            ))
            .schema(Some(
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .minimum(Some(0)),
            ));
        self.parameters.push(last_seen.build());
        self
    }

    /// The same, with what this method refuses beside what each of its kind does.
    pub(super) fn refusing(mut self, refusals: &'static [Code]) -> Self {
        self.refusals = refusals;
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
            refusals: &[],
            parameters: Vec::new(),
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
            refusals,
            parameters,
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
            .securities(Some(access.security()))
            .request_body(Some(body))
            .response("200", done);
        if !parameters.is_empty() {
            operation = operation.parameters(Some(parameters));
        }
        for (status, refused) in refused(&[access.codes(), refusals].concat()) {
            operation = operation.response(status, refused);
        }
        let item = PathItem::new(HttpMethod::Post, operation);
        self.other(&format!("{METHODS}{path}"), item);
    }

    /// Adds something else.
    pub(super) fn other(&mut self, path: &str, described: PathItem) {
        self.paths.paths.insert(path.to_owned(), described);
    }

    /// Adds a type that something else names.
    pub(super) fn add_type<T: ToSchema>(&mut self) {
        let mut schemas = Schemas::new();
        collect::<T>(&mut schemas);
        self.schemas.extend(schemas);
    }

    /// The paths of all methods.
    pub(super) fn methods(&self) -> impl Iterator<Item = &str> {
        self.paths
            .paths
            .keys()
            .filter_map(|path| path.strip_prefix(METHODS))
    }

    /// The description of a service that is reached at `base`.
    pub(super) fn text(mut self, base: &str) -> String {
        flat::flatten(&mut self.schemas);
        let server = ServerBuilder::new().url(base).build();
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
            .servers(Some([server]))
            .paths(self.paths)
            .components(Some(components))
            .build();
        // Texts, numbers and ordered maps always have a JSON form.
        let mut document = serde_json::to_value(document).unwrap_or_default();
        let lost = bounds::apply(&mut document);
        debug_assert!(lost.is_empty(), "fields that are not there: {lost:?}");
        document.to_string()
    }
}

fn refers_to(schema: &str) -> utoipa::openapi::Content {
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .build()
}

/// The answers that carry these codes, by status: two codes may share one.
pub(super) fn refused(codes: &[Code]) -> Vec<(String, ResponseBuilder)> {
    let mut found = BTreeMap::<u16, Vec<&str>>::new();
    for code in codes {
        found.entry(code.status()).or_default().push(code.word());
    }
    let answer = |words: Vec<&str>| {
        ResponseBuilder::new()
            .description(words.join(", "))
            .content("application/json", refers_to("ErrorBody"))
    };
    found
        .into_iter()
        .map(|(status, words)| (status.to_string(), answer(words)))
        .collect()
}

/// A path of its own kind: what it is for, and what its good answer is.
pub(super) fn read_only(id: &str, summary: &str, kinds: &[(u16, &str, &str)]) -> PathItem {
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
        .operation_id(Some(id))
        .security(SecurityRequirement::default())
        .responses(responses.build());
    PathItemBuilder::new()
        .operation(HttpMethod::Get, operation)
        .build()
}
