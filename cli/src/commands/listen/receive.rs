//! Receives deliveries: verifies, records and forwards them, and returns the application's response.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use svc_sdk::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::Instant;
use webhook_verify::{Extraction, Scheme as _};

use super::check::Check;
use crate::deliver::{
    Deliverer, Delivery, DeliveryError, DeliveryResponse, RESPONSE_TIMEOUT, is_hop_by_hop,
};
use crate::recorded::{RecordedDelivery, Records};

/// Maximum size of a delivery's body in bytes.
const MAX_BODY: usize = 64 << 20;
/// How long connecting is retried, for an application that restarts.
const RESTART_LIMIT: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(100);

/// The target URL of some events.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) event: String,
    pub(super) url: String,
}

/// Reads `EVENT=URL`; an event may end in `*`.
pub(super) fn parse_route(text: &str) -> Result<Route, String> {
    match text.split_once('=') {
        Some((event, url)) if !event.is_empty() && !url.is_empty() => {
            Ok(Route { event: event.to_owned(), url: url.to_owned() })
        }
        _ => Err(format!(
            "`{text}` is not a route: use EVENT=URL, such as email.bounced=http://localhost:3000/b"
        )),
    }
}

impl Route {
    pub(super) fn matches(&self, event: &str) -> bool {
        match self.event.strip_suffix('*') {
            Some(start) => event.starts_with(start),
            None => self.event == event,
        }
    }
}

/// Handles the requests of all connections.
pub(super) struct Receiver {
    pub(super) service: Service,
    pub(super) check: Check,
    pub(super) event_header: Option<String>,
    pub(super) forward_to: Option<String>,
    pub(super) routes: Vec<Route>,
    pub(super) deliverer: Deliverer,
    pub(super) records: Records,
    pub(super) secret_file: Option<PathBuf>,
    pub(super) report: UnboundedSender<Report>,
    /// Locked for reading while a request is in flight.
    pub(super) busy: Arc<RwLock<()>>,
}

/// The result of one delivery.
pub(super) struct Report {
    pub(super) at: String,
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) verified: bool,
    pub(super) status: u16,
    pub(super) forwarded_to: Option<String>,
    pub(super) duration_ms: u64,
    pub(super) problem: Option<String>,
}

impl Report {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "at": self.at,
            "id": self.id,
            "event": self.event,
            "verified": self.verified,
            "status": self.status,
            "forwarded_to": self.forwarded_to,
            "duration_ms": self.duration_ms,
            "problem": self.problem,
        })
    }

    fn refused(status: StatusCode, problem: String) -> Self {
        Self {
            at: chrono::Utc::now().to_rfc3339(),
            id: None,
            event: None,
            verified: false,
            status: status.as_u16(),
            forwarded_to: None,
            duration_ms: 0,
            problem: Some(problem),
        }
    }
}

/// Serves connections until it is aborted.
pub(super) async fn accept(listener: TcpListener, receiver: Arc<Receiver>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&receiver)))),
            // Out of file descriptors, for example: try again after a pause.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Serves one request per connection, so that no idle connection delays the end.
