//! Which role a request of the API needs, and whether its user has it.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use evenkeel_api::{ApiError, ErrorCode, routes};

use super::extract::Refusal;
use crate::access::{Account, Role};
use crate::log_limit::LogLimit;
use crate::seats::Source;

/// Most bytes of a path in the log.
const MAX_LOGGED: usize = 256;

/// A user of this machine who has connected to the API, and what that user may.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The user.
    pub account: Account,
    /// `None`: a stranger.
    pub role: Option<Role>,
    /// As whom the user has logged in, before becoming another one (by `sudo`), as the kernel says.
    pub login: Option<u32>,
    /// How often refusals are logged.
    pub refusals: Arc<LogLimit>,
}

/// What viewers may see. What is not listed takes the right to administer: a new path is closed
/// until somebody decides. Plans that open files which the request names are not for viewers.
const VIEWS: [&str; 14] = [
    routes::OPENAPI,
    routes::METRICS,
    routes::NODE,
    routes::NODES,
    routes::DISKS,
    routes::VOLUMES,
    routes::VOLUME,
    routes::NODE_PLAN,
    routes::DISK_PLAN,
    routes::DELETE_PLAN,
    routes::STOP_PLAN,
    routes::DROP_PLAN,
    routes::CHANGE_PLAN,
    routes::REPLICA_PLAN,
];

/// What operators may change: where volumes are used, and nothing that decides where copies are, or
/// what is in them.
const OPERATIONS: [&str; 2] = [routes::ATTACH, routes::DETACH];

/// The role that a request needs.
fn needed(method: &Method, route: Option<&str>, path: &str) -> Role {
    // A path that is not served is answered so to whoever may look.
    let Some(route) = route else { return Role::View };
    let is_re_add = || route == routes::REPLICA && path.rsplit('/').next() == Some("re-add");
    if method.is_safe() && VIEWS.contains(&route) {
        Role::View
    } else if !method.is_safe() && (OPERATIONS.contains(&route) || is_re_add()) {
        Role::Operate
    } else {
        Role::Administer
    }
}

/// Lets a request pass if its user has the role that it needs.
pub async fn permitted(
    axum::Extension(requester): axum::Extension<Requester>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let (method, path) = (request.method(), request.uri().path());
    let needed = needed(method, route, path);
    if requester.role.is_some_and(|role| role >= needed) {
        return next.run(request).await;
    }
    if !method.is_safe()
        && let Some(left_out) = requester.refusals.line(Source::User(requester.account.uid()))
    {
        let path = &path[..path.floor_char_boundary(MAX_LOGGED)];
        tracing::warn!("refused {} {method} {path}: not permitted{left_out}", requester.account);
    }
    let mut response = Refusal(refusal(&requester, needed)).into_response();
    if requester.role.is_none() {
        // Strangers share few places.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn refusal(requester: &Requester, needed: Role) -> ApiError {
    let account = &requester.account;
    let why = match requester.role {
        Some(Role::View) => format!("{account} may only look"),
        Some(role) => format!("{account} may {role}, and this takes the right to {needed}"),
        None => format!("{account} has no right on this node"),
    };
    let advice = format!(
        "Ask an administrator of this node; rights are given by the lists `view`, `operate` and `administer` under [api] in its configuration (this takes `{needed}`)"
    );
    ApiError::new(ErrorCode::NotPermitted, "this is not permitted", why, advice)
}

#[cfg(test)]
mod tests;
