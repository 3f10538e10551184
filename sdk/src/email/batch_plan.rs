//! Which emails of a batch are sent.

use super::message::{Email, at_most};
use crate::error::{Error, FieldProblem, InvalidInput};

const MAX_BATCH: usize = 100;

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
        if emails.is_empty() {
            return Err(InvalidInput::new("emails", "at least one email is required").into());
        }
        at_most("emails", "emails", MAX_BATCH, emails.len())?;
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
        Err(Error::from(first).with(|error| error.report.fields = fields))
    }

    /// The number of emails in the request.
    pub(super) fn len(&self) -> usize {
        self.sent.len() + self.rejected.len()
    }
}
