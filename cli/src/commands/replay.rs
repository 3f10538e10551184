//! The `svc replay` command.

use std::borrow::Cow;
use std::path::PathBuf;

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use clap::{Args, ValueHint};
use hyper::http::Extensions;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::Service;

use super::trigger::verdict;
use super::verify::{usable, without_line_end};
use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, Delivery, RESPONSE_TIMEOUT};
use crate::failure::Failure;
use crate::input::at::{self, Direction};
use crate::output::{Column, Format, Show, View};
use crate::output_schema::{any_of, of};
use crate::recorded::{RecordedDelivery, Records, Since, created};
use crate::urls::check_url;

const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::text("TO", "/to").droppable(),
    Column::id("EVENT ID", "/event_id").droppable(),
    Column::new("STATUS", "/status", Show::HttpStatus),
    Column::new("DURATION MS", "/duration_ms", Show::Number),
    Column::prose("PROBLEM", "/problem"),
]);

const RECORDED: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::new("RECEIVED", "/received_at", Show::Time),
    Column::id("EVENT ID", "/event_id").droppable(),
    Column::text("FORWARDED TO", "/to").droppable(),
    Column::prose("PROBLEM", "/problem"),
]);

/// Deliver recorded webhooks to an application again
///
/// `svc listen` records deliveries and prints their ids. The body and the event id stay the same;
/// the signature is computed again. With --since, an event that was delivered several times is
/// delivered once. A failed delivery or a corrupt record does not stop the others. The exit code is
/// 10 if a response is not 2xx.
#[derive(Args, Debug)]
#[command(add = changes(&[], || { any_of(&[of::<Vec<Replayed>>, of::<Vec<Recorded>>]) }).with_scope("none (sends to the application only)"))]
#[command(after_long_help = "\
Examples:
  svc replay --list --since 1d
  svc replay rec_019a0b1c
  svc replay --since 10m --to http://localhost:3000/hooks \\
      --secret-file secret.txt")]
