//! Operations on emails: send, fetch, await and cancel, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#emails>.

use std::borrow::{Borrow, Cow};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::accepted::{self, AcceptedEmail};
use super::admission::admit;
use super::batch::{BatchPlan, BatchResponse};
use super::email_record::{EmailRecord, EmailStatus};
use super::message::Email;
use super::request_body;
use crate::decode::{into_object, parse_value, read_object};
use crate::dialect::Dialect;
use crate::engine::{Call, Received, RequestBody, Shared, Wait};
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
    /// retried only if the failed attempt was certainly not processed, or the service honors
    /// [idempotency keys](crate::ClientBuilder::service_honors_idempotency_key).
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
        let body = self.single_body(email.borrow());
        Call::read_by(
            read_accepted,
            &self.shared,
            Operation::EmailsSend,
            &[],
            body,
        )
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
        let plan = self.plan(emails);
        let body = match &plan {
            Ok(plan) => self.batch_body(emails, plan),
            Err(error) => Err(error.clone()),
        };

        // Without a plan, the call fails before there is a response to read.
        let plan = plan.unwrap_or_default();
        let read = move |response: &Received| BatchResponse::read(response, &plan);
        Call::read_by(read, &self.shared, Operation::EmailsSendBatch, &[], body)
    }

    /// Returns an email with its status. Requires the scope `emails:read`.
    pub fn get(&self, id: impl AsRef<str>) -> Call<EmailRecord> {
        Call::without_body(&self.shared, Operation::EmailsGet, &[id.as_ref()])
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
        let emails = self.clone();
        let id = id.as_ref().to_owned();
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
            let email = parse_value(body).map(|body| read_object::<EmailRecord>(body, dialect));
            email.is_ok_and(|email| email.status == Some(EmailStatus::Cancelled))
        };
        Call::without_body(&self.shared, Operation::EmailsCancel, &[id])
            .confirmed_by(self.get(id), is_cancelled)
    }

    fn single_body(&self, email: &Email) -> Result<RequestBody, Error> {
        if self.shared.settings.local_checks {
            email.check()?;
        }

        let email = self.admitted(email, None)?;
        Ok(RequestBody {
            payload: request_body::single(&email)?,
            recipients: email.recipients(),
        })
    }

    fn plan(&self, emails: &[Email]) -> Result<BatchPlan, Error> {
        if self.shared.settings.local_checks {
            BatchPlan::check(emails)
        } else {
            Ok(BatchPlan::all(emails))
        }
    }

    fn batch_body(&self, emails: &[Email], plan: &BatchPlan) -> Result<RequestBody, Error> {
        let mut admitted = Vec::with_capacity(plan.sent.len());
        for &index in &plan.sent {
            admitted.push((index, self.admitted(&emails[index], Some(index))?));
        }

        let recipients = admitted.iter().map(|(_, email)| email.recipients()).sum();
        let emails = admitted.iter().map(|(index, email)| (*index, &**email));
        let payload = request_body::batch(emails, &self.shared.settings.dialect)?;
        Ok(RequestBody {
            payload,
            recipients,
        })
    }

    /// The email as the recipient guard lets it be sent. `index` is its place in a batch.
    fn admitted<'e>(
        &self,
        email: &'e Email,
        index: Option<usize>,
    ) -> Result<Cow<'e, Email>, Error> {
        let Some(guard) = &self.shared.guard else {
            return Ok(Cow::Borrowed(email));
        };
        let prefix = match index {
            Some(index) => format!("emails[{index}]."),
            None => String::new(),
        };
        admit(guard, email, &prefix).map(Cow::Owned)
    }
}

/// Reads the response to a single send.
fn read_accepted(response: &Received) -> Result<EmailRecord, Error> {
    let email: Option<AcceptedEmail> = accepted::read(&response.body, 0, &response.dialect);
    if let Some(email) = email.filter(|email| email.index.is_none())
        && let Some(record) = email.record()
    {
        return Ok(record);
    }

    let value = match parse_value(&response.body) {
        Ok(value) => value,
        // The id may be in a header.
        Err(bad) if !response.may_be_text() => return Err(response.decode_error(bad)),
        Err(_) => Value::Null,
    };
    let fields = match value {
        Value::String(id) if !id.contains(char::is_whitespace) && id.len() > 8 => {
            Map::from_iter([("id".to_owned(), id.into())])
        }
        // One email may be answered like a batch of one.
        other => into_object(other),
    };
    match judge(&fields, &response.headers, &response.dialect) {
        Verdict::Accepted(email) => Ok(email),
        Verdict::Refused => Err(response.reported_failure()),
        Verdict::Unknown(_) => Err(response.error(ErrorKind::MissingId, Outcome::Unknown)),
    }
}
