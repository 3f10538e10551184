//! `/_sandbox/audiences`: the audiences and their contacts, as the email service has them.

use std::sync::Arc;

use super::query::Query;
use super::{Page, organization, organization_param};
use crate::api::email::audiences::Audience;
use crate::api::email::contacts::Contact;
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::store::{audiences, contacts};

/// Lists one page of the audiences, oldest first.
pub(crate) async fn list(input: Input) -> Result<Json<Page<Audience>>, ApiError> {
    let mut query = Query::of(&input);
    let (limit, cursor) = (query.limit(), query.cursor("aud_").unwrap_or_default());
    query.check()?;
    let (app, name) = (Arc::clone(&input.app), organization_param(&input));
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        audiences::page(reader, organization, &cursor, limit as i64 + 1)
    });
    let Page { data, next } = Page::of(found.await?, limit, |last| last.id.clone());
    Json::of(&Page { data: data.into_iter().map(Audience::from).collect(), next })
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn contacts(input: Input) -> Result<Json<Page<Contact>>, ApiError> {
    let mut query = Query::of(&input);
    let (limit, cursor) = (query.limit(), query.cursor("con_").unwrap_or_default());
    query.check()?;
    let (app, name) = (Arc::clone(&input.app), organization_param(&input));
    let audience = input.id().to_owned();
    let found = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        audiences::find(reader, &audience, organization)?;
        contacts::list_after(reader, &audience, &cursor, limit as i64 + 1)
    });
    let Page { data, next } = Page::of(found.await?, limit, |last| last.id.clone());
    Json::of(&Page { data: data.into_iter().map(Contact::from).collect(), next })
}
