//! What is sent to whom: the options of `svc bulk send` and `svc bulk plan`, and everything that is
//! done before the first email is sent.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use futures_util::FutureExt as _;
use serde_json::json;
use svc_bulk::JobInfo;
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Service};

use super::address;
use super::drive::{self, show_first_request};
use super::jobs::{Draft, Job, Jobs};
use super::message::{self, Message};
use super::options::{Duplicates, rate};
use super::plan::{COPY, Checked, LEFT_OUT, LeftOut, LeftOutRow, Plan, Stopper, create_private};
use crate::complete::{Values, at_file};
use crate::confirm::confirm;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::attach::{self, Attach, Source};
use crate::input::pairs;
use crate::names::{self, Names};
use crate::settings::Key;
use crate::stop::StopSignal;

/// How many emails are shown before the question.
const SHOWN: usize = 3;

/// Options of `svc bulk send` and `svc bulk plan`.
#[derive(Args, Debug)]
pub struct Content {
    /// CSV or NDJSON file; - for stdin
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "audience")]
    file: Option<PathBuf>,
    /// Send to the subscribed contacts of an audience
    ///
    /// Its id or name.
    #[arg(long, value_name = "AUDIENCE", conflicts_with = "file", add = Values::Audience.candidates())]
    audience: Option<String>,
    /// Column with the address [default: the column named email]
    #[arg(long, hide_short_help = true, value_name = "NAME", conflicts_with = "audience")]
    column: Option<String>,
    /// Sender: `a@b.com` or `Name <a@b.com>`
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// Subject
    #[arg(long, value_name = "TEXT")]
    subject: String,
    /// HTML body; values are escaped
    ///
    /// Text, @file or - for stdin.
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    html: Option<String>,
    /// Plain-text body [default: derived from --html]
    ///
    /// Text, @file or - for stdin.
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    text: Option<String>,
    /// Template id; its variables are the row's values
    #[arg(long, value_name = "ID")]
    template: Option<String>,
    /// Reply-To addresses; repeatable
    #[arg(long, hide_short_help = true, value_name = "ADDRESS")]
    reply_to: Vec<String>,
    /// Email header; repeatable
    #[arg(long, hide_short_help = true, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
    header: Vec<(String, String)>,
    /// Tracking tag; repeatable
    #[arg(long, hide_short_help = true, value_name = "KEY=VALUE", value_parser = pairs::parse_text)]
    tag: Vec<(String, String)>,
    /// Attachment, the same for all; repeatable
    ///
    /// Format: PATH[;name=NAME][;type=MIME].
    #[arg(long, hide_short_help = true, value_name = "PATH[;…]", value_parser = attach::parser(), value_hint = ValueHint::FilePath)]
    attach: Vec<Attach>,
    /// URL to unsubscribe with one click
    ///
    /// Sets the headers List-Unsubscribe and List-Unsubscribe-Post (RFC 8058).
    #[arg(long, value_name = "URL")]
    unsubscribe: Option<String>,
    /// Maximum emails per second, minute (N/min) or hour (N/h) [default: no limit]
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<f64>,
    /// Send at most this many emails
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Send only the first emails, to this address
    ///
    /// Three, unless --limit says how many.
    #[arg(long, value_name = "ADDRESS")]
    only_to: Option<String>,
    /// What to do with rows that repeat an address: skip or keep
    #[arg(
        long,
        hide_short_help = true,
        value_name = "skip|keep",
        hide_possible_values = true,
        default_value = "skip"
    )]
    duplicates: Duplicates,
    /// Send nothing if a row is invalid
    ///
    /// By default, such rows are left out and reported, and the exit code is 0 despite them.
    #[arg(long, hide_short_help = true)]
    strict: bool,
}

/// A job that was checked and confirmed.
pub struct Prepared {
    pub draft: Draft,
    pub plan: Plan,
    /// Describes the job, with the plan as its settings.
    pub info: JobInfo,
}

