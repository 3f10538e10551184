//! `svc emails cancel`: cancels one scheduled email, or several one after the other, and prints
//! what became of each (`Item`). An email that is refused or not found does not stop the others;
//! any other failure would happen to all, so it ends the command, and the rest are `NotTried`. A
//! result is only `Failed` if the email was certainly not cancelled.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_sdk::Call;
use svc_sdk::Operation::EmailsCancel;
use svc_sdk::email::{EmailRecord, EmailStatus};

use super::{VIEW as EMAIL_VIEW, missing};
use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, View, fields_beside};
use crate::output_schema::{any_of, batch_fields, email, list, of};
use crate::prepared::Prepared;

const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::status("RESULT", "/result"),
    Column::prose("MESSAGE", "/error/message"),
]);

/// Cancel scheduled emails
///
/// With several ids, the result of each email is listed, and the exit code is 11 if some could not be
/// cancelled. A failure that affects all of them, such as a rejected key, ends the command, and the
/// remaining emails are not tried. To cancel the emails of a bulk job: svc bulk cancel.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsCancel], || any_of(&[email, || list(of::<Item>)])))]
#[command(after_long_help = "\
  svc emails cancel eml_019a
  svc emails cancel eml_019a eml_019b --jq '.[] | [.id, .result]'")]
pub struct Cancel {
    /// Email ids; - for ids on stdin, separated by white space
    #[arg(required = true, value_name = "ID|-", add = Values::Email.candidates())]
    ids: Vec<String>,
}

impl Cancel {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let ids = self.ids(context)?;
        let client = context.clients.email_client().await?;
        if let [id] = &ids[..] {
            context.not_found.replace(Some(missing(id)));
            let call = context.caller.with_options(client.emails().cancel(id));
            let call = Prepared::new(call).decide(context).await?;
            let email = cancel(context, id, call).await?;
            return context.out.one(&email, EMAIL_VIEW);
        }

        let calls = ids
            .iter()
            .map(|id| context.caller.with_options(client.emails().cancel(id)));
        let calls = Prepared::new(calls.collect::<Vec<_>>());
        let calls = calls.decide(context).await?;

        let mut items = Vec::new();
        let mut end = None;
        for (id, call) in ids.iter().zip(calls) {
            if end.is_some() {
                items.push(Item::new(id, CancelResult::NotTried));
                continue;
            }
            match cancel(context, id, call).await {
                Ok(email) => items.push(Item::cancelled(id, &email)),
                Err(failure) => {
                    items.push(Item::failed(id, &failure));
                    // The other emails have another status; anything else would happen to them, too.
                    if !matches!(failure.kind(), Kind::Refused | Kind::NotFound) {
                        end = Some(failure);
                    }
                }
            }
        }

        context.out.list(&items, VIEW, "no email was cancelled")?;

        let cancelled = |item: &&Item| item.result == CancelResult::Cancelled;
        let remaining = items.len() - items.iter().filter(cancelled).count();
        match end {
            Some(failure) => Err(failure),
            None if remaining == 0 => Ok(()),
            None => Err(Failure::new(
                Kind::PartlyRefused,
                format!("{remaining} of {} emails were not cancelled", items.len()),
            )
            .code("partly_cancelled")),
        }
    }

    fn ids(&self, context: &Context) -> Result<Vec<String>, Failure> {
        if !self.ids.iter().any(|id| id == "-") {
            return Ok(self.ids.clone());
        }
        if self.ids.len() > 1 {
            return Err(Failure::usage("give ids, or - for those on standard input"));
        }

        let text = context.text("ID", "-")?;
        let ids = text
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        if ids.is_empty() {
            Err(Failure::usage("standard input has no id of an email"))
        } else {
            Ok(ids)
        }
    }
}

async fn cancel(
    context: &Context,
    id: &str,
    call: Call<EmailRecord>,
) -> Result<EmailRecord, Failure> {
    let sent = context.caller.send(call, "cancelling").await;
    let too_late = |failure: Failure| {
        let get = context.svc("emails get {}", &[id]);
        failure.hint(format!(
            "only an email that waits for its scheduled time can be cancelled; see it: {get}"
        ))
    };

    let email = sent.map_err(|failure| match failure.status {
        Some(409) => too_late(failure),
        _ => failure,
    })?;
    match &email.status {
        Some(status) if status.is_final() && *status != EmailStatus::Cancelled => {
            let problem = format!("email {id} was not cancelled: the service says {status}");
            Err(too_late(
                Failure::new(Kind::Refused, problem).code("not_cancelled"),
            ))
        }
        _ => Ok(email),
    }
}

/// The outcome of one of several emails.
#[derive(Serialize, JsonSchema)]
pub struct Item {
    result: CancelResult,
    #[serde(flatten)]
    #[schemars(schema_with = "batch_fields")]
    fields: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CancelResult {
    Cancelled,
    /// Not cancelled: it was sent already, for example.
    Refused,
    NotFound,
    /// Certainly not cancelled by this command.
    Failed,
    /// Perhaps cancelled.
    Unknown,
    /// A failure before it ended the command.
    NotTried,
}

impl Item {
    fn new(id: &str, result: CancelResult) -> Self {
        let fields = Map::from_iter([("id".to_owned(), id.into())]);
        Self { result, fields }
    }

    fn cancelled(id: &str, email: &EmailRecord) -> Self {
        let mut item = Self::new(id, CancelResult::Cancelled);
        item.fields.extend(fields_beside(&["id", "result"], email));
        item
    }

    fn failed(id: &str, failure: &Failure) -> Self {
        let result = match failure.kind() {
            Kind::Refused => CancelResult::Refused,
            Kind::NotFound => CancelResult::NotFound,
            Kind::OutcomeUnknown | Kind::Interrupted => CancelResult::Unknown,
            _ => CancelResult::Failed,
        };
        let mut item = Self::new(id, result);
        let error = json!({"code": failure.code, "message": failure.message});
        item.fields.insert("error".to_owned(), error);
        item
    }
}
