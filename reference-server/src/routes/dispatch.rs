//! The router, and the checks that run before every handler.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Response, StatusCode};
use svc_sdk::{Operation, Service};

use super::ROUTES;
use super::recording::Recording;
use crate::api::control::guard::guard;
use crate::api::framework::auth;
use crate::api::framework::fault::{self, Cut};
use crate::api::framework::input::Input;
use crate::api::framework::memory;
use crate::api::framework::response;
use crate::api::framework::route::{Route, Target};
use crate::api::openapi;
use crate::api::page;
use crate::api::tracking;
use crate::app::{App, Shared};
use crate::control::endpoint::Declaration;
use crate::control::faults::NewFault;
use crate::control::notifications::Notification;
use crate::model::compatibility::ErrorFormat;
use crate::model::error::{ApiError, Code};
use crate::model::nearest::did_you_mean_path;
use crate::store::faults;
use crate::store::keys::Key;

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        let filter =
            MethodFilter::try_from(route.declared.method.clone()).expect("a common method");
        let handler = move |State(app): State<Shared>, params: Params, request: Request| async move {
            let Ok(params) = params else {
                return response::error(
                    &ApiError::not_found("path"),
                    app.error_format(route.declared.path),
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
                Target::Control(handler) => handle_control(input, route, handler).await,
            }
        };
        router = router.route(route.declared.path, on(filter, handler));
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
            let path = request.uri().path();
            let known = did_you_mean_path(path, ROUTES.iter().map(|route| route.declared.path));
            let error = ApiError::not_found(&format!("path{known}"));
            response::error(&error, app.error_format(path))
        })
        .with_state(Arc::clone(app))
}

/// Handles a request to the control interface.
async fn handle_control(
    input: Input,
    route: &Route,
    handler: &impl Fn(Input) -> Handled,
) -> Response<Body> {
    let result = match guard(&input) {
        Ok(()) => {
            let app = Arc::clone(&input.app);
            let response = memory::holding(handler(input)).await;
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
    let Declaration { method, path, changes, .. } = &route.declared;
    let path = path.strip_prefix("/_sandbox/");
    if let Some(path) = path.filter(|_| *changes && method != Method::GET) {
        let resource = path.split('/').next().unwrap_or_default().to_owned();
        let change = Notification::Change { resource, method: method.to_string() };
        app.store.wake.notifications.publish(None, || change);
    }
}

/// Handles a request to a documented operation.
async fn handle_documented(
    mut input: Input,
    operation: Operation,
    handler: &impl Fn((Arc<Key>, Input)) -> Handled,
) -> Response<Body> {
    let app = Arc::clone(&input.app);
    let mut recording = Recording::start(&mut input, operation);
    let format = app.settings.compatibility.error_format;
    let key = auth::authenticate(&app, operation.service(), &input.parts).await;
    if key.is_err() {
        recording.not_authenticated().await;
    }
    // The format of this error is documented (`docs/extraction-service/README.md#authentication-and-scopes`), so no setting
    // changes it.
    let format_of = |status: StatusCode| match operation.service() {
        Service::Extraction if status == StatusCode::UNAUTHORIZED => ErrorFormat::Nested,
        _ => format,
    };
    let response = match key {
        Ok(key) => {
            recording.authenticated(&key);
            let fault = trigger_fault(&app, key.organization, operation).await;
            let (id, fault) = fault.unzip();
            recording.affected_by(id);
            // These checks follow authentication, in the order of
            // `docs/undocumented/README.md#order-of-checks`.
            let process = async {
                auth::check_rate_limit(&app, &key)?;
                auth::authorize(operation, &key)?;
                memory::holding(handler((key, input))).await
            };
            let process =
                async { process.await.unwrap_or_else(|error| response::error(&error, format)) };
            match fault {
                Some(fault) => match fault::apply(fault, format_of, process).await {
                    Ok(response) => response,
                    // The request stays in the log without a status.
                    Err(Cut) => return Cut::response(),
                },
                None => process.await,
            }
        }
        Err(error) => response::error(&error, format_of(error.code().status())),
    };
    recording.respond(response).await
}

/// The fault that affects a request. While the disk is full, there is none.
async fn trigger_fault(
    app: &Shared,
    organization: i64,
    operation: Operation,
) -> Option<(String, NewFault)> {
    if !app.has_faults.load(Ordering::SeqCst) {
        return None;
    }
    let shared = Arc::clone(app);
    let fault = app.store.write_relaxed(move |tx| {
        let found = faults::trigger(tx, organization, operation)?;
        if found.is_none() && !faults::exist(tx.reader())? {
            let shared = Arc::clone(&shared);
            tx.after_commit(move || shared.has_faults.store(false, Ordering::SeqCst));
        }
        Ok(found)
    });
    fault.await.unwrap_or_else(|error| {
        tracing::warn!(message = error.message(), "cannot count the hit of a fault");
        None
    })
}

type Handled = BoxFuture<'static, Result<Response<Body>, ApiError>>;

/// The path parameters, or an error if they are not UTF-8.
type Params = Result<RawPathParams, RawPathParamsRejection>;
