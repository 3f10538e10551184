//! `svc contacts import`: reads a file, compares it with the contacts of the audience, and creates
//! or updates one contact for each row. It prints a result for each row (`report.rs`); rows are
//! read and judged in `rows.rs`. An opt-out always wins: no import subscribes a contact that has
//! opted out in the service, and a row that opts out is applied even if its other values fail. A
//! failure that every further row would meet ends the import, and rows under way are completed.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{BufReader, Seek as _};
use std::path::PathBuf;
use std::pin::pin;

use clap::{Args, ValueEnum, ValueHint};
use futures_util::{StreamExt as _, stream};
use svc_sdk::Operation::{ContactsCreate, ContactsList, ContactsUpdate};
use svc_sdk::email::{Contact, ContactUpdate, NewContact};
use svc_sdk::{Call, EmailClient, RequestPreview};

use crate::command_spec::changes;
use crate::output_schema::of;

pub use self::report::ImportedRow;
use self::report::{ImportReport, RowResult};
use self::rows::{ImportRow, Rows};
use crate::complete::Values;
use crate::contact_pages;
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::input::columns::{ColumnOptions, DECLARED};
use crate::input::records::Records;
use crate::prepared::{Prepared, Preview};
use crate::stop::StopSignal;

mod report;
pub(super) mod rows;

/// Maximum number of rows in flight.
const MAX_CONCURRENT: usize = 4;

/// Import contacts from a CSV file into an audience
///
/// Columns are mapped by their header: email, name, topics, subscribed and metadata (a JSON object).
/// Any other column becomes a metadata entry of its name. NDJSON and JSON, as `svc contacts list
/// --all` writes them, are read too; keys are mapped as columns.
///
/// An address that is in several rows is imported once, from the first of them; the others are
/// reported as duplicates. If one of its rows opts out, or has a value that cannot be read, the
/// contact is unsubscribed, and the report names that row. Case does not matter, and an
/// internationalized domain equals its `xn--` form.
///
/// Who has opted out is read from columns such as `subscribed`, `unsubscribed_at` or `status`, as in
/// bulk sending: any one column is enough. Any other column that may say so is asked about; --opt-out,
/// --opt-in and --ignore declare it. If a column says who is subscribed, every row has to; the others
/// fail. Columns of one row that contradict each other refuse the file, and
/// --column or --opt-out says which one decides.
///
/// A row that fails does not stop the import; the exit code is then 11, as it is if a contact remains subscribed that the file unsubscribes. It is 9 if the outcome of a row is
/// unknown. Running the import again is safe: existing addresses are skipped, or updated with
/// --existing update. An import never subscribes a contact that has opted out; `svc contacts update`
/// does. `subscribed` is set by an update after the creation; if only that fails, the row is reported
/// as failed.
#[derive(Args, Debug)]
#[command(add = changes(&[ContactsCreate, ContactsUpdate, ContactsList], of::<Vec<ImportedRow>>).until_interrupted())]
#[command(after_long_help = "\
  svc contacts import aud_019a people.csv
  svc contacts import aud_019a people.csv --existing update \\
      --column 'E-Mail Address'
  svc contacts import aud_019a - -o ndjson < people.csv")]
