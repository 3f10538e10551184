//! The `svc certify` command.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::Service;
use tokio::time::Instant;

use self::checks::{CHECKS, Check, Severity, is_timeout_documented};
use self::exam::{Exam, Finding, Seen, Timings, Verdict};
use super::verify::ServiceName;
use crate::command_line::shell_quoted;
use crate::command_spec::changes;
use crate::confirm::confirm;
use crate::context::Context;
use crate::deliver::{Deliverer, DeliveryError, RESPONSE_TIMEOUT};
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::{of, one_of};
use crate::private;
use crate::settings::Source;
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
    Column::new("RESULT", "/result", Show::Status),
    Column::id("CHECK", "/check"),
    Column::prose("SENT", "/sent"),
    Column::prose("EXPECTED", "/expected").droppable(),
    Column::prose("RECEIVED", "/received"),
    Column::new("REPRODUCE", "/reproduce", Show::BelowRow),
    Column::new("BODY", "/body_file", Show::BelowRow),
]);

const LIST: View = View(&[
    Column::id("CHECK", "/check"),
    Column::text("SEVERITY", "/severity"),
    Column::id("SERVICES", "/services"),
    Column::prose("SENT", "/sent"),
    Column::prose("EXPECTED", "/expected"),
]);

/// Examine a webhook receiver, in any language
///
/// Sends correct and forged deliveries to the receiver and checks its responses. Its handler runs
/// for those that it accepts, so examine a test installation. The exit code is 10 if the receiver
/// accepts a forged delivery or does not accept a correct one, and with --strict also if there is
/// advice.
///
/// The body of a request that was not passed is stored in a file, which is named beside the command
/// that repeats the check. The examination ends after 5 minutes, or after the time in --timeout.
/// Sending to another machine needs a confirmation or --yes.
#[derive(Args, Debug)]
#[command(
    override_usage = "svc certify [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                   <URL>\n       svc certify --list"
)]
#[command(add = changes(&[], || one_of(&[of::<Examination>, of::<Vec<Listed>>])).with_scope("none (sends to the receiver only)"))]
#[command(after_long_help = "\
Examples:
  svc certify http://localhost:3000/hooks --service email \\
      --secret-file secret.txt
  svc certify https://test.example/hooks --service extraction \\
      --secret-file secret.txt \\
      --old-secret-file old.txt --strict --yes --json
  svc certify --list --service email")]
pub struct Certify {
    /// URL of the receiver
    #[arg(value_name = "URL", required_unless_present = "list", value_hint = ValueHint::Url)]
    url: Option<String>,
    /// Service whose deliveries it receives
    #[arg(
        long,
        value_name = "email|extraction",
        hide_possible_values = true,
        required_unless_present = "list"
    )]
    service: Option<ServiceName>,
    /// File with the receiver's signing secret
    ///
    /// One line break at the end of the file is ignored.
    #[arg(long, value_name = "PATH", required_unless_present = "list", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// File with the secret that it had before
    ///
    /// Checks that the receiver still accepts it while the secret is replaced.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    old_secret_file: Option<PathBuf>,
    /// Run only this check; repeatable
    #[arg(long, value_name = "CHECK", value_parser = PossibleValuesParser::new(CHECKS.iter().map(|check| check.name)), hide_possible_values = true)]
    only: Vec<String>,
    /// Fail if there is advice
    #[arg(long)]
    strict: bool,
    /// File for the results as JUnit XML
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with = "list", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// List the checks, and send nothing
    #[arg(long)]
    list: bool,
}

