//! [`Endpoint`]: a request of the control interface. Its route, its description and the call of
//! the client are made from the same one, so the compiler compares their types.

use std::any::TypeId;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svc_sdk::{ErrorKind, Outcome, RawResponse};

/// The query of a request without parameters of its own.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

pub(crate) const GET: Method = Method::GET;
pub(crate) const POST: Method = Method::POST;
pub(crate) const PUT: Method = Method::PUT;
pub(crate) const DELETE: Method = Method::DELETE;
pub(crate) const CREATED: StatusCode = StatusCode::CREATED;
pub(crate) const ACCEPTED: StatusCode = StatusCode::ACCEPTED;

/// A request, with the types of the bodies of request (`B`) and response (`R`), and of the query
/// (`Q`). `()` stands for no body, and `Bytes` for a response that is not JSON.
pub(crate) struct Endpoint<B, R, Q = NoQuery> {
    pub(crate) declared: Declaration,
    pub(crate) decode: Decode<R>,
    types: PhantomData<fn(B, Q)>,
}

/// Method and path, and what the types do not say.
#[derive(Clone)]
pub(crate) struct Declaration {
    /// The ID of the operation in the description.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    /// With parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) subject: Subject,
    pub(crate) summary: &'static str,
    /// The status of a successful response, unless it has no content.
    pub(crate) success: StatusCode,
    /// The kind of its cursors, for a list, which comes in pages.
    pub(crate) cursor: Option<Cursor>,
    /// For a request that waits: how long by default, and at most.
    pub(crate) wait: Option<[Duration; 2]>,
    /// The content type of the successful response.
    pub(crate) produces: &'static str,
    /// The content type that the body may have besides JSON.
    pub(crate) also_accepts: Option<&'static str>,
    /// Whether an empty body stands for `{}`.
    pub(crate) has_optional_body: bool,
    /// Whether a request that is not a GET request may change something.
    pub(crate) changes: bool,
}

impl Declaration {
    pub(crate) const fn new(
        method: Method,
        name: &'static str,
        path: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            name,
            method,
            path,
            subject: Subject::Organization,
            summary,
            cursor: None,
            wait: None,
            success: StatusCode::OK,
            produces: "application/json",
            also_accepts: None,
            has_optional_body: false,
            changes: true,
        }
    }
}

/// The subject of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Server,
    /// One organization, which the query or the body names; by default the seeded one.
    Organization,
    /// One organization if the query or the body names it.
    OrganizationOrServer,
}

/// The kind of cursor of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// The ID of a resource: a UUID, which may have a prefix.
    Id,
    Text,
}

/// Reads a response.
pub(crate) type Decode<R> = fn(&RawResponse) -> Result<R, svc_sdk::Error>;

impl<B, R: DeserializeOwned, Q> Endpoint<B, R, Q> {
    /// A request about one organization.
    pub(crate) const fn new(
        method: Method,
        name: &'static str,
        path: &'static str,
        summary: &'static str,
    ) -> Self {
        Self::decoded(Declaration::new(method, name, path, summary), from_json)
    }
}

impl<T: DeserializeOwned, Q> Endpoint<(), Page<T>, Q> {
    /// A GET request for one page of a list.
    pub(crate) const fn list(
        name: &'static str,
        path: &'static str,
        summary: &'static str,
        cursor: Cursor,
    ) -> Self {
        let mut endpoint = Self::new(GET, name, path, summary);
        endpoint.declared.cursor = Some(cursor);
        endpoint
    }
}

impl<Q> Endpoint<(), Bytes, Q> {
    /// A GET request for something of this type, which is not JSON.
    pub(crate) const fn content(
        name: &'static str,
        path: &'static str,
        summary: &'static str,
        content_type: &'static str,
    ) -> Self {
        let mut declared = Declaration::new(GET, name, path, summary);
        declared.produces = content_type;
        Self::decoded(declared, |response| Ok(response.body.clone()))
    }
}

impl<B, R, Q> Endpoint<B, R, Q> {
    const fn decoded(declared: Declaration, decode: Decode<R>) -> Self {
        Self {
            declared,
            decode,
            types: PhantomData,
        }
    }

    /// The response has another status than 200.
    pub(crate) const fn responds(mut self, status: StatusCode) -> Self {
        self.declared.success = status;
        self
    }

    /// The request is about the server.
    pub(crate) const fn of_server(mut self) -> Self {
        self.declared.subject = Subject::Server;
        self
    }

    /// The request is about one organization if it names one, and about the server if not.
    pub(crate) const fn of_organization_or_server(mut self) -> Self {
        self.declared.subject = Subject::OrganizationOrServer;
        self
    }

    /// The request waits for something in real time: by default and at most this many seconds.
    pub(crate) const fn waits(mut self, default: u64, max: u64) -> Self {
        self.declared.wait = Some([Duration::from_secs(default), Duration::from_secs(max)]);
        self
    }

    pub(crate) const fn also_accepts(mut self, content_type: &'static str) -> Self {
        self.declared.also_accepts = Some(content_type);
        self
    }

    /// An empty body stands for `{}`.
    pub(crate) const fn optional_body(mut self) -> Self {
        self.declared.has_optional_body = true;
        self
    }

    /// The request changes nothing, although it is not a GET request.
    pub(crate) const fn changes_nothing(mut self) -> Self {
        self.declared.changes = false;
        self
    }
}

fn from_json<R: DeserializeOwned>(response: &RawResponse) -> Result<R, svc_sdk::Error> {
    let body: &[u8] = if response.body.is_empty() {
        b"null"
    } else {
        &response.body
    };
    serde_json::from_slice(body).map_err(|error| {
        svc_sdk::Error::new(
            ErrorKind::invalid_response(error.to_string()),
            Outcome::Unknown,
        )
    })
}

/// Whether a body of this type is no body.
pub(crate) fn is_nothing<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<()>()
}

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}List")]
#[non_exhaustive]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// The cursor of the next page, or null on the last page.
    pub next: Option<String>,
}
