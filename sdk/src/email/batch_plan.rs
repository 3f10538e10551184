//! The request of a batch: its JSON shape, and which of its emails are sent.

use super::limits;
use super::message::Email;
use crate::error::{Error, ErrorReport, FieldProblem, InvalidInput};

/// The JSON shape of a batch request, which the service's reference
/// [does not specify](https://github.com/svc-tools/svc/blob/main/docs/undocumented/email-service.md#batch-body).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchShape {
    /// A bare array of emails.
    #[default]
    Array,
    /// An object with the array in this field, such as `emails`.
    Object(String),
}

/// Which emails of a batch are sent.
#[derive(Default)]
pub(crate) struct BatchPlan {
    /// Indices of the emails in the request.
    pub(crate) sent: Vec<usize>,
    /// The emails that are not sent.
    pub(super) rejected: Vec<(usize, InvalidInput)>,
}

impl BatchPlan {
    /// Sends all emails.
    pub(crate) fn all(emails: &[Email]) -> Self {
        Self { sent: (0..emails.len()).collect(), rejected: Vec::new() }
    }

    /// Sends the emails that keep to the documented limits.
    pub(crate) fn check(emails: &[Email]) -> Result<Self, Error> {
        limits::check_batch_size(emails)?;
        let mut plan = Self::default();
        for (index, email) in emails.iter().enumerate() {
            match email.check() {
                Ok(()) => plan.sent.push(index),
                Err(invalid) => plan.rejected.push((index, invalid)),
            }
        }
        if !plan.sent.is_empty() {
            return Ok(plan);
        }
        let invalid = plan
            .rejected
            .into_iter()
            .map(|(index, invalid)| invalid.within(&format!("emails[{index}]")))
            .collect::<Vec<_>>();
        let fields = invalid.iter().map(FieldProblem::from).collect();
        let first = invalid.into_iter().next();
        let first = first.unwrap_or_else(|| InvalidInput::new("emails", "none can be sent"));
        Err(Error::from(first).with_report(ErrorReport { fields, ..ErrorReport::default() }))
    }

    /// The number of emails in the request.
    pub(super) fn len(&self) -> usize {
        self.sent.len() + self.rejected.len()
    }
}