async fn serve(stream: TcpStream, receiver: Arc<Receiver>) {
    let busy = Mutex::new(None::<OwnedRwLockReadGuard<()>>);
    let service = service_fn(|request| async {
        let guard = Arc::clone(&receiver.busy).read_owned().await;
        *busy.lock().expect("no thread panics while holding the lock") = Some(guard);
        Ok::<_, Infallible>(receiver.receive(request).await)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .preserve_header_case(true)
        .timer(TokioTimer::new())
        .header_read_timeout(RESPONSE_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A peer that disconnects needs no report.
    let _ = connection.await;
}

impl Receiver {
    async fn receive(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (report, response) = match self.handle(request).await {
            Ok(handled) => handled,
            Err((status, problem)) => (Report::refused(status, problem), empty(status)),
        };
        // The channel is closed only while the program ends.
        let _ = self.report.send(report);
        response
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Handled, (StatusCode, String)> {
        if request.method() != Method::POST {
            let problem = format!("expected POST, received {}", request.method());
            return Err((StatusCode::METHOD_NOT_ALLOWED, problem));
        }
        let (head, body) = request.into_parts();
        // The body of an unsigned request is not read.
        self.check.admits(&head.headers).map_err(|why| (StatusCode::UNAUTHORIZED, why))?;
        let body = tokio::time::timeout(RESPONSE_TIMEOUT, Limited::new(body, MAX_BODY).collect())
            .await
            .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the body did not arrive".to_owned()))?
            .map_err(|_| (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large".to_owned()))?
            .to_bytes();
        self.check.verify(&head.headers, &body).map_err(|why| (StatusCode::UNAUTHORIZED, why))?;

        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), latin1(value.as_bytes())))
            .collect::<Vec<_>>();
        let event = self.event(&head.headers, &body);
        let target = self.target(event.as_deref());
        let mut record =
            RecordedDelivery::new(self.service.as_str(), event.clone(), headers, &body);
        record.forwarded_to = target.cloned();
        record.secret_file.clone_from(&self.secret_file);
        let kept =
            self.records.store(&record).err().map(|failure| failure.details().message.clone());
        let mut report = Report {
            at: record.received_at.clone(),
            id: Some(record.id),
            event,
            verified: self.check.verifies(),
            status: 200,
            forwarded_to: target.cloned(),
            duration_ms: 0,
            problem: kept,
        };
        let Some(url) = target else { return Ok((report, empty(StatusCode::OK))) };
        let delivery = Delivery {
            url: url.clone(),
            headers: record.headers,
            body,
            extensions: head.extensions,
        };
        let started = Instant::now();
        let forwarded = self.forward(&delivery).await;
        report.duration_ms = started.elapsed().as_millis() as u64;
        let response = match forwarded {
            Ok(answer) => {
                report.status = answer.status;
                to_response(answer)
            }
            Err(none) => {
                // The service treats this status as a failure and retries.
                let status = status_for(&none);
                report.status = status.as_u16();
                report.problem = Some(none.to_string());
                empty(status)
            }
        };
        Ok((report, response))
    }

    /// Retries while there is no connection, because the application may be restarting. Nothing was
    /// delivered then, so a retry cannot deliver twice.
    async fn forward(&self, delivery: &Delivery) -> Result<DeliveryResponse, DeliveryError> {
        let deadline = Instant::now() + RESTART_LIMIT;
        loop {
            match self.deliverer.post(delivery, RESPONSE_TIMEOUT).await {
                Err(DeliveryError::NotSent(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// The event, from the signed body if it has one, else from a header
    /// (`docs/undocumented/email-service.md#delivery-payload`).
    fn event(&self, headers: &HeaderMap, body: &[u8]) -> Option<String> {
        let payload = serde_json::from_slice::<Value>(body).ok();
        let in_body = payload.as_ref().and_then(|payload| {
            ["event", "type"].iter().find_map(|name| payload.get(name)?.as_str().map(str::to_owned))
        });
        in_body.or_else(|| {
            let name = self.event_header.as_deref().or(match self.service {
                Service::Email => Some("mail-event"),
                _ => Extraction::EVENT_HEADER,
            })?;
            headers.get(name)?.to_str().ok().map(str::to_owned)
        })
    }

    fn target(&self, event: Option<&str>) -> Option<&String> {
        let routed = event.and_then(|event| self.routes.iter().find(|route| route.matches(event)));
        routed.map(|route| &route.url).or(self.forward_to.as_ref())
    }
}

fn status_for(none: &DeliveryError) -> StatusCode {
    match none {
        DeliveryError::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        DeliveryError::NotSent(_) | DeliveryError::NotTrusted(_) | DeliveryError::BrokenOff(_) => {
            StatusCode::BAD_GATEWAY
        }
    }
}

type Handled = (Report, Response<Full<Bytes>>);

fn to_response(mut answer: DeliveryResponse) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let names = answer.headers.keys().filter(|name| is_hop_by_hop(name.as_str()));
    for name in names.cloned().collect::<Vec<HeaderName>>() {
        answer.headers.remove(name);
    }
    *response.headers_mut() = answer.headers;
    *response.extensions_mut() = answer.extensions;
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// Header bytes as text with one character per byte, so that they are forwarded unchanged.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_forward_gets_a_status_that_the_service_retries() {
        let why = || "why".to_owned();
        for (none, status) in [
            (DeliveryError::TimedOut(RESPONSE_TIMEOUT), 504),
            (DeliveryError::NotSent(why()), 502),
            (DeliveryError::NotTrusted(why()), 502),
            (DeliveryError::BrokenOff(why()), 502),
        ] {
            assert_eq!(status_for(&none), status, "{none}");
        }
    }

    #[test]
    fn routes_match_an_event_or_a_prefix() {
        let route = |text: &str| parse_route(text).expect("a route");
        assert!(route("email.sent=http://x").matches("email.sent"));
        assert!(!route("email.sent=http://x").matches("email.sent2"));
        assert!(route("email.*=http://x?a=b").matches("email.bounced"));
        assert_eq!(route("email.*=http://x?a=b").url, "http://x?a=b");
        assert!(parse_route("email.sent").is_err() && parse_route("=http://x").is_err());
    }
}
