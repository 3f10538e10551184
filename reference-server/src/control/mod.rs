//! The control interface under `/_sandbox/` (`docs/control-interface.md`): what a test or a
//! person needs and the documented services do not offer.

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
use crate::web::{Answer, Input};
pub(crate) use guard::guard;
pub(crate) use lease::PATH as LEASE;

type Reply = Result<Response<Body>, ApiError>;

/// Adds the routes of the control interface.
pub(crate) fn routes(router: Router<Shared>) -> Router<Shared> {
    table(router).0
}

/// Method and path of each of its rows.
pub(crate) fn rows() -> Vec<(&'static str, &'static str)> {
    table(Router::new()).1
}

fn table(mut router: Router<Shared>) -> (Router<Shared>, Vec<(&'static str, &'static str)>) {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    const PUT: MethodFilter = MethodFilter::PUT;
    const DELETE: MethodFilter = MethodFilter::DELETE;
    let mut rows = Vec::new();
    macro_rules! route {
        ($method:ident, $path:expr, $handler:path) => {
            router = crate::web::control(router, $method, $path, $handler);
            rows.push((stringify!($method), $path));
        };
    }
    route!(GET, "/_sandbox/health", health::get);
    route!(GET, LEASE, lease::get);
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
    (router, rows)
}

/// A part of a list; `next` is the cursor of the part after it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(crate) struct Page<T> {
    data: Vec<T>,
    next: Option<String>,
}

fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    Ok(Answer::json(status, value)?.into())
}

fn no_content() -> Reply {
    Ok(Answer::no_content().into())
}

/// The organization that the query names.
fn organization_of_query(input: &Input) -> Option<String> {
    input.query().remove("organization")
}

/// Finds the organization that is meant: its id or its name, `Sandbox` where
/// none was named.
pub(crate) fn organization(
    connection: &Connection,
    settings: &crate::settings::Settings,
    named: Option<&str>,
) -> Result<i64, ApiError> {
    let name = match named {
        Some(name) => name,
        None if settings.seed => organizations::SANDBOX,
        None => {
            return Err(ApiError::field("organization", "is required: the server has no seeds"));
        }
    };
    let mut statement = connection.prepare_cached(
        "SELECT seq, id = ?1 FROM organization WHERE id = ?1 OR name = ?1 ORDER BY 2 DESC LIMIT 2",
    )?;
    let rows = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, bool)> = rows.collect::<rusqlite::Result<_>>()?;
    match found[..] {
        [] => Err(ApiError::not_found("organization")),
        [(seq, _)] | [(seq, true), _] => Ok(seq),
        _ => {
            let message = "several organizations have this name: give the id of the one meant";
            Err(ApiError::new(Code::Conflict, message))
        }
    }
}
