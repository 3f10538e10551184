//! `svc bulk send`. The rows of a file or an audience are read once into a draft in the ledger,
//! where they are checked and shown; then a person confirms (or `--yes`), and the draft is started.
//! Until then nothing is sent, and a failure discards the draft. `Ledger::start` fails if another
//! process started a job meanwhile, so that the check for people who got an email (`again.rs`) is
//! made again. Then `run.rs` sends. Over 500 lines, many of them options with their help; people
//! are read in `people.rs`.

use std::collections::HashSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;
use clap::{Args, ValueEnum, ValueHint};
use futures_util::FutureExt as _;
use futures_util::future::try_join;
use svc_bulk::{Ledger, NewRow, NewSend};
use svc_sdk::Operation::{ContactsList, DomainsList, EmailsGet, EmailsSendBatch};
use svc_sdk::email::{Audience, Email};
use svc_sdk::{EmailClient, Service};
use tokio::sync::mpsc;

use super::again::{Candidate, clean_up};
use super::ledger::{JobSummary, LedgerOption, StoredJob};
use super::manage::list;
use super::message::Renderer;
use super::people::{Checked, Pages, People, SHOWN, Selection, in_background};
use super::plan::{self, LeftOut, Plan};
use super::run::run;
use super::wait::Wait;
use crate::command_spec::changes;
use crate::commands::emails::content::Content;
use crate::complete::Values;
use crate::contact_pages;
use crate::context::Context;
use crate::dns::is_same_domain;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::input::attach::Attach;
use crate::input::columns::{ColumnOptions, DECLARED};
use crate::input::email::{check, hash};
use crate::input::people::{PeopleFile, addresses};
use crate::input::records::Records;
use crate::output::{one_line, to_value};
use crate::output_schema::of;
use crate::prepared::decided;
use crate::resource::Names;
use crate::sdk_error::{RECIPIENT_GUARD, RECIPIENT_GUARD_HINT};
use crate::settings::Key;
use crate::stop::StopSignal;
use crate::time_options;

const ATTACH: &str = "Attachment, the same for all, at most 20; repeatable

Format: PATH[;name=NAME][;type=MIME]. The name and type default to those of the path.";
const AT: &str = "Send time: RFC 3339, +2h, 'tomorrow 9am'

The default is now. `svc bulk cancel` cancels the emails that wait.";

/// Send an email to every row of a file or contact of an audience
///
/// The first line of a CSV file names the columns; NDJSON has an object per line. Every text may
/// contain placeholders such as {{ first_name }}; a row without the value is left out and reported.
/// All rows are read and checked before the first email is sent, and a prompt shows what will be
/// sent. Who has opted out gets no email; the guide on bulk sending lists the columns that say so.
///
/// What is sent is recorded, so that a job can be killed at any point: `svc bulk resume` sends only
/// what was not sent. Nobody gets the same email twice, and half of the people of a job that is not
/// complete, or has ended in the last 20 hours, get another email only with --again. The exit code is 11 if emails are refused, 9 if the
/// outcome of some is unknown, 10 if --wait finds emails that are not delivered, and 130 after
/// Ctrl-C; of several, 9 comes before 11, and 11 before 10.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsSendBatch, ContactsList, EmailsGet, DomainsList], of::<JobSummary>).until_interrupted().with_scope("emails:send (contacts:manage with --audience, emails:read with --wait; domains:manage if the key has it)"))]
#[command(after_long_help = "\
  svc bulk send people.csv --from hello@example.com \\
      --subject 'Hi {{ first_name }}' \\
      --html @news.html --unsubscribe 'https://example.com/u/{{ token }}'
  svc bulk send --audience Newsletter --from hello@example.com --subject News \\
      --text @news.txt
  svc bulk send people.ndjson --from hello@example.com --subject Hi \\
      --template welcome --rate 50/s
  svc bulk send people.csv --from hello@example.com --subject Hi \\
      --text @news.txt --only-to me@example.com")]
