//! The `svc contacts import` command.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::pin;

use clap::{Args, ValueEnum, ValueHint};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use svc_sdk::EmailClient;
use svc_sdk::email::{Contact, ContactUpdate, NewContact};

use self::rows::Row;
use super::pages;
use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::content::in_file;
use crate::names::{self, Names};
use crate::output::{Column, Format, Show, View};

mod rows;

/// Maximum number of rows in flight.
const MAX_CONCURRENT: usize = 4;

const VIEW: View = View(&[
    Column::new("ROW", "/row", Show::Number),
    Column::text("EMAIL", "/email"),
    Column::new("RESULT", "/result", Show::Status),
    Column::prose("WHY", "/error/message"),
]);

/// Import contacts from a CSV file into an audience
///
/// Columns are mapped by their header: email, name (or first and last name), topics, subscribed and
/// metadata (a JSON object). Any other column becomes a metadata entry of its name. A row that fails does not stop
/// the import; the exit code is then 11. Running the import again is safe: existing addresses are
/// skipped, or updated with --existing update. `subscribed` is set by an update after the creation;
/// if only that fails, the row is reported as failed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts import aud_019a people.csv
  svc contacts import aud_019a people.csv --existing update --map 'E-Mail Address=email'
  svc contacts import aud_019a - -o ndjson < people.csv

Scope: contacts:manage")]
pub struct Import {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// CSV file with a header line; - for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How to treat addresses already in the audience
    #[arg(long, value_name = "skip|update", hide_possible_values = true, default_value = "skip")]
    existing: Existing,
    /// Map a column to a field; repeatable
    ///
    /// Fields: email, name, first_name, last_name, topics, subscribed, metadata, metadata.KEY and
    /// ignore.
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = crate::input::pairs::parse_text)]
    map: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Existing {
    /// Keep the existing contact
    Skip,
    /// Update the contact with the row
    Update,
}

