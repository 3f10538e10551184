//! The usual answer to a send, read in place: an accepted email with its id and status, and nothing
//! else. Every other answer is read leniently, by `verdict.rs`, which reads these the same.

use serde::Deserialize;

use super::email_record::{EmailRecord, EmailStatus};
use crate::dialect::Dialect;

/// Reads a body with so many arrays whose fields have their usual names and types. `None` if it has
/// others.
pub(super) fn read<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    arrays: usize,
    dialect: &Dialect,
) -> Option<T> {
    // A pinned choice may give these fields another meaning.
    if !dialect.is_empty() {
        return None;
    }

    let text = std::str::from_utf8(body).ok()?;
    // serde takes an array of values for an object with these fields.
    if text.matches('[').count() != arrays {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// A service's answer about an email: the response to a send, or an item of that to a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceptedEmail<'a> {
    pub(super) index: Option<usize>,
    id: &'a str,
    status: &'a str,
}

impl AcceptedEmail<'_> {
    /// `None` if the id is empty or zero, or the status is not certainly that of an accepted email.
    pub(super) fn record(&self) -> Option<EmailRecord> {
        let status = EmailStatus::from_word(self.status)?;
        let is_zero = self.id.trim().parse() == Ok(0_u64);
        if self.id.is_empty() || is_zero || status.is_undelivered() {
            return None;
        }

        Some(EmailRecord {
            id: self.id.to_owned(),
            status: Some(status),
            ..EmailRecord::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::verdict::{Verdict, judge};

    fn read_record(body: &str, dialect: &Dialect) -> Option<EmailRecord> {
        let email: AcceptedEmail = read(body.as_bytes(), 0, dialect)?;
        email.record()
    }

    #[test]
    fn only_the_usual_answer_is_read_in_place() {
        let usual = r#"{"id":"m","status":"queued"}"#;
        assert!(read_record(usual, &Dialect::default()).is_some());
        let pinned = Dialect::with(["id-place=header"]).expect("a choice");
        assert!(read_record(usual, &pinned).is_none());
        for unusual in [
            r#"{"id":"m","status":"queued","error":null}"#,
            r#"{"id":"m","status":"failed"}"#,
            r#"{"id":"m","status":"news"}"#,
            r#"{"id":"","status":"queued"}"#,
            r#"{"id":7,"status":"queued"}"#,
            r#"{"id":"m"}"#,
            r#"{"id":"m","id":"n","status":"queued"}"#,
            r#"{"id":"m","status":"queued"} x"#,
            r#"[{"id":"m","status":"queued"}]"#,
            r#"[0,"m","queued"]"#,
        ] {
            assert!(
                read_record(unusual, &Dialect::default()).is_none(),
                "{unusual}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_read_in_place_is_what_the_lenient_reading_gives(
            id in "[a-z0-9_ /]{0,4}",
            status in "(queued|accepted|sent|failed|error|spam|QUEUED|no_error|email.sent|[a-z]{1,3})",
        ) {
            let answer = json!({"id": id, "status": status});
            let dialect = Dialect::default();
            let fields = answer.as_object().expect("an object");
            let lenient = match judge(fields, &HeaderMap::new(), &dialect) {
                Verdict::Accepted(email) => Some(email),
                _ => None,
            };
            if let Some(email) = read_record(&answer.to_string(), &dialect) {
                prop_assert_eq!(Some(email), lenient);
            }
        }
    }
}