pub struct Replay {
    /// Ids of recorded deliveries or of their events
    #[arg(value_name = "ID", add = Values::Record.candidates())]
    ids: Vec<String>,
    /// Replay every delivery since a time, such as 10m
    ///
    /// TIME is RFC 3339, a day such as yesterday, or a duration before now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "ids")]
    since: Option<String>,
    /// List the recorded deliveries, newest last
    #[arg(long, conflicts_with_all = ["to", "secret_file", "ids"])]
    list: bool,
    /// Show recorded deliveries with headers and body
    #[arg(long, conflicts_with_all = ["to", "secret_file", "list"])]
    show: bool,
    /// URL of the application [default: the original one]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Signing secret file [default: the original one]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.list || self.show {
            return self.show(context);
        }
        if self.ids.is_empty() && self.since.is_none() {
            return Err(Failure::usage("nothing to replay is named")
                .hint("give the ids of deliveries, or --since TIME: svc replay --since 10m"));
        }
        if let Some(to) = &self.to {
            check_url("--to", to)?;
        }
        let records = Records::in_dir(&context.settings.data_dir);
        let since = match &self.since {
            Some(since) => records.since(since_when(context, since)?.with_timezone(&Utc))?,
            None => Since {
                records: self.ids.iter().map(|id| records.get(id)).collect::<Result<_, _>>()?,
                ..Since::default()
            },
        };
        if since.repeated > 0 {
            let attempts = if since.repeated == 1 { "attempt" } else { "attempts" };
            context.out.note(&format!(
                "{} earlier {attempts} of the same events left out; each event is delivered once",
                since.repeated
            ));
        }
        let (found, corrupt) = (since.records, since.corrupt);
        let given = self
            .secret_file
            .as_deref()
            .map(|path| super::verify::read_secret(context, path))
            .transpose()?;
        let total = found.len() + corrupt.len();
        let (mut results, mut failed) = (Vec::new(), Vec::new());
        let (mut records, mut deliveries) = (Vec::new(), Vec::new());
        for (id, failure) in corrupt {
            results.push(Replayed::failed(&id, &failure));
            failed.push(failure);
        }
        for record in &found {
            match self.prepare(record, given.as_deref()) {
                Ok(delivery) => {
                    records.push(record);
                    deliveries.push(delivery);
                }
                // One that cannot be delivered does not stop the others.
                Err(failure) if self.since.is_some() => {
                    results.push(Replayed::failed(&record.id, &failure));
                    failed.push(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if context.settings.dry_run {
            let shown = deliveries.iter().map(Delivery::to_json).collect::<Vec<_>>();
            context.out.value(&shown)?;
            return failed.into_iter().next().map_or(Ok(()), Err);
        }
        if context.out.format() == Format::Ndjson {
            results.drain(..).try_for_each(|result| context.out.one(&result, VIEW))?;
        }
        let urls = deliveries.iter().map(|delivery| delivery.url.as_str());
        let deliverer = Deliverer::to(context, urls)?;
        for (record, delivery) in records.iter().zip(&deliveries) {
            let progress = context.out.progress(format!("delivering {}", record.id));
            let response = deliverer.post(delivery, RESPONSE_TIMEOUT).await;
            drop(progress);
            let mut result = Replayed {
                id: record.id.clone(),
                event: record.event.clone(),
                event_id: record.event_id.clone(),
                to: Some(delivery.url.clone()),
                ..Replayed::default()
            };
            match response {
                Ok(response) => {
                    result.status = Some(response.status);
                    result.duration_ms = Some(response.duration.as_millis() as u64);
                    failed.extend(verdict(&response).err());
                }
                // A failed delivery does not stop the others.
                Err(none) => {
                    result.problem = Some(none.to_string());
                    failed.push(none.into());
                }
            }
            if context.out.format() == Format::Ndjson {
                context.out.one(&result, VIEW)?;
            } else {
                results.push(result);
            }
        }
        if context.out.format() != Format::Ndjson {
            context.out.list(&results, VIEW, "no deliveries recorded since then")?;
        }
        match failed.len() {
            0 => Ok(()),
            1 if total == 1 => Err(failed.remove(0)),
            count => {
                Err(Failure::check(format!("{count} of {total} deliveries had no 2xx response"))
                    .code("endpoint_answered_error"))
            }
        }
    }

    /// Prints recorded deliveries: one line for each, or all of it.
    fn show(&self, context: &Context) -> Result<(), Failure> {
        let records = Records::in_dir(&context.settings.data_dir);
        let mut found = match self.ids.as_slice() {
            [] => records.all()?,
            ids => {
                let get = |id: &String| Ok((id.clone(), Ok(records.get(id)?)));
                ids.iter().map(get).collect::<Result<_, Failure>>()?
            }
        };
        if let Some(since) = &self.since {
            let instant = since_when(context, since)?;
            found.retain(|(id, record)| match record {
                Ok(record) => {
                    DateTime::parse_from_rfc3339(&record.received_at).is_ok_and(|at| at >= instant)
                }
                // The file name of a corrupt record still has its time.
                Err(_) => created(id).is_some_and(|at| at >= instant.timestamp()),
            });
        }
        let corrupt = found.iter().filter(|(_, record)| record.is_err()).count();
        if self.show && context.out.is_table() && !found.is_empty() {
            for (index, (id, record)) in found.iter().enumerate() {
                context.out.raw(if index > 0 { "\n" } else { "" })?;
                match record {
                    Ok(record) => show_message(context, record)?,
                    Err(failure) => {
                        context.out.one(&Recorded::unreadable(id, failure), RECORDED)?;
                    }
                }
            }
        } else {
            let shown = found.iter().map(|(id, record)| match record {
                Ok(record) if self.show => Recorded::with_message(record),
                Ok(record) => Ok(Recorded::from(record)),
                Err(failure) => Ok(Recorded::unreadable(id, failure)),
            });
            let shown = shown.collect::<Result<Vec<_>, _>>()?;
            let none = "no deliveries are recorded; svc listen records them";
            context.out.list(&shown, RECORDED, none)?;
        }
        if corrupt > 0 {
            let records = if corrupt == 1 { "record" } else { "records" };
            context.out.warning(&format!("{corrupt} {records} cannot be read"));
        }
        Ok(())
    }

    fn prepare(
        &self,
        record: &RecordedDelivery,
        given: Option<&[u8]>,
    ) -> Result<Delivery, Failure> {
        let to = self.to.as_ref().or(record.forwarded_to.as_ref()).ok_or_else(|| {
            Failure::usage(format!("{} was not forwarded: give the URL with --to", record.id))
        })?;
        let service = match record.service.as_str() {
            "extraction" => Service::Extraction,
            _ => Service::Email,
        };
        let secret = match given {
            Some(secret) => secret.to_vec(),
            None => recorded_secret(record)?,
        };
        let mut delivery = Delivery {
            url: to.clone(),
            headers: record.headers.clone(),
            body: record.body()?.into(),
            extensions: Extensions::new(),
        };
        delivery.sign(service, &usable(&secret)?);
        Ok(delivery)
    }
}

/// The result of a delivery.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Replayed {
    /// The id of the record.
    id: String,
    event: Option<String>,
    event_id: Option<String>,
    to: Option<String>,
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    problem: Option<String>,
}

impl Replayed {
    /// The result of a delivery that cannot be sent.
    fn failed(id: &str, failure: &Failure) -> Self {
        let problem = Some(failure.details().message.clone());
        Self { id: id.to_owned(), problem, ..Self::default() }
    }
}

/// A record, with --list or --show.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Recorded<'a> {
    id: &'a str,
    received_at: Option<Cow<'a, str>>,
    #[schemars(extend("enum" = ["email", "extraction", null]))]
    service: Option<&'a str>,
    event: Option<&'a str>,
    event_id: Option<&'a str>,
    to: Option<&'a str>,
    #[serde(flatten)]
    message: Option<Message<'a>>,
    /// Why the record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    problem: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
struct Message<'a> {
    headers: &'a [(String, String)],
    /// The body, as text if it is not JSON.
    body: Value,
}

