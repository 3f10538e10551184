//! The people that a job is for. The rows of a file or the contacts of an audience are read once, in
//! order, into a draft in the ledger; then each is checked, because a later row may opt out.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use svc_bulk::{Ledger, NewRow, RowRefusal, RowStatus};
use svc_sdk::EmailClient;
use svc_sdk::email::{Contact, Email};
use tokio::sync::mpsc;

use super::message::Renderer;
use super::plan::{Plan, PreparedRow};
use crate::contact_pages;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::columns::{ColumnOptions, names, placeholder};
use crate::input::email::{check, hash, hash_of, invisible_character};
use crate::input::opt_outs::{NOT_SAID, OptOuts, Subscribed};
use crate::input::people::{PeopleFile, Person};
use crate::input::records::Record;
use crate::output::one_line;
use crate::stop::StopSignal;

/// How many emails go to the address of --only-to, and how many problems are shown.
pub const SHOWN: usize = 3;

/// How many rows that are left out are kept to be shown.
const LEFT_OUT: usize = 20;

/// The most names of columns that are kept.
const COLUMNS: usize = 200;

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

/// The people who were read.
pub struct People {
    rows: Pages,
    page: Vec<NewRow>,
    pub renderer: Renderer,
    pub opt_outs: OptOuts,
    /// The addresses with a row that opts out.
    opted_out: HashSet<u64>,
    /// The addresses with a row that may opt out, and the number of that row.
    unclear: HashMap<u64, u64>,
    /// Columns of [`FIELDS`] that have values, and that no placeholder reads.
    pub unused_columns: BTreeSet<&'static str>,
    /// The columns of the rows.
    columns: BTreeSet<Arc<str>>,
    /// The user's options about columns.
    pub options: ColumnOptions,
    /// The columns of a CSV file.
    pub names: Option<Vec<Arc<str>>>,
}

/// Which rows are sent, beside what the file says.
#[derive(Default)]
pub struct Selection {
    /// The most emails.
    pub limit: Option<u64>,
    pub keep_duplicates: bool,
    /// Hashes of the addresses that get no email.
    pub suppressed: HashSet<u64>,
    /// The client, if its recipient guard has to allow every email.
    pub guard: Option<EmailClient>,
}

/// The people who will get the email, checked.
#[derive(Default)]
pub struct Checked {
    pub count: u64,
    pub first: Option<Email>,
    /// The first rows that are left out, and why.
    pub left_out: Vec<String>,
    /// The first reasons why rows are invalid, one after the other without repetitions, such as for
    /// a placeholder that no column has.
    pub problems: Vec<(String, String)>,
}

impl Checked {
    fn add(&mut self, email: Email) {
        self.count += 1;
        self.first.get_or_insert(email);
    }

    /// Keeps the reason of a row that is left out, to show it.
    fn explain(&mut self, row: u64, address: &str, code: &str, message: &str) {
        let is_new = self.problems.last().is_none_or(|(_, last)| last != message);
        let is_problem = code == "invalid" && is_new && self.problems.len() < 10;
        if !is_problem && self.left_out.len() >= LEFT_OUT {
            return;
        }

        let shown = one_line(address).chars().take(80).collect::<String>();
        let place = match shown.as_str() {
            "" => format!("row {row}"),
            shown => format!("row {row}, {shown}"),
        };
        if self.left_out.len() < LEFT_OUT {
            self.left_out.push(format!("{place}: {message}"));
        }
        if is_problem {
            self.problems.push((place, message.to_owned()));
        }
    }
}

/// Where the rows go that were read, a page at a time.
pub enum Pages {
    /// Rows of a file, which is read on a thread of its own: it waits for the ledger.
    OfFile(mpsc::Sender<Vec<NewRow>>),
    /// Rows of an audience, which comes over the network.
    OfAudience(mpsc::UnboundedSender<Vec<NewRow>>),
    /// All was read.
    Closed,
}

/// How many rows are stored at a time.
const PAGE: usize = 1_000;

impl People {
    /// Starts to read into these pages. `renderer` is that of the job.
    pub fn new(rows: Pages, renderer: Renderer) -> Self {
        Self {
            rows,
            page: Vec::new(),
            renderer,
            opt_outs: OptOuts::default(),
            opted_out: HashSet::new(),
            unclear: HashMap::new(),
            unused_columns: BTreeSet::new(),
            columns: BTreeSet::new(),
            options: ColumnOptions::default(),
            names: None,
        }
    }

