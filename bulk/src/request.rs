//! One request of a send, and the meaning of its response.

use std::fmt;

use svc_sdk::FieldProblem;
use svc_sdk::email::{BatchOutcome, BatchResponse, Email};

use crate::{RowOutcome, RowRefusal};

/// The most bytes of content in one request, so that it fits in memory and the service takes
/// it. A single larger email is sent alone.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// The emails of a request.
pub(crate) struct Request {
    /// Also its idempotency key.
    pub(crate) id: String,
    pub(crate) rows: Vec<u64>,
    pub(crate) emails: Vec<Email>,
    /// Whether it was sent before, without a known outcome, and is repeated with its key.
    pub(crate) repeats: bool,
}

/// About how many bytes an email takes in a request.
pub(crate) fn size(email: &Email) -> u64 {
    let texts = [&email.html, &email.text]
        .into_iter()
        .flatten()
        .map(|text| text.len() as u64);
    let attachments = email
        .attachments
        .iter()
        .map(|each| each.content_length() / 3 * 4);
    1024 + texts.sum::<u64>() + attachments.sum::<u64>()
}

/// Why emails are refused: the service's code and the field of the email.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    code: String,
    field: String,
}

impl Cause {
    fn new(code: Option<&str>, fields: &[FieldProblem]) -> Self {
        let field = fields.first().map_or("", |each| &each.field);
        let field = field.split(['.', '[']).next().unwrap_or_default();
        Self {
            code: code.unwrap_or_default().to_lowercase(),
            field: field.to_owned(),
        }
    }

    /// Whether it certainly concerns all emails of a send.
    pub(crate) fn concerns_send(&self) -> bool {
        const CODES: [&str; 7] = [
            "domain",
            "sender",
            "template",
            "scope",
            "permission",
            "forbidden",
            "unauthorized",
        ];
        const FIELDS: [&str; 3] = ["from", "templateId", "template_id"];
        !self.concerns_recipient()
            && (FIELDS.contains(&self.field.as_str())
                || CODES.iter().any(|part| self.code.contains(part)))
    }

    fn concerns_recipient(&self) -> bool {
        const CODES: [&str; 3] = ["recipient", "suppress", "bounce"];
        ["to", "cc", "bcc"].contains(&self.field.as_str())
            || CODES.iter().any(|part| self.code.contains(part))
    }

    /// After how many refusals in a row a send is paused.
    pub(crate) fn limit(&self) -> i64 {
        if self.concerns_send() {
            return 5;
        }
        if self.concerns_recipient() {
            return i64::MAX;
        }
        20
    }
}

/// The text by which the ledger compares causes.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.field)
    }
}

/// The refusal of a request with a single email, and its cause.
pub(crate) fn refusal(error: &svc_sdk::Error) -> (Cause, RowRefusal) {
    let status = error
        .status()
        .map(|status| format!("http_{}", status.as_u16()));
    let code = error.code().or(status.as_deref());
    refused(code, error.message(), error.fields())
}

fn refused(
    code: Option<&str>,
    message: Option<&str>,
    fields: &[FieldProblem],
) -> (Cause, RowRefusal) {
    let field = fields
        .first()
        .map(|each| format!("{}: {}", each.field, each.message));
    (
        Cause::new(code, fields),
        RowRefusal::new(code, field.as_deref().or(message)),
    )
}

/// The outcome of each email of a request, and the cause if all were refused for the same one.
pub(crate) fn outcomes(
    response: &BatchResponse,
    sent: usize,
) -> (Vec<RowOutcome>, Option<(Cause, RowRefusal)>) {
    let mut outcomes = vec![RowOutcome::Unknown; sent];
    let mut seen = vec![false; sent];
    let mut causes = Vec::new();
    for item in &response.items {
        let Some(index) = item.index.filter(|index| *index < sent) else {
            continue;
        };
        outcomes[index] = match &item.outcome {
            // Two results for one email contradict each other.
            _ if seen[index] => RowOutcome::Unknown,
            BatchOutcome::Accepted(email) => RowOutcome::Accepted(email.id.clone()),
            BatchOutcome::Refused(it) => {
                let (cause, refusal) =
                    refused(it.code.as_deref(), it.message.as_deref(), &it.fields);
                causes.push((cause, refusal.clone()));
                RowOutcome::Refused(refusal)
            }
            _ => RowOutcome::Unknown,
        };
        seen[index] = true;
    }

    let are_all = outcomes
        .iter()
        .all(|outcome| matches!(outcome, RowOutcome::Refused(_)));
    let is_one = causes.iter().all(|(cause, _)| *cause == causes[0].0);
    (outcomes, causes.pop().filter(|_| are_all && is_one))
}
