use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::routing::any;
use axum::{Extension, Router, middleware};
use tower_service::Service;

use super::*;

/// A router with these routes, as somebody with a role sees it.
fn served(role: Option<Role>) -> Router {
    let account = Account::look_up(3_999_999_999).unwrap();
    let requester = Requester { account, role, login: None, refusals: Arc::default() };
    let routes = [
        routes::VOLUME,
        routes::ATTACH,
        routes::VERIFY,
        routes::REPLICA,
        routes::INVITE,
        routes::DISKS,
        routes::ADD_DISK_PLAN,
        routes::ASSEMBLE_PLAN,
        "/v1/what-is-new",
    ];
    routes
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route, any(|| async { "done" })))
        .layer(middleware::from_fn(permitted))
        .layer(Extension(requester))
}

async fn ask(role: Option<Role>, method: &str, path: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let answer = served(role).call(request).await.unwrap();
    let (head, body) = answer.into_parts();
    (head.status, String::from_utf8(to_bytes(body, 65536).await.unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn each_request_needs_its_role_and_no_more() {
    use Role::{Administer, Operate, View};
    let cases = [
        ("GET", "/v1/volumes/web", View),
        ("HEAD", "/v1/disks", View),
        ("POST", "/v1/volumes/web/attach", Operate),
        ("POST", "/v1/volumes/web/replicas/n1:d/re-add", Operate),
        ("POST", "/v1/volumes/web/replicas/n1:d/fail", Administer),
        // A replica cannot be called so, and a name does not give a right.
        ("POST", "/v1/volumes/web/replicas/re-add/remove", Administer),
        ("POST", "/v1/disks", Administer),
        ("PATCH", "/v1/volumes/web", Administer),
        ("DELETE", "/v1/volumes/attach", Administer),
        ("POST", "/v1/cluster/invite", Administer),
        ("POST", "/v1/volumes/web/verify", Administer),
        // They open what the request names.
        ("GET", "/v1/plans/disk-add?path=/dev/sda", Administer),
        ("GET", "/v1/assemble/plan?paths=/root", Administer),
        ("GET", "/v1/what-is-new", Administer),
    ];
    for (method, path, needed) in cases {
        for role in [None, Some(View), Some(Operate), Some(Administer)] {
            let (status, text) = ask(role, method, path).await;
            let expected = match role {
                Some(role) if role >= needed => StatusCode::OK,
                _ => StatusCode::FORBIDDEN,
            };
            assert_eq!(status, expected, "{method} {path} by {role:?}: {text}");
        }
    }
}

#[tokio::test]
async fn a_refusal_says_who_asked_and_which_right_is_missing() {
    let (_, text) = ask(None, "GET", "/v1/disks").await;
    assert!(text.contains("\"code\":\"not-permitted\""), "{text}");
    assert!(text.contains("user 3999999999 has no right on this node"), "{text}");
    assert!(text.contains("(this takes `view`)"), "{text}");
    let (_, text) = ask(Some(Role::View), "POST", "/v1/disks").await;
    assert!(text.contains("may only look") && text.contains("(this takes `administer`)"), "{text}");
    let (_, text) = ask(Some(Role::Operate), "POST", "/v1/disks").await;
    assert!(text.contains("may operate, and this takes the right to administer"), "{text}");
}

#[tokio::test]
async fn a_stranger_keeps_no_connection() {
    let request = Request::builder().uri("/v1/disks").body(Body::empty()).unwrap();
    let answer = served(None).call(request).await.unwrap();
    assert_eq!(answer.headers()[header::CONNECTION], "close");
}

#[tokio::test]
async fn a_path_of_any_letters_and_length_is_refused() {
    for before in 0..3 {
        let path = format!("/v1/volumes/{}{}/attach", "a".repeat(before), "ü".repeat(1000));
        let request = Request::builder().method("POST").uri(&path[..]).body(Body::empty());
        let answer = served(None).call(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
}
