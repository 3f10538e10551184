//! [`ControlCall`]: a request to the control interface, with its query, its body and its
//! organization.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::Shared;
use crate::control::query::{timeout, uuid};
use crate::control::{Cursor, Declaration, Endpoint, NoQuery, Subject, is_nothing};
use crate::http::input::{Input, object};
use crate::http::response::Reply;
use crate::model::{Failure, Result, schema, typed};
use crate::runtime::heavy;
use crate::store::{NO_ORGANIZATION, SANDBOX, find_named};

/// A request to the control interface that may use it, and that is well-formed.
pub(crate) struct ControlCall<B = (), Q = NoQuery> {
    pub(crate) input: Input,
    pub(crate) query: Q,
    /// The maximum number of results of a list, and the cursor.
    pub(crate) limit: usize,
    pub(crate) cursor: Option<String>,
    /// How long a request that waits may take.
    pub(crate) wait: Duration,
    pub(crate) body: B,
    /// The body of a request that has it in the other content type; `body` is then empty.
    pub(crate) source: Option<Bytes>,
}

impl<B, Q> Deref for ControlCall<B, Q> {
    type Target = Input;

    fn deref(&self) -> &Input {
        &self.input
    }
}

impl<B: DeserializeOwned + Send + 'static, Q: DeserializeOwned> ControlCall<B, Q> {
    pub(super) async fn receive<R>(mut input: Input, endpoint: &Endpoint<B, R, Q>) -> Result<Self> {
        let mut parameters = parameters(&input)?;
        let in_query = parameters.remove("organization");
        let (limit, cursor) = match endpoint.declared.cursor {
            Some(cursor) => read_page(&mut parameters, cursor)?,
            None => (0, None),
        };
        let wait = match endpoint.declared.wait {
            Some(limits) => timeout(parameters.remove("timeout").as_deref(), limits)?,
            None => Duration::ZERO,
        };
        let query = read_query(parameters, &endpoint.declared)?;
        let mut source = None;
        let content_type = input
            .header(CONTENT_TYPE)
            .unwrap_or_default()
            .to_ascii_lowercase();
        let bytes = if is_nothing::<B>() {
            Bytes::from_static(b"null")
        } else if endpoint
            .declared
            .also_accepts
            .is_some_and(|other| content_type.starts_with(other))
        {
            source = Some(input.bytes()?);
            Bytes::from_static(b"{}")
        } else {
            let bytes = input.json_bytes()?;
            let is_empty = bytes.is_empty() && endpoint.declared.has_optional_body;
            if is_empty {
                Bytes::from_static(b"{}")
            } else {
                bytes
            }
        };
        let (body, in_body) = heavy::run_on(bytes.len(), move || parse(&bytes)).await?;
        if in_body.is_some() && in_query.is_some() && in_body != in_query {
            let message = "differs between the query and the body; give it once";
            return Err(Failure::field("organization", message));
        }

        let named = in_body.or(in_query);
        input.organization = match (endpoint.declared.subject, &named) {
            (Subject::Server, _) | (Subject::OrganizationOrServer, None) => NO_ORGANIZATION,
            _ => find_organization(&input.app, named).await?,
        };
        Ok(Self {
            input,
            query,
            limit,
            cursor,
            wait,
            body,
            source,
        })
    }
}

/// The parameters of the query, each of which is given once.
fn parameters(input: &Input) -> Result<BTreeMap<String, String>> {
    let text = input.parts.uri.query().unwrap_or_default();
    let mut parameters = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(text.as_bytes()).into_owned() {
        if parameters.contains_key(&name) {
            return Err(Failure::field(name, "is given more than once"));
        }
        parameters.insert(name, value);
    }
    Ok(parameters)
}

/// Reads which page of a list is requested: the limit and the cursor.
fn read_page(
    parameters: &mut BTreeMap<String, String>,
    kind: Cursor,
) -> Result<(usize, Option<String>)> {
    let limit = parameters
        .remove("limit")
        .map_or(Some(DEFAULT_LIMIT), |text| {
            text.parse()
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        });
    let invalid = || format!("must be an integer from 1 to {MAX_LIMIT}");
    let limit = limit.ok_or_else(|| Failure::field("limit", invalid()))?;
    let cursor = parameters.remove("cursor");
    if kind == Cursor::Id
        && cursor
            .as_deref()
            .is_some_and(|cursor| uuid(cursor).is_none())
    {
        let message = "must be the `next` value of the previous page";
        return Err(Failure::field("cursor", message));
    }

    Ok((limit, cursor))
}

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Reads the query. A misspelt `organization` must not select another one, so there are no other
/// parameters than those of the type.
fn read_query<Q: DeserializeOwned>(
    parameters: BTreeMap<String, String>,
    declared: &Declaration,
) -> Result<Q> {
    let parameters = parameters
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)));
    let mut known = vec!["organization"];
    if declared.cursor.is_some() {
        known.extend(["limit", "cursor"]);
    }
    known.extend(declared.wait.map(|_| "timeout"));
    let query = Value::Object(parameters.collect());
    typed::read(query, "a query parameter of this path", &known)
}

