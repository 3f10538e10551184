//! A webhook receiver with a chosen defect, over hyper.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use webhook_verify::{Secret, Service, Signature};

pub const SECRET: &str = "whsec_3f1c_new";

/// A request that arrived: the check that sent it, the signature headers, the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    pub check: String,
    pub signatures: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A running receiver, stopped on drop.
pub struct Receiver {
    pub url: String,
    state: Arc<State>,
    _runtime: Runtime,
}

struct State {
    service: &'static str,
    /// Usually the name of the check that this receiver does not pass; empty for none.
    defect: &'static str,
    arrived: Mutex<Vec<Arrived>>,
    /// How often each id has arrived.
    ids: Mutex<HashMap<String, u32>>,
}

impl Receiver {
    pub fn start(service: &'static str, defect: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let url = format!(
            "http://{}/hooks",
            listener.local_addr().expect("an address")
        );
        let state = Arc::new(State {
            service,
            defect,
            arrived: Mutex::default(),
            ids: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(state.receive(request).await) }
                });
                // The sender may disconnect at any time.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            url,
            state,
            _runtime: runtime,
        }
    }

    pub fn arrived(&self) -> Vec<Arrived> {
        self.state.arrived.lock().expect("no panic").clone()
    }
}

impl State {
    fn is(&self, defect: &str) -> bool {
        self.defect == defect
    }

    async fn receive(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let agent = head
            .headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let agent = agent.unwrap_or_default();
        let check = agent
            .split("(certify ")
            .nth(1)
            .unwrap_or_default()
            .trim_end_matches(')');

        let body = body.collect().await.expect("a body").to_bytes();
        self.arrived.lock().expect("no panic").push(Arrived {
            check: check.to_owned(),
            signatures: signatures(&head.headers),
            body: body.to_vec(),
        });

        if !self.is_signed(&head.headers, &body) {
            return match self.defect {
                "silent-when-forged" => pending().await,
                "reveals-signature" => response(401, &sign(self.service, SECRET, &body)),
                _ => response(401, ""),
            };
        }

        self.handle(&body).await
    }

    async fn handle(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let value = serde_json::from_str::<Value>(&String::from_utf8_lossy(body));
        // A body that is cut off is not JSON.
        let value = value.unwrap_or_default();
        let event = value["event"].as_str().unwrap_or_default();
        let id = value["id"].as_str().unwrap_or_default().to_owned();
        let times = {
            let mut ids = self.ids.lock().expect("no panic");
            let times = ids.entry(id).or_default();
            *times += 1;
            *times
        };
        let created = value["created"].as_str().unwrap_or_default();
        let created = chrono::DateTime::parse_from_rfc3339(created).map(|at| at.to_utc());
        let age = created.map_or(chrono::TimeDelta::zero(), |at| chrono::Utc::now() - at);
        if (age.num_days() > 1 && !self.is("old-delivery"))
            || (age.num_days() < -1 && !self.is("future-delivery"))
        {
            return response(400, "");
        }

        match self.defect {
            "good-delivery" if event.ends_with(".failed") => response(500, ""),
            "unknown-event" if event.ends_with(".archived") => response(400, ""),
            "unknown-field" if value.get("certify").is_some() => response(400, ""),
            "formatted-body" if !body.starts_with(b"{") => response(400, ""),
            "repeated-delivery" if times > 1 => response(409, ""),
            "silent" => pending().await,
            _ => response(204, ""),
        }
    }

    fn is_signed(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let (name, prefix) = header_of(self.service);
        let mut values = headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().expect("ASCII"));
        let Some(value) = values.next() else {
            return self.is("missing-signature");
        };
        if values.next().is_some() && !self.is("doubled-header") {
            return false;
        }
        if self.is("empty-signature") && value == prefix {
            return true;
        }
        let Some(digits) = value.strip_prefix(prefix) else {
            return false;
        };

        let digits = match self.defect {
            "extended-signature" => &digits[..digits.len().min(64)],
            _ => digits,
        };
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return false;
        }
        if self.is("any-signature") {
            return digits.len() == 64;
        }

        let matches = |secret: &str, body: &[u8]| {
            let correct = sign(self.service, secret, body);
            let correct = correct.strip_prefix(prefix).expect("the prefix");
            match self.defect {
                "upper-case-hex" => correct == digits,
                "truncated-signature" => correct.starts_with(&digits.to_lowercase()),
                "compares-8-digits" => correct.starts_with(&digits[..8].to_lowercase()),
                _ => correct.eq_ignore_ascii_case(digits),
            }
        };

        let text = String::from_utf8_lossy(body);
        if self.is("body-not-utf8") && std::str::from_utf8(body).is_err() {
            return false;
        }

        matches(SECRET, body)
            || (self.is("wrong-secret") && sign_with_no_key(body) == digits)
            || (self.is("decoded-body") && matches(SECRET, text.as_bytes()))
            || (self.is("reserialized-body")
                && serde_json::from_slice::<Value>(body)
                    .is_ok_and(|value| matches(SECRET, value.to_string().as_bytes())))
    }
}

fn response(status: u16, text: &str) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(text.to_owned()));
    Response::builder()
        .status(status)
        .body(body)
        .expect("a response")
}

fn signatures(headers: &HeaderMap) -> Vec<(String, String)> {
    let names = ["email", "extraction"].map(|service| header_of(service).0.to_lowercase());
    let signatures = headers
        .iter()
        .filter(|(name, _)| names.contains(&name.to_string()));
    signatures
        .map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned()))
        .collect()
}

fn header_of(service: &str) -> (&'static str, &'static str) {
    match service {
        "email" => ("Mail-Signature", ""),
        _ => ("X-Service-Signature", "sha256="),
    }
}

/// The digits of a signature whose key has no bytes, which `Secret` refuses.
fn sign_with_no_key(body: &[u8]) -> String {
    let inner = Sha256::digest([&[0x36; 64][..], body].concat());
    let tag = Sha256::digest([&[0x5C; 64][..], &inner[..]].concat());
    tag.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sign(service: &str, secret: &str, body: &[u8]) -> String {
    let secret = Secret::new(secret).expect("a secret");
    match service {
        "email" => Signature::sign(Service::Email, &secret, body).to_string(),
        _ => Signature::sign(Service::Extraction, &secret, body).to_string(),
    }
}
