//! Builds the router from `ROUTES`, and runs the checks that come before a handler. A documented
//! operation passes authentication, faults, rate limit and scope, in the order of
//! `docs/undocumented/README.md#order-of-checks`, before its body is read; a control request passes
//! `auth::guard`. Then the handler gets an `Input`. Its response passes `speak` and `write_error`, which
//! give it the form of the dialect, and `recording.rs` logs it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse as _;
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Response, Uri};
use svc_sdk::Operation;

use super::ROUTES;
use super::recording::Recording;
use crate::app::{App, Shared};
use crate::control::Declaration;
use crate::deliveries::delivery_rules;
use crate::faults::fault_api;
use crate::http::input::Input;
use crate::http::listen::Cut;
use crate::http::response::write_error;
use crate::http::route::{Route, Target};
use crate::http::speak::speak;
use crate::http::{ApiError, auth, openapi, page};
use crate::model::key::Key;
use crate::model::nearest::did_you_mean_path;
use crate::model::{Code, Failure, Result};
use crate::notifications::notification_wire::Notification;
use crate::requests::request_wire::RecordedBody;
use crate::tracking::tracking_api;

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        let filter =
            MethodFilter::try_from(route.declared.method.clone()).expect("a common method");
        let handler = move |State(app): State<Shared>, params: Params, request: Request| async move {
            let Path(params) = params.map_err(|_| Failure::not_found("path"))?;
            Ok::<_, ApiError>(match &route.target {
                Target::Documented(operation, handler) => {
                    handle_documented(app, params, request, *operation, handler).await
                }
                Target::Control(handler) => {
                    handle_control(app, params, request, route, handler).await
                }
            })
        };
        router = router.route(route.declared.path, on(filter, handler));
    }

    let router = page::routes(tracking_api::routes(router));
    openapi::routes(router, &ROUTES, delivery_rules::schema)
        .method_not_allowed_fallback(|method: Method| async move {
            let message = format!("this path does not support the method {method}");
            ApiError(Failure::new(Code::MethodNotAllowed, message))
        })
        .fallback(|uri: Uri| async move {
            let paths = ROUTES.iter().map(|route| route.declared.path);
            let meant = did_you_mean_path(uri.path(), paths);
            ApiError(Failure::not_found(&format!("path{meant}")))
        })
        .with_state(Arc::clone(app))
}

/// Handles a request to the control interface.
async fn handle_control(
    app: Shared,
    params: Vec<(String, String)>,
    request: Request,
    route: &Route,
    handler: &impl Fn(Input) -> Handled,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let process = async {
        auth::guard(&app, &parts)?;
        let input = Input::receive(Arc::clone(&app), parts, params, body).await;
        let response = handler(input).await?;
        publish_change(&app, route);
        Ok(response)
    };
    let mut response = process.await.unwrap_or_else(failed);
    // A page of another origin cannot use it as a script, an image or an object.
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    response
}

/// Tells the clients that watch what a control request may have changed.
fn publish_change(app: &App, route: &Route) {
    let Declaration {
        method,
        path,
        changes,
        ..
    } = &route.declared;
    let path = path.strip_prefix("/_sandbox/");
    if let Some(path) = path.filter(|_| *changes && method != Method::GET) {
        let resource = path.split('/').next().unwrap_or_default().to_owned();
        let change = Notification::Change {
            resource,
            method: method.to_string(),
        };
        app.store.wake.notifications.publish(None, || change);
    }
}

type Handled = BoxFuture<'static, Result<Response<Body>>>;

/// The path parameters, or an error if they are not UTF-8.
type Params = Result<Path<Vec<(String, String)>>, PathRejection>;

fn failed(failure: Failure) -> Response<Body> {
    ApiError(failure).into_response()
}

/// Handles a request to a documented operation, and records it in the request log.
async fn handle_documented(
    app: Shared,
    params: Vec<(String, String)>,
    request: Request,
    operation: Operation,
    handler: &impl Fn((Arc<Key>, Input)) -> Handled,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let uri = parts.uri.clone();
    let mut recording = Recording::start(Arc::clone(&app), &parts, operation);

    let key = match auth::authenticate(&app, operation.service(), &parts).await {
        Ok(key) => key,
        Err(failure) => {
            recording.not_authenticated().await;
            let response = speak(&app, operation, &uri, failed(failure)).await;
            return recording.respond(response).await;
        }
    };
    recording.organization = Some(key.organization);
    recording.request.summary.key = Some(key.id.clone());

    let fault = fault_api::trigger(&app, key.organization, operation).await;
    recording.request.summary.fault = fault.as_ref().map(|(id, _)| id.clone());

    // The checks that follow authentication, in the order of
    // `docs/undocumented/README.md#order-of-checks`, and then the handler.
    let process = async {
        let handled = async {
            auth::check_rate_limit(&app, &key)?;
            auth::authorize(operation, &key)?;
            let input = Input::receive(Arc::clone(&app), parts, params, body).await;
            let bytes = input.bytes().ok();
            recording.request.request_body = bytes.and_then(|bytes| RecordedBody::of(&bytes));
            handler((Arc::clone(&key), input)).await
        };
        let response = handled.await.unwrap_or_else(failed);
        speak(&app, operation, &uri, response).await
    };
    let response = match fault {
        Some((_, fault)) => fault_api::apply(&app, uri.path(), fault, process).await,
        None => Ok(process.await),
    };
    match response {
        Ok(response) => {
            recording
                .respond(write_error(&app, uri.path(), response))
                .await
        }
        // The request stays in the log without a status.
        Err(Cut) => Cut::response(),
    }
}
