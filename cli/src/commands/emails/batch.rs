//! The `svc emails batch` command.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_sdk::Operation::EmailsSendBatch;
use svc_sdk::email::{BatchItem, BatchOutcome, BatchResponse, Email, Refusal};

use super::fields::{self, has_content};
use crate::command_spec::creates;
use crate::context::Context;
use crate::failure::{Failure, FieldError, Kind};
use crate::input::content::in_file;
use crate::input::records::{Record, Records};
use crate::output::{Column, Show, View, fields_beside};
use crate::output_schema::email_fields;
use crate::output_schema::of;
use crate::sent::SentEmails;
use crate::times;
use crate::zone::Zone;

/// Maximum number of emails in one request (`docs/email-service/README.md#batch`).
const LIMIT: usize = 100;

const VIEW: View = View(&[
    Column::new("#", "/index", Show::Number),
    Column::new("RESULT", "/result", Show::Status),
    Column::id("ID", "/id"),
    Column::id("CODE", "/error/code"),
    Column::prose("MESSAGE", "/error/message"),
]);

/// Send up to 100 emails in one request
///
/// The file is a JSON array or NDJSON with one email per line, in the format of
/// POST /api/v1/emails. An email that cannot be sent, for example because it has no content, an
/// invalid address or a scheduledAt in the past, is left out and reported as refused; the others
/// are sent. The exit code is 11 if some of the emails are refused.
#[derive(Args, Debug)]
#[command(add = creates(&[EmailsSendBatch], of::<Vec<Item>>))]
#[command(after_long_help = "\
Examples:
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
        let bytes = context.inputs.bytes(&context.out, "FILE", &self.file)?;
        let local_checks = context.settings.compatibility.local_checks;
        let values = parse(bytes, &self.file)?;
        let now = match values.iter().any(|value| value.get("scheduledAt").is_some()) {
            true => times::now(context).await?,
            false => Utc::now().with_timezone(&context.settings.env.zone),
        };
        let rows = Rows::read(values, local_checks, &now)
            .map_err(|failure| in_file(&self.file, failure))?;
        let client = context.email_client().await?;
        if local_checks {
            fields::warn(context, rows.emails.iter().flat_map(fields::undocumented));
        }
        fields::warn_of_placeholders(context, &rows.emails);
        let call = client.emails().send_batch(&rows.emails);
        let sent = context.call(call, "sending").await;
        let Some(response) = sent.map_err(|failure| rows.complete(failure))? else {
            if !rows.refused.is_empty() {
                context.out.warning(&rows.summary());
            }
            return Ok(());
        };
        SentEmails::of(&context.settings)
            .note(response.accepted().map(|(_, email)| email.id.as_str()));
        context.out.list(&rows.items(&response), VIEW, "the response lists no email")?;
        verdict(&response, rows.refused.len())
    }
}

/// The emails of the file.
#[derive(Debug)]
struct Rows {
    /// Those that are sent.
    emails: Vec<Email>,
    /// The index in the file of each email that is sent.
    sent: Vec<usize>,
    /// Those that are not sent: index in the file, field and problem.
    refused: Vec<(usize, String, String)>,
}

impl Rows {
    /// Reads each email of the file. One that cannot be sent does not stop the others.
    fn read(values: Vec<Value>, local_checks: bool, now: &DateTime<Zone>) -> Result<Self, Failure> {
        let mut rows = Self { emails: Vec::new(), sent: Vec::new(), refused: Vec::new() };
        for (index, value) in values.into_iter().enumerate() {
            match email(value, local_checks, now) {
                Ok(email) => {
                    rows.emails.push(email);
                    rows.sent.push(index);
                }
                Err((field, problem)) => rows.refused.push((index, field, problem)),
            }
        }
        if !rows.emails.is_empty() {
            return Ok(rows);
        }
        let mut failure = Failure::input(rows.summary());
        failure.details_mut().fields = as_fields(&rows.refused).collect();
        Err(failure)
    }

    /// How many emails are not sent, and why the first one is not.
    fn summary(&self) -> String {
        let (count, all) = (self.refused.len(), self.refused.len() + self.emails.len());
        let first = self.refused.first();
        let first =
            first.map(|(index, field, problem)| format!("email {index}: {field}: {problem}"));
        format!("{count} of {all} emails cannot be sent; {}", first.unwrap_or_default())
    }

    /// The failure of the whole request, which names the emails that are not in it too. Positions
    /// are those in the file.
    fn complete(&self, mut failure: Failure) -> Failure {
        let summary = (!self.refused.is_empty()).then(|| self.summary());
        let details = failure.details_mut();
        details.message = self.positions_in_file(&details.message);
        for (field, _) in &mut details.fields {
            *field = self.positions_in_file(field);
        }
        if let Some(summary) = summary {
            details.message.push_str(&format!("; besides, {summary}"));
        }
        details.fields.extend(as_fields(&self.refused));
        failure
    }

