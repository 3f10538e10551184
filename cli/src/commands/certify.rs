//! `svc certify`: examines a webhook receiver. It selects checks from the table in
//! `certify/checks.rs`, runs them one after the other until the deadline, and prints a result for
//! each, with the command that repeats it. If the first check finds no connection, nothing else is
//! tried. Requests are made in `exam.rs` and judged in `judge.rs`; the body of a request that was
//! not passed is stored in a private file.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::Service;
use tokio::time::Instant;

use self::checks::{CHECKS, Check, GOOD_DELIVERY};
use self::exam::{Exam, Finding, Grade};
use crate::command_line::shell_quoted;
use crate::command_spec::changes;
use crate::context::Context;
use crate::deliver::{Deliverer, RESPONSE_TIMEOUT, check_guarded_url};
use crate::failure::Failure;
use crate::input::choice;
use crate::output::{Column, View, to_value};
use crate::output_schema::of;
use crate::prepared::{Prepared, Preview};
use crate::private_files;
use crate::settings::{Source, Sourced};
use crate::signing::{read_secret, usable};
use crate::urls::{check_url, is_loopback, parse_url, without_password};

mod checks;
mod exam;
mod judge;
#[cfg(test)]
mod tests;

/// Time limit for all checks, unless --timeout sets another one.
const DEADLINE: Duration = Duration::from_secs(300);

const VIEW: View = View(&[
    Column::status("RESULT", "/result"),
    Column::id("CHECK", "/check"),
    Column::text("SENT", "/sent"),
    Column::below_row("EXPECTED", "/expected"),
    Column::below_row("RECEIVED", "/received"),
    Column::below_row("REPRODUCE", "/reproduce"),
    Column::below_row("BODY", "/body_file"),
]);

/// Examine a webhook receiver, in any language
///
/// Sends correct and forged deliveries to the receiver and checks its responses. Its handler runs
/// for those that it accepts, so examine a test installation. The exit code is 10 if the receiver
/// accepts a forged delivery or does not accept a correct one.
///
/// The body of a request that was not passed is stored in a file, which is named beside the command
/// that repeats the check. The examination ends after 5 minutes, or after the time in --timeout. A
/// response is expected within 10 seconds: the email service waits as long, and the extraction service
/// does not say how long it waits. Sending to another machine needs a confirmation or --yes.
#[derive(Args, Debug)]
#[command(
    override_usage = "svc certify [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                   <URL>"
)]
#[command(add = changes(&[], of::<Examination>).with_scope("none (sends to the receiver only)"))]
#[command(after_long_help = "\
  svc certify http://localhost:3000/hooks --service email \\
      --secret-file secret.txt
  svc certify https://test.example/hooks --service extraction \\
      --secret-file secret.txt --yes --json")]
pub struct Certify {
    /// URL of the receiver
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    url: String,
    /// Service whose deliveries it receives
    #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
    service: Service,
    /// File with the receiver's signing secret
    ///
    /// One line break at the end of the file is ignored.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: PathBuf,
    /// Run only this check; repeatable
    #[arg(long, value_name = "CHECK", value_parser = PossibleValuesParser::new(CHECKS.iter().map(|check| check.name)), hide_possible_values = true)]
    only: Vec<String>,
    /// File for the results as JUnit XML
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,
}

