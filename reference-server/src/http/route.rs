//! [`Route`]: an operation, its handler, and what the handler's types do not say about it.
//! The router and the OpenAPI description are derived from it.

use std::sync::Arc;

use axum::body::Body;
use futures_util::future::BoxFuture;
use http::{Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_sdk::{Dialect, Operation};

use crate::control::{Declaration, Endpoint, is_nothing};
use crate::http::call::Call;
use crate::http::control::{ControlCall, Returns, describe, describe_query};
use crate::http::input::Input;
use crate::http::response::success;
use crate::model::key::Key;
use crate::model::{Code, Result};

pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) declared: Declaration,
    pub(crate) tag: &'static str,
    /// Errors beyond those that follow from the operation, its parameters and its body.
    pub(crate) errors: &'static [Code],
    pub(crate) query: fn(&Dialect) -> Vec<Value>,
    pub(crate) body: fn(&mut SchemaGenerator) -> Option<Schema>,
    pub(crate) reply: fn(&mut SchemaGenerator) -> Option<Schema>,
}

pub(crate) enum Target {
    /// An operation of a service.
    Documented(Operation, Boxed<(Arc<Key>, Input)>),
    Control(Boxed<Input>),
}

type Boxed<I> = Box<dyn Fn(I) -> BoxFuture<'static, Result<Response<Body>>> + Send + Sync>;

/// Routes under construction.
#[derive(Default)]
pub(crate) struct Routes {
    all: Vec<Route>,
    tag: &'static str,
}

impl Routes {
    /// Sets the tag of the routes that follow.
    pub(crate) fn tag(&mut self, tag: &'static str) {
        self.tag = tag;
    }

    /// Adds an operation of a service.
    pub(crate) fn documented<B, F, Fut, T>(
        &mut self,
        operation: Operation,
        summary: &'static str,
        handler: F,
    ) -> &mut Route
    where
        B: JsonSchema + 'static,
        F: Fn(Call<B>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
        T: Returns<T>,
    {
        let handler: Boxed<(Arc<Key>, Input)> = Box::new(move |(key, input)| {
            let status = success(operation, input.dialect());
            let reply = handler(Call::new(operation, key, input));
            Box::pin(async move { reply.await?.respond(status) })
        });
        // The operation table has only methods that HTTP defines.
        let method = operation.method().as_str().parse().unwrap_or_default();
        self.add(Route {
            target: Target::Documented(operation, handler),
            declared: Declaration::new(method, "", operation.path(), summary),
            tag: self.tag,
            errors: &[],
            query: |_| Vec::new(),
            body: describe::<B>,
            reply: T::describe,
        })
    }

    /// Adds an operation of the control interface.
    pub(crate) fn control<B, R, Q, F, Fut, T>(
        &mut self,
        endpoint: Endpoint<B, R, Q>,
        handler: F,
    ) -> &mut Route
    where
        B: DeserializeOwned + JsonSchema + Send + 'static,
        R: 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(ControlCall<B, Q>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
        T: Returns<R>,
    {
        let declared = endpoint.declared.clone();
        let status = if is_nothing::<R>() {
            StatusCode::NO_CONTENT
        } else {
            declared.success
        };
        let shared = Arc::new((endpoint, handler));
        let handler: Boxed<Input> = Box::new(move |input| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (endpoint, handler) = &*shared;
                handler(ControlCall::receive(input, endpoint).await?)
                    .await?
                    .respond(status)
            })
        });
        self.add(Route {
            target: Target::Control(handler),
            declared,
            tag: self.tag,
            errors: &[],
            query: |_| describe_query::<Q>(),
            body: describe::<B>,
            reply: T::describe,
        })
    }

    fn add(&mut self, route: Route) -> &mut Route {
        self.all.push(route);
        self.all.last_mut().expect("a route")
    }

    pub(crate) fn into_vec(self) -> Vec<Route> {
        self.all
    }
}

impl Route {
    /// The ID of the operation in the description, such as `emailsGet`.
    pub(crate) fn id(&self) -> String {
        match &self.target {
            Target::Documented(operation, _) => {
                let name = format!("{operation:?}");
                name[..1].to_ascii_lowercase() + &name[1..]
            }
            Target::Control(_) => self.declared.name.to_owned(),
        }
    }
}
