//! [`ControlCall`]: a request to the control interface, with its query, its body and its
//! organization.

use std::any::TypeId;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::body::Described;
use super::input::{Input, object};
use super::response::{Json, NoContent, Reply};
use crate::app::Shared;
use crate::control::endpoint::{Endpoint, Subject};
use crate::control::query::NoQuery;
use crate::model::error::ApiError;
use crate::model::heavy;
use crate::store::NO_ORGANIZATION;
use crate::store::organizations::{SANDBOX, find_named};

/// A request to the control interface that may use it, and that is well-formed.
pub(crate) struct ControlCall<B = (), Q = NoQuery> {
    pub(crate) input: Input,
    /// [`NO_ORGANIZATION`] if the request is about the server.
    pub(crate) organization: i64,
    pub(crate) query: Q,
    pub(crate) body: B,
    /// The body of a request that has it in the other content type; `body` is then empty.
    pub(crate) source: Option<Bytes>,
}

impl<B, Q> ControlCall<B, Q> {
    pub(crate) fn app(&self) -> &Shared {
        &self.input.app
    }

    /// The first path parameter, which is the ID of the resource.
    pub(crate) fn id(&self) -> String {
        self.input.id().to_owned()
    }
}

impl<B: DeserializeOwned + Send + 'static, Q: DeserializeOwned> ControlCall<B, Q> {
    pub(super) async fn read<R>(
        mut input: Input,
        endpoint: &Endpoint<B, R, Q>,
    ) -> Result<Self, ApiError> {
        let query = read_query(&input)?;
        let mut source = None;
        let content_type = input.header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let bytes = if !has_body::<B>() {
            Bytes::from_static(b"null")
        } else if endpoint.also_accepts.is_some_and(|other| content_type.starts_with(other)) {
            source = Some(input.bytes().await?);
            Bytes::from_static(b"{}")
        } else {
            let bytes = input.json_bytes().await?;
            let is_empty = bytes.is_empty() && endpoint.has_optional_body;
            if is_empty { Bytes::from_static(b"{}") } else { bytes }
        };
        let (body, named) = heavy::run_on(bytes.len(), move || parse(&bytes)).await?;
        let named = named_once(named, input.query().remove("organization"))?;
        let organization = match (endpoint.subject, &named) {
            (Subject::Server, _) | (Subject::OrganizationOrServer, None) => NO_ORGANIZATION,
            _ => find_organization(&input.app, named).await?,
        };
        Ok(Self { input, organization, query, body, source })
    }
}

/// Reads the query, whose parameters the description of the request has.
fn read_query<Q: DeserializeOwned>(input: &Input) -> Result<Q, ApiError> {
    let parameters = input.query().into_iter().filter(|(name, _)| name != "organization");
    let parameters: Map<_, _> =
        parameters.map(|(name, value)| (name, Value::String(value))).collect();
    serde_path_to_error::deserialize(Value::Object(parameters)).map_err(|error| {
        let (parameter, text) = (error.path().to_string(), error.into_inner().to_string());
        // What precedes "expected" quotes the value.
        ApiError::field(
            parameter,
            match text.split_once("expected ") {
                Some((_, expected)) => format!("must be {}", expected.replace('`', "")),
                None => text,
            },
        )
    })
}

/// Parses a body, and the name of the organization in it.
fn parse<B: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<(B, Option<String>), ApiError> {
    #[derive(Default, Deserialize)]
    struct Named {
        organization: Option<String>,
    }

    if !has_body::<B>() {
        return Ok((serde_json::from_slice(bytes).map_err(ApiError::internal)?, None));
    }
    let body = object(bytes)?;
    let Named { organization } = serde_json::from_slice(bytes).unwrap_or_default();
    Ok((body, organization))
}

fn has_body<B: 'static>() -> bool {
    TypeId::of::<B>() != TypeId::of::<()>()
}

/// The organization that the body or the query names. They must not contradict each other.
fn named_once(
    in_body: Option<String>,
    in_query: Option<String>,
) -> Result<Option<String>, ApiError> {
    match (in_body, in_query) {
        (Some(body), Some(query)) if body != query => {
            let message = "differs between the query and the body; give it once";
            Err(ApiError::field("organization", message))
        }
        (body, query) => Ok(body.or(query)),
    }
}

/// Finds an organization by its ID or its name. The default is the seeded organization
/// `Sandbox`.
pub(crate) async fn find_organization(
    app: &Shared,
    named: Option<String>,
) -> Result<i64, ApiError> {
    let named = match named {
        Some(named) => named,
        None if app.settings.seed => SANDBOX.to_owned(),
        None => {
            let message = "is required, because the server has no seed data";
            return Err(ApiError::field("organization", message));
        }
    };
    app.store.read(move |reader| find_named(reader, &named)).await
}

/// A reply whose body is an `R`.
pub(crate) trait Returns<R>: Reply {}

impl<T, const STATUS: u16> Returns<T> for Json<T, STATUS> where Self: Reply {}

impl Returns<()> for NoContent {}

impl Returns<Bytes> for Response<Body> {}

/// Describes the body of a request.
pub(super) fn describe_body<B: JsonSchema + 'static, const REQUIRED: bool>(
    generator: &mut SchemaGenerator,
) -> Described {
    match has_body::<B>() {
        true => Described::Json { required: REQUIRED, schema: generator.subschema_for::<B>() },
        false => Described::None,
    }
}

/// Describes the parameters of a query, besides `organization`.
pub(super) fn parameters<Q: JsonSchema>() -> Vec<Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = Q::json_schema(&mut settings.for_deserialize().into_generator()).to_value();
    let properties = schema["properties"].take();
    let Value::Object(properties) = properties else { return Vec::new() };
    let describe = |(name, mut schema): (String, Value)| {
        let description = schema["description"].take();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("description");
            schema.remove("default");
            remove_null(schema);
        }
        json!({"name": name, "in": "query", "description": description, "schema": schema})
    };
    properties.into_iter().map(describe).collect()
}

/// A parameter that is not given is absent, and never null.
fn remove_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|one| *one != json!({"type": "null"}));
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}
