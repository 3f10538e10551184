//! Reads all contacts of an audience in pages that are as large as the service allows.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use svc_sdk::email::{Audience, Contact};
use svc_sdk::{EmailClient, Error, ErrorKind};

use crate::context::Context;
use crate::failure::Failure;
use crate::resource::id_of;

/// Contacts per page. The service's maximum is not documented; a service that refuses this size is
/// asked for pages of its default size.
const LARGEST: u64 = 100;

/// Calls `each` for every contact of the audience that a text is the id or the name of. Returns its
/// id.
pub async fn of_audience(
    context: &Context,
    client: &EmailClient,
    audience: &str,
    page_size: Option<u64>,
    each: impl FnMut(Contact) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let id = id_of::<Audience>(context, client, audience).await?;
    all(context, client, &id, page_size, each).await?;
    Ok(id)
}

/// Calls `each` for every contact of the audience with an id, and tells a person how many there were.
pub async fn all(
    context: &Context,
    client: &EmailClient,
    id: &str,
    page_size: Option<u64>,
    mut each: impl FnMut(Contact) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let progress = context.out.progress("reading the audience");
    let mut count = 0_u64;
    for_each(context, client, id, page_size, |contact| {
        count += 1;
        progress.set_text(format!("reading the audience: {count} contacts"));
        each(contact)
    })
    .await
}

/// Calls `each` for every contact, in the order of the pages, within `--timeout` over all of them.
pub async fn for_each(
    context: &Context,
    client: &EmailClient,
    audience: &str,
    given: Option<u64>,
    each: impl FnMut(Contact) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let reading = read(client, audience, given, each);
    context.caller.within_timeout(reading).await
}

async fn read(
    client: &EmailClient,
    audience: &str,
    given: Option<u64>,
    mut each: impl FnMut(Contact) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut size = given.or(Some(LARGEST));
    loop {
        let pages = client.contacts().stream(audience);
        let mut contacts = pin!(match size {
            Some(size) => pages.page_size(size),
            None => pages,
        });
        let mut has_read = false;
        let error = loop {
            match contacts.try_next().await {
                Ok(Some(contact)) => each(contact)?,
                Ok(None) => return Ok(()),
                Err(error) => break error,
            }
            has_read = true;
        };
        if has_read || size == given || !refuses_size(&error) {
            return Err(error.into());
        }
        size = None;
    }
}

fn refuses_size(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid) || error.status().is_some_and(|s| s == 400)
}
