//! `/_sandbox/domains`: the sending domains, as the email service has them.

use std::sync::Arc;

use super::query::Query;
use super::{Page, organization, organization_param};
use crate::api::email::domains::{View, view};
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::store::domains;

/// Lists one page of the domains, oldest first.
pub(crate) async fn list(input: Input) -> Result<Json<Page<View<'static>>>, ApiError> {
    let mut query = Query::of(&input);
    let (limit, cursor) = (query.limit(), query.cursor("dom_").unwrap_or_default());
    query.check()?;
    let (app, name) = (Arc::clone(&input.app), organization_param(&input));
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        domains::page(reader, organization, &cursor, limit as i64 + 1)
    });
    let Page { data, next } = Page::of(found.await?, limit, |last| last.id.clone());
    Json::of(&Page { data: data.iter().map(|domain| view(domain, None)).collect(), next })
}
