//! `downloads/bcd/{version}/{platform}`

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Method, header},
    response::Response,
};

use utoipa::{
    ToSchema as _,
    openapi::{
        ContentBuilder, HttpMethod, KnownFormat, PathItem, Ref, Required, ResponseBuilder,
        SchemaFormat,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItemBuilder},
        request_body::RequestBodyBuilder,
        schema::{ObjectBuilder, Type},
        security::SecurityRequirement,
    },
};

use super::{
    Refusal, Shared,
    caller::Caller,
    document::{Access, refused},
    permit::{FleetAdmin, Permit as _},
};
use crate::{
    access::decide::Resource,
    api::{error::Code, release::Published},
    clock::Moment,
    downloads::{DownloadError, answer},
    release::store,
};

/// A version and a platform, unless they are no text.
type Named = Result<Path<(String, String)>, PathRejection>;

/// `GET` and `HEAD` of one binary.
pub(super) async fn serve(
    State(app): State<Shared>,
    named: Named,
    method: Method,
    mut headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path((version, platform)) = named.map_err(|_| DownloadError::Unknown)?;
    // A range is of what GET sends; whoever asks about the file is told of all of it.
    if method == Method::HEAD {
        headers.remove(header::RANGE);
    }
    let downloads = app.downloads.as_ref().ok_or(DownloadError::Unknown)?;
    let opened = downloads
        .open(&app.services.db, &app.services.trust, (&version, &platform))
        .await;
    // Who only asks whether it is there is about to bring it. Who fetches it is a node that will wait for it.
    if let Err(error) = &opened
        && error.is_absence()
        && method == Method::GET
    {
        tracing::warn!(error = %error, "a node asks for a binary that nobody has published");
    }
    let (opened, artifact) = opened?;
    Ok(answer(opened, &artifact, &headers).await?)
}

/// `PUT` of one binary: taken if it is the one that the registered release lists, whoever sends it.
pub(super) async fn publish(
    State(app): State<Shared>,
    caller: Caller<FleetAdmin>,
    named: Named,
    body: Body,
) -> Result<Json<Published>, Refusal> {
    caller.may(Resource::Fleet).await?;
    let Path((version, platform)) = named.map_err(|_| DownloadError::Unknown)?;
    let downloads = app.downloads.as_ref().ok_or(DownloadError::Elsewhere)?;
    let services = &app.services;
    let named = (version.as_str(), platform.as_str());
    let (version, artifact) = downloads
        .publish(&services.db, &services.trust, named, body)
        .await?;
    let published = Published {
        version,
        name: artifact.name().to_owned(),
        sha256: artifact.sha256(),
        size: artifact.size(),
    };
    store::published(&services.db, caller.name(), &published, Moment::now()).await?;
    Ok(Json(published))
}

/// Its place in the API's description.
pub(super) fn described() -> PathItem {
    let operation = OperationBuilder::new()
        .tag("downloads")
        .summary(Some("One binary of a registered release"))
        .description(Some(
            "Whole, or the one range that is asked for. The entity tag is the signed digest.",
        ))
        .operation_id(Some("downloads.get"))
        .security(SecurityRequirement::default())
        .parameters(Some([parameter("version"), parameter("platform")]))
        .response("200", bytes("The whole file."))
        .response("206", bytes("The range."))
        .response("304", bytes("The caller has it."))
        .response(
            "404",
            bytes("No registered release lists it, or nobody has published it yet."),
        )
        .response("412", bytes("It is not the file that If-Match names."))
        .response("416", bytes("The file has no such range."));
    PathItemBuilder::new()
        .operation(HttpMethod::Get, operation)
        .operation(HttpMethod::Put, upload())
        .build()
}

fn upload() -> OperationBuilder {
    let access = Access::ApiToken(FleetAdmin::ANY_OF);
    let about = format!(
        "{} Taken only if it is the one that the registered release lists.",
        access.sentence()
    );
    let file = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
    let body = RequestBodyBuilder::new()
        .description(Some("The binary's bytes."))
        .content(
            "application/octet-stream",
            ContentBuilder::new().schema(Some(file)).build(),
        )
        .required(Some(Required::True));
    let mut operation = OperationBuilder::new()
        .tag("downloads")
        .summary(Some("Put a binary where it is served from"))
        .description(Some(about))
        .operation_id(Some("downloads.put"))
        .securities(Some(access.security()))
        .parameters(Some([parameter("version"), parameter("platform")]))
        .request_body(Some(body.build()))
        .response("200", described_by(&Published::name()));
    let own = [Code::NotFound, Code::Conflict, Code::Unsupported];
    for (status, answer) in refused(&[access.codes(), &own].concat()) {
        operation = operation.response(status, answer);
    }
    operation
}

fn described_by(schema: &str) -> ResponseBuilder {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .build();
    bytes("It is served from now on.").content("application/json", content)
}

fn parameter(name: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(utoipa::openapi::Required::True)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn bytes(about: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(about)
}
