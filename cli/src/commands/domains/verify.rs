//! The `svc domains verify` command.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::EmailClient;
use svc_sdk::email::{DnsRecord, Domain, Verification};
use tokio::time::Instant;

use super::live;
use crate::complete::Values;
use crate::context::Context;
use crate::dns::{compare, is_reserved};
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::output::{self, Column, Format, Show, View};
use crate::wait::FailureBudget;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Table columns of a verification: one row per record.
const CHECKS: View = View(&[
    Column::text("RECORD", "/record"),
    Column::new("VERIFIED", "/verified", Show::Status),
    Column::new("DNS NOW", "/dns", Show::Status),
    Column::prose("WHY", "/why"),
    Column::new("FOUND", "/found", Show::Truncated),
    Column::new("EXPECTED", "/expected", Show::Truncated),
]);

/// Verify a domain: the service looks up its DNS records
///
/// The exit code is 10 if a record is missing or wrong.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc domains verify example.com
  svc domains verify dom_019a --wait --timeout 1h

Scope: domains:manage")]
pub struct Verify {
    /// Domain id or name
    #[arg(value_name = "ID", add = Values::DomainOrName.candidates())]
    domain: String,
    /// Repeat until the domain is verified
    ///
    /// --timeout bounds the whole wait [default: 30s]. With -o ndjson, each change is a line.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    lookup: live::Lookup,
}

impl Verify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let verify = async |id: &str| {
            let call = client.domains().verify(id);
            let done = context.call(call, "looking up the records").await?;
            Ok(done.map(|result| (id.to_owned(), result)))
        };
        let done = names::with_id(context, Names::Domain(&client), &self.domain, verify).await?;
        let Some((id, mut result)) = done else { return Ok(()) };
        let streams = self.wait && context.out.format() == Format::Ndjson;
        if self.wait {
            result = self.until_verified(context, &client, &id, result).await?;
        }
        let value = output::to_value(&result);
        if streams {
            // The last line of the wait is the final state.
        } else if context.out.is_table() {
            let rows = self.rows(context, &client, &id, &result, &value).await?;
            context.out.one_as_list(&value, &rows, CHECKS)?;
        } else {
            context.out.one(&value, CHECKS)?;
        }
        verdict(context, &self.domain, &result, &value)
    }

    /// Verifies again with growing pauses. `--timeout` bounds the whole wait.
    async fn until_verified(
        &self,
        context: &Context,
        client: &EmailClient,
        id: &str,
        mut result: Verification,
    ) -> Result<Verification, Failure> {
        let deadline = Instant::now() + context.settings.timeout.value;
        let mut pause = FIRST_PAUSE;
        let mut seen = flags(&result);
        let mut failures = FailureBudget::default();
        announce(context, &result)?;
        let progress = context.out.progress("waiting until the domain is verified");
        while !result.is_verified() {
            let wake = Instant::now() + pause;
            if deadline < wake {
                tokio::time::sleep_until(deadline).await;
                break;
            }
            tokio::time::sleep_until(wake).await;
            pause = (pause * 2).min(MAX_PAUSE);
            match context.run(client.domains().verify(id)).await {
                Ok(response) => result = response,
                Err(failure) => {
                    failures.with(context, failure)?;
                    continue;
                }
            }
            failures = FailureBudget::default();
            if flags(&result) != seen {
                seen = flags(&result);
                pause = FIRST_PAUSE;
                announce(context, &result)?;
            }
        }
        drop(progress);
        Ok(result)
    }

    /// The four checks, with the result of our own DNS lookup and of the service.
    async fn rows(
        &self,
        context: &Context,
        client: &EmailClient,
        id: &str,
        result: &Verification,
        value: &Value,
    ) -> Result<Vec<Value>, Failure> {
        let live = if result.is_verified() {
            Vec::new()
        } else {
            let dns = self.lookup.dns(context).await?;
            let records = records(context, client, id).await;
            let progress = context.out.progress("querying DNS");
            let rows = compare::all(&dns, &records).await;
            drop(progress);
            rows
        };
        let reported = |kind: &str, key: &str| {
            let check = value.get("checks")?.as_array()?.iter().find(|c| c["kind"] == kind)?;
            check.get(key).cloned()
        };
        let looked_up = |kind: &str, key: &str| {
            live.iter().find(|row| row["kind"] == kind).map(|row| row[key].clone())
        };
        Ok(flags(result)
            .into_iter()
            .map(|(kind, flag)| {
                let word = match flag {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "unknown",
                };
                let wrong = flag != Some(true);
                json!({
                    "record": kind.to_uppercase(),
                    "verified": word,
                    "dns": looked_up(kind, "dns").filter(|_| wrong),
                    "why": reported(kind, "reason").or_else(|| looked_up(kind, "why")).filter(|_| wrong),
                    "found": reported(kind, "found").or_else(|| looked_up(kind, "found")).filter(|_| wrong),
                    "expected": reported(kind, "expected").or_else(|| looked_up(kind, "value")).filter(|_| wrong),
                })
            })
            .collect())
    }
}

/// Reports a change: a line of NDJSON, or a note with the missing records.
fn announce(context: &Context, result: &Verification) -> Result<(), Failure> {
    if context.out.format() == Format::Ndjson {
        return context.out.one(&output::to_value(result), CHECKS);
    }
    if !result.is_verified() {
        context.out.note(&format!("waiting for {}", missing(result)));
    }
    Ok(())
}

/// The records to publish, if the service lists them.
async fn records(context: &Context, client: &EmailClient, id: &str) -> Vec<DnsRecord> {
    let list = context.run(client.domains().list()).await.unwrap_or_default();
    list.iter().find(|domain| domain.id == id).map(Domain::dns_records).unwrap_or_default()
}

fn verdict(
    context: &Context,
    id: &str,
    result: &Verification,
    value: &Value,
) -> Result<(), Failure> {
    if result.is_verified() {
        return Ok(());
    }
    let failure = Failure::check(format!(
        "domain {id} is not verified; missing or wrong: {}",
        missing(result)
    ))
    .code("domain_not_verified");
    let again = context.svc(&format!("domains verify {id} --wait --timeout 1h"));
    let name = value.get("name").and_then(Value::as_str).unwrap_or("NAME");
    Err(if context.settings.sandbox && (name == "NAME" || is_reserved(name)) {
        let publish = context.svc(&format!("sandbox dns publish {name}"));
        failure.hint(format!("publish its records: {publish}\nthen try again: {again}"))
    } else {
        let records = context.svc(&format!("domains records {id}"));
        failure.hint(format!("show the records to publish: {records}\nthen try again: {again}"))
    })
}

fn missing(result: &Verification) -> String {
    let missing = flags(result).into_iter().filter(|(_, flag)| *flag != Some(true));
    missing.map(|(kind, _)| kind.to_uppercase()).collect::<Vec<_>>().join(", ")
}

fn flags(result: &Verification) -> [(&'static str, Option<bool>); 4] {
    [
        ("mx", result.mx_verified),
        ("spf", result.spf_verified),
        ("dkim", result.dkim_verified),
        ("dmarc", result.dmarc_verified),
    ]
}