impl Certify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let url = &self.url;
        let service = self.service;
        let checks = self.checks(service)?;
        check_url("URL", url)?;
        check_guarded_url(context, url)?;
        let secret = read_secret(context, "--secret-file", &self.secret_file)?;
        usable("--secret-file", &secret)?;
        let exam = Exam {
            service,
            url: url.clone(),
            secret,
            deliverer: Deliverer::to(context, [url.as_str()])?,
            timeout: RESPONSE_TIMEOUT,
        };
        let mut prepared = Prepared::new(Deliveries(exam, checks));
        if !parse_url(url).as_ref().is_some_and(is_loopback) {
            prepared = prepared.asking(format!(
                "Send test deliveries to {}?",
                without_password(url)
            ));
        }

        let Deliveries(exam, checks) = prepared.decide(context).await?;
        let results = self.examine(context, &exam, &checks).await?;
        let named = |grade| {
            let named = results.iter().filter(|check| check.result == grade);
            named.map(|check| check.check).collect::<Vec<_>>()
        };

        let failed = named(Grade::Failed);
        let report = Examination {
            url: without_password(url),
            service: service.as_str(),
            timeout_seconds: RESPONSE_TIMEOUT.as_secs(),
            passed: failed.is_empty(),
            failures: failed.len(),
            advice: named(Grade::Advice).len(),
            skipped: named(Grade::Skipped).len(),
            checks: &results,
        };
        if let Some(path) = &self.junit {
            std::fs::write(context.settings.path(path), junit(service, &report))
                .map_err(|error| Failure::other(format!("--junit: {}: {error}", path.display())))?;
        }
        if context.out.is_table() {
            let rows = results.iter().map(CheckResult::row);
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            context.out.list(&rows, VIEW, "")?;
        } else {
            context.out.one_as_list(&report, &results, VIEW)?;
        }

        context.out.note(&format!(
            "{} passed, {} failed, {} advice, {} skipped",
            named(Grade::Passed).len(),
            report.failures,
            report.advice,
            report.skipped
        ));
        if !failed.is_empty() {
            let message = match verdict(&results) {
                Some(verdict) => format!(
                    "{verdict} ({} of {} checks failed)",
                    failed.len(),
                    results.len()
                ),
                None => format!("the receiver failed: {}", failed.join(", ")),
            };
            let repeat = "repeat each with the command below it, or in `reproduce` of the JSON";
            let hint = match failed[0] {
                GOOD_DELIVERY => format!("check the URL, --service and --secret-file\n{repeat}"),
                _ => repeat.to_owned(),
            };
            return Err(Failure::check(message).code("receiver_failed").hint(hint));
        }

        Ok(())
    }

    /// The selected checks that apply to the service.
    fn checks(&self, service: Service) -> Result<Vec<&'static Check>, Failure> {
        let is_selected = |check: &&Check| {
            check.is_for(service)
                && (self.only.is_empty() || self.only.iter().any(|name| name == check.name))
        };

        let checks = CHECKS.iter().filter(is_selected).collect::<Vec<_>>();
        if checks.is_empty() {
            return Err(Failure::usage("--only names no check of this service")
                .hint("leave --only out to run every check"));
        }

        Ok(checks)
    }

    /// Examines the receiver. Fails if the first check does not reach it.
    async fn examine(
        &self,
        context: &Context,
        exam: &Exam,
        checks: &[&'static Check],
    ) -> Result<Vec<CheckResult>, Failure> {
        let timeout = &context.settings.timeout;
        let limit = if timeout.source == Source::Default {
            DEADLINE
        } else {
            timeout.value
        };
        let deadline = Instant::now() + limit;
        let progress = context.out.progress("examining");
        let mut results = Vec::new();
        let mut is_late = false;
        for (index, check) in checks.iter().enumerate() {
            progress.set_text(format!("{}/{} {}", index + 1, checks.len(), check.name));
            context
                .out
                .trace(&format!("{}: {}", check.name, check.sent));
            let examined = tokio::time::timeout_at(deadline, judge::examine(exam, check)).await;
            let Finding {
                mut result,
                received,
                body,
            } = match examined {
                Ok(Ok(finding)) => finding,
                Ok(Err(error)) if results.is_empty() => return Err(error.into()),
                Ok(Err(error)) => Finding::new(Grade::Failed, error),
                Err(_) if is_late => Finding::new(Grade::Skipped, "not sent: no time was left"),
                Err(_) => {
                    is_late = true;
                    let limit = limit.as_secs_f64();
                    let why = format!("not finished within {limit} s; --timeout allows more");
                    Finding::new(Grade::Failed, why)
                }
            };
            // A receiver that did not answer, whose finding has no body, has failed.
            if check.is_advice && result == Grade::Failed && body.is_some() {
                result = Grade::Advice;
            }
            let store = |body| {
                let dir = context.settings.data_dir.join("certify");
                let file = dir.join(format!("{}.body", check.name));
                private_files::replace(&file, body)
                    .ok()
                    .map(|()| file.display().to_string())
            };
            results.push(CheckResult {
                check: check.name,
                result,
                sent: check.sent,
                expected: check.expected,
                received,
                reproduce: body.is_some().then(|| self.again(context, check.name)),
                body_file: body.as_deref().and_then(store),
            });
        }

        Ok(results)
    }

    /// The command line that repeats a check.
    fn again(&self, context: &Context, check: &str) -> String {
        let url = without_password(&self.url);
        let service = self.service;
        let file = self.secret_file.display().to_string();
        let url = shell_quoted(&url);
        let file = shell_quoted(&file);
        let bundle = match &context.settings.ca_bundle {
            Some(Sourced {
                value,
                source: Source::Option(_),
            }) => {
                format!(
                    " --ca-bundle {}",
                    shell_quoted(&value.display().to_string())
                )
            }
            // The next run finds any other by itself.
            _ => String::new(),
        };
        format!("svc certify {url} --service {service} --secret-file {file}{bundle} --only {check}")
    }
}