#[command(mut_args(|it| match it.get_id().as_str() {
    "from" | "subject" => it.required(true),
    "reply_to" => it.num_args(1).hide_short_help(true),
    "html" => it.help("HTML body: text, @file or -; values are escaped"),
    "template" => it.help("Template id; its variables are the row's values"),
    "header" | "tag" => it.hide_short_help(true),
    "attach" => it.hide_short_help(true).long_help(ATTACH),
    "at" => it.hide_short_help(true).long_help(AT),
    _ => it,
}))]
pub struct Send {
    /// CSV, NDJSON or JSON file; - for stdin
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "audience")]
    file: Option<PathBuf>,
    /// Send to the subscribed contacts of an audience
    ///
    /// Its id or name.
    #[arg(long, value_name = "AUDIENCE", conflicts_with_all = ["file", "column", "opt_out", "opt_in", "ignore"], add = Values::Audience.candidates())]
    audience: Option<String>,
    #[command(flatten)]
    columns: ColumnOptions,
    /// File of addresses that get no email; - for stdin; repeatable
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    suppress: Vec<PathBuf>,
    #[command(flatten)]
    content: Content,
    /// URL to unsubscribe with one click
    ///
    /// Sets the headers List-Unsubscribe and List-Unsubscribe-Post (RFC 8058).
    #[arg(long, value_name = "URL")]
    unsubscribe: Option<String>,
    /// Maximum emails per second, such as 50/s or 0.5/s [default: no limit]
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<f64>,
    /// Maximum requests in flight
    ///
    /// Each has up to 100 emails.
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Send at most this many emails
    ///
    /// The same command again goes on with the rest.
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
    /// Send although half of these people have just got another email
    #[arg(long, hide_short_help = true)]
    again: bool,
    #[command(flatten)]
    ledger: LedgerOption,
    #[command(flatten)]
    wait: Wait,
}

/// The choices for rows whose address an earlier row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    /// Leave them out
    Skip,
    /// Send to them, too
    Keep,
}

/// Parses `N/s`, as clap's `value_parser`.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let is_plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let rate = number.parse::<f64>().ok().filter(|_| is_plain);
    // Slower than one email a day is more likely a mistake.
    rate.filter(|rate| *rate >= 1.0 / 86_400.0 && rate.is_finite())
        .ok_or_else(|| format!("`{text}` is not a rate such as 50/s or 0.5/s"))
}

/// A job that may still be declined.
struct Draft {
    ledger: Ledger,
    new: NewSend,
    plan: Plan,
}

impl Send {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (url, key) = self.endpoint(context).await?;
        let client = context.clients.email_client_at(&url, &key)?;
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let ledger = self.ledger.open(context).await?;
        clean_up(context, &ledger, &self.ledger).await?;

        let mut new = NewSend::new("");
        let mut plan = self.plan(context, &new.id, &key).await?;
        let contents = self.read_attachments(context)?;
        plan.attachments = self
            .content
            .attach
            .iter()
            .map(|it| it.file.clone())
            .collect();
        new.email = match plan.only_to {
            None => Some(plan.identity(&contents)?),
            Some(_) => None,
        };
        new.label.clone_from(&plan.email.subject);
        new.rate = plan.rate.unwrap_or_default();
        ledger.draft(&new).await?;
        let draft = Draft { ledger, new, plan };
        let ledger = draft.ledger.clone();
        let id = draft.new.id.clone();

        let prepared = self.prepare(context, &client, &key, draft, contents, &mut stop);
        if let Err(failure) = prepared.await {
            ledger.remove(&id).await?;
            return Err(failure);
        }

