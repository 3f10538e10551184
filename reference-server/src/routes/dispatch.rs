//! The router, and the checks that run before every handler.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use svc_sdk::{Operation, Service};

use super::ROUTES;
use super::recording::Recording;
use crate::api::app::{App, Shared};
use crate::api::control::guard::{check_query, guard};
use crate::api::framework::auth;
use crate::api::framework::call::Call;
use crate::api::framework::fault;
use crate::api::framework::input::Input;
use crate::api::framework::listen::ConnectionAborter;
use crate::api::framework::response;
use crate::api::framework::route::{Route, Target};
use crate::api::openapi;
use crate::api::page;
use crate::api::tracking;
use crate::control::live::Change;
use crate::model::compatibility::ErrorFormat;
use crate::model::error::{ApiError, Code};
use crate::model::memory;
use crate::store::faults::{self, FaultUpdate};

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        let filter = MethodFilter::try_from(route.method()).expect("a common method");
        let handler = move |State(app): State<Shared>, params: Params, request: Request| async move {
            let Ok(params) = params else {
                return response::error(
                    &ApiError::not_found("path"),
                    app.error_format(route.path()),
                );
            };
            let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let params = params.collect();
            let (parts, body) = request.into_parts();
            let input = Input::new(app, parts, params, body);
            match &route.target {
                Target::Documented(operation, handler) => {
                    handle_documented(input, *operation, handler).await
                }
                Target::Control { handler, .. } => handle_control(input, route, handler).await,
            }
        };
        router = router.route(route.path(), on(filter, handler));
    }
    openapi::routes(page::routes(tracking::routes(router)), &ROUTES)
        .method_not_allowed_fallback(|State(app): State<Shared>, request: Request| async move {
            let message = format!("this path does not support the method {}", request.method());
            response::error(
                &ApiError::new(Code::MethodNotAllowed, message),
                app.error_format(request.uri().path()),
            )
        })
        .fallback(|State(app): State<Shared>, request: Request| async move {
            response::error(&ApiError::not_found("path"), app.error_format(request.uri().path()))
        })
        .with_state(Arc::clone(app))
}

/// Handles a request to the control interface.
async fn handle_control(
    mut input: Input,
    route: &Route,
    handler: &impl Fn(Input) -> Handled,
) -> Response<Body> {
    let known = (route.query)(&input.app.settings.compatibility);
    let result = match guard(&input).and_then(|()| check_query(&input, &known)) {
        Ok(()) => {
            input.organization = named_in_query(&input);
            let app = Arc::clone(&input.app);
            let response = within_memory(input.organization, handler(input)).await;
            if response.is_ok() {
                publish_change(&app, route);
            }
            response
        }
        Err(error) => Err(error),
    };
    let mut response = result.unwrap_or_else(|error| response::error(&error, ErrorFormat::Nested));
    // A page of another origin cannot use it as a script, an image or an object.
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Tells the clients that watch what a control request may have changed.
fn publish_change(app: &App, route: &Route) {
    let method = route.method();
    let path = route.path().strip_prefix("/_sandbox/");
    if let Some(path) = path.filter(|_| route.changes && method != Method::GET) {
        app.store.wake.log.publish(None, "change", || Change {
            resource: path.split('/').next().unwrap_or_default().to_owned(),
            method: method.to_string(),
        });
    }
}

/// Handles a request to a documented operation, and measures how long it takes.
async fn handle_documented(
    mut input: Input,
    operation: Operation,
    handler: &impl Fn(Call) -> Handled,
) -> Response<Body> {
    let started = Instant::now();
    let app = Arc::clone(&input.app);
    let mut recording = Recording::start(&mut input, operation, started);
    let format = app.settings.compatibility.error_format;
    let response = match auth::authenticate(&app, operation.service(), &input.parts) {
        Ok(key) => {
            recording.authenticated(&key);
            let (fault, updates) = app.faults.trigger(key.organization, operation, app.clock.now());
            recording.affected_by(updates.iter().find_map(FaultUpdate::hit));
            faults::save(&app.store, updates).await;
            let aborter = input.parts.extensions.get::<ConnectionAborter>().cloned();
            // These checks follow authentication, in the order of
            // `docs/undocumented/both-services.md#order-of-checks`.
            let process = async {
                auth::check_rate_limit(&app, &key)?;
                auth::authorize(operation, &key)?;
                let organization = key.organization;
                input.organization = organization;
                within_memory(organization, handler(Call { operation, key, input })).await
            };
            let process =
                async { process.await.unwrap_or_else(|error| response::error(&error, format)) };
            match fault {
                Some(effect) => fault::apply(effect, aborter.unwrap_or_default(), process).await,
                None => process.await,
            }
        }
        // The format of this error is documented (`docs/extraction-service/errors.md`), so no
        // setting changes it.
        Err(error) if operation.service() == Service::Extraction => {
            response::error(&error, ErrorFormat::Nested)
        }
        Err(error) => response::error(&error, format),
    };
    app.metrics.request(operation, response.status(), started.elapsed());
    recording.respond(response).await
}

/// Counts a large response toward the memory of the organization, until it has been sent
/// (`docs/undocumented/both-services.md#bounds`).
async fn within_memory(organization: i64, handled: Handled) -> Result<Response<Body>, ApiError> {
    let (response, memory) = memory::reserving(handled).await;
    let response = response?;
    // A response without an exact size is sent piece by piece.
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    if !size.is_some_and(memory::counts) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(ApiError::internal)?.to_bytes();
    let kept = memory.keep(organization, bytes).await;
    Ok(Response::from_parts(parts, Body::from(kept)))
}

/// A number for the organization that the query of a control request names, which no organization
/// has: the handler alone knows which one it is.
fn named_in_query(input: &Input) -> i64 {
    let mut hasher = DefaultHasher::new();
    input.query().get("organization").hash(&mut hasher);
    -1 - (hasher.finish() >> 1) as i64
}

type Handled = BoxFuture<'static, Result<Response<Body>, ApiError>>;

/// The path parameters, or an error if they are not UTF-8.
type Params = Result<RawPathParams, RawPathParamsRejection>;
