//! The `svc certify` command.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;
use tokio::time::Instant;

use self::checks::{CHECKS, Check, Severity, is_timeout_documented};
use self::exam::{Exam, Finding, Verdict};
use self::keys::other_keys;
use self::request::{Sender, shown_url};
use super::verify::{ServiceName, read_secret, secret_in, usable, usable_as};
use crate::command_spec::changes;
use crate::confirm::confirm;
use crate::context::Context;
use crate::deliver::{Deliverer, DeliveryError, RESPONSE_TIMEOUT};
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::{of, one_of};
use crate::settings::Source;
use crate::urls::{check_url, is_loopback, parse_url};

mod checks;
mod exam;
mod judge;
mod keys;
mod request;

/// Time limit for all checks, unless --timeout sets another one.
const DEADLINE: Duration = Duration::from_secs(300);

const VIEW: View = View(&[
    Column::new("RESULT", "/result", Show::Status),
    Column::id("CHECK", "/check"),
    Column::prose("SENT", "/sent"),
    Column::prose("EXPECTED", "/expected").droppable(),
    Column::prose("RECEIVED", "/received"),
    Column::new("REPRODUCE", "/reproduce", Show::BelowRow),
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
/// The examination ends after 5 minutes, or after the time in --timeout. Sending to another machine
/// needs a confirmation or --yes.
#[derive(Args, Debug)]
#[command(
    override_usage = "svc certify [OPTIONS] --service <email|extraction> --secret-file <PATH>\n                   <URL>\n       svc certify --list"
)]
#[command(add = changes(&[], || { one_of(&[of::<Shown>, of::<Vec<Listed>>]) }).with_scope("none (sends to the receiver only)"))]
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
    #[arg(long, value_name = "CHECK", value_parser = names(), hide_possible_values = true)]
    only: Vec<String>,
    /// Leave out this check; repeatable
    #[arg(long, value_name = "CHECK", value_parser = names(), hide_possible_values = true)]
    skip: Vec<String>,
    /// Fail if there is advice
    #[arg(long)]
    strict: bool,
    /// List the checks, and send nothing
    #[arg(long)]
    list: bool,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHECKS.iter().map(|check| check.name))
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
        let secret = read_secret(context, secret_file)?;
        let other_keys = other_keys(&secret);
        let old_secret = match &self.old_secret_file {
            Some(path) => {
                const OPTION: &str = "--old-secret-file";
                let old_secret = secret_in(context, OPTION, path)?;
                if old_secret == secret {
                    // Every receiver would pass the check.
                    return Err(Failure::input(format!(
                        "{OPTION}: the same secret as in --secret-file"
                    ))
                    .hint("give the secret that the receiver had before"));
                }
                Some(usable_as(OPTION, &old_secret)?)
            }
            None => None,
        };
        let secret = usable(&secret)?;
        let shown = |path: &PathBuf| match path.to_string_lossy() {
            path if path == "-" => "secret.txt".to_owned(),
            path => path.into_owned(),
        };
        let sender = Sender {
            service,
            url: url.clone(),
            secret,
            old_secret,
            other_keys,
            secret_file: shown(secret_file),
            old_secret_file: self.old_secret_file.as_ref().map(shown).unwrap_or_default(),
            ca_bundle: ca_bundle(context, url),
        };
        let deliverer = Deliverer::to(context, [url.as_str()])?;
        let exam = Exam::new(sender, deliverer);
        if context.settings.dry_run {
            return context.out.value(&requests(&exam, &checks));
        }
        if !parse_url(url).as_ref().is_some_and(is_loopback) {
            let question = format!("Send test deliveries to {}?", shown_url(url));
            confirm(context, &question).await?;
        }
        exam.deliverer.try_connect(url, RESPONSE_TIMEOUT).await?;
        let report = examine(context, &exam, &checks).await;
        report.show(context, &exam)?;
        report.result(self.strict, &exam)
    }

    /// The selected checks that apply to the service.
    fn checks(&self, service: Option<Service>) -> Result<Vec<&'static Check>, Failure> {
        let is_selected = |check: &&Check| {
            service.is_none_or(|service| check.services.contains(&service))
                && (self.only.is_empty() || self.only.iter().any(|name| name == check.name))
                && !self.skip.iter().any(|name| name == check.name)
        };
        let checks = CHECKS.iter().filter(is_selected).collect::<Vec<_>>();
        if checks.is_empty() {
            return Err(Failure::usage("--only and --skip leave no check of this service")
                .hint("svc certify --list"));
        }
        Ok(checks)
    }
}