impl Certify {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let service = self.service.map(Service::from);
        let checks = self.checks(service)?;
        if self.list {
            let listed = checks.into_iter().map(|check| listed(check, service));
            let listed = listed.collect::<Vec<_>>();
            return context.out.list(&listed, LIST, "no checks");
        }
        let (Some(url), Some(service), Some(secret_file)) = (&self.url, service, &self.secret_file)
        else {
            return Err(Failure::usage("URL, --service and --secret-file are required"));
        };
        check_url("URL", url)?;
        let read = |option: &str, path: &PathBuf| {
            let secret = read_secret(context, option, path)?;
            usable(option, &secret).map(|_| secret)
        };
        let secret = read("--secret-file", secret_file)?;
        const OLD: &str = "--old-secret-file";
        let old_secret = self.old_secret_file.as_ref().map(|path| read(OLD, path)).transpose()?;
        if old_secret.as_ref() == Some(&secret) {
            // Every receiver would pass the check.
            return Err(Failure::input(format!("{OLD}: the same secret as in --secret-file"))
                .hint("give the secret that the receiver had before"));
        }
        let exam = Exam {
            service,
            url: url.clone(),
            secret,
            old_secret,
            deliverer: Deliverer::to(context, [url.as_str()])?,
            timings: Timings::REAL,
            seen: Seen::default(),
        };
        if context.settings.dry_run {
            return context.out.value(&previews(&exam, &checks));
        }
        if !parse_url(url).as_ref().is_some_and(is_loopback) {
            let question = format!("Send test deliveries to {}?", without_password(url));
            confirm(context, &question).await?;
        }
        let report = examine(context, &exam, &checks).await?;
        if let Some(path) = &self.junit {
            let xml = report.junit(&exam, self.strict);
            std::fs::write(context.settings.path(path), xml)
                .map_err(|error| Failure::other(format!("--junit: {}: {error}", path.display())))?;
        }
        report.show(context, &exam, |check| self.again(context, url, check))?;
        report.result(self.strict, &exam)
    }

    /// The selected checks that apply to the service.
    fn checks(&self, service: Option<Service>) -> Result<Vec<&'static Check>, Failure> {
        let is_selected = |check: &&Check| {
            service.is_none_or(|service| check.services.contains(&service))
                && (self.only.is_empty() || self.only.iter().any(|name| name == check.name))
        };
        let checks = CHECKS.iter().filter(is_selected).collect::<Vec<_>>();
        if checks.is_empty() {
            return Err(
                Failure::usage("--only names no check of this service").hint("svc certify --list")
            );
        }
        Ok(checks)
    }

    /// The command line that repeats a check.
    fn again(&self, context: &Context, url: &str, check: &str) -> String {
        let url = without_password(url);
        let path = |path: &Option<PathBuf>| Some(path.as_ref()?.to_string_lossy().into_owned());
        let bundle = context.settings.ca_bundle.as_ref();
        // Read from the environment by the next run, too.
        let bundle = bundle.filter(|bundle| !matches!(bundle.source, Source::Environment(_)));
        let options = [
            ("--service", self.service.map(|service| Service::from(service).to_string())),
            ("--secret-file", path(&self.secret_file)),
            ("--old-secret-file", path(&self.old_secret_file)),
            ("--ca-bundle", bundle.map(|bundle| bundle.value.display().to_string())),
            ("--only", Some(check.to_owned())),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        options.fold(format!("svc certify {}", shell_quoted(&url)), |line, (name, value)| {
            format!("{line} {name} {}", shell_quoted(&value))
        })
    }
}

/// A check, with --list.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Listed {
    check: &'static str,
    severity: Severity,
    services: Vec<ServiceName>,
    sent: String,
    expected: String,
}

fn listed(check: &Check, service: Option<Service>) -> Listed {
    Listed {
        check: check.name,
        severity: check.severity,
        services: check.services.iter().copied().map(ServiceName::from).collect(),
        sent: check.sent(service),
        expected: check.expected(service),
    }
}

/// The requests, for `--dry-run`.
fn previews(exam: &Exam, checks: &[&Check]) -> Vec<Value> {
    let requests = checks
        .iter()
        .flat_map(|check| exam.requests(check).into_iter().map(move |each| (check, each)));
    let previews = requests.map(|(check, request)| {
        let mut shown = request.delivery.to_json();
        shown["check"] = check.name.into();
        // Not parsed, because the check may be about its notation.
        shown["body"] = String::from_utf8_lossy(&request.delivery.body).into();
        shown
    });
    previews.collect()
}

