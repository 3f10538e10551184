//! `/_sandbox/dns/{domain}`: publishes the records that a domain asked for in
//! the built-in zone, and withdraws them.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reply, json as reply, no_content, organization, organization_of_query};
use crate::dns::{Record, RecordKind, is_reserved};
use crate::email::domains;
use crate::error::{ApiError, Problems};
use crate::web::Input;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Publish")]
pub(crate) struct Publish {
    organization: Option<String>,
    /// All four where none is named.
    #[schemars(with = "Option<Vec<RecordKind>>")]
    records: Option<Vec<String>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Published {
    published: Vec<Record>,
}

pub(super) async fn publish(mut input: Input) -> Reply {
    let publish: Publish = input.optional_object().await?;
    let named = publish.organization.or_else(|| organization_of_query(&input));
    let kinds = kinds(publish.records)?;
    let (app, domain) = (Arc::clone(&input.app), name(&input));
    let records = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, named.as_deref())?;
        let domain = domains::find_named(tx.connection(), &domain, organization)?;
        if !is_reserved(&domain.name) {
            let message = "is not a name under .test, .example, .invalid or .localhost: \
                           publish its records where it is hosted";
            return Err(ApiError::field("domain", message));
        }
        domains::publish(tx, &app, &domain, &kinds)?;
        let published = |record: &Record| kinds.contains(&record.kind);
        Ok(domain.records().into_iter().filter(published).collect::<Vec<_>>())
    });
    reply(StatusCode::OK, &Published { published: records.await? })
}

pub(super) async fn withdraw(input: Input) -> Reply {
    let kind = match input.param("record") {
        "" => None,
        text => {
            let kind: Result<RecordKind, _> = text.parse();
            Some(kind.map_err(|error| ApiError::field("record", error.to_string()))?)
        }
    };
    let (named, domain) = (organization_of_query(&input), name(&input));
    let app = Arc::clone(&input.app);
    let withdrawn = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, named.as_deref())?;
        // The domain itself may be deleted by now: its records are found by their own.
        let owners: Vec<String> = {
            let mut statement = tx.statement(
                "SELECT DISTINCT owner FROM dns_record
                 WHERE organization = ?1 AND (domain = ?2 OR owner = ?2)",
            )?;
            let rows = statement.query_map((organization, &domain), |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()?
        };
        if owners.is_empty() {
            domains::find_named(tx.connection(), &domain, organization)?;
        }
        for owner in owners {
            tx.execute(
                "DELETE FROM dns_record WHERE owner = ?1 AND (?2 IS NULL OR kind = ?2)",
                (&owner, kind.map(RecordKind::as_str)),
            )?;
            let zone = Arc::clone(&app.zone);
            tx.after_commit(move || zone.withdraw(&owner, kind));
        }
        Ok(())
    });
    withdrawn.await?;
    no_content()
}

/// The domain of the path, as domains are kept; an id stays as it is.
fn name(input: &Input) -> String {
    let given = input.param("domain");
    match crate::address::DomainName::parse(given) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => given.to_owned(),
    }
}

fn kinds(names: Option<Vec<String>>) -> Result<Vec<RecordKind>, ApiError> {
    let Some(names) = names else { return Ok(RecordKind::ALL.to_vec()) };
    let mut problems = Problems::default();
    let mut kinds = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match name.parse() {
            Ok(kind) => kinds.push(kind),
            Err(error) => {
                let error: crate::dns::UnknownRecordKind = error;
                problems.add(format!("records[{index}]"), error.to_string());
            }
        }
    }
    problems.check()?;
    Ok(kinds)
}
