//! The people that a job is for. The rows of a file or the contacts of an audience are read once, in
//! order; then each is checked, because a later row may opt out, and what will be sent is written
//! into the folder of the job.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::EmailClient;
use svc_sdk::email::{Contact, Email};

use super::message::Renderer;
use super::outcomes::Outcome;
use super::plan::{LEFT_OUT, Plan, PreparedRow, ROWS, hash, hash_of, lines};
use crate::contact_pages;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::columns::{ColumnOptions, placeholder};
use crate::input::email::check;
use crate::input::opt_outs::{NOT_SAID, OptOuts, Subscribed};
use crate::input::people::{PeopleFile, Person};
use crate::input::records::Record;
use crate::private;
use crate::stop::StopSignal;

/// The people as they were read, in the folder of a job that is being prepared.
const PEOPLE: &str = "people.ndjson";

/// How many emails and problems are kept to be shown.
pub const SHOWN: usize = 3;

/// Columns that look like fields of an email, which only a placeholder reads.
const FIELDS: [&str; 7] = [
    "cc",
    "bcc",
    "reply_to",
    "scheduled_at",
    "send_at",
    "attachment",
    "attachments",
];

/// A line of the file [`PEOPLE`].
#[derive(Serialize, Deserialize)]
struct PersonLine {
    row: u64,
    address: String,
    values: Map<String, Value>,
    /// Why the row cannot be sent, whatever others say: a code and a message.
    left_out: Option<(String, String)>,
    /// Whether the row says that the person is subscribed.
    is_subscribed: bool,
}

/// Those who were read.
pub struct People {
    folder: PathBuf,
    file: Lines,
    renderer: Renderer,
    pub opt_outs: OptOuts,
    /// The addresses with a row that opts out.
    opted_out: HashSet<u64>,
    /// The addresses with a row that may opt out, and the number of that row.
    unclear: HashMap<u64, u64>,
    /// Those of [`FIELDS`] that have values, and that no placeholder reads.
    pub unused_columns: BTreeSet<&'static str>,
}

/// Which rows are sent, beside what the file says.
#[derive(Default)]
pub struct Selection {
    /// The most emails.
    pub limit: Option<u64>,
    pub keep_duplicates: bool,
    /// Those who get no email.
    pub suppressed: HashSet<u64>,
    /// Those who have got it from earlier jobs.
    pub sent_before: HashSet<u64>,
    /// The client, if its recipient guard has to allow every email.
    pub guard: Option<EmailClient>,
}

/// What will be sent.
#[derive(Default)]
pub struct Checked {
    pub count: u64,
    /// The first emails.
    pub first: Vec<Email>,
    /// The first reasons why rows are invalid, one after the other without repetitions, such as for a placeholder that no
    /// column has.
    pub problems: Vec<(String, String)>,
    /// The hash of each address.
    pub addresses: HashSet<u64>,
}

impl People {
    /// Starts to read. `renderer` is that of the job.
    pub fn new(folder: &Path, renderer: Renderer) -> Result<Self, Failure> {
        let (folder, file) = (folder.to_owned(), Lines::create(&folder.join(PEOPLE))?);
        let (opt_outs, opted_out, unclear, unused_columns) = Default::default();
        Ok(Self {
            folder,
            file,
            renderer,
            opt_outs,
            opted_out,
            unclear,
            unused_columns,
        })
    }

    /// Reads a file. It blocks, until `stop` is set.
    pub fn read(&mut self, mut file: PeopleFile, stop: &AtomicBool) -> Result<(), Failure> {
        while let Some(person) = file.next()? {
            interrupted(stop)?;
            self.add(person, &file.options)?;
        }
        self.opt_outs = file.opt_outs;
        Ok(())
    }

    /// Adds a contact of an audience. Only the service says whether it is subscribed; without a word
    /// from it, the contact is left out.
    pub fn add_contact(&mut self, number: u64, contact: Contact) -> Result<(), Failure> {
        let mut values = contact.metadata.unwrap_or_default();
        for (name, value) in [
            ("email", contact.email),
            ("name", contact.name),
            ("contact_id", Some(contact.id)),
        ] {
            values.insert(name.to_owned(), value.into());
        }
        let fields = values
            .into_iter()
            .map(|(key, value)| (Arc::from(key), value))
            .collect::<Vec<_>>();
        // Metadata may have another key that looks like the address.
        let address = fields.iter().position(|(name, _)| **name == *"email");
        let subscribed = match contact.subscribed {
            Some(true) => Subscribed::Yes,
            Some(false) => Subscribed::No("subscribed".into()),
            None => {
                let problem = "the service does not say who of the audience wants emails, so none \
                               is sent (the point `opt-out` of the dialect)";
                return Err(Failure::input(problem)
                    .code("opt_outs_unknown")
                    .hint("find out how it says it: svc conform --level write"));
            }
        };
        let record = Record {
            number,
            fields,
            problem: None,
        };
        self.add(
            Person {
                record,
                address,
                subscribed,
            },
            &ColumnOptions::default(),
        )
    }