/// Parses a body, and the name of the organization in it.
fn parse<B: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<(B, Option<String>)> {
    #[derive(Default, Deserialize)]
    struct Named {
        organization: Option<String>,
    }

    if is_nothing::<B>() {
        return Ok((
            serde_json::from_slice(bytes).map_err(Failure::internal)?,
            None,
        ));
    }

    let body = object(bytes)?;
    let Named { organization } = serde_json::from_slice(bytes).unwrap_or_default();
    Ok((body, organization))
}

/// Finds an organization by its ID or its name. The default is the seeded organization
/// `Sandbox`.
pub(crate) async fn find_organization(app: &Shared, named: Option<String>) -> Result<i64> {
    let named = match named {
        Some(named) => named,
        None if app.settings.seed => SANDBOX.to_owned(),
        None => {
            let message = "is required, because the server has no seed data";
            return Err(Failure::field("organization", message));
        }
    };
    app.store
        .read(move |reader| find_named(reader, &named))
        .await
}

/// The values that a handler may return for a response of the type `R`.
pub(crate) trait Returns<R>: Send + 'static {
    /// The schema of the body, if there is one.
    fn describe(generator: &mut SchemaGenerator) -> Option<Schema>;

    fn respond(self, status: StatusCode) -> Result<Response<Body>>;
}

impl<T: Serialize + JsonSchema + Send + 'static> Returns<T> for T {
    fn describe(generator: &mut SchemaGenerator) -> Option<Schema> {
        describe::<T>(generator)
    }

    fn respond(self, status: StatusCode) -> Result<Response<Body>> {
        Reply::<T>::json(status, &self).map(Reply::into_response)
    }
}

/// A body that is not JSON.
impl Returns<Bytes> for Response<Body> {
    fn describe(_: &mut SchemaGenerator) -> Option<Schema> {
        Some(schemars::json_schema!({"type": "string"}))
    }

    fn respond(self, _: StatusCode) -> Result<Self> {
        Ok(self)
    }
}

/// A documented resource, which the client reads as the SDK's `R`.
impl<R, T: JsonSchema + 'static> Returns<R> for Reply<T> {
    fn describe(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.subschema_for::<T>())
    }

    fn respond(self, _: StatusCode) -> Result<Response<Body>> {
        Ok(self.into_response())
    }
}

/// Describes the JSON of a request or of a response, if there is one.
pub(super) fn describe<T: JsonSchema + 'static>(generator: &mut SchemaGenerator) -> Option<Schema> {
    (!is_nothing::<T>()).then(|| generator.subschema_for::<T>())
}

/// Describes the parameters that lists, and requests that wait, have beside those of their type.
pub(crate) fn describe_common(declared: &Declaration) -> Vec<Value> {
    let mut described = Vec::new();
    let mut add = |name: &str, description: &str, schema: Value| {
        described.push(
            json!({"name": name, "in": "query", "description": description, "schema": schema}),
        );
    };

    if let Some(cursor) = declared.cursor {
        let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
        add("limit", "Maximum number of results.", limit);
        let cursor = match cursor {
            Cursor::Id => schema_of::<schema::Id>(),
            Cursor::Text => json!({"type": "string"}),
        };
        add("cursor", "The `next` value of the previous page.", cursor);
    }

    if let Some([default, max]) = declared.wait {
        let text =
            format!("How long to wait, in real time, at most {max:?}. Default: {default:?}.");
        add("timeout", &text, schema_of::<schema::Duration>());
    }
    described
}

fn schema_of<T: JsonSchema>() -> Value {
    T::json_schema(&mut SchemaGenerator::default()).to_value()
}

/// Describes the parameters of a query, besides `organization`.
pub(super) fn describe_query<Q: JsonSchema>() -> Vec<Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = Q::json_schema(&mut settings.for_deserialize().into_generator()).to_value();
    let properties = schema["properties"].take();
    let Value::Object(properties) = properties else {
        return Vec::new();
    };

    let describe = |(name, mut schema): (String, Value)| {
        let description = schema["description"].take();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("description");
            schema.remove("default");
            // A parameter that is not given is absent, and never null.
            let kind = schema
                .get("type")
                .and_then(|types| types.as_array()?.first().cloned());
            if let Some(kind) = kind {
                schema.insert("type".to_owned(), kind);
            }
        }
        json!({"name": name, "in": "query", "description": description, "schema": schema})
    };

    properties.into_iter().map(describe).collect()
}
