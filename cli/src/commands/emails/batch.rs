//! `svc emails batch`: reads up to 100 emails from a JSON array or NDJSON, sends them in one
//! request, and prints an `Item` for each. Every email is checked before the request: the first
//! that is not an email, or has a misspelled field, ends the command, and nothing is sent. If the
//! response does not tell the result of each email, the outcome is unknown, and the command must
//! not look like a success.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use chrono::{DateTime, FixedOffset, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};
use svc_sdk::Operation::EmailsSendBatch;
use svc_sdk::email::{BatchItem, BatchOutcome, BatchResponse, Email, Refusal};

use super::fields::{self, has_content};
use crate::command_spec::creates;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::file::in_file;
use crate::input::records::{Record, Records};
use crate::output::{Column, View, fields_beside};
use crate::output_schema::{batch_fields, of};
use crate::prepared::Prepared;
use crate::time_options;

/// Maximum number of emails in one request (`docs/email-service/README.md#batch`).
const LIMIT: usize = 100;

const VIEW: View = View(&[
    Column::number("#", "/index"),
    Column::status("RESULT", "/result"),
    Column::id("ID", "/id"),
    Column::id("CODE", "/error/code"),
    Column::prose("MESSAGE", "/error/message"),
]);

/// Send up to 100 emails in one request
///
/// The file is a JSON array or NDJSON with one email per line, in the format of
/// POST /api/v1/emails. Nothing is sent if one of them is not an email, has a misspelled field, has
/// no content or a scheduledAt in the past. One that exceeds a documented limit is left out and
/// reported as refused; the others are sent. The exit code is 11 if some of the emails are refused.
#[derive(Args, Debug)]
#[command(add = creates(&[EmailsSendBatch], of::<Vec<Item>>))]
#[command(after_long_help = "\
  svc emails batch emails.json
  jq -c '.[]' people.json | ./to-emails | svc emails batch -
  svc emails batch emails.ndjson --jq '.[] | select(.error) | .index'")]
pub struct Batch {
    /// JSON array or NDJSON of emails; - for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

impl Batch {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let bytes = context.bytes("FILE", &self.file)?;
        let local_checks = context.clients.checks_limits().await?;
        let values = parse(bytes, &self.file)?;
        let mut scheduled = values.iter().filter_map(|value| value.get("scheduledAt"));
        let is_scheduled = scheduled.next().is_some();
        let now = if is_scheduled {
            time_options::now(context).await?
        } else {
            context.settings.env.zone.at(&Utc::now())
        };
        let read = |now| {
            let read = emails(&values, local_checks, now);
            read.map_err(|failure| in_file(&self.file, failure))
        };

        let emails = read(&now)?;
        let question = context.clients.question_about_service()?;
        let client = context.clients.email_client().await?;
        if local_checks {
            fields::warn(context, emails.iter().flat_map(fields::undocumented));
        }
        fields::warn_of_placeholders(context, &emails);
        let call = context
            .caller
            .with_options(client.emails().send_batch(&emails));
        let call = Prepared::new(call).asking(question).decide(context).await?;
        if is_scheduled {
            // Their times may have passed before somebody decided.
            read(&time_options::now(context).await?)?;
        }
        let response = context.caller.send(call, "sending").await?;
        let items = response.items.iter().map(Item::of).collect::<Vec<_>>();
        context
            .out
            .list(&items, VIEW, "the response lists no email")?;
        verdict(&response)
    }
}

/// The emails of the file, or the first problem, with its place.
fn emails(
    values: &[Value],
    local_checks: bool,
    now: &DateTime<FixedOffset>,
) -> Result<Vec<Email>, Failure> {
    let emails = values.iter().enumerate().map(|(index, value)| {
        email(value, local_checks, now).map_err(|(field, problem)| {
            let message = format!("email {index}: {field}: {problem}; nothing was sent");
            let mut failure = Failure::input(message);
            failure.fields = vec![(format!("emails[{index}].{field}"), problem)];
            failure
        })
    });
    emails.collect()
}

