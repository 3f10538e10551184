//! Routes, and the checks that run before every handler.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::routing::{MethodFilter, on};
use http::Response;
use svc_sdk::{Method, Operation, Service};

use super::auth;
use super::call::Call;
use super::fault;
use super::input::Input;
use super::listen::ConnectionAborter;
use super::response::{self, ApiResponse};
use crate::app::{App, Shared};
use crate::compatibility::ErrorFormat;
use crate::error::{ApiError, Code};
use crate::keys::Key;
use crate::{control, email, extraction, faults, openapi, tracking};

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for operation in Operation::ALL {
        let filter = match operation.method() {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let handler = move |State(app): State<Shared>, params: Params, request: Request| async move {
            let started = Instant::now();
            let metrics = Arc::clone(&app);
            let response = handle_documented(app, operation, pairs(&params), request).await;
            metrics.metrics.request(operation, response.status(), started.elapsed());
            response
        };
        router = router.route(operation.path(), on(filter, handler));
    }
    router = control::routes(tracking::routes(router));
    router = openapi::routes(router);
    router
        .method_not_allowed_fallback(|State(app): State<Shared>, request: Request| async move {
            let message = format!("this path does not support the method {}", request.method());
            response::error(
                &ApiError::new(Code::MethodNotAllowed, message),
                error_format(&app, request.uri().path()),
            )
        })
        .fallback(|State(app): State<Shared>, request: Request| async move {
            response::error(&ApiError::not_found("path"), error_format(&app, request.uri().path()))
        })
        .with_state(Arc::clone(app))
}

/// Adds one route of the control interface.
pub(crate) fn control<F, Fut>(
    router: Router<Shared>,
    filter: MethodFilter,
    path: &'static str,
    handler: F,
) -> Router<Shared>
where
    F: Fn(Input) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response<Body>, ApiError>> + Send + 'static,
{
    let handler = move |State(app): State<Shared>, params: Params, request: Request| {
        let handler = handler.clone();
        async move {
            let (parts, body) = request.into_parts();
            let Some(params) = pairs(&params) else {
                return response::error(&ApiError::not_found("path"), ErrorFormat::Nested);
            };
            let mut input = Input::new(app, parts, params, body);
            input.route = path;
            let result = match control::guard(&input).and_then(|()| control::check_query(&input)) {
                Ok(()) => handler(input).await,
                Err(error) => Err(error),
            };
            result.unwrap_or_else(|error| response::error(&error, ErrorFormat::Nested))
        }
    };
    router.route(path, on(filter, handler))
}

/// Handles a request to a documented operation.
async fn handle_documented(
    app: Shared,
    operation: Operation,
    params: Option<Vec<(String, String)>>,
    request: Request,
) -> Response<Body> {
    let format = app.settings.compatibility.error_format;
    let (parts, body) = request.into_parts();
    let Some(params) = params else { return response::error(&ApiError::not_found("path"), format) };
    let key = match auth::authenticate(&app, operation.service(), &parts) {
        Ok(key) => key,
        // The format of this error is documented (`docs/extraction-service/errors.md`), so no
        // setting changes it.
        Err(error) if operation.service() == Service::Extraction => {
            return response::error(&error, ErrorFormat::Nested);
        }
        Err(error) => return response::error(&error, format),
    };
    let (fault, updates) = app.faults.trigger(key.organization, operation, app.clock.now());
    faults::save(&app, updates).await;
    let aborter = parts.extensions.get::<ConnectionAborter>().cloned();
    let input = Input::new(app, parts, params, body);
    let process = async move {
        match call(operation, key, input).await {
            Ok(response) => response.into(),
            Err(error) => response::error(&error, format),
        }
    };
    match fault {
        Some(effect) => fault::apply(effect, aborter.unwrap_or_default(), process).await,
        None => process.await,
    }
}

/// Runs the checks that follow authentication, in the order of
/// `docs/undocumented/both-services.md#order-of-checks`, and then the operation.
async fn call(operation: Operation, key: Arc<Key>, input: Input) -> Result<ApiResponse, ApiError> {
    auth::check_rate_limit(&input.app, &key)?;
    auth::authorize(operation, &key)?;
    let call = Call { operation, key, input };
    match operation {
        Operation::Me => extraction::me::get(call).await,
        Operation::ExtractionWebhooksCreate => extraction::webhooks::create(call).await,
        Operation::ExtractionWebhooksList => extraction::webhooks::list(call).await,
        Operation::ExtractionWebhooksDelete => extraction::webhooks::delete(call).await,
        Operation::AudiencesCreate => email::audiences::create(call).await,
        Operation::AudiencesList => email::audiences::list(call).await,
        Operation::AudiencesGet => email::audiences::get(call).await,
        Operation::AudiencesDelete => email::audiences::delete(call).await,
        Operation::ContactsCreate => email::contacts::create(call).await,
        Operation::ContactsList => email::contacts::list(call).await,
        Operation::ContactsUpdate => email::contacts::update(call).await,
        Operation::ContactsDelete => email::contacts::delete(call).await,
        Operation::DomainsList => email::domains::list(call).await,
        Operation::DomainsCreate => email::domains::create(call).await,
        Operation::DomainsVerify => email::domains::verify(call).await,
        Operation::DomainsDelete => email::domains::delete(call).await,
        Operation::EmailsSend => email::emails::send(call).await,
        Operation::EmailsSendBatch => email::batch::send(call).await,
        Operation::EmailsGet => email::emails::get(call).await,
        Operation::EmailsCancel => email::emails::cancel(call).await,
        Operation::WebhooksCreate => email::webhooks::create(call).await,
        Operation::WebhooksList => email::webhooks::list(call).await,
        Operation::WebhooksUpdate => email::webhooks::update(call).await,
        Operation::WebhooksDelete => email::webhooks::delete(call).await,
        Operation::WebhooksTest => email::webhooks::test(call).await,
    }
}

/// The path parameters, or an error if they are not UTF-8.
type Params = Result<RawPathParams, RawPathParamsRejection>;

fn pairs(params: &Params) -> Option<Vec<(String, String)>> {
    let pairs = params.as_ref().ok()?.iter();
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The error format for a path. No setting changes that of the control interface.
pub(super) fn error_format(app: &App, path: &str) -> ErrorFormat {
    if path.starts_with("/_sandbox/") {
        ErrorFormat::Nested
    } else {
        app.settings.compatibility.error_format
    }
}