/// The findings of an examination.
struct Report<'a> {
    findings: Vec<(&'a Check, Finding)>,
    /// Whether the deadline passed before the end.
    is_cut_off: bool,
    /// Why the receiver cannot be reached any more, and the check that found it.
    lost: Option<(&'a str, DeliveryError)>,
}

/// Examines the receiver. Fails if it cannot be reached at all.
async fn examine<'a>(
    context: &Context,
    exam: &Exam,
    checks: &[&'a Check],
) -> Result<Report<'a>, Failure> {
    let timeout = &context.settings.timeout;
    let limit = if timeout.source == Source::Default { DEADLINE } else { timeout.value };
    let deadline = Instant::now() + limit;
    let progress = context.out.progress("examining");
    let mut report = Report { findings: Vec::new(), is_cut_off: false, lost: None };
    for (index, check) in checks.iter().enumerate() {
        if report.lost.is_some() {
            let why = "not sent: the receiver cannot be reached any more";
            report.findings.push((check, Finding::skipped(why)));
            continue;
        }
        progress.set_text(format!("{}/{} {}", index + 1, checks.len(), check.name));
        context.out.trace(&format!("{}: {}", check.name, check.sent(Some(exam.service))));
        let found = tokio::time::timeout_at(deadline, judge::examine(exam, check)).await;
        let mut found = found.unwrap_or_else(|_| {
            report.is_cut_off = true;
            Finding::skipped(format!("not finished within {} s", limit.as_secs_f64()))
        });
        if let Some(error) = exam.seen.lost.take() {
            if index == 0 && !exam.seen.has_accepted.get() {
                return Err(error.into());
            }
            found = Finding::skipped(&error);
            report.lost = Some((check.name, error));
        }
        report.findings.push((check, found));
    }
    Ok(report)
}

