//! The endpoint that receives deliveries at the URL of `--listen`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::examiner::Examiner;
use super::exchange::{Exchange, texts};
use crate::failure::{Failure, Kind};
use crate::urls::{check_url, is_loopback, parse_url};

/// How long a delivery, or its first retry, is waited for.
const DELIVERED_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Receiver {
    url: url::Url,
    status: Arc<AtomicU16>,
    received: Mutex<UnboundedReceiver<Exchange>>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Listens on this machine: on the port of a loopback URL, else on `port`.
    pub(super) async fn start(url: &str, port: Option<u16>) -> Result<Self, Failure> {
        check_url("--listen", url)?;
        let Some(parsed) = parse_url(url) else {
            return Err(Failure::usage(format!("--listen: `{url}` is not a URL")));
        };

        let own = parsed
            .port_or_known_default()
            .filter(|_| is_loopback(&parsed));
        let Some(port) = port.or(own) else {
            return Err(Failure::usage(
                "--listen names another host, so --port must say where its deliveries arrive here",
            ));
        };

        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
        let listener = listener.map_err(|error| {
            Failure::other(format!("cannot listen on port {port}: {error}")).code("cannot_listen")
        })?;
        let (sender, received) = mpsc::unbounded_channel();
        let status = Arc::new(AtomicU16::new(200));
        let answer = Arc::clone(&status);
        let receive = move |uri: Uri, headers: HeaderMap, body: Bytes| {
            let status = answer.load(Ordering::Relaxed);
            let _ = sender.send(Exchange {
                status,
                method: "POST".to_owned(),
                url: uri.to_string(),
                request_headers: texts(&headers),
                request_body: body.to_vec(),
                is_delivery: true,
                ..Exchange::default()
            });
            std::future::ready(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
        };

        let app = Router::new().fallback(axum::routing::post(receive));
        let serving = tokio::spawn(async move {
            // It ends with the run.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self {
            url: parsed,
            status,
            received: Mutex::new(received),
            serving,
        })
    }

    /// The beginning of the URLs of the run's webhooks.
    pub(super) fn hooks(&self) -> String {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("");
        }
        url.into()
    }

    /// Sets the status of the next responses.
    pub(super) fn respond(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Examiner<'_> {
    /// Waits for a delivery to the run's webhook with this URL, as that of a step. If it should repeat
    /// the delivery of another step, it has the same body: other emails of the service may be reported
    /// before.
    pub(super) async fn receive(
        &mut self,
        step: &'static str,
        url: &str,
        repeats: &str,
    ) -> Result<(), Failure> {
        let Some(receiver) = &self.receiver else {
            return Ok(());
        };

        let first = self.seen.exchanges.get(repeats);
        let first = first.map(|it| it.request_body.clone());
        let _progress = self.context.out.progress("waiting for a delivery");
        let until = Instant::now() + DELIVERED_WITHIN;
        let mut received = receiver.received.lock().await;
        loop {
            let delivery = tokio::select! {
                delivery = received.recv() => delivery,
                () = tokio::time::sleep_until(until) => return Ok(()),
                _ = self.stop.recv() => return Err(Failure::new(Kind::Interrupted, "interrupted")),
            };
            let Some(delivery) = delivery else {
                return Ok(());
            };
            if !url.ends_with(&delivery.url) {
                continue;
            }
            let body = &delivery.request_body;
            let is_expected = first.as_ref().is_none_or(|first| first == body);
            self.seen.exchanges.insert(step, delivery);
            if is_expected {
                return Ok(());
            }
        }
    }
}
