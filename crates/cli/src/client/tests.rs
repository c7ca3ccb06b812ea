//! The client against a server that answers what a test wants.

use super::http::{Client, Request};
use super::output::Output;
use super::{ClientError, Global, Session};
use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{any, get};
use serde_json::{Value, json};
use std::collections::HashMap;

fn global(server: String) -> Global {
    Global { config: None, server, tenant: None, token_file: None, json: true, quiet: true }
}

/// Starts a server on a free port; it ends with the test.
async fn serve(router: Router) -> String {
    // Both TLS providers may be linked; the binary chooses in `main`.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

async fn refused(status: StatusCode, body: &'static str) -> String {
    let server = serve(Router::new().fallback(any(move || async move { (status, body) }))).await;
    Client::new(&global(server)).unwrap().call(Request::get(&["runs"]), &["items"]).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_problem_is_a_sentence_with_its_places_and_the_way_out() {
    let said = refused(
        StatusCode::BAD_REQUEST,
        r#"{"status": 400, "code": "bad-input", "title": "Bad Request", "detail": "two keys cannot be read",
            "errors": [{"pointer": "/keys/0", "detail": "no purl"}, {"pointer": "/keys/7", "detail": "no name"}]}"#,
    )
    .await;
    assert_eq!(said, "two keys cannot be read (400 bad-input)\n  /keys/0: no purl\n  /keys/7: no name");
    let said = refused(
        StatusCode::BAD_REQUEST,
        r#"{"status": 400, "code": "bad-input", "detail": "/name: too long", "errors": [{"pointer": "/name", "detail": "too long"}]}"#,
    )
    .await;
    assert_eq!(said, "/name: too long (400 bad-input)");
    let said =
        refused(StatusCode::UNAUTHORIZED, r#"{"status": 401, "code": "no-token", "detail": "a token is needed"}"#)
            .await;
    assert_eq!(said, "a token is needed (401 no-token); pass an access token with --token-file");
    let said = refused(StatusCode::NOT_FOUND, "{\"status\": 404, \"detail\": \"red \\u001b[31m\"}").await;
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[tokio::test]
async fn answers_of_other_servers_are_told_apart() {
    for (status, body) in [
        (StatusCode::OK, "<html>"),
        (StatusCode::OK, ""),
        (StatusCode::OK, "[]"),
        (StatusCode::OK, "{\"hello\": 1}"),
        (StatusCode::BAD_GATEWAY, "<html>"),
        (StatusCode::NOT_FOUND, "{\"error\": \"no\"}"),
    ] {
        let said = refused(status, body).await;
        assert!(said.contains("is it a stella-scheduler?") && said.starts_with("http://127.0.0.1:"), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_one_sentence() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    // The binary chooses the TLS provider first thing; a test may be the first to need one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new(&global(format!("http://user:hunter2@{address}/"))).unwrap();
    let error = client.call(Request::get(&["runs"]), &["items"]).await.unwrap_err();
    assert!(error.is_transport());
    assert_eq!(
        error.to_string(),
        format!("cannot reach http://{address}: connection refused; is `stella-scheduler serve` running there?")
    );
}

#[tokio::test]
async fn lists_are_walked_to_their_end_or_limit() {
    let pages = |Query(query): Query<HashMap<String, String>>| async move {
        let from: u64 = query.get("cursor").map_or(0, |cursor| cursor.parse().unwrap());
        let next = (from < 4).then(|| (from + 2).to_string());
        axum::Json(json!({ "items": [from, from + 1], "nextCursor": next }))
    };
    let server = serve(Router::new().route("/base/api/v1/scheduler/images", get(pages))).await;
    let client = Client::new(&global(format!("{server}/base/"))).unwrap();
    for (limit, expected) in [(None, 6), (Some(0), 0), (Some(3), 3), (Some(100), 6)] {
        let mut seen: Vec<Value> = Vec::new();
        client
            .each(Request::get(&["images"]), limit, |item| {
                seen.push(item);
                Ok(())
            })
            .await
            .unwrap();
        assert_eq!(seen, (0..expected).map(Value::from).collect::<Vec<_>>(), "{limit:?}");
    }
}

#[tokio::test]
async fn tenant_and_token_go_with_every_call_and_ids_stay_one_segment() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "abc.def\n").unwrap();
    let echo = |uri: axum::http::Uri, headers: HeaderMap| async move {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        axum::Json(json!({ "uri": uri.to_string(), "tenant": header("x-tenant-id"), "token": header("authorization") }))
    };
    let server = serve(Router::new().fallback(any(echo))).await;
    let global = Global {
        tenant: Some("acme".to_owned().try_into().unwrap()),
        token_file: Some(token.clone()),
        ..global(server)
    };
    let answer = Client::new(&global)
        .unwrap()
        .call(Request::get(&["runs", "a/../b?c", "images"]).query("outcome", "a&b"), &["uri"])
        .await
        .unwrap();
    assert_eq!(
        answer,
        json!({
            "uri": "/api/v1/scheduler/runs/a%2F..%2Fb%3Fc/images?outcome=a%26b",
            "tenant": "acme",
            "token": "Bearer abc.def",
        })
    );
    for (content, said) in [("", "it is empty"), ("a\u{7}b", "characters")] {
        std::fs::write(&token, content).unwrap();
        match Client::new(&global) {
            Err(error @ ClientError::Token { .. }) => assert!(error.to_string().contains(said), "{error}"),
            other => panic!("{:?}", other.err()),
        }
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_run_and_says_how() {
    for (state, succeeds) in [("completed", true), ("error", false), ("cancelled", false)] {
        let run = move || async move { axum::Json(json!({ "id": "r", "state": state, "error": "no index" })) };
        let server = serve(Router::new().route("/api/v1/scheduler/runs/r", get(run))).await;
        let global = global(server);
        let session = Session { client: Client::new(&global).unwrap(), out: Output { json: false, quiet: true } };
        assert_eq!(super::watch::watch(&session, "r").await.is_ok(), succeeds, "{state}");
    }
}