pub struct Import {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// CSV file with a header line, or NDJSON; - for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// How to treat addresses already in the audience
    #[arg(
        long,
        value_name = "skip|update",
        hide_possible_values = true,
        default_value = "skip"
    )]
    existing: Existing,
    #[command(flatten)]
    columns: ColumnOptions,
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
        // Another program may change the file between its two readings.
        let copy = context.copy(&self.file)?;
        let open = || {
            let mut file = copy.try_clone()?;
            file.rewind()?;
            Records::new(Box::new(BufReader::new(file)), &self.file)
        };

        let mut columns = self.columns.clone();
        let declared = context.settings.state_dir.join(DECLARED);
        // Those of CSV; objects of JSON may each have other keys.
        let names = open()?.columns().map(<[_]>::to_vec);
        if let Some(names) = &names {
            columns.recall(names, &declared);
        }
        let rows = Rows::read(context, open, &mut columns).await?;
        let total = rows.total;
        // Signals are handled from here on, so that the rows that were sent are always reported.
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let client = context.clients.email_client().await?;
        let mut known = HashMap::<u64, Vec<Known>>::new();
        let read = contact_pages::of_audience(context, &client, &self.audience, None, |contact| {
            let Contact {
                id,
                subscribed,
                email: Some(email),
                ..
            } = contact
            else {
                return Ok(());
            };
            let of_mailbox = known.entry(rows::hash(&email)).or_default();
            of_mailbox.push(Known { id, subscribed });
            Ok(())
        });

        let audience = context.caller.unless_stopped(&mut stop, read).await?;
        context.out.note(&format!("columns: {}", rows.mapping));
        context.out.note(&rows.opt_outs);
        let ready = Ready {
            importer: Importer {
                client,
                audience,
                known,
                existing: self.existing,
            },
            rows: RefCell::new(rows),
        };
        let Ready { importer, rows } = Prepared::new(ready).decide(context).await?;
        if let Some(names) = &names {
            columns.remember(names, &declared)?;
        }
        let progress = context.out.progress(format!("importing {total} rows"));
        let stopped = Cell::new(false);
        let importer = &importer;
        let mut rows = rows.into_inner();
        let results = stream::iter(std::iter::from_fn(|| rows.next().transpose()))
            .take_while(|_| std::future::ready(!stopped.get()))
            .map(|row| async move {
                let row = row?;
                let imported = match &row.problem {
                    Some(problem) => Err(Failure::input(problem)),
                    None => importer.import(context, &row).await,
                };
                Ok::<_, Failure>((row, imported))
            })
            .buffered(MAX_CONCURRENT);
        let mut results = pin!(results);
        let mut report = ImportReport::new();
        let mut seen = 0;
        let mut end = None;
        loop {
            let result = tokio::select! {
                result = results.next() => result,
                // The rows that are sent are completed, unless a second signal arrives.
                _ = stop.recv() => {
                    if stopped.replace(true) {
                        break;
                    }
                    continue;
                }
            };
            let Some(result) = result else { break };
            let (row, imported) = result?;
            seen += 1;
            match imported {
                Ok(imported) => report.add(context, imported)?,
                Err(failure) => {
                    report.add(context, ImportedRow::failed(&row, &failure))?;
                    // No further row is sent. The rows under way are completed and reported.
                    if is_fatal(&failure) {
                        stopped.set(true);
                        end.get_or_insert(failure);
                    }
                }
            }
            progress.set_text(format!("imported {seen} of {total} rows"));
        }

        drop(progress);
        if end.is_none() && stopped.get() && seen < total {
            let message = format!("interrupted after {seen} of {total} rows");
            end = Some(Failure::new(Kind::Interrupted, message));
        }
        report.show(context)?;
        report.verdict(total, end)
    }
}

/// An import with everything that it depends on.
struct Ready {
    importer: Importer,
    rows: RefCell<Rows>,
}

/// Where the rows of an import go.
struct Importer {
    client: EmailClient,
    /// The id of the audience.
    audience: String,
    /// Who is already in it.
    known: HashMap<u64, Vec<Known>>,
    existing: Existing,
}

impl Preview for Ready {
    /// The first request of each row that has one, and the rows that cannot be imported.
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        let mut rows = self.rows.borrow_mut();
        let mut report = ImportReport::preview();
        let total = rows.total;
        let mut next = || {
            while let Some(row) = rows.next()? {
                if let Some(problem) = &row.problem {
                    let failed = ImportedRow::failed(&row, &Failure::input(problem));
                    report.add(context, failed)?;
                } else if let Some(request) = self.importer.first_request(&row)? {
                    return Ok(Some(request));
                }
            }
            Ok::<_, Failure>(None)
        };

        dry_run::show_all(&context.out, std::iter::from_fn(|| next().transpose()))?;
        let valid = total - report.len();
        context
            .out
            .note(&format!("{valid} of {total} rows would be imported"));
        report.verdict(total, None)
    }
}

impl Importer {
    fn known_of(&self, row: &ImportRow) -> Option<&Vec<Known>> {
        self.known.get(&rows::hash(&row.contact.email))
    }

    fn create(&self, row: &ImportRow) -> Call<Contact> {
        let contacts = self.client.contacts();
        contacts.create(&self.audience, row.contact.clone())
    }

