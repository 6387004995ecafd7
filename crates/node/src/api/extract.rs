//! Requests and answers in the API's own words: what cannot be read is refused as any other
//! error is.

use axum::Extension;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use evenkeel_api::error::{ApiError, ErrorAnswer, ErrorCode};
use evenkeel_api::types::VERSION;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::coordinator::Caller;
use crate::peer::FORWARDED;

/// The JSON body of a request.
pub struct Body<T>(pub T);

/// The query of a request.
pub struct Query<T>(pub T);

/// The variable parts of a request's path.
pub struct Path<T>(pub T);

/// Whether the request came through another node already, and is not sent on to a further one. All
/// that nodes ask has: a member without the header would have this node ask others in its name.
pub struct Forwarded(pub bool);

/// An answer as JSON.
pub struct Json<T>(pub T);

/// An answer that says no, with the status that goes with its code.
pub struct Refusal(pub ApiError);

fn unreadable(why: String) -> Refusal {
    let advice = "See /v1/openapi.json for what is expected";
    Refusal(ApiError::new(ErrorCode::BadRequest, "the request cannot be read", why, advice))
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = axum::body::Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|e| unreadable(e.body_text()))?;
        // No body stands for an object without fields: all are optional then, or one is missing.
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        serde_json::from_slice(bytes).map(Self).map_err(|e| unreadable(e.to_string()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        query.map(|q| Self(q.0)).map_err(|e| unreadable(e.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|p| Self(p.0)).map_err(|e| unreadable(e.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Forwarded {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let is_by_node = parts.extensions.get::<Caller>().is_some();
        Ok(Self(is_by_node || parts.headers.contains_key(FORWARDED)))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // For the audit log, which need not read the body for it.
        let code = Extension(self.0.code);
        (status, code, axum::Json(ErrorAnswer { version: VERSION, error: self.0 })).into_response()
    }
}
