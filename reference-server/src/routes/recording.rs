//! [`Recording`]: a documented request on its way into the request log.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use http::Response;
use http::request::Parts;
use http_body_util::BodyExt as _;
use svc_sdk::Operation;

use crate::app::Shared;
use crate::http::request_log::{OnRequest, RequestId};
use crate::notifications::notification_wire::Notification;
use crate::requests::request_wire::{LoggedRequest, RecordedBody};
use crate::store::{SANDBOX, find_named};

/// A request in progress. It is added to the log when this is dropped, without a status if the
/// client is gone or a fault has cut the connection.
pub(super) struct Recording {
    app: Shared,
    pub(super) request: LoggedRequest,
    pub(super) organization: Option<i64>,
    started: Instant,
}

impl Recording {
    pub(super) fn start(app: Shared, parts: &Parts, operation: Operation) -> Self {
        let id = parts
            .extensions
            .get::<RequestId>()
            .map(|RequestId(id)| id.clone());
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        let id = id.unwrap_or_default();
        let now = app.clock.now().into();
        let request = LoggedRequest::new(id, operation, path, &parts.headers, now);
        Self {
            app,
            request,
            organization: None,
            started: Instant::now(),
        }
    }

    /// The request has no valid key. The seeded organization lists it.
    pub(super) async fn not_authenticated(&mut self) {
        if self.app.settings.seed {
            let seeded = self.app.store.read(|reader| find_named(reader, SANDBOX));
            self.organization = seeded.await.ok();
        }
    }

    /// Records the response, and returns it.
    pub(super) async fn respond(mut self, response: Response<Body>) -> Response<Body> {
        let (parts, mut body) = response.into_parts();
        // The body of a documented response is in memory, so this neither waits nor copies it.
        // A fault may replace it by a stream.
        if body.size_hint().exact().is_some_and(|size| size > 0)
            && let Ok(collected) = std::mem::take(&mut body).collect().await
        {
            let bytes = collected.to_bytes();
            self.request.response_body = RecordedBody::of(&bytes);
            body = Body::from(bytes);
        }

        self.request.summary.status = Some(parts.status.as_u16());
        Response::from_parts(parts, body)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let mut request = self.request.clone();
        request.summary.duration_ms = self.started.elapsed().as_micros() as f64 / 1000.0;
        let request = Arc::new(request);
        if let Some(OnRequest(function)) = &self.app.settings.on_request {
            function(&request);
        }
        if let Some(organization) = self.organization {
            let notifications = &self.app.store.wake.notifications;
            notifications.publish(Some(organization), || {
                Notification::Request(request.summary.clone())
            });
            self.app.requests.add(organization, request);
        }
    }
}