/// Reads one email. The error is a field and its problem, without the value.
fn email(
    value: &Value,
    local_checks: bool,
    now: &DateTime<FixedOffset>,
) -> Result<Email, (String, String)> {
    let mut email = Email::deserialize(value).map_err(|_| {
        // The error does not name the field, and may quote the value. Read alone, each other field
        // is valid.
        let is_bad =
            |(key, value): &(&String, &Value)| Email::deserialize(json!({ *key: value })).is_err();
        let field = value
            .as_object()
            .and_then(|it| it.iter().find(is_bad))
            .map(|(key, _)| key);
        (
            field.map_or("email", String::as_str).to_owned(),
            "not a valid value".to_owned(),
        )
    })?;
    if let Some((name, meant)) = fields::misspelled(&email).filter(|_| local_checks) {
        return Err((
            name.to_owned(),
            format!("unknown field: did you mean `{meant}`?"),
        ));
    }
    if !has_content(&email) {
        let problem = r#"missing; "text": "" sends an empty email on purpose"#;
        return Err(("text".to_owned(), problem.to_owned()));
    }
    if local_checks && !email.variables.is_empty() && email.template_id.is_none() {
        return Err(("variables".to_owned(), "need a `templateId`".to_owned()));
    }

    fields::settle_addresses(&mut email)?;
    if let Some(at) = &email.scheduled_at {
        time_options::check_schedule(at, now, local_checks)
            .map_err(|problem| ("scheduledAt".to_owned(), problem))?;
    }
    Ok(email)
}

fn parse(bytes: Vec<u8>, file: &Path) -> Result<Vec<Value>, Failure> {
    let mut records = Records::new(Box::new(Cursor::new(bytes)), file)?;
    let failed = |records: &Records, failure| Err(records.in_file(failure));
    if records.columns().is_some() {
        let failure = Failure::input("not a JSON array or NDJSON of emails");
        return failed(&records, failure.hint("for rows of CSV: svc bulk send"));
    }

    let mut values = Vec::new();
    while let Some(Record {
        number,
        fields,
        problem,
        ..
    }) = records.next()?
    {
        let fields = fields
            .into_iter()
            .map(|(key, value)| (key.to_string(), value));
        let email = fields.collect::<Map<_, _>>();
        match problem {
            None => values.push(Value::Object(email)),
            Some(_) if email.is_empty() => values.push(Value::Null),
            Some(problem) => {
                return failed(
                    &records,
                    Failure::input(format!("email {number}: {problem}")),
                );
            }
        }
    }

    match values.len() {
        0 => failed(&records, Failure::input("the file contains no email")),
        1..=LIMIT => Ok(values),
        count => {
            let problem = format!("{count} emails, but the limit per request is {LIMIT}");
            let hint = "split the file: split -l 100 emails.ndjson part-";
            failed(&records, Failure::input(problem).hint(hint))
        }
    }
}