impl Content {
    /// Reads and checks all rows, shows the first emails, and asks whether to `send` them. Returns
    /// nothing after a dry run.
    pub async fn prepare(
        &self,
        context: &Context,
        (client, key): (&EmailClient, &Key),
        mut plan: Plan,
        send: &str,
        stop: &mut StopSignal,
    ) -> Result<Option<Prepared>, Failure> {
        if let Some(audience) = self.audience.as_ref().filter(|_| context.settings.dry_run) {
            // Its contacts are read by a request, which is the first one.
            let call = client.contacts().list(audience.as_str());
            return context.call(call, "").await.map(|_| None);
        }
        let info = JobInfo::new("");
        plan.key = Some(Plan::fingerprint(&info.job, key));
        let jobs = Jobs::of(&context.settings);
        let draft = jobs.draft(&info.job)?;
        let folder = draft.folder().to_owned();
        tokio::select! {
            copied = self.copy(context, client, plan.file.as_deref(), &folder) => copied?,
            _ = stop.recv() => return Err(context.changes.interruption()),
        }
        let mut stopper = Stopper::new(context, stop);
        let source = plan.checksum(&folder, &mut stopper).await?;
        let checked = plan.check(&folder, SHOWN, &context.out, &mut stopper).await?;
        if checked.count == 0 {
            return Err(nothing_to_send(&plan, checked));
        }
        if self.strict && plan.left_out.invalid > 0 {
            return Err(invalid_rows(&plan, checked));
        }
        drive::check_guard(context, client, &folder, &plan, |_| false, &mut stopper).await?;
        if context.settings.dry_run {
            context.out.note(&described(&plan, &checked, None));
            note_left_out(context, &folder)?;
            show_first_request(context, client, &folder, &plan, |_| false)?;
            return Ok(None);
        }
        let invalid = plan.left_out.invalid;
        if invalid > 0 {
            let problems = checked.problems.iter().take(SHOWN);
            let problems = problems.map(|(row, problem)| format!("{row}: {problem}"));
            let problems = problems.collect::<Vec<_>>().join("; ");
            let rows = if invalid == 1 { "row is" } else { "rows are" };
            let more = if invalid > SHOWN as u64 { "; …" } else { "" };
            context
                .out
                .warning(&format!("{invalid} {rows} invalid and left out: {problems}{more}"));
        }
        if let Some(job) = jobs.with_same_emails(&source, &plan)? {
            context.out.warning(&sent_before(context, &job));
        }
        if context.out.can_ask() && !context.settings.yes {
            for (number, email) in checked.first.iter().enumerate() {
                context.out.note(&preview(number + 1, email));
            }
        }
        // Without a question, the file is removed before anybody can read it.
        let shown = Some(&*folder).filter(|_| context.out.can_ask());
        confirm(context, &format!("{} {send}?", described(&plan, &checked, shown))).await?;
        if stop.recv().now_or_never().is_some() {
            return Err(context.changes.interruption());
        }
        let mut stopper = Stopper::new(context, stop);
        if plan.checksum(&folder, &mut stopper).await? != source {
            return Err(Failure::input("an attachment has changed since the rows were checked"));
        }
        let info = JobInfo::new(source).id(info.job);
        let settings = serde_json::to_value(&plan).map_err(|e| Failure::other(e.to_string()))?;
        let info = info.rows(checked.count).settings(settings);
        Ok(Some(Prepared { draft, plan, info }))
    }

