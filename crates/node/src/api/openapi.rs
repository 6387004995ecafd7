//! The OpenAPI document, made from the handlers and types.

use axum::response::{IntoResponse, Response};
use evenkeel_api::error::{ApiError, ErrorAnswer, ErrorCode};
use utoipa::OpenApi;

use super::extract::Refusal;
use super::handlers::{disk, node, plan, volume};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "evenkeel",
        description = "The API of an evenkeel node, served on a unix socket (/run/evenkeel/api.sock). \
            Every answer has a field `version`; within a version, fields are only added. Errors have \
            a code for programs, and say what, why and what to do."
    ),
    paths(
        node::status,
        node::join,
        node::invite,
        node::client_certificate,
        node::rename_cluster,
        node::list,
        node::remove,
        disk::list,
        disk::add,
        disk::remove,
        volume::list,
        volume::create,
        volume::status,
        volume::delete,
        volume::rename,
        volume::stop,
        volume::assemble,
        volume::change,
        volume::verify,
        volume::reservation,
        volume::attach,
        volume::detach,
        volume::export_nbd,
        volume::unexport_nbd,
        volume::export_nvme,
        volume::unexport_nvme,
        volume::unexport,
        volume::add_replica,
        volume::replica,
        plan::node,
        plan::disk,
        plan::add_disk,
        plan::delete,
        plan::stop,
        plan::drop_reservation,
        plan::change,
        plan::assemble,
        plan::replica,
    ),
    components(schemas(ErrorAnswer, ApiError, ErrorCode))
)]
struct Document;

/// The document as JSON text.
///
/// # Errors
/// Never, in practice: it is made of text.
pub(super) fn json() -> Result<String, serde_json::Error> {
    Document::openapi().to_pretty_json()
}

pub(super) async fn document() -> Response {
    match json() {
        Ok(text) => ([("content-type", "application/json")], text).into_response(),
        Err(e) => {
            let what = "the document cannot be made";
            let error = ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this");
            Refusal(error).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
