//! The `svc bulk send` command: reads the rows, checks them, asks, and sends them or puts them into
//! Redis.

use std::collections::HashSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use futures_util::FutureExt as _;
use svc_bulk::{Job, JobInfo};
use svc_sdk::Operation::{ContactsList, DomainsList, EmailsGet, EmailsSendBatch};
use svc_sdk::email::{Audience, Email};
use svc_sdk::{EmailClient, Service};

use super::again;
use super::jobs::Jobs;
use super::manage::list;
use super::people::{Checked, People, SHOWN, Selection, in_background};
use super::plan::{self, LEFT_OUT, LeftOut, Plan, hash_of};
use super::run::run;
use super::store::{self, QueueOption, StoredJob, check_durability, enqueue};
use super::wait::Wait;
use crate::command_spec::changes;
use crate::commands::bulk::store::JobSummary;
use crate::commands::emails::content::Content;
use crate::complete::Values;
use crate::confirm::confirm;
use crate::contact_pages;
use crate::context::Context;
use crate::dns::is_same_domain;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::input::attach::Attach;
use crate::input::columns::ColumnOptions;
use crate::input::email::check;
use crate::input::people::PeopleFile;
use crate::input::records::Records;
use crate::output::{one_line, to_value};
use crate::output_schema::of;
use crate::private;
use crate::resource::Names;
use crate::sdk_error::{RECIPIENT_GUARD, RECIPIENT_GUARD_HINT};
use crate::settings::Key;
use crate::stop::StopSignal;

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
/// what was not sent. Half of the people of a job that is not complete, or has ended in the last 20
/// hours, get another email only with --again. The exit code is 11 if emails are refused, 9 if the
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
    #[arg(long, value_name = "AUDIENCE", conflicts_with_all = ["file", "column", "opt_out"], add = Values::Audience.candidates())]
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
    /// Send although another job has, or will have, sent emails to half of these people
    #[arg(long, hide_short_help = true)]
    again: bool,
    /// Put the job into Redis, for `svc bulk work` [default URL: SVC_BULK_QUEUE]
    ///
    /// Nothing is sent by this command. The rows, texts and attachments are copied into Redis.
    #[arg(long, hide_short_help = true, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    queue: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

/// What to do with rows whose address an earlier row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    /// Leave them out
    Skip,
    /// Send to them, too
    Keep,
}

/// Parses `N/s`, as clap's `value_parser`.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let is_plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let rate = number.parse::<f64>().ok().filter(|_| is_plain);
    // Slower than one email a day is more likely a mistake.
    rate.filter(|rate| *rate >= 1.0 / 86_400.0 && rate.is_finite())
        .ok_or_else(|| format!("`{text}` is not a rate such as 50/s or 0.5/s"))
}