        let option = self.ledger.as_option(context);
        let mut job = StoredJob::read(&ledger, &id, option).await?;
        let concurrency = usize::from(self.concurrency);
        let sent = run(context, &client, concurrency, &mut job, None, &mut stop).await;
        self.wait
            .after(sent, context, &client, &job, &mut stop)
            .await
    }

    /// Reads and checks the rows, asks, and starts the job.
    async fn prepare(
        &self,
        context: &Context,
        client: &EmailClient,
        key: &Key,
        mut draft: Draft,
        contents: Vec<Vec<u8>>,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        let id = draft.new.id.clone();
        for (number, content) in contents.iter().enumerate() {
            let name = plan::attachment(number);
            draft.ledger.add_file(&id, &name, content).await?;
        }

        let mut renderer = draft.plan.renderer(contents)?;
        let mut columns = self.columns.clone();
        let people = loop {
            let read = self.read(context, client, &draft, renderer, columns, stop);
            let people = read.await?;
            let said = people.opt_outs.ask(context).await?;
            if said.is_empty() {
                break people;
            }
            if self.file.as_deref() == Some(Path::new("-")) {
                let problem = "what was typed cannot be read again, with another meaning";
                return Err(Failure::usage(problem).hint("write the rows to a file"));
            }
            columns = people.options;
            columns.declare(said);
            renderer = people.renderer;
            draft.ledger.cut(&id, 0).await?;
        };
        self.note_columns(context, &people);

        if self.goes_on() {
            draft.ledger.leave_out_sent(&id).await?;
        }
        let selection = self.selection(context, client)?;
        let check = people.check(&draft.ledger, &id, &mut draft.plan, &selection);
        let checked = context.caller.unless_stopped(stop, check).await?;
        if checked.count == 0 {
            return Err(nothing_to_send(&draft.plan, &people, checked));
        }

        check_limits(context, checked.count)?;
        self.refuse_again(context, &draft, checked.count).await?;
        self.note_problems(context, &draft.plan, &people, &checked);
        if context.out.can_ask() && !context.settings.yes && !context.settings.dry_run {
            let preview = checked.first.as_ref().map(preview).unwrap_or_default();
            preview.lines().for_each(|line| context.out.note(line));
        }
        let question = self.question(context, &draft.plan, checked.count, key);
        let shown = async { self.show(context, client, &draft.plan, &checked) };
        decided(context, Some(question), shown).await?;
        check_sender(context, client, &draft.plan.email.from).await?;
        if let Some(names) = &people.names {
            let declared = context.settings.state_dir.join(DECLARED);
            people.options.remember(names, &declared)?;
        }
        if stop.recv().now_or_never().is_some() {
            return Err(context.caller.changes.interruption());
        }

        let settings =
            serde_json::to_value(&draft.plan).map_err(|e| Failure::other(e.to_string()))?;
        loop {
            // Another process may have started a job with the same people in the meantime.
            let starts = draft.ledger.starts().await?;
            self.refuse_again(context, &draft, checked.count).await?;
            if draft.ledger.start(&id, &settings, Some(starts)).await? {
                return Ok(());
            }
        }
    }

    /// Whether the same command goes on with those who have not got the email.
    fn goes_on(&self) -> bool {
        self.limit.is_some() && self.only_to.is_none()
    }

    async fn refuse_again(
        &self,
        context: &Context,
        draft: &Draft,
        count: u64,
    ) -> Result<(), Failure> {
        let candidate = Candidate {
            ledger: &draft.ledger,
            option: &self.ledger,
            id: &draft.new.id,
            plan: &draft.plan,
            email: draft.new.email.as_deref(),
            count,
        };
        candidate.refuse(context, self.again).await
    }

    fn note_columns(&self, context: &Context, people: &People) {
        if self.audience.is_none() {
            context.out.note(&people.opt_outs.describe());
        }
        for column in &people.unused_columns {
            context.out.warning(&format!(
                "the column `{column}` is not used: only placeholders read columns"
            ));
        }
    }

    fn note_problems(&self, context: &Context, plan: &Plan, people: &People, checked: &Checked) {
        let invalid = plan.left_out.of("invalid");
        if let Some(missing) = people.missing_columns().filter(|_| invalid > 0) {
            context.out.warning(&missing);
        }
        // A dry run shows all kinds of rows that are left out.
        if invalid > 0 && !context.settings.dry_run {
            let problems = checked.problems.iter().take(SHOWN);
            let problems = problems.map(|(row, problem)| format!("{row}: {problem}"));
            let problems = problems.collect::<Vec<_>>().join("; ");
            let rows = if invalid == 1 { "row is" } else { "rows are" };
            let more = if invalid > SHOWN as u64 { "; …" } else { "" };
            context.out.warning(&format!(
                "{invalid} {rows} invalid and left out: {problems}{more}"
            ));
        }

        if !self.suppress.is_empty() && plan.left_out.of("suppressed") == 0 {
            context
                .out
                .warning("--suppress has no effect: its addresses are not in the rows");
        }
    }

    fn show(
        &self,
        context: &Context,
        client: &EmailClient,
        plan: &Plan,
        checked: &Checked,
    ) -> Result<(), Failure> {
        let count = match checked.count {
            1 => "1 email".to_owned(),
            count => format!("{count} emails"),
        };
        let left_out = plan.left_out.describe().map(|it| format!("; {it}"));
        let left_out = left_out.unwrap_or_default();
        context.out.note(&format!("{count} to send{left_out}"));
        for row in &checked.left_out {
            context.out.note(&format!("left out: {row}"));
        }

        let more = plan.left_out.total() - checked.left_out.len() as u64;
        if more > 0 {
            context.out.note(&format!("left out: {more} more rows"));
        }
        if self.again {
            context
                .out
                .note("--again: people who have just got an email are included");
        }

        let first = checked.first.as_slice();
        let first = client.emails().send_batch(first).to_request()?;
        let counts = [
            ("emails", checked.count.into()),
            ("left_out", to_value(&plan.left_out)?),
        ];
        dry_run::show_job(&context.out, &first, counts)
    }

    async fn endpoint(&self, context: &Context) -> Result<(String, Key), Failure> {
        let (url, key) = context.clients.endpoint(Service::Email).await?;
        // A dry run reads the audience, too.
        if context.settings.sandbox && context.settings.dry_run && self.audience.is_some() {
            Ok((context.clients.sandbox().await?.url().to_owned(), key))
        } else {
            Ok((url, key))
        }
    }

    /// The plan that the options describe.
    async fn plan(&self, context: &Context, job: &str, key: &Key) -> Result<Plan, Failure> {
        let mut email = Email::default();
        self.content.apply(context, &mut email).await?;
        if email.html.is_none() && email.text.is_none() && email.template_id.is_none() {
            return Err(Failure::usage("the emails have no content")
                .hint("give --text, --html or --template"));
        }

        if let Some(address) = &self.only_to {
            check(address).map_err(|problem| Failure::usage(format!("--only-to: {problem}")))?;
        }
        let is_unsubscribe = |name: &str| {
            ["list-unsubscribe", "list-unsubscribe-post"].contains(&name.to_lowercase().as_str())
        };
        if let Some((name, _)) = email.headers.iter().find(|(name, _)| is_unsubscribe(name))
            && self.unsubscribe.is_some()
        {
            return Err(
                Failure::usage(format!("--unsubscribe sets the header {name}, too"))
                    .hint(format!("omit --unsubscribe, or --header '{name}: …'")),
            );
        }

        let file = self.file.as_deref().filter(|path| path.as_os_str() != "-");
        let file = file.map(|path| {
            std::path::absolute(context.settings.path(path))
                .map(|path| path.display().to_string())
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
        });
        Ok(Plan {
            service: plan::service(context),
            profile: context.settings.profile.value.clone(),
            file: file.transpose()?,
            audience: self.audience.clone(),
            email,
            unsubscribe: self.unsubscribe.clone(),
            attachments: Vec::new(),
            only_to: self.only_to.clone(),
            rate: self.rate,
            concurrency: usize::from(self.concurrency),
            key: plan::fingerprint(job, key),
            recipients: context.settings.guard.recipients(),
            ahead: if context.settings.dry_run {
                0
            } else {
                (time_options::now(context).await?.to_utc() - Utc::now()).num_seconds()
            },
            left_out: LeftOut::default(),
        })
    }

    /// Reads the attachments, so that nothing that happens to their files changes what is sent.
    fn read_attachments(&self, context: &Context) -> Result<Vec<Vec<u8>>, Failure> {
        let mut contents = Vec::new();
        for Attach { path, .. } in &self.content.attach {
            if path.as_os_str() == "-" {
                let problem = "--attach: standard input cannot be attached to several emails";
                return Err(Failure::usage(problem));
            }
            contents.push(context.bytes("--attach", path)?);
        }
        Ok(contents)
    }

    /// Reads the file or the audience, once, into the draft.
    async fn read(
        &self,
        context: &Context,
        client: &EmailClient,
        draft: &Draft,
        renderer: Renderer,
        columns: ColumnOptions,
        stop: &mut StopSignal,
    ) -> Result<People, Failure> {
        let Some(audience) = &self.audience else {
            return self
                .read_file(context, draft, renderer, columns, stop)
                .await;
        };

        let audience = if context.settings.dry_run {
            Names::<Audience>::new(context, client)
                .existing(audience)
                .await?
                .item
                .id
        } else {
            audience.clone()
        };
        let (pages, mut read) = mpsc::unbounded_channel();
        let mut people = People::new(Pages::OfAudience(pages), renderer);
        let mut count = 0_u64;
        let reading = contact_pages::of_audience(context, client, &audience, None, |contact| {
            count += 1;
            people.add_contact(count, contact)
        });
        context.caller.unless_stopped(stop, reading).await?;
        people.flush()?;
        while let Ok(page) = read.try_recv() {
            draft.ledger.add(&draft.new.id, &page).await?;
        }

        Ok(people)
    }

    async fn read_file(
        &self,
        context: &Context,
        draft: &Draft,
        renderer: Renderer,
        mut columns: ColumnOptions,
        stop: &mut StopSignal,
    ) -> Result<People, Failure> {
        let path = self.file.clone().unwrap_or_else(|| "-".into());
        let file = context.open(&path)?;
        let declared = context.settings.state_dir.join(DECLARED);
        let progress = context.out.progress("reading the rows");
        let (pages, read) = mpsc::channel(4);
        let reading = in_background(context, stop, move |stop| {
            let mut people = People::new(Pages::OfFile(pages), renderer);
            let reader = BufReader::with_capacity(64 * 1024, file);
            let records = Records::new(Box::new(reader), &path)?;
            if let Some(names) = records.columns() {
                columns.recall(names, &declared);
            }
            people.read(PeopleFile::new(records, &columns)?, stop)?;
            people.close();
            Ok(people)
        });
        let storing = store(&draft.ledger, &draft.new.id, read);
        // Whichever fails first is what went wrong; reading may wait for a person to type.
        let (people, ()) = try_join(reading, storing).await?;
        drop(progress);
        Ok(people)
    }

    fn selection(&self, context: &Context, client: &EmailClient) -> Result<Selection, Failure> {
        let mut suppressed = HashSet::new();
        for path in &self.suppress {
            for address in list(context, "--suppress", path)? {
                let refused = |why: &str| {
                    let shown = one_line(&address).chars().take(80).collect::<String>();
                    let problem = format!("`{shown}` is not an address: {why}");
                    Failure::input(format!("--suppress: {}: {problem}", path.display()))
                        .hint("write one address per line, or name the column `email`")
                };
                if address.contains('*') {
                    return Err(refused("it has a `*`"));
                }
                let readings = addresses(&address).map_err(refused)?;
                suppressed.extend(readings.iter().map(|address| hash(address)));
            }
        }
        Ok(Selection {
            limit: self.limit.or(self.only_to.as_ref().map(|_| SHOWN as u64)),
            keep_duplicates: self.duplicates == Duplicates::Keep,
            suppressed,
            guard: context.settings.guard.to_sdk().map(|_| client.clone()),
        })
    }

    /// The question before sending: how many, which sender, which service and key, how many are left out.
    fn question(&self, context: &Context, plan: &Plan, count: u64, key: &Key) -> String {
        let mut text = String::new();
        if let Some(left_out) = plan.left_out.describe() {
            text.push_str(&format!("{left_out}. "));
        }
        let emails = if count == 1 { "email" } else { "emails" };
        text.push_str(&format!("Send {count} {emails} from {}", plan.email.from));
        if let Some(address) = &plan.only_to {
            text.push_str(&format!(", all to {address},"));
        }
        if plan::is_sandbox(&plan.service) {
            text.push_str(" to the sandbox");
        } else {
            let kind = key.mode().map(|mode| format!(", {mode} key"));
            let url = &plan.service;
            let profile = &plan.profile;
            let kind = kind.unwrap_or_default();
            let of = if context.clients.told_other_service() {
                "not that of "
            } else {
                ""
            };
            text.push_str(&format!(" to {url} ({of}profile {profile}{kind})"));
        }

        if let Some(at) = &plan.email.scheduled_at {
            text.push_str(&format!(", for {}", context.out.local_time(at.as_str())));
        }
        text + "?"
    }
}