    /// Reads a file. It blocks, until `stop` is set.
    pub fn read(&mut self, mut file: PeopleFile, stop: &AtomicBool) -> Result<(), Failure> {
        while let Some(person) = file.next()? {
            interrupted(stop)?;
            self.add(person, &file.options)?;
        }
        self.opt_outs = file.opt_outs;
        self.options = file.options;
        self.names = file.columns;
        self.flush()
    }

    /// Adds a contact of an audience. Only the service says whether it is subscribed.
    pub fn add_contact(&mut self, number: u64, contact: Contact) -> Result<(), Failure> {
        let is_subscribed = is_subscribed(&contact)?;
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
        let subscribed = if is_subscribed {
            Subscribed::Yes
        } else {
            Subscribed::No("subscribed".into())
        };
        let opted_out = match (&subscribed, address.and_then(|at| fields[at].1.as_str())) {
            (Subscribed::No(_), Some(address)) => check(address).into_iter().collect(),
            _ => Vec::new(),
        };
        let record = Record {
            number,
            fields,
            problem: None,
            misplaced: None,
        };
        self.add(
            Person {
                record,
                address,
                subscribed,
                opted_out,
            },
            &ColumnOptions::default(),
        )
    }

    fn add(&mut self, person: Person, options: &ColumnOptions) -> Result<(), Failure> {
        let Person {
            mut record,
            address,
            subscribed,
            opted_out,
        } = person;
        let address = address.and_then(|at| record.fields.get(at)?.1.as_str());
        let address = address.unwrap_or_default().trim().to_owned();
        let values = self.values(&mut record, options);
        let Record {
            number: row,
            problem,
            ..
        } = record;
        let opted_out = opted_out.iter().map(|address| hash(address));
        match &subscribed {
            Subscribed::No(_) => self.opted_out.extend(opted_out),
            Subscribed::Unclear(_) => {
                for address in opted_out {
                    self.unclear.entry(address).or_insert(row);
                }
            }
            Subscribed::Yes | Subscribed::Unsaid => {}
        }

        let invalid = |problem| ("invalid".to_owned(), problem);
        let is_subscribed = subscribed == Subscribed::Yes;
        let left_out = match subscribed {
            Subscribed::No(column) => {
                let mut why = format!("not subscribed, as `{column}` says");
                if let Some(invisible) = invisible_character(&address) {
                    why = format!("{why}; {invisible}");
                }
                Some(("unsubscribed".to_owned(), why))
            }
            Subscribed::Unclear(why) => Some(invalid(problem.unwrap_or(why))),
            Subscribed::Yes | Subscribed::Unsaid => problem.map(invalid),
        };
        let prepared = PreparedRow(address.clone(), values, is_subscribed);
        let mut stored = NewRow::new(row, &address, &prepared).map_err(std::io::Error::from)?;
        stored.person = check(&address).ok();
        if let Some((code, message)) = left_out {
            stored.data = String::new();
            stored.left_out = Some(RowRefusal::new(Some(&code), Some(&message)));
        }
        self.page.push(stored);
        if self.page.len() >= PAGE {
            self.flush()?;
        }
        Ok(())
    }

