//! The HTTP server of `svc listen`. `Receiver::handle` takes a request and verifies its signature
//! over the received bytes; only then it records the delivery, forwards it to the application with
//! a new signature, and returns the application's response. A request without a valid signature
//! gets 401, and the body of one without any is not read. The sender has a response within
//! `ANSWER_WITHIN`, before it gives up. Each request becomes one `Report`, which `listen.rs`
//! prints.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Dialect, Point, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use webhook_verify::{Secret, Signature};

use crate::deliver::{
    Deliverer, Delivery, DeliveryError, DeliveryResponse, RESPONSE_TIMEOUT, remove_hop_by_hop,
};
use crate::diagnose::Check;
use crate::recorded_deliveries::{RecordedDeliveries, RecordedDelivery};
use crate::signing::scheme;

/// Maximum number of connections at a time. More wait until one is closed.
const MAX_CONNECTIONS: usize = 64;
/// Time limit for a connection: for the head of the request, and for the response.
const CONNECTION_TIMEOUT: Duration = RESPONSE_TIMEOUT.saturating_mul(2);
/// Time limit from the head of a request to the response: less than the sender waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(9);
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The target URL of some events.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) event: String,
    pub(super) url: String,
}

/// Reads `EVENT=URL`; an event may end in `*`.
pub(super) fn parse_route(text: &str) -> Result<Route, String> {
    match text.split_once('=') {
        Some((event, url)) if !event.is_empty() && !url.is_empty() => Ok(Route {
            event: crate::input::event::parse(event)?,
            url: url.to_owned(),
        }),
        _ => Err(format!(
            "`{text}` is not a route: use EVENT=URL, such as email.bounced=http://localhost:3000/b"
        )),
    }
}

impl Route {
    pub(super) fn matches(&self, event: &str) -> bool {
        is_event_of(event, &self.event)
    }
}

/// Whether an event is this one, or one that begins so, if it ends in `*`.
pub(super) fn is_event_of(event: &str, meant: &str) -> bool {
    match meant.strip_suffix('*') {
        Some(start) => event.starts_with(start),
        None => event == meant,
    }
}

/// Handles the requests of all connections.
pub(super) struct Receiver {
    pub(super) service: Service,
    pub(super) check: Check,
    pub(super) dialect: Dialect,
    pub(super) forward_to: Option<String>,
    pub(super) routes: Vec<Route>,
    pub(super) deliverer: Deliverer,
    /// Whether a recipient guard is set.
    pub(super) is_guarded: bool,
    pub(super) records: RecordedDeliveries,
    /// The file of `--secret-file`, if it verifies.
    pub(super) secret_file: Option<PathBuf>,
    /// Signs what is forwarded, in place of the service's signature.
    pub(super) signer: Secret,
    pub(super) report: UnboundedSender<Report>,
    /// Maximum size of a body in bytes.
    pub(super) max_body: usize,
}

/// Every other line: a delivery.
#[derive(Default, Serialize, JsonSchema)]
pub struct Report {
    #[schemars(extend("format" = "date-time"))]
    pub(super) at: String,
    /// The id of the record, for `svc replay`.
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) verified: bool,
    pub(super) status: u16,
    pub(super) forwarded_to: Option<String>,
    pub(super) duration_ms: u64,
    pub(super) problem: Option<String>,
    /// The verified body, or null if it is not JSON.
    pub(super) body: Value,
}

/// Serves connections until the sender of `stopped` is dropped, and then the requests in flight.
pub(super) async fn serve(
    listener: TcpListener,
    receiver: Receiver,
    mut stopped: watch::Receiver<()>,
) {
    let receiver = Arc::new(receiver);
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    open.spawn(connection(stream, Arc::clone(&receiver), stopped.clone()));
                }
                // Out of file descriptors, for example: try again after a pause.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }

    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Serves one request.
async fn connection(stream: TcpStream, receiver: Arc<Receiver>, mut stopped: watch::Receiver<()>) {
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(receiver.receive(request).await) });
    let mut connection = pin!(
        http1::Builder::new()
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
    );
    // A peer that disconnects needs no report.
    tokio::select! {
        _ = timeout(CONNECTION_TIMEOUT, connection.as_mut()) => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(RESPONSE_TIMEOUT, connection).await;
}