    fn first_request(&self, row: &ImportRow) -> Result<Option<RequestPreview>, Failure> {
        Ok(match (self.known_of(row), self.existing) {
            (None, _) => Some(self.create(row).to_request()?),
            (Some(all), Existing::Update) if update(row) != ContactUpdate::new() => {
                let contacts = self.client.contacts();
                Some(contacts.update(&all[0].id, update(row)).to_request()?)
            }
            _ => None,
        })
    }

    /// Imports a row.
    async fn import(&self, context: &Context, row: &ImportRow) -> Result<ImportedRow, Failure> {
        let client = &self.client;
        let opts_out = row.subscribed == Some(false);
        match (self.known_of(row), self.existing) {
            (Some(all), Existing::Skip) => {
                let remains = opts_out && all.iter().any(Known::may_be_subscribed);
                let result = if remains {
                    RowResult::RemainsSubscribed
                } else {
                    RowResult::Skipped
                };
                Ok(ImportedRow::new(row, result, Some(&all[0].id)))
            }
            (Some(all), Existing::Update) => {
                let update = update(row);
                let opt_out = ContactUpdate::new().subscribed(false);
                let mut result = RowResult::Skipped;
                for other in all[1..]
                    .iter()
                    .filter(|it| opts_out && it.may_be_subscribed())
                {
                    context
                        .caller
                        .perform(client.contacts().update(&other.id, &opt_out))
                        .await?;
                }
                if update != ContactUpdate::new() {
                    result = RowResult::Updated;
                    let updated = context
                        .caller
                        .perform(client.contacts().update(&all[0].id, &update))
                        .await;
                    if updated.is_err() && opts_out {
                        // Whatever is wrong with the other values, the opt-out is applied.
                        context
                            .caller
                            .perform(client.contacts().update(&all[0].id, &opt_out))
                            .await?;
                    }
                    updated?;
                }
                let mut imported = ImportedRow::new(row, result, Some(&all[0].id));
                if row.subscribed == Some(true) && all[0].subscribed == Some(false) {
                    imported.why = Some(REMAINS_UNSUBSCRIBED.to_owned());
                }
                Ok(imported)
            }
            (None, _) => {
                let contact = context.caller.perform(self.create(row)).await?;
                // Only an update can set it.
                if let Some(wanted) = row.subscribed.filter(|it| contact.subscribed != Some(*it)) {
                    let id = &contact.id;
                    let update = ContactUpdate::new().subscribed(wanted);
                    let updated = context
                        .caller
                        .perform(client.contacts().update(id, &update))
                        .await;
                    updated.map_err(|mut failure| {
                        let message = &mut failure.message;
                        *message =
                            format!("created as {id}, but not with subscribed={wanted}: {message}");
                        failure
                    })?;
                }
                Ok(ImportedRow::new(row, RowResult::Created, Some(&contact.id)))
            }
        }
    }
}

/// The update of an existing contact. It can opt out, but not undo an opt-out.
fn update(row: &ImportRow) -> ContactUpdate {
    let NewContact {
        name,
        metadata,
        topics,
        ..
    } = row.contact.clone();
    let mut update = ContactUpdate::new();
    update.name = name.map(Some);
    update.metadata = metadata;
    update.topics = (!topics.is_empty()).then_some(topics);
    update.subscribed = row.subscribed.filter(|subscribed| !subscribed);
    update
}

/// A contact that is already in the audience.
struct Known {
    id: String,
    subscribed: Option<bool>,
}

impl Known {
    fn may_be_subscribed(&self) -> bool {
        self.subscribed != Some(false)
    }
}

const REMAINS_UNSUBSCRIBED: &str = "the contact remains unsubscribed, although the file says \
     otherwise: an opt-out in the service wins";

/// Whether every further row would fail in the same way.
fn is_fatal(failure: &Failure) -> bool {
    // Somebody has deleted the contact in the meantime.
    let was_deleted = failure.kind() == Kind::NotFound && failure.operation == Some(ContactsUpdate);
    !was_deleted
        && matches!(
            failure.kind(),
            Kind::Unauthenticated
                | Kind::MissingScope
                | Kind::NotFound
                | Kind::RateLimited
                | Kind::Unavailable
                | Kind::BrokenPipe
        )
}