/// Stores pages of rows until there is no further one.
async fn store(
    ledger: &Ledger,
    id: &str,
    mut pages: mpsc::Receiver<Vec<NewRow>>,
) -> Result<(), Failure> {
    while let Some(page) = pages.recv().await {
        ledger.add(id, &page).await?;
    }
    Ok(())
}

fn nothing_to_send(plan: &Plan, people: &People, checked: Checked) -> Failure {
    let why = plan.left_out.describe().map(|why| format!(": {why}"));
    let message = format!("no row can be sent{}", why.unwrap_or_default());
    let mut failure = Failure::input(message);
    failure.fields = checked.problems;
    match people.missing_columns() {
        Some(missing) => failure.hint(missing),
        None => failure,
    }
}

/// Refuses a job with more recipients than the guard allows.
pub fn check_limits(context: &Context, recipients: u64) -> Result<(), Failure> {
    let guard = &context.settings.guard;
    if let Some(max) = guard
        .max_recipients_per_run
        .filter(|max| recipients > u64::from(*max))
    {
        return Err(Failure::input(format!(
            "stopped by the recipient guard: {recipients} recipients exceed the limit of {max} per \
             run"
        ))
        .code(RECIPIENT_GUARD)
        .hint(RECIPIENT_GUARD_HINT));
    }
    match guard.for_run()? {
        Some(guard) => Ok(guard.check()?),
        None => Ok(()),
    }
}