impl Report<'_> {
    /// The names of the checks with this result.
    fn graded(&self, grade: Grade) -> Vec<&str> {
        let is_graded = |(check, finding): &&(&Check, Finding)| Grade::of(check, finding) == grade;
        self.findings.iter().filter(is_graded).map(|(check, _)| check.name).collect()
    }

    fn show(
        &self,
        context: &Context,
        exam: &Exam,
        again: impl Fn(&str) -> String,
    ) -> Result<(), Failure> {
        let count = |grade| self.graded(grade).len();
        let [failures, advice, skipped] = [Grade::Failed, Grade::Advice, Grade::Skipped].map(count);
        let service = exam.service;
        let dir = context.settings.data_dir.join("certify");
        let stored = |name: &str, body: &[u8]| {
            let file = dir.join(format!("{name}.body"));
            private::replace(&file, body).ok().map(|()| file.display().to_string())
        };
        let checks = self.findings.iter().map(|(check, finding)| CheckResult {
            check: check.name,
            severity: check.severity,
            result: Grade::of(check, finding),
            sent: check.sent(Some(service)),
            expected: check.expected(Some(service)),
            received: &finding.received,
            reproduce: Some(again(check.name)),
            body_file: finding.body.as_ref().and_then(|body| stored(check.name, body)),
        });
        let checks = checks.collect::<Vec<_>>();
        // People need the command only for what they have to change.
        let mut rows = checks.clone();
        for row in &mut rows {
            row.reproduce.take_if(|_| matches!(row.result, Grade::Passed | Grade::Skipped));
        }
        let report = Examination {
            url: without_password(&exam.url),
            service: service.into(),
            timeout_seconds: RESPONSE_TIMEOUT.as_secs(),
            timeout_documented: is_timeout_documented(service),
            passed: failures == 0 && !self.is_cut_off && self.lost.is_none(),
            failures,
            advice,
            skipped,
            checks,
        };
        context.out.one_as_list(&report, &rows, VIEW)?;
        let passed = rows.len() - failures - advice - skipped;
        context.out.note(&format!(
            "{passed} passed, {failures} failed, {advice} advice, {skipped} skipped"
        ));
        if !is_timeout_documented(service) {
            context.out.note(&format!(
                "the service's reference names no timeout for deliveries: {} s is assumed",
                RESPONSE_TIMEOUT.as_secs()
            ));
        }
        Ok(())
    }

    /// The findings as JUnit XML. A check that could not be made is an error there.
    fn junit(&self, exam: &Exam, strict: bool) -> String {
        let is_incomplete = self.is_cut_off || self.lost.is_some();
        let (mut cases, mut counts) = (String::new(), [0; 3]);
        for (check, finding) in &self.findings {
            let outcome = match Grade::of(check, finding) {
                Grade::Failed => Some((0, "failure")),
                Grade::Advice if strict => Some((0, "failure")),
                Grade::Skipped if is_incomplete => Some((1, "error")),
                Grade::Skipped => Some((2, "skipped")),
                Grade::Passed | Grade::Advice => None,
            };
            cases += &format!(
                "  <testcase classname=\"certify.{}\" name=\"{}\">\n",
                exam.service, check.name
            );
            let (sent, expected) =
                (check.sent(Some(exam.service)), check.expected(Some(exam.service)));
            let details = format!("sent: {sent}\nexpected: {expected}");
            let (received, details) = (xml(&finding.received), xml(&details));
            if let Some((index, element)) = outcome {
                counts[index] += 1;
                cases += &format!("    <{element} message=\"{received}\">{details}</{element}>\n");
            } else if !received.is_empty() {
                cases += &format!("    <system-out>{received}\n{details}</system-out>\n");
            }
            cases += "  </testcase>\n";
        }
        let (total, [failures, errors, skipped]) = (self.findings.len(), counts);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <testsuite name=\"svc certify\" tests=\"{total}\" failures=\"{failures}\" \
             errors=\"{errors}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n"
        )
    }

    fn result(self, strict: bool, exam: &Exam) -> Result<(), Failure> {
        let (failures, advice) = (self.graded(Grade::Failed), self.graded(Grade::Advice));
        if !failures.is_empty() {
            let mut message = format!("the receiver failed: {}", failures.join(", "));
            if let Some((check, _)) = &self.lost {
                message += &format!("; it cannot be reached any more since {check}");
            }
            let hint = match exam.seen.has_accepted.get() {
                true => "repeat each with the command below it, or in `reproduce` of the JSON",
                false => {
                    "it accepted no delivery at all: check the URL, --service and --secret-file"
                }
            };
            return Err(Failure::check(message).code("receiver_failed").hint(hint));
        }
        if let Some((check, error)) = self.lost {
            let mut failure = Failure::from(error);
            let details = failure.details_mut();
            details.message = format!("in the check {check}: {}", details.message);
            // Earlier deliveries were sent.
            details.outcome = None;
            return Err(failure.hint("look in the receiver's log why it stopped"));
        }
        if self.is_cut_off {
            return Err(Failure::check("the examination was not finished in time")
                .code("not_finished")
                .hint("allow more time with --timeout, or select checks with --only"));
        }
        if strict && !advice.is_empty() {
            let message = format!("the receiver passed, with advice: {}", advice.join(", "));
            return Err(Failure::check(message).code("receiver_advice"));
        }
        Ok(())
    }
}

/// Text in XML, without the characters that it cannot have.
fn xml(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// The output of an examination.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Examination<'a> {
    url: String,
    service: ServiceName,
    timeout_seconds: u64,
    timeout_documented: bool,
    passed: bool,
    failures: usize,
    advice: usize,
    skipped: usize,
    checks: Vec<CheckResult<'a>>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CheckResult<'a> {
    check: &'static str,
    severity: Severity,
    result: Grade,
    sent: String,
    expected: String,
    received: &'a str,
    /// The command that repeats the check.
    reproduce: Option<String>,
    /// The file with the body of the request that was not passed.
    body_file: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Passed,
    Failed,
    Advice,
    Skipped,
}

impl Grade {
    fn of(check: &Check, finding: &Finding) -> Self {
        match (finding.verdict, check.severity) {
            (Verdict::Passed, _) => Self::Passed,
            (Verdict::Skipped, _) => Self::Skipped,
            (Verdict::NotPassed, Severity::Failure) => Self::Failed,
            (Verdict::NotPassed, Severity::Advice) => Self::Advice,
        }
    }
}