    fn add(&mut self, person: Person, options: &ColumnOptions) -> Result<(), Failure> {
        let Person {
            mut record,
            address,
            subscribed,
        } = person;
        let address = address.and_then(|at| record.fields.get(at)?.1.as_str());
        let address = address.unwrap_or_default().trim().to_owned();
        let values = self.values(&mut record, options);
        let Record {
            number: row,
            problem,
            ..
        } = record;
        match (&subscribed, hash_of(&address)) {
            (Subscribed::No(_), Some(hash)) => _ = self.opted_out.insert(hash),
            (Subscribed::Unclear(_), Some(hash)) => _ = self.unclear.entry(hash).or_insert(row),
            _ => {}
        }
        let invalid = |problem| ("invalid".to_owned(), problem);
        let is_subscribed = subscribed == Subscribed::Yes;
        let left_out = match subscribed {
            Subscribed::No(column) => {
                let why = format!("not subscribed, as `{column}` says");
                Some(("unsubscribed".to_owned(), why))
            }
            Subscribed::Unclear(why) => Some(invalid(problem.unwrap_or(why))),
            Subscribed::Yes | Subscribed::Unsaid => problem.map(invalid),
        };
        self.file.write(&PersonLine {
            row,
            address,
            values,
            left_out,
            is_subscribed,
        })
    }

    /// The values of a row: by the names of their columns, and as placeholders. `First Name` is
    /// `first_name`, unless another column has exactly that name.
    fn values(&mut self, record: &mut Record, options: &ColumnOptions) -> Map<String, Value> {
        let exact = record
            .fields
            .iter()
            .map(|(name, _)| &**name)
            .collect::<HashSet<_>>();
        let is_missing = |value: &Value| {
            value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
        };
        let (mut values, mut columns) = (Map::new(), HashMap::<String, &Arc<str>>::new());
        let mut problem = None;
        for (name, value) in &record.fields {
            if is_missing(value) || name.is_empty() {
                continue;
            }
            values.insert(name.to_string(), value.clone());
            let simple = match options.field(name) {
                None | Some("email" | "subscribed" | "status" | "ignore") => placeholder(name),
                Some(chosen) => chosen.to_owned(),
            };
            if exact.contains(simple.as_str()) {
                continue;
            }
            match columns.get(&simple) {
                Some(other) if self.renderer.uses(&simple) => {
                    problem = problem.or_else(|| {
                        Some(format!(
                            "`{other}` and `{name}` are both `{simple}` in a placeholder; rename one \
                             of them, or write {{{{ row[{other:?}] }}}}"
                        ))
                    });
                }
                Some(_) => {}
                None => {
                    values.insert(simple.clone(), value.clone());
                    columns.insert(simple, name);
                }
            }
        }
        let unused = FIELDS.iter().filter(|name| values.contains_key(**name));
        self.unused_columns
            .extend(unused.filter(|name| !self.renderer.uses(name)));
        if let Some(problem) = problem {
            record.problem.get_or_insert(problem);
        }
        values
    }

    /// Checks and renders all rows, and writes those that are sent and those that are left out. It
    /// blocks, until `stop` is set.
    pub fn check(
        mut self,
        plan: &mut Plan,
        selection: &Selection,
        stop: &AtomicBool,
    ) -> Result<Checked, Failure> {
        self.file.0.flush()?;
        let folder = &self.folder;
        let (mut rows, mut left_out) = (
            Lines::create(&folder.join(ROWS))?,
            Lines::create(&folder.join(LEFT_OUT))?,
        );
        let mut checked = Checked::default();
        for person in lines(BufReader::new(File::open(folder.join(PEOPLE))?), PEOPLE) {
            if selection.limit.is_some_and(|limit| checked.count >= limit) {
                break;
            }
            interrupted(stop)?;
            let person: PersonLine = person?;
            let (row, address) = (person.row, person.address.clone());
            match self.judge(plan, selection, person, &mut checked.addresses)? {
                Ok((prepared, email)) => {
                    rows.write(&(row, prepared))?;
                    checked.count += 1;
                    if checked.first.len() < SHOWN {
                        checked.first.push(email);
                    }
                }
                Err((code, message)) => {
                    plan.left_out.count(&code);
                    if code == "invalid" {
                        let last = checked.problems.last();
                        let is_new = last.is_none_or(|(_, last)| *last != message);
                        if is_new && checked.problems.len() < 10 {
                            checked
                                .problems
                                .push((format!("row {row}"), message.clone()));
                        }
                    }
                    left_out.write(&Outcome::left_out(row, address, code, message))?;
                }
            }
        }
        // Nothing of it may be lost once the journal exists.
        for mut file in [rows, left_out] {
            file.0.flush()?;
            file.0.get_ref().sync_all()?;
        }
        std::fs::remove_file(folder.join(PEOPLE))?;
        Ok(checked)
    }

