//! A separate server per test, and requests to it.

use serde_json::Value;
use svc_reference_server::{Builder, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Sandbox {
    pub(crate) server: Server,
}

impl Sandbox {
    pub(crate) async fn start(options: impl FnOnce(Builder) -> Builder) -> Self {
        let server = options(Server::builder().in_memory())
            .start()
            .await
            .expect("started");
        Self { server }
    }

    /// Sends a request with the seeded key, such as `GET /api/v1/domains`. Panics
    /// unless the status is 2xx.
    pub(crate) async fn call(&self, line: &str, body: &str) -> Value {
        let text = self.text(line, body).await;
        if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).expect("JSON")
        }
    }

    async fn text(&self, line: &str, body: &str) -> String {
        let kind = "application/json";
        let body = self.request(line, kind, body.as_bytes()).await;
        String::from_utf8(body).expect("text")
    }

    /// Sends a request with a body of this type.
    pub(crate) async fn request(&self, line: &str, kind: &str, body: &[u8]) -> Vec<u8> {
        let addr = self.server.addresses().http;
        let mut request = format!(
            "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer mk_test_sandbox\r\n\
             connection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let mut stream = TcpStream::connect(addr).await.expect("a connection");
        stream.write_all(&request).await.expect("written");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.expect("a response");
        let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let body = response.split_off(end.expect("a head") + 4);
        let head = String::from_utf8_lossy(&response);
        assert!(head.starts_with("HTTP/1.1 2"), "{line}: {head}");

        body
    }

    /// Sends an email and returns the source of its message.
    pub(crate) async fn send_and_fetch(&self, from: &str, subject: &str, more: &str) -> String {
        let body = format!(
            r#"{{"from":"{from}","to":["Ada <ada@example.test>","bob@example.test"],"subject":"{subject}",{more}}}"#
        );
        self.call("POST /api/v1/emails", &body).await;
        self.server.until_idle().await;
        let list = self.call("GET /_sandbox/messages?limit=1", "").await;
        let id = list["data"][0]["id"]
            .as_str()
            .expect("a message")
            .to_owned();
        self.text(&format!("GET /_sandbox/messages/{id}/raw"), "")
            .await
    }
}
