//! `svc replay`: selects deliveries that `svc listen` has recorded (`crate::recorded_deliveries`) and posts
//! them to an application again. Body and event ID stay the same, and the signature is made anew
//! with the application's secret. With `--since`, each event is delivered once, by its newest
//! attempt. A delivery that fails does not stop the others, and makes the command a failed check.

use std::collections::HashSet;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, Delivery, RESPONSE_TIMEOUT};
use crate::failure::{Failure, Kind};
use crate::input::at::Direction;
use crate::input::choice::service_named;
use crate::output::{Column, Format, View};
use crate::output_schema::{any_of, of};
use crate::prepared::Prepared;
use crate::recorded_deliveries::{RecordedDeliveries, RecordedDelivery};
use crate::signing::{given_or_profile_secret, read_secret, usable};
use crate::time_options;
use crate::urls::check_url;

const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::text("TO", "/to").droppable(),
    Column::id("EVENT ID", "/event_id").droppable(),
    Column::http_status("STATUS", "/status"),
    Column::number("DURATION MS", "/duration_ms"),
    Column::prose("PROBLEM", "/problem"),
]);

const RECORDED: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::time("RECEIVED", "/received_at"),
    Column::id("EVENT ID", "/event_id").droppable(),
    Column::text("FORWARDED TO", "/forwarded_to").droppable(),
]);

