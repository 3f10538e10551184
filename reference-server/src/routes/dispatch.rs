//! The router, and the checks that run before every handler.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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
use crate::api::control::guard::guard;
use crate::api::framework::auth;
use crate::api::framework::fault::{self, Cut};
use crate::api::framework::input::Input;
use crate::api::framework::memory;
use crate::api::framework::response::write_error;
use crate::api::framework::route::{Route, Target};
use crate::api::framework::speak::{Asked, speak};
use crate::api::openapi;
use crate::api::page;
use crate::api::tracking;
use crate::app::{App, Shared};
use crate::control::endpoint::Declaration;
use crate::control::faults::NewFault;
use crate::control::notifications::Notification;
use crate::control::requests::RecordedBody;
use crate::model::error::{ApiError, Code};
use crate::model::key::Key;
use crate::model::nearest::did_you_mean_path;
use crate::store::faults;

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter() {
        let filter =
            MethodFilter::try_from(route.declared.method.clone()).expect("a common method");
        let handler = move |State(app): State<Shared>, params: Params, request: Request| async move {
            let Path(params) = params.map_err(|_| ApiError::not_found("path"))?;
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
    openapi::routes(page::routes(tracking::routes(router)), &ROUTES)
        .method_not_allowed_fallback(|method: Method| async move {
            let message = format!("this path does not support the method {method}");
            ApiError::new(Code::MethodNotAllowed, message)
        })
        .fallback(|uri: Uri| async move {
            let paths = ROUTES.iter().map(|route| route.declared.path);
            ApiError::not_found(&format!("path{}", did_you_mean_path(uri.path(), paths)))
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
        guard(&app, &parts)?;
        let input = Input::receive(Arc::clone(&app), parts, params, body).await;
        let response = memory::holding(handler(input)).await?;
        publish_change(&app, route);
        Ok(response)
    };
    let mut response = process.await.unwrap_or_else(ApiError::into_response);
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

/// Handles a request to a documented operation.
async fn handle_documented(
    app: Shared,
    params: Vec<(String, String)>,
    request: Request,
    operation: Operation,
    handler: &impl Fn((Arc<Key>, Input)) -> Handled,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let asked = Asked::of(&app, operation, &parts);
    let mut recording = Recording::start(Arc::clone(&app), &parts, operation);
    let response = match auth::authenticate(&app, operation.service(), &parts).await {
        Ok(key) => {
            recording.organization = Some(key.organization);
            recording.request.summary.key = Some(key.id.clone());
            let fault = trigger_fault(&app, key.organization, operation).await;
            let (id, fault) = fault.unzip();
            recording.request.summary.fault = id;
            // These checks follow authentication, in the order of
            // `docs/undocumented/README.md#order-of-checks`.
            let process = async {
                auth::check_rate_limit(&app, &key)?;
                auth::authorize(operation, &key)?;
                let input = Input::receive(Arc::clone(&app), parts, params, body).await;
                recording.request.request_body =
                    input.bytes().ok().and_then(|body| RecordedBody::of(&body));
                memory::holding(handler((key, input))).await
            };
            let process = async {
                let response = process.await.unwrap_or_else(ApiError::into_response);
                speak(&app, &asked, response).await
            };
            match fault {
                Some(fault) => match fault::apply(&app, &path, fault, process).await {
                    Ok(response) => response,
                    // The request stays in the log without a status.
                    Err(Cut) => return Cut::response(),
                },
                None => process.await,
            }
        }
        Err(error) => {
            recording.not_authenticated().await;
            speak(&app, &asked, error.into_response()).await
        }
    };
    recording.respond(write_error(&app, &path, response)).await
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
type Params = Result<Path<Vec<(String, String)>>, PathRejection>;
