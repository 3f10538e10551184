//! `svc domains verify`.

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::email::Verification;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Column, Show, View};

/// What people see of a verification: a line for each check.
const CHECKS: View = View(&[
    Column::text("RECORD", "/record"),
    Column::new("VERIFIED", "/verified", Show::Status),
    Column::text("FOUND", "/found"),
    Column::text("EXPECTED", "/expected"),
]);

/// Have the service look up the DNS records; 10 is the exit code when one is wrong
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc domains verify dom_019a
  svc domains verify dom_019a && svc emails send --from hello@example.com …

Scope: domains:manage")]
pub struct Verify {
    /// The domain's id
    id: String,
}

impl Verify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.domains().verify(&self.id);
        let Some(result) = context.call(call, "looking up the records").await? else {
            return Ok(());
        };
        let value = output::to_value(&result);
        context.out.one_as_list(&value, &check_rows(&result, &value), CHECKS)?;
        verdict(context, &self.id, &result)
    }
}

/// The four checks, with what was expected and found where the service says so.
fn check_rows(result: &Verification, value: &Value) -> Vec<Value> {
    let said = |kind: &str, key: &str| {
        let checks = value.get("checks")?.as_array()?;
        let check = checks.iter().find(|check| check["kind"] == kind)?;
        check.get(key).cloned()
    };
    flags(result)
        .into_iter()
        .map(|(kind, flag)| {
            let word = match flag {
                Some(true) => "verified",
                Some(false) => "no",
                None => "unknown",
            };
            let expected = if flag == Some(true) { None } else { said(kind, "expected") };
            json!({
                "record": kind.to_uppercase(),
                "verified": word,
                "found": said(kind, "found"),
                "expected": expected,
            })
        })
        .collect()
}

fn verdict(context: &Context, id: &str, result: &Verification) -> Result<(), Failure> {
    if result.is_verified() {
        return Ok(());
    }
    let missing = flags(result)
        .into_iter()
        .filter(|(_, flag)| *flag != Some(true))
        .map(|(kind, _)| kind.to_uppercase())
        .collect::<Vec<_>>()
        .join(", ");
    let failure = Failure::check(format!("domain {id} is not verified: {missing}"))
        .code("domain_not_verified");
    let again = context.svc(&format!("domains verify {id}"));
    Err(if context.settings.sandbox {
        failure.hint(format!(
            "publish its records: {}\nthen again: {again}",
            context.svc("sandbox dns publish NAME")
        ))
    } else {
        failure.hint(format!("publish the records that are missing, then again: {again}"))
    })
}

fn flags(result: &Verification) -> [(&'static str, Option<bool>); 4] {
    [
        ("mx", result.mx_verified),
        ("spf", result.spf_verified),
        ("dkim", result.dkim_verified),
        ("dmarc", result.dmarc_verified),
    ]
}