    /// Replaces the position in the request of `emails[0]` with the one in the file.
    fn positions_in_file(&self, text: &str) -> String {
        let mut parts = text.split("emails[");
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            replaced.push_str("emails[");
            let position = part.split_once(']').and_then(|(position, rest)| {
                Some((self.sent.get(position.parse::<usize>().ok()?)?, rest))
            });
            match position {
                Some((position, rest)) => replaced.push_str(&format!("{position}]{rest}")),
                None => replaced.push_str(part),
            }
        }
        replaced
    }

    /// The result of every email of the file, in its order if the response tells it.
    fn items<'a>(&'a self, response: &'a BatchResponse) -> Vec<Item<'a>> {
        let in_file = |index: Option<usize>| index.and_then(|index| self.sent.get(index).copied());
        let mut items =
            response.items.iter().map(|each| item(each, in_file(each.index))).collect::<Vec<_>>();
        items.extend(self.refused.iter().map(|(index, field, problem)| {
            let fields = vec![FieldError { field, message: problem }];
            let message = Some(format!("{field}: {problem}"));
            let error = Some(Error { code: Some("invalid_input"), message, fields });
            Item { index: Some(*index), result: ItemResult::Refused, error, email: Map::new() }
        }));
        if items.iter().all(|item| item.index.is_some()) {
            items.sort_by_key(|item| item.index);
        }
        items
    }
}

/// Refused emails as fields of an error.
fn as_fields(refused: &[(usize, String, String)]) -> impl Iterator<Item = (String, String)> {
    refused
        .iter()
        .map(|(index, field, problem)| (format!("emails[{index}].{field}"), problem.clone()))
}

/// Reads one email. The error is a field and its problem, without the value.
fn email(
    value: Value,
    local_checks: bool,
    now: &DateTime<Zone>,
) -> Result<Email, (String, String)> {
    let Value::Object(object) = value else {
        return Err(("email".to_owned(), "must be an object".to_owned()));
    };
    let read = |value| serde_json::from_value::<Email>(value);
    let email = read(Value::Object(object.clone())).map_err(|error| {
        // The error does not name the field. Read alone, each other field is valid.
        let is_bad = |(key, value): &(String, Value)| read(json!({ key.as_str(): value })).is_err();
        let field = object.into_iter().find(is_bad).map_or("email".to_owned(), |(key, _)| key);
        // The rest of the error may quote the value.
        let text = error.to_string();
        let problem = match text.split_once(", expected ") {
            Some((_, expected)) => format!("wrong type, expected {expected}"),
            None => "not a valid value".to_owned(),
        };
        (field, problem)
    })?;
    if let Some((name, meant)) = fields::misspelled(&email).filter(|_| local_checks) {
        let problem = format!("unknown field: {}", fields::did_you_mean(meant));
        return Err((name.to_owned(), problem));
    }
    if !has_content(&email) {
        let problem = r#"missing; "text": "" sends an empty email on purpose"#;
        return Err(("text".to_owned(), problem.to_owned()));
    }
    if local_checks && !email.variables.is_empty() && email.template_id.is_none() {
        return Err(("variables".to_owned(), "need a `templateId`".to_owned()));
    }
    if let Some(at) = &email.scheduled_at {
        times::check_schedule(at, now).map_err(|problem| ("scheduledAt".to_owned(), problem))?;
    }
    if local_checks {
        email
            .check()
            .map_err(|invalid| (invalid.field.to_string(), invalid.problem.to_string()))?;
    }
    Ok(email)
}

