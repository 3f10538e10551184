//! `svc domains verify`: makes the service check the DNS records of a domain, once or with `--wait`
//! until it is verified or `--timeout` has passed (`crate::wait::Polls`). It prints the service's
//! result for each record, if there is one. A domain that is not verified is a failed check, whose
//! hint names the records and the command that publishes them.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use svc_sdk::EmailClient;
use svc_sdk::Operation::DomainsVerify;
use svc_sdk::email::Domain;

use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::follow::Polls;
use crate::hints;
use crate::output::{Column, Format, View};
use crate::output_schema::domain;
use crate::prepared::Prepared;
use crate::resource::{Resource as _, id_of};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Table columns of a verification: one row per record.
const CHECKS: View = View(&[
    Column::text("RECORD", "/kind"),
    Column::flag("VERIFIED", "/verified"),
    Column::prose("WHY", "/reason"),
    Column::text("FOUND", "/found"),
    Column::text("EXPECTED", "/expected"),
]);

/// Verify a domain: the service looks up its DNS records
///
/// The exit code is 10 if a record is missing or wrong.
#[derive(Args, Debug)]
#[command(add = changes(&[DomainsVerify], domain))]
#[command(after_long_help = "\
  svc domains verify example.com
  svc domains verify dom_019a --wait --timeout 1h")]
pub struct Verify {
    /// Domain id or name
    #[arg(value_name = "ID", add = Values::Domain.candidates())]
    domain: String,
    /// Repeat until the domain is verified
    ///
    /// --timeout bounds the whole wait [default: 30s]. With -o ndjson, each change is a line.
    #[arg(long)]
    wait: bool,
}

impl Verify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let id = id_of::<Domain>(context, &client, &self.domain).await?;
        let call = context.caller.with_options(client.domains().verify(&id));
        let call = Prepared::new(call).decide(context).await?;
        let done = if self.wait {
            until_verified(context, &client, &id).await?
        } else {
            Some(context.caller.send(call, "looking up the records").await?)
        };
        let Some(result) = done else { return Ok(()) };
        // The last line of a wait is the final state.
        if !self.wait || context.out.format() != Format::Ndjson {
            // What the service says about each record, which is not documented
            // (`docs/undocumented/services.md#dns-records`).
            match result.extra.get("checks").and_then(Value::as_array) {
                Some(checks) => context.out.one_as_list(&result, checks, CHECKS)?,
                None => context.out.one(&result, Domain::VIEW)?,
            }
        }

        verdict(context, &self.domain, &result)
    }
}

/// Verifies until the domain is verified or `--timeout` has passed. Prints each change.
async fn until_verified(
    context: &Context,
    client: &EmailClient,
    id: &str,
) -> Result<Option<Domain>, Failure> {
    let progress = context.out.progress("waiting until the domain is verified");
    let wait = client
        .domains()
        .wait_until_verified(id)
        .poll_interval(FIRST_PAUSE, MAX_PAUSE);
    let mut polls = Polls::start(context, wait, false);
    let mut last = None;
    while let Some(result) = polls.next().await? {
        if last.as_ref().map(flags) != Some(flags(&result)) {
            announce(context, &result)?;
        }
        last = Some(result);
    }

    drop(progress);
    Ok(last)
}

/// Reports a change: a line of NDJSON, or a note with the missing records.
fn announce(context: &Context, result: &Domain) -> Result<(), Failure> {
    if context.out.format() == Format::Ndjson {
        return context.out.value(result);
    }
    if !result.is_verified() {
        context
            .out
            .note(&format!("waiting for {}", missing(result)));
    }
    Ok(())
}

fn verdict(context: &Context, id: &str, result: &Domain) -> Result<(), Failure> {
    if result.is_verified() {
        return Ok(());
    }

    let failure = Failure::check(format!(
        "domain {id} is not verified; missing or wrong: {}",
        missing(result)
    ))
    .code("domain_not_verified");
    let again = context.svc("domains verify {} --wait --timeout 1h", &[id]);
    let publish = hints::publish(context, result.name.as_deref().unwrap_or(id));
    Err(failure.hint(format!(
        "publish its DNS records: {publish}\nthen try again: {again}"
    )))
}

fn missing(result: &Domain) -> String {
    let missing = flags(result)
        .into_iter()
        .filter(|(_, flag)| *flag != Some(true));
    missing
        .map(|(kind, _)| kind.to_uppercase())
        .collect::<Vec<_>>()
        .join(", ")
}

fn flags(result: &Domain) -> [(&'static str, Option<bool>); 4] {
    [
        ("mx", result.mx_verified),
        ("spf", result.spf_verified),
        ("dkim", result.dkim_verified),
        ("dmarc", result.dmarc_verified),
    ]
}
