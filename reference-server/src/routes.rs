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

use crate::api::app::Shared;
use crate::api::control;
use crate::api::control::guard::{check_query, guard};
use crate::api::email;
use crate::api::extraction;
use crate::api::framework::auth;
use crate::api::framework::call::Call;
use crate::api::framework::fault;
use crate::api::framework::input::Input;
use crate::api::framework::listen::ConnectionAborter;
use crate::api::framework::response::{self, ApiResponse};
use crate::api::openapi;
use crate::api::tracking;
use crate::model::compatibility::ErrorFormat;
use crate::model::error::{ApiError, Code};
use crate::store::faults;
use crate::store::keys::Key;

/// The routes of both services and of the control interface.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for &operation in Operation::ALL {
        let filter = match operation.method() {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
            // A test calls every operation, so none is left out.
            _ => continue,
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
    router = control_routes(tracking::routes(router));
    router = openapi::routes(router, CONTROL);
    router
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

/// Declares the routes of the control interface: a table for the description, and the
/// function that adds them to a router.
macro_rules! control_routes {
    ($($method:ident $path:literal => $handler:path,)*) => {
        /// The method and the path of every route of the control interface.
        pub(crate) const CONTROL: &[(&str, &str)] = &[$((stringify!($method), $path),)*];

        fn control_routes(router: Router<Shared>) -> Router<Shared> {
            $(let router = control_route(router, MethodFilter::$method, $path, $handler);)*
            router
        }
    };
}

control_routes! {
    GET "/_sandbox/health" => control::health::get,
    GET "/_sandbox/lease" => control::lease::get,
    GET "/metrics" => control::metrics::get,
    GET "/readyz" => control::metrics::ready,
    POST "/_sandbox/organizations" => control::organizations::create,
    GET "/_sandbox/organizations" => control::organizations::list,
    POST "/_sandbox/keys" => control::keys::create,
    GET "/_sandbox/keys" => control::keys::list,
    DELETE "/_sandbox/keys/{id}" => control::keys::delete,
    PUT "/_sandbox/templates/{id}" => control::templates::put,
    GET "/_sandbox/templates/{id}" => control::templates::get,
    DELETE "/_sandbox/templates/{id}" => control::templates::delete,
    POST "/_sandbox/dns/{domain}/publish" => control::dns::publish,
    DELETE "/_sandbox/dns/{domain}" => control::dns::withdraw,
    DELETE "/_sandbox/dns/{domain}/{record}" => control::dns::withdraw,
    GET "/_sandbox/messages" => control::messages::list,
    GET "/_sandbox/messages/wait" => control::messages::wait,
    GET "/_sandbox/messages/{id}" => control::messages::get,
    GET "/_sandbox/messages/{id}/raw" => control::messages::raw,
    GET "/_sandbox/messages/{id}/html" => control::messages::html,
    GET "/_sandbox/messages/{id}/links" => control::messages::links,
    POST "/_sandbox/emails/{id}/events" => control::events::create,
    POST "/_sandbox/inbound" => control::inbound::create,
    POST "/_sandbox/extractions" => control::extractions::create,
    GET "/_sandbox/deliveries" => control::deliveries::list,
    GET "/_sandbox/deliveries/{id}" => control::deliveries::get,
    POST "/_sandbox/deliveries/{id}/replay" => control::deliveries::replay,
    GET "/_sandbox/clock" => control::clock::get,
    POST "/_sandbox/clock" => control::clock::set,
    GET "/_sandbox/faults" => control::faults::list,
    POST "/_sandbox/faults" => control::faults::create,
    DELETE "/_sandbox/faults" => control::faults::clear,
    GET "/_sandbox/faults/{id}" => control::faults::get,
    DELETE "/_sandbox/faults/{id}" => control::faults::delete,
    POST "/_sandbox/reset" => control::reset::reset,
}

/// Adds one route of the control interface.
fn control_route<F, Fut>(
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
            let result = match guard(&input).and_then(|()| check_query(&input)) {
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
    faults::save(&app.store, updates).await;
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
        // A test calls every operation, so none gets here.
        _ => Err(ApiError::not_found("operation")),
    }
}

/// The path parameters, or an error if they are not UTF-8.
type Params = Result<RawPathParams, RawPathParamsRejection>;

fn pairs(params: &Params) -> Option<Vec<(String, String)>> {
    let pairs = params.as_ref().ok()?.iter();
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
