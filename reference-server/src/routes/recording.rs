//! [`Recording`]: a documented request on its way into the request log.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use http::Response;
use http_body_util::BodyExt as _;
use svc_sdk::Operation;

use crate::api::framework::input::Input;
use crate::app::Shared;
use crate::control::notifications::Notification;
use crate::control::requests::{LoggedRequest, RecordedBody};
use crate::store::keys::Key;
use crate::store::organizations::{SANDBOX, find_named};
use crate::store::request_log::{BodyRecorder, OnRequest, RequestId};

/// A request in progress. It is added to the log when this is dropped, without a status if the
/// client is gone or a fault has cut the connection.
pub(super) struct Recording {
    app: Shared,
    /// `None` once it is added.
    request: Option<LoggedRequest>,
    organization: Option<i64>,
    started: Instant,
    body: BodyRecorder,
}

impl Recording {
    pub(super) fn start(input: &mut Input, operation: Operation) -> Self {
        let started = Instant::now();
        let app = Arc::clone(&input.app);
        let body = BodyRecorder::default();
        input.parts.extensions.insert(body.clone());
        let id = input.parts.extensions.get::<RequestId>();
        let id = id.map(|RequestId(id)| id.clone()).unwrap_or_default();
        let path = input.parts.uri.path_and_query().map_or("", |path| path.as_str());
        let now = input.app.clock.now().into();
        let request = LoggedRequest::new(id, operation, path, &input.parts.headers, now);
        Self { app, request: Some(request), organization: None, started, body }
    }

    /// The request has this key.
    pub(super) fn authenticated(&mut self, key: &Key) {
        self.organization = Some(key.organization);
        if let Some(request) = &mut self.request {
            request.summary.key = Some(key.id.clone());
        }
    }

    /// The request has no valid key. The seeded organization lists it.
    pub(super) async fn not_authenticated(&mut self) {
        if self.app.settings.seed {
            let seeded = self.app.store.read(|reader| find_named(reader, SANDBOX));
            self.organization = seeded.await.ok();
        }
    }

    pub(super) fn affected_by(&mut self, fault: Option<String>) {
        if let Some(request) = &mut self.request {
            request.summary.fault = fault;
        }
    }

    /// Records the response, and returns it.
    pub(super) async fn respond(mut self, response: Response<Body>) -> Response<Body> {
        let (parts, mut body) = response.into_parts();
        let mut start = None;
        // The body of a documented response is in memory, so this neither waits nor copies it.
        // A fault may replace it by a stream.
        if body.size_hint().exact().is_some_and(|size| size > 0)
            && let Ok(collected) = std::mem::take(&mut body).collect().await
        {
            let bytes = collected.to_bytes();
            start = RecordedBody::of(&bytes);
            body = Body::from(bytes);
        }
        if let Some(request) = &mut self.request {
            request.summary.status = Some(parts.status.as_u16());
            request.response_body = start;
        }
        Response::from_parts(parts, body)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(mut request) = self.request.take() else { return };
        request.summary.duration_ms = self.started.elapsed().as_micros() as f64 / 1000.0;
        request.request_body = self.body.take();
        let request = Arc::new(request);
        if let Some(OnRequest(function)) = &self.app.settings.on_request {
            function(&request.summary);
        }
        if let Some(organization) = self.organization {
            let notifications = &self.app.store.wake.notifications;
            notifications
                .publish(Some(organization), || Notification::Request(request.summary.clone()));
            self.app.requests.add(organization, request);
        }
    }
}