    /// What the options say. `concurrency` is that of this process.
    pub fn plan(&self, context: &Context, concurrency: u16) -> Result<Plan, Failure> {
        let read = |option: &str, value: &Option<String>| {
            value.as_ref().map(|value| context.text(option, value)).transpose()
        };
        let (html, text) = (read("--html", &self.html)?, read("--text", &self.text)?);
        if html.is_none() && text.is_none() && self.template.is_none() {
            return Err(Failure::usage("the emails have no content")
                .hint("give --text, --html or --template"));
        }
        if let Some(address) = &self.only_to {
            address::check(address)
                .map_err(|problem| Failure::usage(format!("--only-to: {problem}")))?;
        }
        let is_unsubscribe = |name: &str| {
            ["list-unsubscribe", "list-unsubscribe-post"].contains(&name.to_lowercase().as_str())
        };
        if let Some((name, _)) = self.header.iter().find(|(name, _)| is_unsubscribe(name))
            && self.unsubscribe.is_some()
        {
            return Err(Failure::usage(format!("--unsubscribe sets the header {name}, too"))
                .hint(format!("omit --unsubscribe, or --header '{name}: …'")));
        }
        // Checks that no name is given twice.
        pairs::headers("--header", self.header.clone())?;
        pairs::object("--tag", self.tag.clone())?;
        let attachments = self
            .attach
            .iter()
            .map(|attach| attachment(context, attach))
            .collect::<Result<_, _>>()?;
        let file = self.file.as_deref().filter(|path| path.as_os_str() != "-");
        let file = file.map(|path| {
            std::path::absolute(context.settings.path(path))
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
        });
        Ok(Plan {
            service: service(context),
            file: file.transpose()?,
            // The metadata of a contact may have another key that looks like the address.
            column: match self.audience {
                Some(_) => Some("email".to_owned()),
                None => self.column.clone(),
            },
            message: Message {
                from: self.from.clone(),
                subject: self.subject.clone(),
                html,
                text,
                reply_to: self.reply_to.clone(),
                headers: self.header.clone(),
                tags: self.tag.clone(),
                template: self.template.clone(),
                unsubscribe: self.unsubscribe.clone(),
                attachments,
            },
            limit: self.limit.or(self.only_to.as_ref().map(|_| SHOWN as u64)),
            only_to: self.only_to.clone(),
            rate: self.rate,
            concurrency: usize::from(concurrency),
            keep_duplicates: self.duplicates == Duplicates::Keep,
            audience: self.audience.clone(),
            key: None,
            recipients: context.settings.guard.recipients(),
            left_out: LeftOut::default(),
        })
    }

    /// Copies the rows, so that nothing that happens to the file changes what is sent.
    async fn copy(
        &self,
        context: &Context,
        client: &EmailClient,
        file: Option<&Path>,
        folder: &Path,
    ) -> Result<(), Failure> {
        if let Some(audience) = &self.audience {
            let copy = async |audience: &str| {
                let path = folder.join(COPY);
                let _ = std::fs::remove_file(&path);
                let mut file = std::io::BufWriter::new(create_private(&path)?);
                let progress = context.out.progress("reading the audience");
                let mut count = 0_u64;
                contact_pages::for_each(client, audience, None, |contact| {
                    count += 1;
                    progress.set_text(format!("reading the audience: {count} contacts"));
                    let mut row = contact.metadata.clone();
                    row.insert("email".to_owned(), json!(contact.email));
                    row.insert("name".to_owned(), json!(contact.name));
                    // Without it, the contact is left out.
                    let subscribed = contact.subscribed.unwrap_or(false);
                    row.insert("subscribed".to_owned(), json!(subscribed));
                    row.insert("contact_id".to_owned(), json!(contact.id));
                    Ok(writeln!(file, "{}", serde_json::Value::Object(row))?)
                })
                .await?;
                file.flush()?;
                Ok(file.get_ref().sync_all()?)
            };
            return names::with_id(context, Names::Audience(client), audience, copy).await;
        }
        let mut copy = create_private(&folder.join(COPY))?;
        let mut rows: Box<dyn Read + Send> = match file {
            Some(path) => Box::new(File::open(path).map_err(|e| not_copied(path, &e))?),
            None => Box::new(context.inputs.stdin_stream(&context.out, "FILE")?),
        };
        // On a thread of its own: a pipe or a terminal may not end, and Ctrl-C must.
        let copied = tokio::task::spawn_blocking(move || {
            std::io::copy(&mut rows, &mut copy).and_then(|_| copy.sync_all())
        });
        let copied = copied.await.map_err(|error| Failure::other(error.to_string()))?;
        copied.map_err(|error| not_copied(file.unwrap_or(Path::new("standard input")), &error))
    }
}

fn not_copied(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("{}: cannot copy the rows: {error}", path.display()))
}

