//! `downloads/bcd/{version}/{platform}`

use axum::{
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};

use utoipa::openapi::{
    HttpMethod, PathItem, ResponseBuilder,
    path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    schema::{ObjectBuilder, Type},
    security::SecurityRequirement,
};

use super::{Refusal, Shared};
use crate::downloads::{DownloadError, answer};

/// `GET` and `HEAD` of one binary.
pub(super) async fn serve(
    State(app): State<Shared>,
    Path((version, platform)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let folder = app.downloads.as_ref().ok_or(DownloadError::Unknown)?;
    let (file, artifact) = folder
        .find(&app.services.db, &app.services.trust, (&version, &platform))
        .await?;
    Ok(answer(file, &artifact, &headers).await?)
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
        .response("404", bytes("No registered release lists it."))
        .response("416", bytes("The file has no such range."));
    PathItem::new(HttpMethod::Get, operation)
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