    /// Hands over what was read.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let page = std::mem::take(&mut self.page);
        let sent = match &self.rows {
            Pages::OfFile(pages) => pages.blocking_send(page).is_ok(),
            Pages::OfAudience(pages) => pages.send(page).is_ok(),
            Pages::Closed => page.is_empty(),
        };
        // The ledger has failed, and says so.
        if sent {
            Ok(())
        } else {
            Err(Failure::other("the rows cannot be stored"))
        }
    }

    /// Tells that all was read.
    pub fn close(&mut self) {
        self.rows = Pages::Closed;
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
        let mut values = Map::new();
        let mut columns = HashMap::<String, &Arc<str>>::new();
        let mut problem = None;
        for (name, value) in &record.fields {
            if self.columns.len() < COLUMNS && !self.columns.contains(name) {
                self.columns.insert(Arc::clone(name));
            }
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

    /// The hint about placeholders that no column fills.
    pub fn missing_columns(&self) -> Option<String> {
        let has_column = |used: &str| {
            let mut columns = self.columns.iter();
            used == "row" || columns.any(|name| **name == *used || placeholder(name) == used)
        };

        let missing = self.renderer.used().filter(|used| !has_column(used));
        let missing = missing.map(|name| format!("`{name}`")).collect::<Vec<_>>();
        if missing.is_empty() {
            return None;
        }

        let columns = self.columns.iter().cloned().collect::<Vec<_>>();
        let columns = names(&columns);
        Some(format!(
            "no column is named {}; {columns}",
            missing.join(", ")
        ))
    }

    /// Checks and renders all rows of a draft, and leaves out those that are not sent.
    pub async fn check(
        &self,
        ledger: &Ledger,
        id: &str,
        plan: &mut Plan,
        selection: &Selection,
    ) -> Result<Checked, Failure> {
        let statuses = [RowStatus::Waiting, RowStatus::LeftOut];
        let mut checked = Checked::default();
        let mut seen = HashSet::new();
        let mut last = 0;
        loop {
            let rows = ledger.rows(id, last, &statuses).await?;
            if rows.is_empty() {
                return Ok(checked);
            }
            let mut left_out = Vec::new();
            let mut is_enough = false;
            for row in rows {
                is_enough = selection.limit.is_some_and(|limit| checked.count >= limit);
                if is_enough {
                    break;
                }
                last = row.number;
                let reason = if row.status == RowStatus::LeftOut {
                    let why = row.why;
                    Err((
                        why.code.unwrap_or_default(),
                        why.message.unwrap_or_default(),
                    ))
                } else {
                    self.judge(plan, selection, row.number, &row.data, &mut seen)?
                };
                match reason {
                    Ok(email) => checked.add(email),
                    Err((code, message)) => {
                        plan.left_out.count(&code);
                        checked.explain(row.number, &row.address, &code, &message);
                        let why = RowRefusal::new(Some(&code), Some(&message));
                        left_out.push((row.number, why));
                    }
                }
            }
            ledger.leave_out(id, &left_out).await?;
            if is_enough {
                ledger.cut(id, last).await?;
                return Ok(checked);
            }
        }
    }

    /// The email of a person, or why there is none. A failure concerns the whole job.
    fn judge(
        &self,
        plan: &Plan,
        selection: &Selection,
        row: u64,
        data: &str,
        seen: &mut HashSet<u64>,
    ) -> Result<EmailOrReason, Failure> {
        let prepared: PreparedRow = serde_json::from_str(data).map_err(std::io::Error::from)?;
        let PreparedRow(address, _, is_subscribed) = &prepared;
        let because = |code: &str, why: &str| Ok(Err((code.to_owned(), why.to_owned())));
        let hash = match check(address) {
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
        if self.opt_outs.is_told && !*is_subscribed {
            return because("invalid", NOT_SAID);
        }
        if selection.suppressed.contains(&hash) {
            return because("suppressed", "the address is in the file of --suppress");
        }

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
        Ok(Ok(email))
    }
}

/// An email, or the code and the reason why there is none.
type EmailOrReason = Result<Email, (String, String)>;

/// Whether a contact is subscribed. If the service does not tell it clearly, nobody of the audience
/// gets an email.
fn is_subscribed(contact: &Contact) -> Result<bool, Failure> {
    contact.subscribed.ok_or_else(|| {
        let problem = "the service does not say who of the audience wants emails, so none is sent \
                       (the point `opt-out` of the dialect)";
        Failure::input(problem)
            .code("opt_outs_unknown")
            .hint("find out how it says it: svc conform --level write")
    })
}

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

    let mut subscribed = HashSet::new();
    let mut opted_out = HashSet::new();
    let read = contact_pages::of_audience(context, client, audience, None, |contact| {
        // Another contact of the audience may have the same address.
        let hashes = if is_subscribed(&contact)? {
            &mut subscribed
        } else {
            &mut opted_out
        };
        hashes.extend(contact.email.as_deref().and_then(hash_of));
        Ok(())
    });
    context.caller.unless_stopped(stop, read).await?;
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
            failure.message = format!("row {row}: {}", failure.message);
            failure
        })
}

fn interrupted(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new(Kind::Interrupted, "interrupted"));
    }
    Ok(())
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
            Err(context.caller.changes.interruption())
        }
    }
}
