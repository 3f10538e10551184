//! The `svc replay` command.

use std::collections::HashSet;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;
use webhook_verify::Secret;

use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, Delivery, RESPONSE_TIMEOUT};
use crate::failure::Failure;
use crate::input::at::Direction;
use crate::output::{Column, Format, Show, View};
use crate::output_schema::{any_of, of};
use crate::recorded::{Entry, RecordedDelivery, Records};
use crate::signing::{given_or_profile_secret, usable, without_line_end};
use crate::times;
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
    Column::text("FORWARDED TO", "/forwarded_to").droppable(),
]);

/// Deliver recorded webhooks to an application again
///
/// `svc listen` records deliveries and prints their ids. The body and the event id stay the same;
/// the signature is computed again. With --since, an event that was delivered several times is
/// delivered once. A failed delivery or a corrupt record does not stop the others. The exit code is
/// 10 if a response is not 2xx.
#[derive(Args, Debug)]
#[command(add = changes(&[], || { any_of(&[of::<Vec<Replayed>>, of::<Vec<RecordedDelivery>>]) }).with_scope("none (sends to the application only)"))]
#[command(after_long_help = "\
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
    ///
    /// In JSON with headers and body (Base64). --dry-run shows what is delivered.
    #[arg(long, conflicts_with_all = ["to", "secret_file", "ids"])]
    list: bool,
    /// URL of the application [default: the original one]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Signing secret file [default: that of `svc listen`]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(to) = &self.to {
            check_url("--to", to)?;
        }
        if self.ids.is_empty() && self.since.is_none() && !self.list {
            return Err(Failure::usage("nothing to replay is named")
                .hint("give the ids of deliveries, or --since TIME: svc replay --since 10m"));
        }
        let records = Records::in_dir(&context.settings.data_dir);
        let mut entries = match self.ids.as_slice() {
            [] => records.since(self.instant(context)?)?,
            ids => ids
                .iter()
                .map(|id| records.get(id).map(|record| (record.id.clone(), Ok(record))))
                .collect::<Result<_, _>>()?,
        };
        if self.list {
            let mut readable = Vec::new();
            for (_, record) in entries {
                match record {
                    Ok(record) => readable.push(record),
                    Err(failure) => context.out.warning(&failure.details().message),
                }
            }
            let none = "no deliveries are recorded; svc listen records them";
            return context.out.list(&readable, RECORDED, none);
        }
        if self.since.is_some() {
            remove_repeated(context, &mut entries);
        }
        self.replay(context, entries).await
    }

    /// The time of `--since`. Deliveries are recorded with this machine's time.
    fn instant(&self, context: &Context) -> Result<Option<DateTime<Utc>>, Failure> {
        let Some(since) = &self.since else { return Ok(None) };
        let now = context.settings.zone()?.at(&Utc::now());
        let instant = times::parse(context, "--since", since, &now, Direction::Past)?;
        if instant > now {
            return Err(Failure::usage(format!("--since: {instant} is in the future"))
                .hint("give a time in the past, or a duration before now: --since 10m"));
        }
        Ok(Some(instant.into()))
    }

    async fn replay(&self, context: &Context, entries: Vec<Entry>) -> Result<(), Failure> {
        let total = entries.len();
        let prepared = entries.into_iter().map(|(id, record)| {
            let prepared = record.and_then(|record| Ok((self.prepare(context, &record)?, record)));
            (id, prepared)
        });
        let mut prepared = prepared.collect::<Vec<_>>();
        let deliveries = prepared.iter().filter_map(|(_, each)| Some(&each.as_ref().ok()?.0));
        let is_dry = context.settings.dry_run;
        if is_dry {
            context.out.value(&deliveries.clone().map(Delivery::to_json).collect::<Vec<_>>())?;
        }
        let deliverer = Deliverer::to(context, deliveries.map(|delivery| delivery.url.as_str()))?;
        // With --since, one that cannot be delivered does not stop the others.
        if let Some(index) = prepared.iter().position(|(_, each)| each.is_err())
            && (is_dry || self.since.is_none())
        {
            return prepared.swap_remove(index).1.map(drop);
        }
        if is_dry {
            return Ok(());
        }
        let (mut results, mut failed) = (Vec::new(), Vec::new());
        for (id, prepared) in prepared {
            let mut result = Replayed { id, ..Replayed::default() };
            let outcome = match prepared {
                Err(failure) => Err(failure),
                Ok((delivery, record)) => {
                    (result.event, result.event_id) = (record.event, record.event_id);
                    let progress = context.out.progress(format!("delivering {}", result.id));
                    let response = deliverer.post(&delivery, RESPONSE_TIMEOUT).await;
                    drop(progress);
                    result.to = Some(delivery.url);
                    response.map_err(Failure::from)
                }
            };
            match outcome {
                Ok(response) => {
                    result.status = Some(response.status);
                    result.duration_ms = Some(response.duration.as_millis() as u64);
                    failed.extend(response.verdict().err());
                }
                Err(failure) => {
                    result.problem = Some(failure.details().message.clone());
                    failed.push(failure);
                }
            }
            match context.out.format() {
                Format::Ndjson => context.out.one(&result, VIEW)?,
                _ => results.push(result),
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

    fn prepare(&self, context: &Context, record: &RecordedDelivery) -> Result<Delivery, Failure> {
        let to = self.to.as_ref().or(record.forwarded_to.as_ref()).ok_or_else(|| {
            Failure::usage(format!("{} was not forwarded: give the URL with --to", record.id))
        })?;
        let service = match record.service.as_str() {
            "extraction" => Service::Extraction,
            _ => Service::Email,
        };
        let secret = match &record.secret_file {
            Some(path) if self.secret_file.is_none() => recorded_secret(record, path)?,
            _ => given_or_profile_secret(context, self.secret_file.as_deref())?,
        };
        let mut delivery = record.to_delivery(to)?;
        delivery.sign(service, &secret);
        Ok(delivery)
    }
}

/// Keeps the newest attempt of each event.
fn remove_repeated(context: &Context, entries: &mut Vec<Entry>) {
    let (before, mut seen) = (entries.len(), HashSet::new());
    entries.reverse();
    entries.retain(|(_, record)| match record {
        Ok(RecordedDelivery { event_id: Some(event), service, .. }) => {
            seen.insert((service.clone(), event.clone()))
        }
        _ => true,
    });
    entries.reverse();
    let repeated = before - entries.len();
    if repeated > 0 {
        let attempts = if repeated == 1 { "attempt" } else { "attempts" };
        context.out.note(&format!(
            "{repeated} earlier {attempts} of the same events left out; each event is delivered once"
        ));
    }
}

/// The secret that verified the delivery.
fn recorded_secret(record: &RecordedDelivery, path: &std::path::Path) -> Result<Secret, Failure> {
    let secret = std::fs::read(path).map(without_line_end).map_err(|error| {
        let id = &record.id;
        let path = path.display();
        Failure::input(format!("the signing secret of {id} cannot be read: {path}: {error}"))
            .hint("give the signing secret of the application: --secret-file PATH")
    })?;
    usable("--secret-file", &secret)
}

/// The result of a delivery.
#[derive(Default, Serialize, JsonSchema)]
pub struct Replayed {
    /// The id of the record.
    id: String,
    event: Option<String>,
    event_id: Option<String>,
    to: Option<String>,
    status: Option<u16>,
    duration_ms: Option<u64>,
    problem: Option<String>,
}
