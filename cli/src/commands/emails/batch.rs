//! The `svc emails batch` command.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use svc_sdk::email::{BatchItem, BatchOutcome, BatchResponse, Email};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::content::in_file;
use crate::input::json_problem;
use crate::output::{self, Column, Show, View};
use crate::sent::SentEmails;

/// Maximum number of emails in one request (`docs/email-service/emails.md#batch`).
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
/// POST /api/v1/emails. The exit code is 11 if some of the emails are refused.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc emails batch emails.json
  jq -c '.[]' people.json | ./to-emails | svc emails batch -
  svc emails batch emails.ndjson --jq '.[] | select(.error) | .index'

Scope: emails:send")]
pub struct Batch {
    /// JSON array or NDJSON of emails; - for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

impl Batch {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let bytes = context.inputs.bytes(&context.out, "FILE", &self.file)?;
        let emails = parse(&bytes).map_err(|failure| in_file(&self.file, failure))?;
        let client = context.email_client().await?;
        let call = client.emails().send_batch(&emails);
        let Some(response) = context.call(call, "sending").await? else { return Ok(()) };
        SentEmails::of(&context.settings)
            .note(response.accepted().map(|(_, email)| email.id.as_str()));
        let items = response.items.iter().map(item).collect::<Vec<_>>();
        context.out.list(&items, VIEW, "the response lists no email")?;
        verdict(&response)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Email>, Failure> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::input("not UTF-8 text"))?
        .trim_start_matches('\u{feff}');
    let values = if text.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<Value>>(text).map_err(|error| {
            Failure::input(format!("not a JSON array: {}", json_problem(&error)))
        })?
    } else {
        text.lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, line)| {
                serde_json::from_str(line).map_err(|error| {
                    Failure::input(format!(
                        "not NDJSON: line {}: {}",
                        number + 1,
                        json_problem(&error)
                    ))
                })
            })
            .collect::<Result<_, _>>()?
    };
    match values.len() {
        0 => return Err(Failure::input("the file contains no email")),
        1..=LIMIT => {}
        count => {
            return Err(Failure::input(format!(
                "{count} emails, but the limit per request is {LIMIT}"
            ))
            .hint("split the file: split -l 100 emails.ndjson part-"));
        }
    }
    values
        .into_iter()
        .enumerate()
        .map(|(index, value)| {
            serde_json::from_value(value)
                .map_err(|error| Failure::input(format!("email {index}: {}", json_problem(&error))))
        })
        .collect()
}

/// The same shape for every item, however the service reports it.
fn item(item: &BatchItem) -> Value {
    match &item.outcome {
        BatchOutcome::Accepted(email) => {
            let mut value = json!({"index": item.index, "result": "accepted"});
            merge(&mut value, output::to_value(email));
            value
        }
        BatchOutcome::Refused(refusal) => json!({
            "index": item.index,
            "result": "refused",
            "error": {"code": refusal.code, "message": refusal.message},
        }),
        BatchOutcome::Unrecognized(record) => {
            let mut value = json!({"index": item.index, "result": "unknown"});
            merge(&mut value, output::to_value(record));
            value
        }
        // The SDK may add outcomes.
        _ => json!({"index": item.index, "result": "unknown"}),
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        for (key, value) in from {
            into.entry(key).or_insert(value);
        }
    }
}

fn verdict(response: &BatchResponse) -> Result<(), Failure> {
    let (requested, reported) = (response.requested, response.items.len());
    if reported != requested {
        // It is unknown which emails were accepted, so this must not look like a success.
        return Err(Failure::new(
            Kind::OutcomeUnknown,
            format!(
                "the request contained {requested} emails, but the response reports {reported}"
            ),
        )
        .code("batch_incomplete")
        .hint("find out which emails were accepted before you send the file again"));
    }
    let refused = response.refused().count();
    if refused > 0 {
        return Err(Failure::new(
            Kind::PartlyRefused,
            format!("{refused} of {requested} emails were refused"),
        )
        .code("batch_partly_refused")
        .hint("the others were accepted: send only the refused ones again"));
    }
    if !response.all_accepted() {
        return Err(Failure::new(
            Kind::OutcomeUnknown,
            "the response does not report the result of every email",
        )
        .code("batch_incomplete"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMAIL: &str = r#"{"from":"a@b.test","to":"c@d.test","subject":"s"}"#;

    #[test]
    fn reads_arrays_and_ndjson() {
        let array = format!("[{EMAIL},\n{EMAIL}]");
        let lines = format!("{EMAIL}\n\n{EMAIL}\n");
        assert_eq!(parse(array.as_bytes()).expect("read").len(), 2);
        assert_eq!(parse(lines.as_bytes()).expect("read").len(), 2);
    }

    #[test]
    fn accepts_100_emails_and_rejects_101() {
        let lines = |count: usize| format!("{EMAIL}\n").repeat(count);
        assert_eq!(parse(lines(100).as_bytes()).expect("read").len(), 100);
        let refused = parse(lines(101).as_bytes()).expect_err("refused");
        assert_eq!(refused.kind(), Kind::InvalidInput);
        assert!(refused.details().message.contains("101"));
    }

    #[test]
    fn errors_give_the_location_but_not_the_content() {
        for (text, location) in [
            ("[{]", "line 1"),
            ("{\"from\":1}", "email 0"),
            ("{}\nsecret words", "line 2"),
            ("", "no email"),
        ] {
            let message = parse(text.as_bytes()).expect_err("refused").details().message.clone();
            assert!(message.contains(location) && !message.contains("secret"), "{message}");
        }
    }
}