impl Import {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let bytes = context.inputs.bytes(&context.out, "FILE", &self.file)?;
        let rows::File { rows, mapping, doubtful } =
            rows::read(&bytes, &self.map).map_err(|failure| in_file(&self.file, failure))?;
        let total = rows.len();
        for column in doubtful {
            let way_out = if rows::lists_opt_outs(&column) {
                "if it says who has opted out, add a column `subscribed` with the opposite values"
                    .to_owned()
            } else {
                format!("if it says who is subscribed: --map '{column}=subscribed'")
            };
            context.out.warning(&format!(
                "the column `{column}` is stored as metadata and does not unsubscribe contacts; {way_out}"
            ));
        }
        if let Some(long) = rows::implausible(&rows) {
            let question = format!("{long}; a misplaced quote may have joined rows. Import it?");
            confirm(context, &question).await?;
        }
        let client = context.email_client().await?;
        let known = async |audience: &str| match context.settings.dry_run {
            true => Ok((audience.to_owned(), HashMap::new())),
            false => {
                let known = existing_contacts(context, &client, audience).await?;
                Ok((audience.to_owned(), known))
            }
        };
        let names = Names::Audience(&client);
        let known = names::with_id(context, names, &self.audience, known);
        let (audience, known) = tokio::select! {
            known = known => known?,
            () = context.interrupted() => return Err(context.changes.interruption()),
        };
        context.out.note(&format!("columns: {mapping}"));
        let progress = context.out.progress(format!("importing {total} rows"));
        let (import, client, known, audience) = (&self, &client, &known, audience.as_str());
        let stopped = Cell::new(false);
        let results = stream::iter(rows)
            .take_while(|_| std::future::ready(!stopped.get()))
            .map(|row| async move {
                let row = row.map_err(|(number, why)| (number, None, Failure::input(why)))?;
                let (number, email) = (row.number, row.email.clone());
                let done = import.import_row(context, client, audience, known, row).await;
                done.map_err(|failure| (number, Some(email), failure))
            })
            .buffered(MAX_CONCURRENT);
        let mut results = pin!(results);
        let (mut report, mut failed, mut seen, mut opted_out, mut end) =
            (Vec::new(), 0, 0, 0, None);
        let mut interrupted = Box::pin(context.interrupted());
        loop {
            let result = tokio::select! {
                result = results.next() => result,
                // The rows that are sent are completed, unless a second Ctrl-C arrives.
                () = &mut interrupted => {
                    if stopped.replace(true) {
                        break;
                    }
                    interrupted = Box::pin(context.interrupted());
                    continue;
                }
            };
            let Some(result) = result else { break };
            seen += 1;
            let entry = match result {
                Ok(entry) => entry,
                Err((number, email, failure)) => {
                    failed += 1;
                    let entry = failed_entry(number, email.as_deref(), &failure);
                    // No further row is sent. The rows under way are completed and reported.
                    if is_fatal(&failure) && end.is_none() {
                        stopped.set(true);
                        end = Some(failure);
                    }
                    entry
                }
            };
            opted_out += usize::from(entry["still_subscribed"] == json!(true));
            if context.out.format() == Format::Ndjson && !entry.is_null() {
                context.out.one(&entry, VIEW)?;
            } else if !entry.is_null() {
                report.push(entry);
            }
            progress.set_text(format!("imported {seen} of {total} rows"));
        }
        drop(progress);
        let stopped = stopped.get() && seen < total;
        if context.settings.dry_run && !stopped {
            context.out.note(&format!(
                "{} of {total} rows would be created, unless their addresses exist; {failed} are invalid",
                total - failed
            ));
            return match end {
                Some(failure) => Err(failure),
                None => self.report_invalid(context, &report, failed, total),
            };
        }
        self.report(context, &report, seen)?;
        if opted_out > 0 {
            context.out.warning(&format!(
                "{opted_out} skipped contacts are subscribed, but not in the file; \
                 apply the file with --existing update"
            ));
        }
        match end {
            Some(failure) if stopped => {
                let rest = format!(
                    "{seen} of {total} rows were tried; then go on with --existing update, \
                     which also completes contacts that were only created:\n{}",
                    context.typed_again()
                );
                let hint = match failure.details().hint.clone() {
                    Some(hint) => format!("{hint}\n{rest}"),
                    None => rest,
                };
                Err(failure.hint(hint))
            }
            Some(failure) => Err(failure),
            None if stopped => Err(Failure::new(
                Kind::Interrupted,
                format!("interrupted after {seen} of {total} rows"),
            )
            .hint(format!(
                "go on, which skips the contacts that exist:\n{}",
                context.typed_again()
            ))),
            None if failed > 0 => {
                Err(Failure::new(Kind::PartlyRefused, format!("{failed} of {total} rows failed"))
                    .code("import_partly_refused")
                    .hint(
                        "fix these rows and run the import again with --existing update, \
                         which also completes contacts that were only created",
                    ))
            }
            None => Ok(()),
        }
    }

    /// Prints the invalid rows of a dry run.
    fn report_invalid(
        &self,
        context: &Context,
        report: &[Value],
        failed: usize,
        total: usize,
    ) -> Result<(), Failure> {
        if failed == 0 {
            return Ok(());
        }
        if context.out.is_table() {
            context.out.list(report, VIEW, "")?;
        }
        let fields = report.iter().filter_map(|row| {
            let why = row["error"]["message"].as_str()?;
            Some((format!("row {}", row["row"]), why.to_owned()))
        });
        let mut failure =
            Failure::new(Kind::PartlyRefused, format!("{failed} of {total} rows are invalid"));
        failure.details_mut().fields = fields.collect();
        Err(failure.code("import_partly_refused"))
    }

    /// Prints failed rows and totals in a table, and every row in JSON.
    fn report(&self, context: &Context, report: &[Value], total: usize) -> Result<(), Failure> {
        match context.out.format() {
            Format::Ndjson => Ok(()),
            Format::Json | Format::Yaml => context.out.list(report, VIEW, ""),
            Format::Table => {
                let count = |result: &str| report.iter().filter(|e| e["result"] == result).count();
                let bad =
                    report.iter().filter(|e| e.get("error").is_some()).cloned().collect::<Vec<_>>();
                if !bad.is_empty() {
                    context.out.list(&bad, VIEW, "")?;
                }
                let sentence = format!(
                    "{total} rows: {} created, {} updated, {} skipped, {} failed, {} unknown",
                    count("created"),
                    count("updated"),
                    count("skipped"),
                    count("failed"),
                    count("unknown"),
                );
                context.out.done(&sentence, &Value::Null)
            }
        }
    }

    async fn import_row(
        &self,
        context: &Context,
        client: &EmailClient,
        audience: &str,
        known: &HashMap<String, Known>,
        row: Row,
    ) -> Result<Value, Failure> {
        let entry = |result: &str, id: Option<&str>| json!({"row": row.number, "email": row.email, "result": result, "id": id});
        match (known.get(&row.email.to_lowercase()), self.existing) {
            (Some(known), Existing::Skip) => {
                let mut entry = entry("skipped", Some(&known.id));
                if row.subscribed == Some(false) && known.subscribed != Some(false) {
                    entry["still_subscribed"] = json!(true);
                }
                Ok(entry)
            }
            (Some(known), Existing::Update) => {
                let mut update = ContactUpdate::new();
                update.name = row.name.clone().map(Some);
                update.metadata = row.metadata.clone();
                update.topics = (!row.topics.is_empty()).then(|| row.topics.clone());
                update.subscribed = row.subscribed;
                context.run(client.contacts().update(&known.id, &update)).await?;
                Ok(entry("updated", Some(&known.id)))
            }
            (None, _) => {
                let mut contact = NewContact::new(row.email.clone());
                contact.name = row.name.clone();
                contact.metadata = row.metadata.clone();
                contact.topics = row.topics.clone();
                let call = client.contacts().create(audience, contact);
                if context.settings.dry_run {
                    context.call(call, "").await?;
                    return Ok(Value::Null);
                }
                match context.run(call).await {
                    Ok(contact) => {
                        subscribe(context, client, &contact, row.subscribed).await?;
                        Ok(entry("created", Some(&contact.id)))
                    }
                    // Another client added the contact in the meantime.
                    Err(failure)
                        if failure.details().status == Some(409)
                            && self.existing == Existing::Skip =>
                    {
                        let mut entry = entry("skipped", None);
                        if row.subscribed == Some(false) {
                            entry["still_subscribed"] = json!(true);
                        }
                        Ok(entry)
                    }
                    Err(failure) => Err(failure),
                }
            }
        }
    }
}