/// The result of an email.
#[derive(Serialize, JsonSchema)]
pub struct Item {
    /// The position in the file, starting at 0, or null if the response does not tell it.
    index: Option<usize>,
    result: ItemResult,
    #[serde(flatten)]
    #[schemars(schema_with = "batch_fields")]
    fields: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ItemResult {
    Accepted,
    Refused,
    Unknown,
}

impl Item {
    fn of(item: &BatchItem) -> Self {
        let result = match item.outcome {
            BatchOutcome::Accepted(_) => ItemResult::Accepted,
            BatchOutcome::Refused(_) => ItemResult::Refused,
            _ => ItemResult::Unknown,
        };
        let mut fields = fields_beside(&["index", "result"], item);
        if let BatchOutcome::Refused(Refusal {
            fields: problems, ..
        }) = &item.outcome
            && !problems.is_empty()
            && let Some(Value::Object(error)) = fields.get_mut("error")
        {
            let problems = problems.iter();
            let problems = problems.map(|it| json!({"field": it.field, "message": it.message}));
            error.insert("fields".to_owned(), problems.collect());
        }

        Self {
            index: item.index,
            result,
            fields,
        }
    }
}

fn verdict(response: &BatchResponse) -> Result<(), Failure> {
    let all = response.requested;
    let refused = response.refused().count();
    let known = refused + response.accepted().count();
    if known != all || !response.is_complete() {
        // It is unknown which emails were accepted, so this must not look like a success.
        let problem = format!("the response does not tell the result of each of the {all} emails");
        return Err(Failure::new(Kind::OutcomeUnknown, problem)
            .code("batch_incomplete")
            .hint("find out which emails were accepted before you send the file again"));
    }
    if refused > 0 {
        let hint = if refused == all {
            "none was accepted: correct them and send the file again"
        } else {
            "the others were accepted: send only the refused ones again"
        };
        let problem = match all {
            1 => "the email was refused".to_owned(),
            _ => format!("{refused} of {all} emails were refused"),
        };
        return Err(Failure::new(Kind::PartlyRefused, problem)
            .code("batch_partly_refused")
            .hint(hint));
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMAIL: &str = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t"}"#;

    fn read(text: &str) -> Result<Vec<Email>, Failure> {
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:30:00Z").expect("a time");
        emails(&parse(text.into(), Path::new("emails"))?, true, &now)
    }

    #[test]
    fn an_email_that_is_scheduled_for_the_past_is_refused() {
        let scheduled = |at: &str| EMAIL.replace('}', &format!(r#","scheduledAt":"{at}"}}"#));
        let times = ["2026-11-21T10:29:30Z", "2026-11-22T00:00:00Z"]
            .map(scheduled)
            .join("\n");
        assert!(
            read(&times).is_ok(),
            "one minute of clock difference is allowed"
        );
        let past = scheduled("2026-11-21T12:28:00+02:00");
        let refused = read(&format!("{times}\n{past}")).expect_err("refused");
        let [(field, problem)] = &refused.fields[..] else {
            panic!("{refused:?}")
        };
        assert_eq!(field, "emails[2].scheduledAt");
        assert!(problem.ends_with("is in the past"), "{problem}");
        for past in [
            "2026-11-21T09:00Z",
            "2026-11-21T12:00+0200",
            "2026-11-21",
            "20261121T0900",
            "2026-W47",
            "2026",
        ] {
            assert!(read(&scheduled(past)).is_err(), "{past}");
        }

        for future in ["2026-11-21T09:00-0500", "2026-11-22", "2026-W48"] {
            assert!(read(&scheduled(future)).is_ok(), "{future}");
        }

        assert!(read(&scheduled("tomorrow")).is_err());
    }

    #[test]
    fn reads_arrays_and_ndjson() {
        let array = format!("[{EMAIL},\n{EMAIL}]");
        let lines = format!("{EMAIL}\n\n{EMAIL}\n");
        assert_eq!(read(&array).expect("read").len(), 2);
        assert_eq!(read(&lines).expect("read").len(), 2);
    }

    #[test]
    fn accepts_100_emails_and_rejects_101() {
        let lines = |count: usize| format!("{EMAIL}\n").repeat(count);
        assert_eq!(read(&lines(100)).expect("read").len(), 100);
        let refused = read(&lines(101)).expect_err("refused");
        assert_eq!(refused.kind(), Kind::InvalidInput);
        assert!(refused.message.contains("101"));
    }

    #[test]
    fn errors_give_the_location_but_not_the_content() {
        for (text, location) in [
            ("[{]", "line 1"),
            ("{\"from\":1}", "email 0: from"),
            ("[3]", "email 0: email: not a valid value"),
            ("{}\nsecret words", "line 2"),
            (
                r#"{"from":"a@b.test","to":"c@d.test","subject":"s"}"#,
                "email 0: text: missing",
            ),
            ("", "the file is empty"),
        ] {
            let message = read(text).expect_err("refused").message.clone();
            assert!(
                message.contains(location) && !message.contains("secret"),
                "{message}"
            );
        }
    }
}
