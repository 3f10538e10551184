//! Serves clients over streamable HTTP on this machine.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::server::McpServer;
use crate::context::Context;
use crate::failure::Failure;
use crate::private_files;
use crate::signing::kept_secret;

/// The token that clients send.
const TOKEN: &str = "SVC_MCP_TOKEN";

/// Where the protocol is.
const PATH: &str = "/mcp";

/// How many sessions are open at once. One whose client has left ends after five minutes.
const MAX_SESSIONS: usize = 64;

/// Reads the address of `--listen`: other machines must not reach the server.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let address = text
        .parse::<SocketAddr>()
        .ok()
        .filter(|address| address.ip().is_loopback());
    address.ok_or_else(|| {
        format!("`{text}` is not an address of this machine and a port, such as 127.0.0.1:4090")
    })
}

/// Serves until it is dropped.
pub async fn serve(
    server: McpServer,
    address: SocketAddr,
    context: &Context,
) -> Result<(), Failure> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::other(format!("--listen: {address}: {error}")))?;
    let address = listener.local_addr()?;
    let (token, file) = match context.settings.variable(TOKEN)? {
        Some(given) => (given.value, None),
        None => {
            let (file, token) = kept_secret(context.settings.state_dir.join("mcp.token"), "")?;
            // Whatever its mode was, only the owner reads it now.
            private_files::replace(&file, token.as_bytes())?;
            (token, Some(file))
        }
    };
    let place = file
        .as_ref()
        .map_or(TOKEN.to_owned(), |file| file.display().to_string());
    if token.trim().len() < 16 {
        return Err(
            Failure::input(format!("{place}: the bearer token has under 16 characters"))
                .hint("set a longer one, or omit it: svc mcp writes one into a file"),
        );
    }

    let url = format!("http://{address}{PATH}");
    context
        .out
        .note(&format!("serving {url}; the bearer token is in {place}"));
    context
        .out
        .ready(&json!({"url": url, "token_file": file}))?;
    let expected = Sha256::digest(token.trim());
    let hosts = [address.to_string(), format!("localhost:{}", address.port())];
    // No web page is a client, so every `Origin` is refused.
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .enforce_origin_validation();
    let sessions = Arc::new(LocalSessionManager::default());
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
    let limit = middleware::from_fn(move |request: Request, next: Next| {
        let sessions = Arc::clone(&sessions);
        async move {
            let is_of_session = request.headers().contains_key(HEADER_SESSION_ID);
            if is_of_session || sessions.sessions.read().await.len() < MAX_SESSIONS {
                return next.run(request).await;
            }
            let why = format!("{MAX_SESSIONS} sessions are open; try again in five minutes\n");
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    });
    let authorize = middleware::from_fn(move |request: Request, next: Next| async move {
        // Digests are compared, so that the time tells nothing about the token.
        let given = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let is_right =
            given
                .and_then(|given| given.split_once(' '))
                .is_some_and(|(scheme, token)| {
                    scheme.eq_ignore_ascii_case("bearer")
                        && Sha256::digest(token.trim()) == expected
                });
        if is_right {
            return next.run(request).await;
        }
        let why = "the bearer token is missing or wrong\n";
        (
            StatusCode::UNAUTHORIZED,
            [(WWW_AUTHENTICATE, "Bearer")],
            why,
        )
            .into_response()
    });
    let router = Router::new()
        .route_service(PATH, service)
        .layer(limit)
        .layer(authorize);
    Ok(axum::serve(listener, router).await?)
}
