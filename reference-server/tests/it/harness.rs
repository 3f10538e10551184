//! A server for one test, and raw HTTP requests to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use svc_reference_server::{Builder, Network, Server};
use tokio::sync::OnceCell;

use crate::description::Description;
use crate::raw::{self, RawResponse};

pub(crate) const KEY: &str = "mk_test_sandbox";
pub(crate) const EXTRACTION_KEY: &str = "sk_test_sandbox";

/// A temporary directory that only its owner can use, whatever the umask: a server
/// refuses a directory with content that others can change.
pub(crate) fn private_dir() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().expect("a directory")
}

/// Options of a server that others can reach, except that it listens on loopback.
pub(crate) fn public(builder: Builder) -> Builder {
    builder
        .network(Network::Public)
        .addr(([127, 0, 0, 1], 0).into())
}

/// That of a server with the default dialect and without a token. It takes long to make.
static USUAL: OnceCell<Description> = OnceCell::const_new();

pub(crate) struct Sandbox {
    pub(crate) server: Server,
    has_usual_description: bool,
    description: OnceCell<Description>,
    /// Responses may be injected by a fault, so they need not match the description.
    has_faults: AtomicBool,
}

impl Sandbox {
    pub(crate) async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(options: impl FnOnce(Builder) -> Builder) -> Self {
        let builder = options(Server::builder().in_memory());
        Self::of(builder.start().await.expect("the server did not start"))
    }

    pub(crate) fn of(server: Server) -> Self {
        let has_usual_description = server.control_token().is_none();
        let description = OnceCell::new();
        let has_faults = AtomicBool::new(false);
        Self {
            server,
            has_usual_description,
            description,
            has_faults,
        }
    }

    /// A server whose description is not that of others.
    pub(crate) fn with_own_description(self) -> Self {
        Self {
            has_usual_description: false,
            ..self
        }
    }

    /// A server that others can reach, except that it listens on loopback.
    pub(crate) async fn public() -> Self {
        Self::with(public).await
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.addresses().http
    }

    /// From now on, responses may be injected by a fault.
    pub(crate) fn expect_faults(&self) {
        self.has_faults.store(true, Ordering::Relaxed);
    }

    /// Sends a request with the seeded email key.
    pub(crate) async fn call(&self, line: &str, body: &str) -> RawResponse {
        self.with_key(KEY, line, body).await
    }

    pub(crate) async fn with_key(&self, key: &str, line: &str, body: &str) -> RawResponse {
        self.raw(line, &format!("authorization: Bearer {key}\r\n"), body)
            .await
    }

    /// Sends a request to the control interface.
    pub(crate) async fn control(&self, line: &str, body: &str) -> RawResponse {
        let token = self.server.control_token();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        self.raw(line, &token.unwrap_or_default(), body).await
    }

    /// Sends a request with these header lines, each with its line break, and the headers
    /// that the body needs.
    pub(crate) async fn raw(&self, line: &str, headers: &str, body: &str) -> RawResponse {
        let length = body.len();
        let content = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {length}\r\n")
        };
        self.literal(line, &format!("{headers}{content}"), body)
            .await
    }

    /// Sends a request with only these header lines and `Host`.
    pub(crate) async fn literal(&self, line: &str, headers: &str, body: &str) -> RawResponse {
        let addr = self.addr();
        let text = format!("{line} HTTP/1.1\r\nhost: {addr}\r\n{headers}\r\n{body}");
        let response = raw::send(addr, text.as_bytes()).await;
        if line == "POST /_sandbox/faults" {
            self.expect_faults();
        }
        if line.contains(" /_sandbox/") || !self.has_faults.load(Ordering::Relaxed) {
            self.description().await.check(line, &response);
        }
        response
    }

    /// The OpenAPI description of the server, which every response must match.
    pub(crate) async fn description(&self) -> &Description {
        let describe = || async {
            let request = format!(
                "GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n",
                self.addr()
            );
            Description::parse(&raw::send(self.addr(), request.as_bytes()).await.body)
        };
        let find = || async {
            if self.has_usual_description {
                USUAL.get_or_init(describe).await.again()
            } else {
                describe().await
            }
        };
        self.description.get_or_init(find).await
    }

    /// Sends a request that announces a body of this length, but not the body.
    pub(crate) async fn announce(&self, line: &str, length: usize) -> RawResponse {
        let headers = format!(
            "authorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
        );
        self.literal(line, &headers, "").await
    }

    /// Creates an email key with these scopes, such as `"emails:send"`. Returns its ID and
    /// the key.
    pub(crate) async fn email_key(&self, scopes: &str) -> (String, String) {
        let body = format!(r#"{{"service":"email","scopes":[{scopes}]}}"#);
        let response = self.control("POST /_sandbox/keys", &body).await;
        assert_eq!(response.status, 201, "{response:?}");
        (response.id(), response.between(r#""key":""#))
    }

    /// Creates an organization. Returns its email key and its extraction key.
    pub(crate) async fn organization(&self) -> (String, String) {
        let response = self.control("POST /_sandbox/organizations", "").await;
        assert_eq!(response.status, 201, "{response:?}");
        (
            response.between(r#""email_key":""#),
            response.between(r#""extraction_key":""#),
        )
    }

    /// Waits until all due work is done.
    pub(crate) async fn settle(&self) {
        self.server.until_idle().await;
    }

    /// Freezes the clock and returns its time.
    pub(crate) async fn freeze(&self) -> String {
        let response = self
            .control("POST /_sandbox/clock", r#"{"freeze":true}"#)
            .await;
        assert_eq!(response.status, 200, "{response:?}");
        response.between(r#""now":""#)
    }

    pub(crate) async fn advance(&self, by: &str) -> RawResponse {
        let response = self
            .control("POST /_sandbox/clock", &format!(r#"{{"advance":"{by}"}}"#))
            .await;
        assert_eq!(response.status, 200, "{response:?}");
        response
    }
}