/// The service of this run, so that a job is not continued with another one.
pub fn service(context: &Context) -> String {
    let url = context.settings.url(Service::Email);
    url.map_or("sandbox", |url| url.value.trim_end_matches('/')).to_owned()
}

fn attachment(context: &Context, attach: &Attach) -> Result<message::File, Failure> {
    let Source::File(path) = &attach.source else {
        return Err(Failure::usage("--attach: standard input cannot be read again for each email"));
    };
    let path = std::path::absolute(context.settings.path(path))
        .map_err(|error| Failure::input(format!("--attach: {}: {error}", path.display())))?;
    let (name, content_type) = (attach.name.clone(), attach.content_type.clone());
    Ok(message::File { path, name, content_type })
}

/// What will be sent, such as `5000 emails; 12 unsubscribed and 3 invalid left out (see …).` A file
/// in the folder lists what is left out.
fn described(plan: &Plan, checked: &Checked, folder: Option<&Path>) -> String {
    let count = checked.count;
    let mut text = format!("{count} {}", if count == 1 { "email" } else { "emails" });
    if let Some(address) = &plan.only_to {
        text.push_str(&format!(", all to {address}"));
    }
    if let Some(left_out) = plan.left_out.describe() {
        text.push_str(&format!("; {left_out}"));
        if let Some(folder) = folder {
            text.push_str(&format!(" (see {})", folder.join(LEFT_OUT).display()));
        }
    }
    text + "."
}

/// Lists the rows that are left out, in a dry run.
fn note_left_out(context: &Context, folder: &Path) -> Result<(), Failure> {
    const MAX: u64 = 100;
    let mut count = 0;
    for line in BufReader::new(File::open(folder.join(LEFT_OUT))?).lines() {
        count += 1;
        if count <= MAX {
            let row = serde_json::from_str(&line?).map_err(|e| Failure::other(e.to_string()))?;
            let LeftOutRow { row, address, code, message } = row;
            context.out.note(&format!("row {row}, {address}: {code}: {message}"));
        }
    }
    if count > MAX {
        context.out.note(&format!("{} more rows are left out", count - MAX));
    }
    Ok(())
}

/// Warns of an earlier job with the same rows and the same email.
fn sent_before(context: &Context, job: &Job) -> String {
    let id = &job.info.job;
    let verb = if job.is_running { "is sending" } else { "has sent" };
    let when = context.out.local_time(&job.info.at.to_rfc3339());
    let mut text = format!(
        "job {id} of {when} {verb} this email to these rows: {} of {} accepted",
        job.totals.accepted,
        job.total()
    );
    if job.not_sent() > 0 && !job.is_running {
        text.push_str(&format!("; continue it: {}", context.svc(&format!("bulk resume {id}"))));
    }
    text
}

fn preview(number: usize, email: &Email) -> String {
    let body = email.text.as_deref().or(email.html.as_deref());
    let body = match (body, &email.template_id) {
        (Some(body), _) => body.lines().take(8).map(|line| format!("  {line}\n")).collect(),
        (None, Some(id)) => {
            let values = serde_json::Value::Object(email.variables.clone());
            format!("  template {id} with {values}\n")
        }
        (None, None) => String::new(),
    };
    let to = email.to.first().map(String::as_str).unwrap_or_default();
    format!("email {number} to {to}\n  Subject: {}\n{body}", email.subject)
}

/// The failure of --strict.
fn invalid_rows(plan: &Plan, checked: Checked) -> Failure {
    let message = match plan.left_out.invalid {
        1 => "1 row is invalid; nothing was sent".to_owned(),
        count => format!("{count} rows are invalid; nothing was sent"),
    };
    let mut failure = Failure::input(message)
        .code("invalid_rows")
        .hint("correct them, or omit --strict to leave them out");
    failure.details_mut().fields = checked.problems;
    failure
}

fn nothing_to_send(plan: &Plan, checked: Checked) -> Failure {
    let mut message = "no row can be sent".to_owned();
    if let Some(left_out) = plan.left_out.describe() {
        message.push_str(&format!(": {left_out}"));
    }
    let mut failure = Failure::input(message);
    failure.details_mut().fields = checked.problems;
    failure
}
