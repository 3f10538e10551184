//! The control interface under `/_sandbox/`: what tests need beyond the documented
//! services (`docs/control-interface.md`).

pub(crate) mod clock;
pub(crate) mod deliveries;
pub(crate) mod dns;
pub(crate) mod events;
pub(crate) mod extractions;
pub(crate) mod faults;
mod guard;
pub(crate) mod health;
pub(crate) mod inbound;
pub(crate) mod keys;
mod lease;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod organizations;
pub(crate) mod reset;
pub(crate) mod templates;

use axum::Router;
use axum::body::Body;
use axum::routing::MethodFilter;
use http::{Response, StatusCode};
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::Shared;
use crate::error::{ApiError, Code};
use crate::web::{ApiResponse, Input};
pub(crate) use guard::{check_query, guard};
pub(crate) use lease::PATH as LEASE_PATH;

type ControlResponse = Result<Response<Body>, ApiError>;

/// Adds the routes of the control interface.
pub(crate) fn routes(router: Router<Shared>) -> Router<Shared> {
    route_table(router).0
}

/// The method and the path of every route.
pub(crate) fn endpoints() -> Vec<(&'static str, &'static str)> {
    route_table(Router::new()).1
}

fn route_table(mut router: Router<Shared>) -> (Router<Shared>, Vec<(&'static str, &'static str)>) {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    const PUT: MethodFilter = MethodFilter::PUT;
    const DELETE: MethodFilter = MethodFilter::DELETE;
    let mut endpoints = Vec::new();
    macro_rules! route {
        ($method:ident, $path:expr, $handler:path) => {
            router = crate::web::control(router, $method, $path, $handler);
            endpoints.push((stringify!($method), $path));
        };
    }
    route!(GET, "/_sandbox/health", health::get);
    route!(GET, LEASE_PATH, lease::get);
    route!(GET, "/metrics", metrics::get);
    route!(GET, "/readyz", metrics::ready);
    route!(POST, "/_sandbox/organizations", organizations::create);
    route!(GET, "/_sandbox/organizations", organizations::list);
    route!(POST, "/_sandbox/keys", keys::create);
    route!(GET, "/_sandbox/keys", keys::list);
    route!(DELETE, "/_sandbox/keys/{id}", keys::delete);
    route!(PUT, "/_sandbox/templates/{id}", templates::put);
    route!(GET, "/_sandbox/templates/{id}", templates::get);
    route!(DELETE, "/_sandbox/templates/{id}", templates::delete);
    route!(POST, "/_sandbox/dns/{domain}/publish", dns::publish);
    route!(DELETE, "/_sandbox/dns/{domain}", dns::withdraw);
    route!(DELETE, "/_sandbox/dns/{domain}/{record}", dns::withdraw);
    route!(GET, "/_sandbox/messages", messages::list);
    route!(GET, "/_sandbox/messages/wait", messages::wait);
    route!(GET, "/_sandbox/messages/{id}", messages::get);
    route!(GET, "/_sandbox/messages/{id}/raw", messages::raw);
    route!(GET, "/_sandbox/messages/{id}/html", messages::html);
    route!(GET, "/_sandbox/messages/{id}/links", messages::links);
    route!(POST, "/_sandbox/emails/{id}/events", events::create);
    route!(POST, "/_sandbox/inbound", inbound::create);
    route!(POST, "/_sandbox/extractions", extractions::create);
    route!(GET, "/_sandbox/deliveries", deliveries::list);
    route!(GET, "/_sandbox/deliveries/{id}", deliveries::get);
    route!(POST, "/_sandbox/deliveries/{id}/replay", deliveries::replay);
    route!(GET, "/_sandbox/clock", clock::get);
    route!(POST, "/_sandbox/clock", clock::set);
    route!(GET, "/_sandbox/faults", faults::list);
    route!(POST, "/_sandbox/faults", faults::create);
    route!(DELETE, "/_sandbox/faults", faults::clear);
    route!(GET, "/_sandbox/faults/{id}", faults::get);
    route!(DELETE, "/_sandbox/faults/{id}", faults::delete);
    route!(POST, "/_sandbox/reset", reset::reset);
    (router, endpoints)
}

/// One page of a list. `next` is the cursor of the next page, or null on the last page.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(crate) struct Page<T> {
    data: Vec<T>,
    next: Option<String>,
}

fn json_response(status: StatusCode, value: &impl Serialize) -> ControlResponse {
    Ok(ApiResponse::json(status, value)?.into())
}

fn no_content() -> ControlResponse {
    Ok(ApiResponse::no_content().into())
}

/// The `organization` query parameter.
fn organization_param(input: &Input) -> Option<String> {
    input.query().remove("organization")
}

/// Finds an organization by its ID or its name. The default is the seeded organization
/// `Sandbox`.
pub(crate) fn organization(
    connection: &Connection,
    settings: &crate::settings::Settings,
    id_or_name: Option<&str>,
) -> Result<i64, ApiError> {
    let id_or_name = match id_or_name {
        Some(id_or_name) => id_or_name,
        None if settings.seed => organizations::SANDBOX,
        None => {
            return Err(ApiError::field(
                "organization",
                "is required, because the server has no seed data",
            ));
        }
    };
    let mut statement = connection.prepare_cached(
        "SELECT seq, id = ?1 FROM organization WHERE id = ?1 OR name = ?1 ORDER BY 2 DESC LIMIT 2",
    )?;
    let rows = statement.query_map([id_or_name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    match found[..] {
        [] => Err(ApiError::not_found("organization")),
        [(seq, _)] | [(seq, true), _] => Ok(seq),
        _ => {
            let message = "several organizations have this name; use the ID instead";
            Err(ApiError::new(Code::Conflict, message))
        }
    }
}
