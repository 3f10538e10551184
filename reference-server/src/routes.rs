//! Routes, and the checks that run before every handler.

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
use crate::api::control::ControlResponse;
use crate::api::control::guard::{check_query, guard};
use crate::api::control::operation::ControlOperation;
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
    for &operation in ControlOperation::ALL {
        let filter = MethodFilter::try_from(operation.method()).expect("a common method");
        let handler = move |State(app): State<Shared>, params: Params, request: Request| {
            handle_control(app, operation, pairs(&params), request)
        };
        router = router.route(operation.path(), on(filter, handler));
    }
    openapi::routes(tracking::routes(router))
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
    app: Shared,
    operation: ControlOperation,
    params: Option<Vec<(String, String)>>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(params) = params else {
        return response::error(&ApiError::not_found("path"), ErrorFormat::Nested);
    };
    let mut input = Input::new(app, parts, params, body);
    input.route = operation.path();
    let result = match guard(&input).and_then(|()| check_query(&input)) {
        Ok(()) => control(operation, input).await,
        Err(error) => Err(error),
    };
    result.unwrap_or_else(|error| response::error(&error, ErrorFormat::Nested))
}

async fn control(operation: ControlOperation, input: Input) -> ControlResponse {
    use ControlOperation as O;
    match operation {
        O::Health => control::health::get(input).await,
        O::Lease => control::lease::get(input).await,
        O::Metrics => control::metrics::get(input).await,
        O::Ready => control::metrics::ready(input).await,
        O::OrganizationsCreate => control::organizations::create(input).await,
        O::OrganizationsList => control::organizations::list(input).await,
        O::KeysCreate => control::keys::create(input).await,
        O::KeysList => control::keys::list(input).await,
        O::KeysDelete => control::keys::delete(input).await,
        O::TemplatesPut => control::templates::put(input).await,
        O::TemplatesGet => control::templates::get(input).await,
        O::TemplatesDelete => control::templates::delete(input).await,
        O::DnsPublish => control::dns::publish(input).await,
        O::DnsWithdraw | O::DnsWithdrawRecord => control::dns::withdraw(input).await,
        O::MessagesList => control::messages::list(input).await,
        O::MessagesWait => control::messages::wait(input).await,
        O::MessagesGet => control::messages::get(input).await,
        O::MessagesRaw => control::messages::raw(input).await,
        O::MessagesHtml => control::messages::html(input).await,
        O::MessagesLinks => control::messages::links(input).await,
        O::EventsCreate => control::events::create(input).await,
        O::InboundCreate => control::inbound::create(input).await,
        O::ExtractionsCreate => control::extractions::create(input).await,
        O::DeliveriesList => control::deliveries::list(input).await,
        O::DeliveriesGet => control::deliveries::get(input).await,
        O::DeliveriesReplay => control::deliveries::replay(input).await,
        O::ClockGet => control::clock::get(input).await,
        O::ClockSet => control::clock::set(input).await,
        O::FaultsList => control::faults::list(input).await,
        O::FaultsCreate => control::faults::create(input).await,
        O::FaultsClear => control::faults::clear(input).await,
        O::FaultsGet => control::faults::get(input).await,
        O::FaultsDelete => control::faults::delete(input).await,
        O::Reset => control::reset::reset(input).await,
    }
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