/// Asks the service, with one small request, whether the sender's domain is verified. A service that
/// does not tell, or a key without the scope, does not stop the job.
async fn check_sender(context: &Context, client: &EmailClient, from: &str) -> Result<(), Failure> {
    let Some((_, domain)) = check(from).ok().and_then(|it| {
        it.split_once('@')
            .map(|(local, domain)| (local.to_owned(), domain.to_owned()))
    }) else {
        return Ok(());
    };

    let timeout = context.settings.timeout.value.min(Duration::from_secs(10));
    let domains = match client.domains().list().retries(0).timeout(timeout).await {
        Err(error) if error.status().is_some_and(|status| status == 401) => {
            return Err(context.caller.failure(error));
        }
        Ok(domains) if domains.iter().any(|each| each.name.is_some()) => domains,
        _ => return Ok(()),
    };
    let is_sender = |name: &Option<String>| {
        name.as_deref()
            .is_some_and(|name| is_same_domain(name, &domain))
    };

    let (problem, next) = match domains.iter().find(|each| is_sender(&each.name)) {
        Some(found) if found.verified == Some(false) => (
            format!("the domain {domain} of --from is not verified"),
            format!(
                "verify it: {}",
                context.svc("domains verify {}", &[&domain])
            ),
        ),
        Some(_) => return Ok(()),
        None if !domains.is_complete() => return Ok(()),
        None => {
            let known = domains
                .iter()
                .filter_map(|each| Some(one_line(each.name.as_deref()?).into_owned()))
                .collect::<Vec<_>>();
            (
                format!("the domain {domain} of --from is not one of yours"),
                format!("your domains: {}", known.join(", ")),
            )
        }
    };
    Err(Failure::new(Kind::Refused, problem)
        .code("domain_not_verified")
        .hint(next))
}

fn preview(email: &Email) -> String {
    let body = email.text.as_deref().or(email.html.as_deref());
    let body = match (body, &email.template_id) {
        (Some(body), _) => body
            .lines()
            .take(8)
            .map(|line| format!("  {line}\n"))
            .collect(),
        (None, Some(id)) => {
            let values = serde_json::Value::Object(email.variables.clone());
            format!("  template {id} with {values}\n")
        }
        (None, None) => String::new(),
    };
    let to = email.to.first().map(String::as_str).unwrap_or_default();
    format!(
        "the first email, to {to}\n  Subject: {}\n{body}",
        email.subject
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_emails_a_second() {
        for (text, expected) in [("50/s", 50.0), ("50", 50.0), ("0.5/s", 0.5)] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "0/s",
            "-1/s",
            "1e9/s",
            "inf",
            "nan/s",
            "5/min",
            "/s",
            "0.000001/s",
            "1 /s",
        ] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