/// The verdict about the receiver, where one cause fails several checks.
fn verdict(results: &[CheckResult]) -> Option<String> {
    let failed = results.iter().filter(|it| it.result == Grade::Failed);
    let failed = failed.collect::<Vec<_>>();
    let [first, others @ ..] = &failed[..] else {
        return None;
    };
    if first.check == GOOD_DELIVERY {
        let received = &first.received;
        return Some(format!(
            "the receiver does not accept a correct delivery: {received}"
        ));
    }

    let fails = |name: &str| failed.iter().any(|it| it.check == name);
    if fails("missing-signature") && fails("wrong-secret") {
        return Some(
            "the receiver accepts deliveries from anybody: it checks no signature".to_owned(),
        );
    }
    if fails("wrong-secret") && fails("changed-body") {
        return Some(
            "the receiver accepts any signature: it does not compare it with its own".to_owned(),
        );
    }

    let is_same = others.len() > 1 && others.iter().all(|it| it.received == first.received);
    is_same.then(|| {
        let received = &first.received;
        format!("the checks failed for the same reason: {received}")
    })
}

/// The deliveries of an examination.
struct Deliveries(Exam, Vec<&'static Check>);

impl Preview for Deliveries {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        context.out.value(&previews(&self.0, &self.1))
    }
}

/// The requests, for `--dry-run`.
fn previews(exam: &Exam, checks: &[&Check]) -> Vec<Value> {
    let requests = checks.iter().flat_map(|check| {
        exam.requests(check)
            .into_iter()
            .map(move |each| (check, each))
    });
    let previews = requests.map(|(check, request)| {
        let mut shown = request.delivery.to_json();
        shown["check"] = check.name.into();
        // Not parsed, because the check may be about its notation.
        shown["body"] = String::from_utf8_lossy(&request.delivery.body).into();
        shown
    });
    previews.collect()
}

/// The results as JUnit XML.
fn junit(service: Service, report: &Examination) -> String {
    let Examination {
        failures,
        skipped,
        checks,
        ..
    } = report;
    let mut cases = String::new();
    for CheckResult {
        check,
        result,
        sent,
        expected,
        received,
        ..
    } in *checks
    {
        let details = xml(&format!("sent: {sent}\nexpected: {expected}"));
        let received = xml(received);
        let outcome = match result {
            Grade::Failed => format!("<failure message=\"{received}\">{details}</failure>"),
            Grade::Skipped => format!("<skipped message=\"{received}\">{details}</skipped>"),
            _ => format!("<system-out>{received}\n{details}</system-out>"),
        };
        cases += &format!(
            "  <testcase classname=\"certify.{service}\" name=\"{check}\">\n    {outcome}\n  </testcase>\n"
        );
    }

    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"svc certify\" tests=\"{}\" failures=\"{failures}\" \
         errors=\"0\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        checks.len()
    )
}

/// Text in XML, without the characters that it cannot have.
fn xml(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// The output of an examination.
#[derive(Serialize, JsonSchema)]
pub struct Examination<'a> {
    url: String,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: &'static str,
    timeout_seconds: u64,
    passed: bool,
    failures: usize,
    advice: usize,
    skipped: usize,
    checks: &'a [CheckResult],
}

#[derive(Serialize, JsonSchema)]
struct CheckResult {
    check: &'static str,
    result: Grade,
    sent: &'static str,
    expected: &'static str,
    received: String,
    /// The command that repeats a check that was not passed.
    reproduce: Option<String>,
    /// The file with the body of the request that was not passed.
    body_file: Option<String>,
}

impl CheckResult {
    /// For people: what was expected and received only if the check was not passed.
    fn row(&self) -> Result<Value, Failure> {
        let mut row = to_value(self)?;
        let is_told = self.result != Grade::Passed;
        let told = |name: &str, text: &str| {
            if is_told {
                format!("{name}: {text}").into()
            } else {
                Value::Null
            }
        };

        row["expected"] = told("expected", self.expected);
        row["received"] = told("received", &self.received);
        Ok(row)
    }
}