/// The certificates for the shell commands. Other programs read `SSL_CERT_FILE` too.
fn ca_bundle(context: &Context, url: &str) -> Option<String> {
    let bundle = context.settings.ca_bundle.as_ref()?;
    let is_needed = url.starts_with("https:") && !matches!(bundle.source, Source::Environment(_));
    is_needed.then(|| bundle.value.display().to_string())
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

/// A request of a check, for `--dry-run`.
#[derive(Serialize)]
struct Preview {
    check: &'static str,
    method: &'static str,
    url: String,
    /// A list, because a header can occur twice.
    headers: Vec<(String, String)>,
    body: String,
}

fn requests(exam: &Exam, checks: &[&'static Check]) -> Vec<Preview> {
    let requests = checks.iter().flat_map(|check| {
        (check.requests)(exam).into_iter().map(|request| {
            let delivery = exam.sender.delivery(check.name, &request);
            Preview {
                check: check.name,
                method: "POST",
                url: shown_url(&delivery.url),
                body: String::from_utf8_lossy(&delivery.body).into_owned(),
                headers: delivery.headers,
            }
        })
    });
    requests.collect()
}

/// The findings of an examination.
struct Report<'a> {
    findings: Vec<(&'a Check, Finding)>,
    /// Whether the deadline passed before the end.
    is_cut_off: bool,
    /// Why the receiver cannot be reached any more, and the check that found it.
    lost: Option<(&'a str, DeliveryError)>,
}

async fn examine<'a>(context: &Context, exam: &Exam, checks: &[&'a Check]) -> Report<'a> {
    let timeout = &context.settings.timeout;
    let limit = if timeout.source == Source::Default { DEADLINE } else { timeout.value };
    let deadline = Instant::now() + limit;
    let progress = context.out.progress("examining");
    let mut report = Report { findings: Vec::new(), is_cut_off: false, lost: None };
    for (index, check) in checks.iter().enumerate() {
        progress.set_text(format!("{}/{} {}", index + 1, checks.len(), check.name));
        context.out.trace(&format!("{}: {}", check.name, check.sent(Some(exam.service()))));
        if report.lost.is_some() {
            let why = "not sent: the receiver cannot be reached any more";
            report.findings.push((check, Finding::skipped(why)));
            continue;
        }
        let requests = (check.requests)(exam);
        let found = check.judge.examine(exam, check.name, &requests);
        let found = tokio::time::timeout_at(deadline, found).await.unwrap_or_else(|_| {
            report.is_cut_off = true;
            Finding::skipped(format!("not finished within {} s", limit.as_secs_f64()))
        });
        if exam.is_lost.take() {
            let connected = exam.deliverer.try_connect(&exam.sender.url, RESPONSE_TIMEOUT).await;
            report.lost = connected.err().map(|error| (check.name, error));
        }
        report.findings.push(match &report.lost {
            Some((_, error)) => (check, Finding::skipped(error.to_string())),
            None => (check, found),
        });
    }
    report
}

impl Report<'_> {
    /// The names of the checks that were not passed.
    fn not_passed(&self, severity: Severity) -> Vec<&str> {
        let findings = self.findings.iter().filter(|(check, finding)| {
            check.severity == severity && finding.verdict == Verdict::NotPassed
        });
        findings.map(|(check, _)| check.name).collect()
    }

    fn show(&self, context: &Context, exam: &Exam) -> Result<(), Failure> {
        let failures = self.not_passed(Severity::Failure).len();
        let advice = self.not_passed(Severity::Advice).len();
        let skipped = self.findings.iter().filter(|(_, found)| found.verdict == Verdict::Skipped);
        let skipped = skipped.count();
        let service = exam.service();
        let checks = self.findings.iter().map(|(check, finding)| row(service, check, finding));
        let checks = checks.collect::<Vec<_>>();
        // People need the command only for what they have to change.
        let mut rows = checks.clone();
        for row in &mut rows {
            row.reproduce.take_if(|_| matches!(row.result, Grade::Passed | Grade::Skipped));
        }
        let report = Shown {
            url: shown_url(&exam.sender.url),
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

    fn result(self, strict: bool, exam: &Exam) -> Result<(), Failure> {
        let failures = self.not_passed(Severity::Failure);
        let advice = self.not_passed(Severity::Advice);
        if !failures.is_empty() {
            let mut message = format!("the receiver failed: {}", failures.join(", "));
            if let Some((check, _)) = &self.lost {
                message += &format!("; it cannot be reached any more since {check}");
            }
            let hint = match exam.has_accepted.get() {
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

/// The output of an examination.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Shown<'a> {
    url: String,
    service: ServiceName,
    timeout_seconds: u64,
    timeout_documented: bool,
    passed: bool,
    failures: usize,
    advice: usize,
    skipped: usize,
    checks: Vec<Row<'a>>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Row<'a> {
    check: &'static str,
    severity: Severity,
    result: Grade,
    sent: String,
    expected: String,
    received: &'a str,
    /// A shell command that repeats the request.
    reproduce: Option<&'a str>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Passed,
    Failed,
    Advice,
    Skipped,
}

fn row<'a>(service: Service, check: &Check, finding: &'a Finding) -> Row<'a> {
    let result = match (finding.verdict, check.severity) {
        (Verdict::Passed, _) => Grade::Passed,
        (Verdict::Skipped, _) => Grade::Skipped,
        (Verdict::NotPassed, Severity::Failure) => Grade::Failed,
        (Verdict::NotPassed, Severity::Advice) => Grade::Advice,
    };
    Row {
        check: check.name,
        severity: check.severity,
        result,
        sent: check.sent(Some(service)),
        expected: check.expected(Some(service)),
        received: &finding.received,
        reproduce: finding.reproduce.as_deref(),
    }
}
