//! Operations on emails: send, fetch, await and cancel, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#emails>.

use std::borrow::Borrow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::admission::admit;
use super::batch::{BatchPlan, BatchResponse};
use super::email_record::{EmailRecord, EmailStatus};
use super::message::Email;
use super::request_body;
use crate::client::{Call, Payload, Received, Shared, Wait};
use crate::decode::{parse_value, read_object};
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Outcome};
use crate::operation::Operation;
use crate::verdict::{Verdict, judge};

/// The operations on emails. Returned by
/// [`EmailClient::emails`](crate::EmailClient::emails).
#[derive(Clone, Debug)]
pub struct Emails {
    pub(crate) shared: Arc<Shared>,
}

impl Emails {
    /// Sends an email. Requires the scope `emails:send`.
    ///
    /// The returned [`EmailRecord`] contains the id and the first status; the email is
    /// delivered later, see [`wait`](Self::wait). Sending is not idempotent, so the call is
    /// retried only if the failed attempt was certainly not processed.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::Email;
    ///
    /// let email = Email::new("hello@shop.example", "ada@example.com", "Hi").text("Hello");
    /// let accepted = client.emails().send(&email).await?;
    /// println!("accepted as {}", accepted.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send(&self, email: impl Borrow<Email>) -> Call<EmailRecord> {
        let email = email.borrow();
        let mut recipients = 0;
        let mut payload = || -> Result<Payload, Error> {
            if self.shared.settings.local_checks {
                email.check()?;
            }
            let Some(guard) = &self.shared.guard else {
                return request_body::single(email);
            };
            let admitted = admit(guard, email, "")?;
            recipients = admitted.recipients();
            request_body::single(&admitted)
        };
        let payload = payload();
        Call::read_by(accepted, &self.shared, Operation::EmailsSend, &[], payload)
            .count_recipients(recipients)
    }

    /// Sends 1 to 100 emails in one request. Requires the scope `emails:send`.
    ///
    /// Each email is accepted or refused on its own, so check the response even if the call
    /// succeeds (<https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#batch>).
    /// Emails that exceed a documented limit are not sent: they are [refused](super::BatchOutcome::Refused) in the response, with
    /// the code `invalid_input` and the field. The indices are those of `emails`.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::Email;
    ///
    /// let emails: Vec<_> = ["ada@example.com", "bob@example.com"]
    ///     .map(|to| Email::new("hello@shop.example", to, "News").text("Hello"))
    ///     .into();
    /// let response = client.emails().send_batch(&emails).await?;
    /// for (index, refusal) in response.refused() {
    ///     println!("email {index:?} was refused: {:?}", refusal.code);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there are no or too many emails, or none of them can be sent, the error is
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), and [`Error::fields`] lists the
    /// problem of each email.
    pub fn send_batch(&self, emails: &[Email]) -> Call<BatchResponse> {
        let mut recipients = 0;
        let mut prepare = || -> Result<(BatchPlan, Payload), Error> {
            let plan = match self.shared.settings.local_checks {
                true => BatchPlan::check(emails)?,
                false => BatchPlan::all(emails),
            };
            let sent = plan.sent.iter().map(|&index| (index, &emails[index]));
            let shape = &*self.shared.settings.dialect;
            let Some(guard) = &self.shared.guard else {
                let payload = request_body::batch(sent, shape)?;
                return Ok((plan, payload));
            };
            let admitted = sent
                .map(|(index, email)| {
                    Ok((index, admit(guard, email, &format!("emails[{index}]."))?))
                })
                .collect::<Result<Vec<_>, Error>>()?;
            recipients = admitted.iter().map(|(_, email)| email.recipients()).sum();
            let admitted = admitted.iter().map(|(index, email)| (*index, email));
            let payload = request_body::batch(admitted, shape)?;
            Ok((plan, payload))
        };
        let (plan, payload) = match prepare() {
            Ok((plan, payload)) => (plan, Ok(payload)),
            Err(error) => (BatchPlan::default(), Err(error)),
        };
        let read = move |response: &Received| BatchResponse::read(response, &plan);
        Call::read_by(read, &self.shared, Operation::EmailsSendBatch, &[], payload)
            .count_recipients(recipients)
    }

    /// Returns an email with its status. Requires the scope `emails:read`.
    pub fn get(&self, id: impl AsRef<str>) -> Call<EmailRecord> {
        Call::new(
            &self.shared,
            Operation::EmailsGet,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
    }

    /// Waits until the status of an email is [final](EmailStatus::is_final). Requires the
    /// scope `emails:read`. A status of unknown meaning is not final, nor is a missing one: the wait
    /// then ends at its deadline.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let email = client.emails().wait("eml_1").await?;
    /// println!("{:?}", email.status);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self, id: impl AsRef<str>) -> Wait<EmailRecord> {
        let (emails, id) = (self.clone(), id.as_ref().to_owned());
        let is_final =
            |email: &EmailRecord| email.status.as_ref().is_some_and(EmailStatus::is_final);
        Wait::new(
            Operation::EmailsGet,
            move || emails.get(&id),
            is_final,
            |a, b| a.status == b.status,
        )
    }

    /// Cancels a scheduled email. The required scope is not documented, see
    /// <https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#scope-of-cancel>.
    ///
    /// If the response to an attempt was lost and its retry gets a conflict (409), the client
    /// fetches the email: if it is cancelled, the call succeeds with it.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let email = client.emails().cancel("eml_1").await?;
    /// println!("{:?}", email.status);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self, id: impl AsRef<str>) -> Call<EmailRecord> {
        let id = id.as_ref();
        let is_cancelled = |body: &[u8], dialect: &Dialect| {
            let email = parse_value(body).map(|body| read_object::<EmailRecord>(&body, dialect));
            email.is_ok_and(|email| email.status == Some(EmailStatus::Cancelled))
        };
        Call::new(
            &self.shared,
            Operation::EmailsCancel,
            &[id],
            Ok(Payload::Empty),
        )
        .confirmed_by(self.get(id), is_cancelled)
    }
}

/// Reads the response to a single send.
fn accepted(response: &Received) -> Result<EmailRecord, Error> {
    let value = match parse_value(&response.body) {
        Ok(value) => value,
        // The id may be in a header.
        Err(bad) if !response.may_be_text() => return Err(response.decode_error(bad)),
        Err(_) => Value::Null,
    };
    let fields = match value {
        Value::Object(fields) => fields,
        // One email may be answered like a batch of one.
        Value::Array(items) => match <[Value; 1]>::try_from(items) {
            Ok([Value::Object(only)]) => only,
            _ => Map::new(),
        },
        Value::String(id) if !id.contains(char::is_whitespace) && id.len() > 8 => {
            Map::from_iter([("id".to_owned(), id.into())])
        }
        _ => Map::new(),
    };
    match judge(&fields, response.headers(), response.dialect()) {
        Verdict::Accepted(email) => Ok(email),
        Verdict::Refused => Err(response.reported_failure()),
        Verdict::Unknown(_) => Err(response.error(ErrorKind::MissingId, Outcome::Unknown)),
    }
}