impl Receiver {
    async fn receive(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (report, response) = match self.handle(request).await {
            Ok(handled) => handled,
            Err((status, problem)) => {
                let at = chrono::Utc::now().to_rfc3339();
                let problem = Some(problem);
                let report = Report {
                    at,
                    status: status.as_u16(),
                    problem,
                    ..Report::default()
                };
                (report, empty(status))
            }
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

        let answer_by = Instant::now() + ANSWER_WITHIN;
        let (head, body) = request.into_parts();
        // The body of an unsigned request is not read.
        let unauthorized = |why| (StatusCode::UNAUTHORIZED, why);
        let (signature, header) = self.signature(&head.headers).map_err(unauthorized)?;
        let body = self.body(body, answer_by).await?;
        self.check
            .verify(Ok(signature), header, &body)
            .map_err(|(error, mistakes)| {
                let advice = mistakes
                    .iter()
                    .map(|mistake| mistake.advice)
                    .collect::<Vec<_>>();
                unauthorized(if advice.is_empty() {
                    format!("{error}: another secret was used, or the body was changed in transit")
                } else {
                    format!("{error}: {}", advice.join("; "))
                })
            })?;
        let json = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        // Some services send a list of events.
        let payload = match &json {
            Value::Array(events) => events.first().unwrap_or(&json),
            payload => payload,
        };
        let event = self.event(&head.headers, payload);
        let target = self.target(event.as_deref());
        let service = self.service.as_str();
        let mut record = RecordedDelivery::new(service, event.clone(), &head.headers, &body);
        record.event_id = match payload.get("id") {
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        record.forwarded_to = target.cloned();
        record.secret_file.clone_from(&self.secret_file);
        let stored = self.records.store(&record);
        let mut report = Report {
            at: record.received_at,
            id: Some(record.id),
            event,
            verified: true,
            status: 200,
            forwarded_to: target.cloned(),
            duration_ms: 0,
            problem: stored.err().map(|failure| failure.message.clone()),
            body: json,
        };
        let Some(url) = target else {
            return Ok((report, empty(StatusCode::OK)));
        };

        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let mut delivery = Delivery::new(url, headers, body);
        if self.is_guarded
            && let Err(problem) = delivery.restrict(&self.dialect)
        {
            report.status = StatusCode::FORBIDDEN.as_u16();
            report.problem = Some(format!("stopped by the recipient guard: {problem}"));
            return Ok((report, empty(StatusCode::FORBIDDEN)));
        }

        delivery.sign(self.service, &self.signer);
        let started = Instant::now();
        let left = answer_by.saturating_duration_since(started);
        let forwarded = self.deliverer.post(&delivery, left).await;
        report.duration_ms = started.elapsed().as_millis() as u64;
        let response = match forwarded {
            Ok(answer) => to_response(answer),
            Err(none) => {
                // The service treats these statuses as failures and retries.
                let (status, problem) = match none {
                    DeliveryError::TimedOut(_) => (
                        StatusCode::GATEWAY_TIMEOUT,
                        too_late("the application did not respond"),
                    ),
                    other => (StatusCode::BAD_GATEWAY, other.explained()),
                };
                report.problem = Some(problem);
                empty(status)
            }
        };
        report.status = response.status().as_u16();
        Ok((report, response))
    }

    /// The signature of the service, and its header.
    fn signature<'a>(&self, headers: &'a HeaderMap) -> Result<(Signature, &'a [u8]), String> {
        let all = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let signature = Signature::from_headers(all).map_err(|error| error.to_string())?;
        let service = signature.service();
        let expected = self.check.service;
        if service != expected {
            return Err(format!(
                "the delivery is signed by the {service} service: use --service {service}"
            ));
        }

        let header = headers.get(service.signature_header());
        Ok((
            signature,
            header.map(HeaderValue::as_bytes).unwrap_or_default(),
        ))
    }

    /// The body, within limits, because anybody who reaches this port can send one.
    async fn body(&self, body: Incoming, by: Instant) -> Result<Bytes, (StatusCode, String)> {
        let too_large = || {
            let limit = self.max_body >> 20;
            let problem = format!("the body is larger than {limit} MiB (--max-body)");
            (StatusCode::PAYLOAD_TOO_LARGE, problem)
        };
        if body.size_hint().lower() > self.max_body as u64 {
            return Err(too_large());
        }
        match timeout_at(by, Limited::new(body, self.max_body).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(_)) => Err((
                StatusCode::BAD_REQUEST,
                "the connection broke within the body".to_owned(),
            )),
            Err(_) => Err((
                StatusCode::REQUEST_TIMEOUT,
                too_late("the body did not arrive"),
            )),
        }
    }

    /// The event, from the signed body if it has one, else from a header
    /// (`docs/undocumented/services.md#delivery-payload`).
    fn event(&self, headers: &HeaderMap, payload: &Value) -> Option<String> {
        let pinned = self.dialect.pinned(Point::DeliveryEvent);
        let mut names = pinned.into_iter().chain(["event", "type"]);
        let in_body = names.find_map(|name| {
            // A name, or the way to it, as in `event-data.event`.
            let inside = || payload.pointer(&format!("/{}", name.replace('.', "/")));
            let event = payload.get(name).or_else(inside)?;
            event.as_str().map(str::to_owned)
        });
        in_body.or_else(|| {
            let name = match self.service {
                Service::Email => Some(self.dialect.choice(Point::EventHeader)),
                other => scheme(other).event_header(),
            }?;
            headers.get(name)?.to_str().ok().map(str::to_owned)
        })
    }

    fn target(&self, event: Option<&str>) -> Option<&String> {
        let routed = event.and_then(|event| self.routes.iter().find(|route| route.matches(event)));
        routed.map(|route| &route.url).or(self.forward_to.as_ref())
    }
}

fn too_late(what: &str) -> String {
    let within = ANSWER_WITHIN.as_secs();
    let sender = RESPONSE_TIMEOUT.as_secs();
    format!("{what} within {within} s, and the sender waits no longer than {sender} s")
}

type Handled = (Report, Response<Full<Bytes>>);

fn to_response(mut answer: DeliveryResponse) -> Response<Full<Bytes>> {
    remove_hop_by_hop(&mut answer.headers);
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = answer.headers;
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender gives up after 10 seconds.
    const _: () = assert!(ANSWER_WITHIN.as_secs() < RESPONSE_TIMEOUT.as_secs());

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