/// Sets the subscription of a new contact, which only an update can do.
async fn subscribe(
    context: &Context,
    client: &EmailClient,
    contact: &Contact,
    wanted: Option<bool>,
) -> Result<(), Failure> {
    let Some(wanted) = wanted.filter(|wanted| contact.subscribed != Some(*wanted)) else {
        return Ok(());
    };
    let update = ContactUpdate::new().subscribed(wanted);
    let updated = context.run(client.contacts().update(&contact.id, &update)).await;
    updated.map(drop).map_err(|mut failure| {
        let command = format!("contacts update {} --subscribed {wanted}", contact.id);
        let details = failure.details_mut();
        details.message = format!(
            "the contact was created as {}, but setting subscribed to {wanted} failed: {}",
            contact.id, details.message
        );
        failure.hint(format!("run: {}", context.svc(&command)))
    })
}

/// A contact that is already in the audience.
struct Known {
    id: String,
    subscribed: Option<bool>,
}

/// The audience's contacts, by address in lower case.
async fn existing_contacts(
    context: &Context,
    client: &EmailClient,
    audience: &str,
) -> Result<HashMap<String, Known>, Failure> {
    let progress = context.out.progress("reading the audience");
    let mut known = HashMap::new();
    let read = pages::for_each(client, audience, None, |contact| {
        if let Some(email) = contact.email {
            let entry = Known { id: contact.id, subscribed: contact.subscribed };
            known.insert(email.to_lowercase(), entry);
        }
        Ok(())
    });
    read.await?;
    drop(progress);
    Ok(known)
}

fn failed_entry(number: usize, email: Option<&str>, failure: &Failure) -> Value {
    let mut error = failure.to_json();
    let unknown = failure.kind() == Kind::OutcomeUnknown;
    let result = if unknown { "unknown" } else { "failed" };
    json!({"row": number, "email": email, "result": result, "error": error["error"].take()})
}

/// Whether every further row would fail in the same way.
fn is_fatal(failure: &Failure) -> bool {
    matches!(
        failure.kind(),
        Kind::Unauthenticated
            | Kind::MissingScope
            | Kind::NotFound
            | Kind::RateLimited
            | Kind::Unavailable
            | Kind::BrokenPipe
    )
}