fn parse(bytes: Vec<u8>, file: &Path) -> Result<Vec<Value>, Failure> {
    // An object over several lines is not NDJSON.
    let object = serde_json::from_slice::<Value>(&bytes).ok();
    if object.is_some_and(|object| object.get("emails").is_some_and(Value::is_array)) {
        let problem = "an object with the key `emails`, not a JSON array or NDJSON of emails";
        let hint = "send the list in it: jq .emails FILE | svc emails batch -";
        return Err(in_file(file, Failure::input(problem).hint(hint)));
    }
    let mut records = Records::new(Box::new(Cursor::new(bytes)), file)?;
    let failed = |records: &Records, failure| Err(records.in_file(failure));
    if records.columns().is_some() {
        let failure = Failure::input("not a JSON array or NDJSON of emails");
        return failed(&records, failure.hint("for rows of CSV: svc bulk send"));
    }
    let mut values = Vec::new();
    while let Some(Record { number, fields, problem }) = records.next()? {
        let fields = fields.into_iter().map(|(key, value)| (key.to_string(), value));
        let email = fields.collect::<Map<_, _>>();
        match problem {
            None => values.push(Value::Object(email)),
            Some(_) if email.is_empty() => values.push(Value::Null),
            Some(problem) => {
                return failed(&records, Failure::input(format!("email {number}: {problem}")));
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
// The same shape, however the service reports it.
#[derive(Serialize, JsonSchema)]
pub struct Item<'a> {
    /// The position in the file, starting at 0, or null if the response does not tell it.
    index: Option<usize>,
    result: ItemResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Error")]
    error: Option<Error<'a>>,
    #[serde(flatten)]
    #[schemars(schema_with = "email_fields")]
    email: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ItemResult {
    Accepted,
    Refused,
    Unknown,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Error<'a> {
    code: Option<&'a str>,
    message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldError<'a>>,
}

fn item(item: &BatchItem, index: Option<usize>) -> Item<'_> {
    let fields = |record| fields_beside(&["index", "result"], record);
    let (result, error, email) = match &item.outcome {
        BatchOutcome::Accepted(email) => (ItemResult::Accepted, None, fields(email)),
        BatchOutcome::Refused(Refusal { code, message, fields, .. }) => {
            let fields = fields.iter();
            let fields =
                fields.map(|each| FieldError { field: &each.field, message: &each.message });
            let fields = fields.collect();
            let error = Error { code: code.as_deref(), message: message.clone(), fields };
            (ItemResult::Refused, Some(error), Map::new())
        }
        BatchOutcome::Unrecognized(record) => (ItemResult::Unknown, None, fields(record)),
        // The SDK may add outcomes.
        _ => (ItemResult::Unknown, None, Map::new()),
    };
    Item { index, result, error, email }
}

/// `not_sent` emails of the file are not in the response.
fn verdict(response: &BatchResponse, not_sent: usize) -> Result<(), Failure> {
    let (requested, reported) = (response.requested, response.items.len());
    let (refused, all) = (response.refused().count() + not_sent, requested + not_sent);
    let is_unknown = |item: &&BatchItem| {
        !matches!(item.outcome, BatchOutcome::Accepted(_) | BatchOutcome::Refused(_))
    };
    let unknown = response.items.iter().filter(is_unknown).count();
    let problem = match () {
        () if reported != requested => {
            format!("the request contained {requested} emails, but the response reports {reported}")
        }
        () if !response.is_complete() => {
            "the response does not tell the result of each email".to_owned()
        }
        () if unknown > 0 => {
            format!("the response does not report the result of {unknown} of {all} emails")
        }
        () => String::new(),
    };
    if !problem.is_empty() {
        // It is unknown which emails were accepted, so this must not look like a success.
        return Err(Failure::new(Kind::OutcomeUnknown, problem)
            .code("batch_incomplete")
            .hint("find out which emails were accepted before you send the file again"));
    }
    if refused > 0 {
        let hint = match refused == all {
            true => "none was accepted: correct them and send the file again",
            false => "the others were accepted: send only the refused ones again",
        };
        return Err(Failure::new(
            Kind::PartlyRefused,
            format!("{refused} of {all} emails were refused"),
        )
        .code("batch_partly_refused")
        .hint(hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMAIL: &str = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t"}"#;

    fn read(text: &str) -> Result<Rows, Failure> {
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:30:00Z").expect("a time");
        let now = &now.with_timezone(&Zone::Local);
        Rows::read(parse(text.into(), Path::new("emails"))?, true, now)
    }

    #[test]
    fn an_email_that_is_scheduled_for_the_past_is_refused() {
        let scheduled = |at: &str| EMAIL.replace('}', &format!(r#","scheduledAt":"{at}"}}"#));
        let times = ["2026-11-21T10:29:30Z", "2026-11-21T12:28:00+02:00", "2026-11-22T00:00:00Z"];
        let rows = read(&times.map(scheduled).join("\n")).expect("read");
        assert_eq!(rows.sent, [0, 2], "one minute of clock difference is allowed");
        let [(1, field, problem)] = &rows.refused[..] else { panic!("{rows:?}") };
        assert_eq!(field, "scheduledAt");
        assert!(problem.ends_with("is in the past"), "{problem}");
    }

    #[test]
    fn reads_arrays_and_ndjson() {
        let array = format!("[{EMAIL},\n{EMAIL}]");
        let lines = format!("{EMAIL}\n\n{EMAIL}\n");
        assert_eq!(read(&array).expect("read").emails.len(), 2);
        assert_eq!(read(&lines).expect("read").emails.len(), 2);
    }

    #[test]
    fn accepts_100_emails_and_rejects_101() {
        let lines = |count: usize| format!("{EMAIL}\n").repeat(count);
        assert_eq!(read(&lines(100)).expect("read").emails.len(), 100);
        let refused = read(&lines(101)).expect_err("refused");
        assert_eq!(refused.kind(), Kind::InvalidInput);
        assert!(refused.details().message.contains("101"));
    }

    #[test]
    fn errors_give_the_location_but_not_the_content() {
        for (text, location) in [
            ("[{]", "line 1"),
            ("{\"from\":1}", "email 0: from"),
            ("[3]", "email 0: email: must be an object"),
            ("{}\nsecret words", "line 2"),
            (r#"{"from":"a@b.test","to":"c@d.test","subject":"s"}"#, "email 0: text: missing"),
            ("", "the file is empty"),
        ] {
            let message = read(text).expect_err("refused").details().message.clone();
            assert!(message.contains(location) && !message.contains("secret"), "{message}");
        }
    }
}