/// Deliver recorded webhooks to an application again
///
/// `svc listen` records deliveries and prints their ids. The body and the event id stay the same;
/// the signature is computed again. With --since, an event that was delivered several times is
/// delivered once. A failed delivery does not stop the others. The exit code is 10 if a response is
/// not 2xx.
#[derive(Args, Debug)]
#[command(add = changes(&[], || { any_of(&[of::<Vec<Replayed>>, of::<Vec<RecordedDelivery>>]) }).with_scope("none (sends to the application only)"))]
#[command(after_long_help = "\
  svc replay --list --since 1d
  svc replay --last --to http://localhost:3000/hooks
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
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "ids"
    )]
    since: Option<String>,
    /// Replay the newest delivery
    #[arg(long, conflicts_with_all = ["ids", "since"])]
    last: bool,
    /// List the recorded deliveries, newest last
    ///
    /// In JSON with headers and body (Base64). --dry-run shows what is delivered.
    #[arg(long, conflicts_with_all = ["to", "secret_file", "ids", "last"])]
    list: bool,
    /// URL of the application [default: the original one]
    #[arg(long, aliases = ["url", "forward-to"], value_name = "URL")]
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
        if self.ids.is_empty() && self.since.is_none() && !self.list && !self.last {
            return Err(Failure::usage(
                "say what to replay: a delivery ID, --last or --since TIME",
            )
            .hint("list the recorded deliveries: svc replay --list"));
        }

        let records = RecordedDeliveries::in_dir(&context.settings.data_dir);
        let mut recorded = match self.ids.as_slice() {
            [] => {
                let (all, problems) = records.all()?;
                problems
                    .iter()
                    .for_each(|problem| context.out.warning(problem));
                all
            }
            ids => ids
                .iter()
                .map(|id| records.get(id))
                .collect::<Result<_, _>>()?,
        };
        if let Some(since) = self.instant(context)? {
            let since = since.to_rfc3339_opts(SecondsFormat::Millis, true);
            recorded.retain(|record| record.received_at >= since);
        }
        if self.list {
            let none = "no deliveries are recorded; svc listen records them";
            return context.out.list(&recorded, RECORDED, none);
        }
        if self.last && recorded.is_empty() {
            return Err(Failure::new(Kind::NotFound, "no deliveries are recorded")
                .hint("svc listen records them"));
        }

        if self.last {
            recorded.drain(..recorded.len().saturating_sub(1));
        }
        if self.since.is_some() {
            // The newest attempt of each event.
            let mut seen = HashSet::new();
            recorded.reverse();
            recorded.retain(|it| {
                it.event_id.is_none() || seen.insert((it.service.clone(), it.event_id.clone()))
            });
            recorded.reverse();
        }

        self.replay(context, recorded).await
    }

    /// The time of `--since`. Deliveries are recorded with this machine's time.
    fn instant(&self, context: &Context) -> Result<Option<DateTime<Utc>>, Failure> {
        let Some(since) = &self.since else {
            return Ok(None);
        };

        let now = context.settings.zone()?.at(&Utc::now());
        let instant = time_options::parse(context, "--since", since, &now, Direction::Past)?;
        if instant > now {
            return Err(
                Failure::usage(format!("--since: {instant} is in the future"))
                    .hint("give a time in the past, or a duration before now: --since 10m"),
            );
        }

        Ok(Some(instant.into()))
    }

    async fn replay(
        &self,
        context: &Context,
        recorded: Vec<RecordedDelivery>,
    ) -> Result<(), Failure> {
        let deliveries = recorded.iter().map(|record| self.prepare(context, record));
        let mut deliveries = deliveries.collect::<Result<Vec<_>, _>>()?;
        for delivery in &mut deliveries {
            delivery.check_guard(context)?;
        }

        let deliveries = Prepared::new(deliveries).decide(context).await?;
        let urls = deliveries.iter().map(|delivery| delivery.url.as_str());
        let deliverer = Deliverer::to(context, urls)?;
        let total = recorded.len();
        let mut results = Vec::new();
        let mut failed = Vec::new();
        for (record, delivery) in recorded.into_iter().zip(deliveries) {
            let progress = context.out.progress(format!("delivering {}", record.id));
            let response = deliverer.post(&delivery, RESPONSE_TIMEOUT).await;
            drop(progress);
            let mut result = Replayed {
                id: record.id,
                event: record.event,
                event_id: record.event_id,
                to: delivery.url,
                status: None,
                duration_ms: None,
                problem: None,
            };
            match response {
                Ok(response) => {
                    result.status = Some(response.status);
                    result.duration_ms = Some(response.duration.as_millis() as u64);
                    failed.extend(response.verdict().err());
                }
                Err(error) => {
                    result.problem = Some(error.to_string());
                    failed.push(error.into());
                }
            }
            match context.out.format() {
                Format::Ndjson => context.out.value(&result)?,
                _ => results.push(result),
            }
        }

        context
            .out
            .list(&results, VIEW, "no such deliveries are recorded")?;
        match failed.len() {
            0 => Ok(()),
            1 if total == 1 => Err(failed.remove(0)),
            count => Err(Failure::check(format!(
                "{count} of {total} deliveries had no 2xx response"
            ))
            .code("endpoint_answered_error")),
        }
    }

    fn prepare(&self, context: &Context, record: &RecordedDelivery) -> Result<Delivery, Failure> {
        let to = self
            .to
            .as_ref()
            .or(record.forwarded_to.as_ref())
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{} was not forwarded: give the URL with --to",
                    record.id
                ))
            })?;
        let secret = match (&self.secret_file, &record.secret_file) {
            (None, Some(path)) => {
                let what = format!("the recorded secret of {}", record.id);
                let secret = read_secret(context, &what, path);
                let usable = secret.and_then(|secret| usable(&what, &secret));
                usable.map_err(|it| it.hint("give the application's: --secret-file PATH"))?
            }
            (given, _) => given_or_profile_secret(context, given.as_deref())?,
        };
        let mut delivery = record.to_delivery(to)?;
        delivery.sign(service_named(&record.service), &secret);
        Ok(delivery)
    }
}

/// The result of a delivery.
#[derive(Serialize, JsonSchema)]
pub struct Replayed {
    /// The id of the record.
    id: String,
    event: Option<String>,
    event_id: Option<String>,
    to: String,
    status: Option<u16>,
    duration_ms: Option<u64>,
    problem: Option<String>,
}