impl Send {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut info = JobInfo::new("");
        let (url, key) = self.endpoint(context).await?;
        let client = context.email_client_at(&url, &key)?;
        let mut plan = self.plan(context, &info, &key).await?;
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let option = QueueOption {
            queue: self.queue.clone(),
        };
        // Jobs there may have the same people.
        let is_to_queue = self.queue.is_some() && !context.settings.dry_run;
        let queue = match is_to_queue || !self.again {
            true => option.if_set(context).await?,
            false => None,
        };
        if let Some(queue) = queue.as_ref().filter(|_| is_to_queue) {
            check_durability(context, queue).await?;
        }
        let jobs = Jobs::of(&context.settings);
        let mut draft = jobs.draft(&info.job)?;
        let earlier = again::earlier(context, queue.as_ref(), !self.again).await?;
        let contents = self.copy_attachments(context, &mut plan, &draft.folder)?;
        let people = People::new(&draft.folder, plan.renderer(contents)?)?;
        let people = self.read(context, &client, people, &mut stop).await?;
        people.opt_outs.ask_about_unknown_words(context).await?;
        if self.audience.is_none() {
            context.out.note(&people.opt_outs.describe());
        }
        for column in &people.unused_columns {
            context.out.warning(&format!(
                "the column `{column}` is not used: only placeholders read columns"
            ));
        }
        let selection = self.selection(context, &client, &plan, &earlier).await?;
        let (checked, plan) = in_background(context, &mut stop, move |stop| {
            Ok((people.check(&mut plan, &selection, stop)?, plan))
        })
        .await?;
        if checked.count == 0 {
            let why = plan.left_out.describe().map(|why| format!(": {why}"));
            let message = format!("no row can be sent{}", why.unwrap_or_default());
            let mut failure = Failure::input(message);
            failure.details_mut().fields = checked.problems;
            return Err(failure);
        }
        check_limits(context, checked.count)?;
        if !self.again {
            again::refuse(context, &earlier, &plan, &checked.addresses, None).await?;
        }
        if context.settings.dry_run {
            let count = if checked.count == 1 {
                "1 email"
            } else {
                &*format!("{} emails", checked.count)
            };
            let left_out = plan
                .left_out
                .describe()
                .map(|it| format!("; {it}"))
                .unwrap_or_default();
            context.out.note(&format!("{count} to send{left_out}"));
            if self.again {
                context
                    .out
                    .note("--again: people who have just got an email are included");
            }
        }
        note_problems(context, &plan, &checked);
        if !self.suppress.is_empty() && plan.left_out.of("suppressed") == 0 {
            context
                .out
                .warning("--suppress has no effect: its addresses are not in the rows");
        }
        if context.settings.dry_run {
            let first = client.emails().send_batch(&checked.first).to_request()?;
            let counts = [
                ("emails", checked.count.into()),
                ("left_out", to_value(&plan.left_out)?),
            ];
            return dry_run::show_job(&context.out, &first, counts);
        }
        if context.out.can_ask() && !context.settings.yes {
            for (number, email) in checked.first.iter().enumerate() {
                let preview = preview(number + 1, email);
                preview.lines().for_each(|line| context.out.note(line));
            }
        }
        let question = self.question(context, &plan, checked.count, &key, &draft.folder);
        confirm(context, &question).await?;
        check_sender(context, &client, &plan.email.from).await?;
        if stop.recv().now_or_never().is_some() {
            return Err(context.changes.interruption());
        }
        let settings = serde_json::to_value(&plan).map_err(|e| Failure::other(e.to_string()))?;
        (info.rows, info.settings) = (Some(checked.count), settings);
        // Another process may have started a job with the same people while the question was open.
        let lock = jobs.lock()?;
        if !self.again {
            let now = store::all(context, true, queue.as_ref(), true).await?;
            again::refuse(context, &now, &plan, &checked.addresses, None).await?;
        }
        if let Some(queue) = queue.filter(|_| is_to_queue) {
            let stored = enqueue(&queue, &draft.folder, &plan, &info);
            let job = context.unless_stopped(&mut stop, stored).await?;
            let work = job.svc(context, "work");
            context
                .out
                .hint(&format!("send it, on any number of machines: {work}"));
            let sentence = format!("queued job {}: {} emails", info.job, checked.count);
            return context.out.done(&sentence, &job.summary());
        }
        draft.start(&info)?;
        let mut job = StoredJob::here(&draft.folder)?;
        drop(lock);
        let sender = Job::new(&client).concurrency(plan.concurrency);
        let sent = run(context, sender, &mut job, None, None, &mut stop).await;
        self.wait
            .after(sent, context, &client, &job, &mut stop)
            .await
    }

    async fn endpoint(&self, context: &Context) -> Result<(String, Key), Failure> {
        let (url, key) = context.endpoint(Service::Email).await?;
        // A dry run reads the audience, too.
        match context.settings.sandbox && context.settings.dry_run && self.audience.is_some() {
            true => Ok((context.sandbox().await?.url().to_owned(), key)),
            false => Ok((url, key)),
        }
    }

    /// What the options say.
    async fn plan(&self, context: &Context, info: &JobInfo, key: &Key) -> Result<Plan, Failure> {
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
            key: plan::fingerprint(&info.job, key),
            recipients: context.settings.guard.recipients(),
            left_out: LeftOut::default(),
        })
    }

    /// Reads and copies the attachments, so that nothing that happens to their files changes what is sent.
    fn copy_attachments(
        &self,
        context: &Context,
        plan: &mut Plan,
        folder: &Path,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut contents = Vec::new();
        for (number, Attach { path, file }) in self.content.attach.iter().enumerate() {
            if path.as_os_str() == "-" {
                let problem = "--attach: standard input cannot be attached to several emails";
                return Err(Failure::usage(problem));
            }
            let content = context.inputs.bytes(&context.out, "--attach", path)?;
            private::replace(&folder.join(plan::attachment(number)), &content)?;
            contents.push(content);
            plan.attachments.push(file.clone());
        }
        Ok(contents)
    }

    /// Reads the file or the audience, once.
    async fn read(
        &self,
        context: &Context,
        client: &EmailClient,
        mut people: People,
        stop: &mut StopSignal,
    ) -> Result<People, Failure> {
        let Some(audience) = &self.audience else {
            let path = self.file.clone().unwrap_or_else(|| "-".into());
            let (file, columns) = (
                context.inputs.open(&context.out, &path)?,
                self.columns.clone(),
            );
            let progress = context.out.progress("reading the rows");
            let read = in_background(context, stop, move |stop| {
                let reader = BufReader::with_capacity(64 * 1024, file);
                let records = Records::new(Box::new(reader), &path)?;
                people.read(PeopleFile::new(records, &columns)?, stop)?;
                Ok(people)
            });
            let people = read.await;
            drop(progress);
            return people;
        };
        let audience = match context.settings.dry_run {
            true => {
                Names::<Audience>::new(context, client)
                    .existing(audience)
                    .await?
                    .item
                    .id
            }
            false => audience.clone(),
        };
        let mut count = 0_u64;
        let read = contact_pages::of_audience(context, client, &audience, None, |contact| {
            count += 1;
            people.add_contact(count, contact)
        });
        context.unless_stopped(stop, read).await?;
        Ok(people)
    }

    async fn selection(
        &self,
        context: &Context,
        client: &EmailClient,
        plan: &Plan,
        earlier: &[StoredJob],
    ) -> Result<Selection, Failure> {
        let mut suppressed = HashSet::new();
        for path in &self.suppress {
            for address in list(context, "--suppress", path)? {
                let hash = hash_of(&address).filter(|_| !address.contains('*'));
                suppressed.insert(hash.ok_or_else(|| {
                    let shown = one_line(&address).chars().take(80).collect::<String>();
                    let problem = format!("`{shown}` is not an address");
                    Failure::input(format!("--suppress: {}: {problem}", path.display()))
                        .hint("write one address per line, or name the column `email`")
                })?);
            }
        }
        let goes_on = self.limit.is_some() && self.only_to.is_none() && !self.again;
        Ok(Selection {
            limit: self.limit.or(self.only_to.as_ref().map(|_| SHOWN as u64)),
            keep_duplicates: self.duplicates == Duplicates::Keep,
            suppressed,
            sent_before: match goes_on {
                true => again::sent_before(earlier, plan).await?,
                false => HashSet::new(),
            },
            guard: context.settings.guard.to_sdk().map(|_| client.clone()),
        })
    }

    /// What is at stake: how many, which sender, which service and key, how many are left out.
    fn question(
        &self,
        context: &Context,
        plan: &Plan,
        count: u64,
        key: &Key,
        folder: &Path,
    ) -> String {
        let mut text = String::new();
        if let Some(left_out) = plan.left_out.describe() {
            text.push_str(&left_out);
            // Without a question, the file is removed before anybody can read it.
            if context.out.can_ask() {
                text.push_str(&format!(" (see {})", folder.join(LEFT_OUT).display()));
            }
            text.push_str(". ");
        }
        let emails = if count == 1 { "email" } else { "emails" };
        let verb = if self.queue.is_some() {
            "Queue"
        } else {
            "Send"
        };
        text.push_str(&format!("{verb} {count} {emails} from {}", plan.email.from));
        if let Some(address) = &plan.only_to {
            text.push_str(&format!(", all to {address},"));
        }
        match plan.service.as_str() {
            "sandbox" => text.push_str(" to the sandbox"),
            url => {
                let kind = key
                    .mode()
                    .map(|mode| format!(", {mode} key"))
                    .unwrap_or_default();
                text.push_str(&format!(" to {url} (profile {}{kind})", plan.profile));
            }
        }
        if let Some(at) = &plan.email.scheduled_at {
            text.push_str(&format!(", for {}", context.out.local_time(at.as_str())));
        }
        text + "?"
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
            return Err(context.failure(error));
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

fn note_problems(context: &Context, plan: &Plan, checked: &Checked) {
    let invalid = plan.left_out.of("invalid");
    if invalid > 0 {
        let problems = checked.problems.iter().take(SHOWN);
        let problems = problems.map(|(row, problem)| format!("{row}: {problem}"));
        let problems = problems.collect::<Vec<_>>().join("; ");
        let rows = if invalid == 1 { "row is" } else { "rows are" };
        let more = if invalid > SHOWN as u64 { "; …" } else { "" };
        context.out.warning(&format!(
            "{invalid} {rows} invalid and left out: {problems}{more}"
        ));
    }
}

fn preview(number: usize, email: &Email) -> String {
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
        "email {number} to {to}\n  Subject: {}\n{body}",
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
