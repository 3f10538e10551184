//! Requests: rows are collected into them, and their responses are read.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;

use chrono::{DateTime, TimeDelta, Utc};
use svc_sdk::FieldProblem;
use svc_sdk::email::{BatchOutcome, BatchResponse, Email};

use crate::{JournalState, RowOutcome, RowRefusal};

/// The most bytes of content in one request, so that it fits in memory and the service takes
/// it. A single larger email is sent alone.
const MAX_BYTES: u64 = 16 << 20;

/// The emails of a request.
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) rows: Vec<u64>,
    pub(crate) emails: Vec<Email>,
    /// The number and the key of the request that this one repeats.
    pub(crate) repeats: Option<(u64, String)>,
    bytes: u64,
}

impl Request {
    fn push(&mut self, row: u64, email: Email) {
        self.bytes += size(&email);
        self.rows.push(row);
        self.emails.push(email);
    }

    /// Both halves, the second first.
    pub(crate) fn halves(mut self) -> Vec<Self> {
        let half = self.rows.len() / 2;
        let (rows, emails) = (self.rows.split_off(half), self.emails.split_off(half));
        vec![
            Self {
                rows,
                emails,
                ..Self::default()
            },
            self,
        ]
    }
}

/// Collects rows into requests.
pub(crate) struct Collector {
    /// The most rows in a request.
    pub(crate) size: usize,
    /// How long keys are honored; `None` if they are not.
    pub(crate) key_life: Option<TimeDelta>,
    /// Whether emails must keep to the documented limits.
    pub(crate) check: bool,
    partial: Request,
    ready: VecDeque<Request>,
    /// Requests to repeat, while their rows are collected.
    repeats: HashMap<u64, Request>,
}

impl Collector {
    pub(crate) fn new(size: usize, key_life: Option<TimeDelta>, check: bool) -> Self {
        let (partial, ready, repeats) = Default::default();
        Self {
            size,
            key_life,
            check,
            partial,
            ready,
            repeats,
        }
    }

    /// Takes in a row. Returns the problem if no valid email can be made of it.
    pub(crate) fn take<M: Display>(
        &mut self,
        row: u64,
        state: &JournalState,
        now: DateTime<Utc>,
        render: impl FnOnce() -> Result<Email, M>,
    ) -> Option<String> {
        let repeat = self
            .key_life
            .and_then(|life| state.repeatable(row, now, life));
        if repeat.is_none() && state.is_kept_back(row) {
            return None;
        }
        let email = render()
            .map_err(|error| error.to_string())
            .and_then(|email| match self.check.then(|| email.check()) {
                Some(Err(invalid)) => Err(invalid.to_string()),
                _ => Ok(email),
            });
        let email = match email {
            Ok(email) => email,
            // It was sent, whatever it renders to now.
            Err(_) if state.is_unknown(row) => return None,
            Err(problem) => return Some(problem),
        };
        if let Some((number, open)) = repeat {
            let collected = self.repeats.entry(number).or_default();
            collected.push(row, email);
            if collected.rows == open.rows {
                let mut request = self.repeats.remove(&number)?;
                request.repeats = open.key.clone().map(|key| (number, key));
                self.ready.push_back(request);
            }
            return None;
        }
        if !self.partial.rows.is_empty() && self.partial.bytes + size(&email) > MAX_BYTES {
            self.finish();
        }
        self.partial.push(row, email);
        if self.partial.rows.len() >= self.size {
            self.finish();
        }
        None
    }

    /// Makes a request of the rows so far.
    pub(crate) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.partial);
        self.ready.extend((!rest.rows.is_empty()).then_some(rest));
    }

    /// The next complete request.
    pub(crate) fn pop(&mut self) -> Option<Request> {
        self.ready.pop_front()
    }
}

/// About how many bytes an email takes in a request.
fn size(email: &Email) -> u64 {
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

/// What emails are refused for: the service's code and the field of the email.
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

    /// Whether it certainly concerns all emails of a job.
    pub(crate) fn concerns_job(&self) -> bool {
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

    /// After how many refusals in a row a job stops.
    pub(crate) fn limit(&self) -> usize {
        match () {
            () if self.concerns_job() => 5,
            () if self.concerns_recipient() => usize::MAX,
            () => 20,
        }
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
    let (mut seen, mut causes) = (vec![false; sent], Vec::new());
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
