//! `svc doctor`: checks the setup and prints a `Finding` for each check, with the next step. It
//! sends only requests that read. A check that fails becomes a finding, so the others still run;
//! the same problem is not reported twice. The settings are examined here, each service in
//! `doctor/service.rs`. `svc mcp` reads the findings about scopes as JSON.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Operation::{AudiencesList, DomainsList, EmailsGet, Me, WebhooksList};
use svc_sdk::Service;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::of;

mod service;

const VIEW: View = View(&[
    Column::status("STATUS", "/status"),
    Column::text("CHECK", "/check"),
    Column::prose("FINDING", "/finding"),
    // Below the row, unwrapped, so that it can be copied.
    Column::below_row("NEXT STEP", "/next"),
]);

/// Check the setup: URLs, TLS, keys, domains, webhooks
///
/// Sends read-only requests and changes nothing. Each problem comes with a next step. The exit code
/// is 10 if there is a problem, and 2 if the configuration cannot be read.
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<Finding>>).calling(&[Me, AudiencesList, EmailsGet, DomainsList, WebhooksList]).of_new_profile())]
#[command(after_long_help = "\
  svc doctor
  svc doctor --profile staging --jq '.[] | select(.status == \"problem\")'")]
pub struct Doctor {}

impl Doctor {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut findings = Findings::default();
        examine_settings(context, &mut findings);
        let services = [Service::Email, Service::Extraction];
        for service in services {
            let guard = context.settings.guard.to_sdk();
            if service == Service::Email && guard.is_some_and(|guard| guard.check().is_err()) {
                // No client can be built.
                continue;
            }
            let checked = match context.clients.is_configured(service) {
                Ok(true) => service::examine(context, service, &mut findings).await,
                Ok(false) => {
                    let finding = match context.settings.url(service) {
                        Some(url) => format!("not set up: no key for {}", url.value),
                        None => "not set up".to_owned(),
                    };
                    let next = format!("svc login --service {service}");
                    findings.unknown(&format!("{service} service"), &finding, &next);
                    Ok(())
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = checked {
                findings.failure(&format!("{service} service"), &failure);
            }
        }

        let has_url = |service| context.settings.url(service).is_some();
        if !context.settings.sandbox && !services.into_iter().any(has_url) {
            let next = "svc login --email-url URL; or try it: svc --sandbox doctor";
            findings.problem("services", "no service is set up", next);
        }
        if let Some(sentence) = context.clients.own_sandbox().await {
            findings.ok("sandbox", &sentence);
        }
        context.out.list(&findings.0, VIEW, "")?;
        let is_problem = |finding: &&Finding| finding.status == Status::Problem;
        let found = match findings.0.iter().filter(is_problem).count() {
            0 => return Ok(()),
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        Err(Failure::check(format!("doctor found {found}")).code("problems_found"))
    }
}

fn examine_settings(context: &Context, findings: &mut Findings) {
    let settings = &context.settings;
    for entry in &settings.unknown_entries {
        let next = entry
            .meant
            .as_deref()
            .unwrap_or("remove it; svc config path names the file");
        let finding = format!("{} is unknown and has no effect", entry.shown);
        findings.warning("configuration", &finding, next);
    }

    if let Some(guard) = settings.guard.to_sdk() {
        match guard.check() {
            Ok(()) => findings.ok("recipient guard", &guard.to_string()),
            Err(error) => {
                findings.problem("recipient guard", &error.to_string(), "svc config show");
            }
        }
    }
    if settings.sandbox {
        findings.ok("profile", "the sandbox, with its own URLs and keys");
        return;
    }

    match settings.refuse_unknown_profile() {
        Ok(()) => findings.ok("profile", &settings.profile.value),
        Err(failure) => findings.failure("profile", &failure),
    }
    if settings.key_file.is_none()
        && let Err(failure) = settings.credentials()
    {
        findings.failure("credentials", &failure);
    }
}

/// The result of a check, with the next step.
#[derive(Serialize, JsonSchema)]
pub struct Finding {
    status: Status,
    check: String,
    finding: String,
    next: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Problem,
    Unknown,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &str, finding: &str) {
        self.push(Status::Ok, check, finding, None);
    }

    fn warning(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Warning, check, finding, Some(next));
    }

    fn problem(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Problem, check, finding, Some(next));
    }

    /// Notes what kept the command from a check. A problem that was found before is not repeated.
    fn failure(&mut self, check: &str, failure: &Failure) {
        if self
            .0
            .iter()
            .any(|finding| finding.finding == failure.message)
        {
            return;
        }
        let next = failure.hint.as_deref().map(|hint| hint.replace('\n', "; "));
        self.push(Status::Problem, check, &failure.message, next.as_deref());
    }

    fn unknown(&mut self, check: &str, finding: &str, next: &str) {
        self.push(Status::Unknown, check, finding, Some(next));
    }

    fn push(&mut self, status: Status, check: &str, finding: &str, next: Option<&str>) {
        let check = check.to_owned();
        let finding = finding.to_owned();
        self.0.push(Finding {
            status,
            check,
            finding,
            next: next.map(str::to_owned),
        });
    }
}
