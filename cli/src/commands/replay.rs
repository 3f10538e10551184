//! The `svc replay` command.

use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueHint};
use hyper::http::Extensions;
use serde_json::json;
use svc_sdk::Service;

use super::trigger::verdict;
use super::verify::{usable, without_line_end};
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, Delivery, RESPONSE_TIMEOUT, check_url};
use crate::failure::Failure;
use crate::input::duration;
use crate::output::{Column, Format, Show, View};
use crate::recorded::{RecordedDelivery, Records, session_secret};

const VIEW: View = View(&[
    Column::text("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::text("TO", "/to").droppable(),
    Column::text("EVENT ID", "/event_id").droppable(),
    Column::new("STATUS", "/status", Show::HttpStatus),
    Column::new("DURATION MS", "/duration_ms", Show::Number),
    Column::text("PROBLEM", "/problem"),
]);

/// Deliver recorded webhooks to an application again
///
/// `svc listen` records deliveries and prints their ids. The body and the event id stay the same;
/// the signature is computed again. A failed delivery does not stop the others. The exit code is 10
/// if a response is not 2xx.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc replay rec_019a0b1c
  svc replay --since 10m --to http://localhost:3000/hooks --secret-file secret.txt

Scope: none (sends to the application only)")]
pub struct Replay {
    /// Ids of recorded deliveries or of their events
    #[arg(value_name = "ID", add = Values::Record.candidates())]
    ids: Vec<String>,
    /// Replay every delivery since a time, such as 10m
    ///
    /// TIME is RFC 3339 or a duration before now.
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    since: Option<String>,
    /// URL of the application [default: the original one]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Signing secret file [default: the original one]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.ids.is_empty() && self.since.is_none() {
            return Err(Failure::usage("nothing to replay is named")
                .hint("give the ids of deliveries, or --since TIME: svc replay --since 10m"));
        }
        if let Some(to) = &self.to {
            check_url("--to", to)?;
        }
        let records = Records::in_dir(&context.settings.data_dir);
        let found = match &self.since {
            Some(since) => records.since(instant(since)?)?,
            None => self.ids.iter().map(|id| records.get(id)).collect::<Result<_, _>>()?,
        };
        let given = self
            .secret_file
            .as_deref()
            .map(|path| super::verify::read_secret(context, path))
            .transpose()?;
        let deliveries = found
            .iter()
            .map(|record| self.prepare(context, record, given.as_deref()))
            .collect::<Result<Vec<_>, _>>()?;
        if context.settings.dry_run {
            let shown = deliveries.iter().map(Delivery::to_json).collect::<Vec<_>>();
            return context.out.value(&shown.into());
        }
        let urls = deliveries.iter().map(|delivery| delivery.url.as_str());
        let deliverer = Deliverer::to(context, urls)?;
        let (mut results, mut failed) = (Vec::new(), Vec::new());
        for (record, delivery) in found.iter().zip(&deliveries) {
            let progress = context.out.progress(format!("delivering {}", record.id));
            let response = deliverer.post(delivery, RESPONSE_TIMEOUT).await;
            drop(progress);
            let mut result = json!({
                "id": record.id,
                "event": record.event,
                "event_id": record.event_id,
                "to": delivery.url,
                "status": null,
            });
            match response {
                Ok(response) => {
                    result["status"] = response.status.into();
                    result["duration_ms"] = (response.duration.as_millis() as u64).into();
                    failed.extend(verdict(&response).err());
                }
                // A failed delivery does not stop the others.
                Err(none) => {
                    result["problem"] = none.to_string().into();
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
            1 if found.len() == 1 => Err(failed.remove(0)),
            count => Err(Failure::check(format!(
                "{count} of {} deliveries had no 2xx response",
                found.len()
            ))
            .code("endpoint_answered_error")),
        }
    }

    fn prepare(
        &self,
        context: &Context,
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
            None => recorded_secret(context, record)?,
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

fn recorded_secret(context: &Context, record: &RecordedDelivery) -> Result<Vec<u8>, Failure> {
    let path = record
        .secret_file
        .clone()
        .unwrap_or_else(|| session_secret(&context.settings.data_dir, &record.service));
    std::fs::read(&path).map(without_line_end).map_err(|_| {
        Failure::input(format!(
            "the signing secret of {} is not recorded or cannot be read",
            record.id
        ))
        .hint("give it with --secret-file")
    })
}

fn instant(text: &str) -> Result<DateTime<Utc>, Failure> {
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Ok(instant.with_timezone(&Utc));
    }
    let ago = duration::parse(text).ok().and_then(|ago| TimeDelta::from_std(ago).ok());
    ago.and_then(|ago| Utc::now().checked_sub_signed(ago)).ok_or_else(|| {
        Failure::usage(format!(
            "--since: `{text}` is not a time: use RFC 3339, or a duration such as 10m, 2h or 1d"
        ))
    })
}