    /// The email of a person, or why there is none. A failure concerns the whole job.
    fn judge(
        &self,
        plan: &Plan,
        selection: &Selection,
        person: PersonLine,
        seen: &mut HashSet<u64>,
    ) -> Result<EmailOrReason, Failure> {
        let PersonLine {
            row,
            address,
            values,
            left_out,
            is_subscribed,
        } = person;
        let because = |code: &str, why: &str| Ok(Err((code.to_owned(), why.to_owned())));
        if let Some(reason) = left_out {
            return Ok(Err(reason));
        }
        let hash = match check(&address) {
            Ok(address) => hash(&address),
            Err(problem) => return because("invalid", problem),
        };
        if self.opted_out.contains(&hash) {
            return because(
                "unsubscribed",
                "another row with the same address is not subscribed",
            );
        }
        if let Some(unclear) = self.unclear.get(&hash) {
            let why = format!("row {unclear} has the same address, and may opt out");
            return because("invalid", &why);
        }
        if self.opt_outs.is_told && !is_subscribed {
            return because("invalid", NOT_SAID);
        }
        if selection.suppressed.contains(&hash) {
            return because("suppressed", "the address is in the file of --suppress");
        }
        if selection.sent_before.contains(&hash) {
            return because(
                "sent_before",
                "an earlier job has sent the email to this address",
            );
        }
        let prepared = PreparedRow(address, values);
        let email = match plan.render(&self.renderer, &prepared) {
            Ok(email) => email,
            Err(problem) => return because("invalid", &problem),
        };
        if let Err(problem) = email.check() {
            return because("invalid", &problem.to_string());
        }
        if !seen.insert(hash) && !selection.keep_duplicates {
            return because("duplicate", "an earlier row has the same address");
        }
        if let Some(client) = &selection.guard {
            guard_allows(client, row, &email)?;
        }
        Ok(Ok((prepared, email)))
    }
}

/// An email with its row, or the code and the reason why there is none.
type EmailOrReason = Result<(PreparedRow, Email), (String, String)>;

/// The hashes of those who are subscribed to the audience of a job, if it has one: people may have
/// unsubscribed since the job was started.
pub async fn subscribers(
    context: &Context,
    client: &EmailClient,
    plan: &Plan,
    stop: &mut StopSignal,
) -> Result<Option<HashSet<u64>>, Failure> {
    let Some(audience) = &plan.audience else {
        return Ok(None);
    };
    let (mut subscribed, mut opted_out) = (HashSet::new(), HashSet::new());
    let read = contact_pages::of_audience(context, client, audience, None, |contact| {
        // Another contact of the audience may have the same address.
        let is_subscribed = contact.subscribed == Some(true);
        let hashes = if is_subscribed {
            &mut subscribed
        } else {
            &mut opted_out
        };
        hashes.extend(contact.email.as_deref().and_then(hash_of));
        Ok(())
    });
    context.unless_stopped(stop, read).await?;
    subscribed.retain(|hash| !opted_out.contains(hash));
    Ok(Some(subscribed))
}

/// Whether the recipient guard of the client allows the email of a row.
fn guard_allows(client: &EmailClient, row: u64, email: &Email) -> Result<(), Failure> {
    client
        .emails()
        .send(email)
        .to_request()
        .map(drop)
        .map_err(|error| {
            let mut failure = Failure::from(error);
            let details = failure.details_mut();
            details.message = format!("row {row}: {}", details.message);
            failure
        })
}

/// A private file with a JSON text per line.
struct Lines(BufWriter<File>);

impl Lines {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = private::create_new(path);
        let file = file.map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, line).map_err(std::io::Error::from)?;
        Ok(self.0.write_all(b"\n")?)
    }
}

fn interrupted(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::new(Kind::Interrupted, "interrupted")),
        false => Ok(()),
    }
}

/// Runs work that blocks, until a signal arrives. The work looks at its flag now and then.
pub async fn in_background<T: Send + 'static>(
    context: &Context,
    stop: &mut StopSignal,
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let mut running = tokio::task::spawn_blocking(move || work(&flag));
    tokio::select! {
        done = &mut running => done.map_err(|error| Failure::other(error.to_string()))?,
        _ = stop.recv() => {
            stopped.store(true, Ordering::Relaxed);
            Err(context.changes.interruption())
        }
    }
}