impl<'a> From<&'a RecordedDelivery> for Recorded<'a> {
    fn from(record: &'a RecordedDelivery) -> Self {
        Self {
            id: &record.id,
            received_at: Some(Cow::Borrowed(&record.received_at)),
            service: Some(&record.service),
            event: record.event.as_deref(),
            event_id: record.event_id.as_deref(),
            to: record.forwarded_to.as_deref(),
            ..Self::default()
        }
    }
}

impl<'a> Recorded<'a> {
    fn with_message(record: &'a RecordedDelivery) -> Result<Self, Failure> {
        let body = record.body()?;
        let body =
            serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
        let message = Some(Message { headers: &record.headers, body });
        Ok(Self { message, ..Self::from(record) })
    }

    /// A record that cannot be read. Its id has the time of receipt.
    fn unreadable(id: &'a str, failure: &'a Failure) -> Self {
        let at = created(id).and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        let received_at = at.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true).into());
        Self { id, received_at, problem: Some(&failure.details().message), ..Self::default() }
    }
}

/// Prints a record, and its headers and body as in an HTTP message.
fn show_message(context: &Context, record: &RecordedDelivery) -> Result<(), Failure> {
    context.out.one(&Recorded::from(record), RECORDED)?;
    let headers = record.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let body = record.body()?;
    let body = match serde_json::from_slice::<Value>(&body) {
        Ok(json) => format!("{json:#}"),
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    context.out.raw_data(&format!("\n{}\n{body}\n", headers.collect::<String>()))
}

/// The time of `--since`. Deliveries are recorded with this machine's time.
fn since_when(context: &Context, since: &str) -> Result<DateTime<FixedOffset>, Failure> {
    let now = Utc::now().with_timezone(&context.settings.zone()?);
    let instant = at::parse(since, &now, Direction::Past)
        .map_err(|error| Failure::usage(format!("--since: {error}")))?;
    if instant > now {
        let shown = context.out.local_time(&instant.to_rfc3339());
        return Err(Failure::usage(format!("--since: {shown} is in the future"))
            .hint("give a time in the past, or a duration before now: --since 10m"));
    }
    Ok(instant)
}

fn recorded_secret(record: &RecordedDelivery) -> Result<Vec<u8>, Failure> {
    let hint = "give the signing secret of the application: --secret-file PATH";
    let Some(path) = &record.secret_file else {
        let message = format!("{} was recorded without the file of its signing secret", record.id);
        return Err(Failure::input(message).hint(hint));
    };
    std::fs::read(path).map(without_line_end).map_err(|error| {
        Failure::input(format!(
            "the signing secret of {} cannot be read: {}: {error}",
            record.id,
            path.display()
        ))
        .hint(hint)
    })
}
