//! Checks of the documented limits, made before sending.

use super::message::Email;
use crate::error::InvalidInput;

const MAX_TO: usize = 50;
const MAX_SUBJECT: usize = 998;
const MAX_ATTACHMENTS: usize = 20;

const MAX_BATCH: usize = 100;

impl Email {
    /// Checks the documented limits: 1 to 50 recipients in `to`, 998 characters in the
    /// subject, 20 attachments, and plausible email addresses.
    /// [`Emails::send`](super::Emails::send) does this automatically unless the client was built
    /// with `local_checks(false)`.
    ///
    /// # Errors
    ///
    /// The first field that exceeds a limit, with that limit.
    pub fn check(&self) -> Result<(), InvalidInput> {
        check_email(self)
    }
}

fn check_email(email: &Email) -> Result<(), InvalidInput> {
    if let Some(name) = email.extra.keys().find(|name| email.is_set(name)) {
        return Err(InvalidInput::given_twice(name));
    }
    address("from", &email.from)?;
    if email.to.is_empty() {
        return Err(InvalidInput::new("to", "at least one recipient is required"));
    }
    if email.to.len() > MAX_TO {
        return Err(over_limit("to", "recipients", MAX_TO, email.to.len()));
    }
    for (field, list) in
        [("to", &email.to), ("cc", &email.cc), ("bcc", &email.bcc), ("replyTo", &email.reply_to)]
    {
        for (index, each) in list.iter().enumerate() {
            if !can_be_address(each) {
                return Err(InvalidInput::new(format!("{field}[{index}]"), NOT_AN_ADDRESS));
            }
        }
    }
    // A string has at most as many characters as bytes, so count only long ones.
    if email.subject.len() > MAX_SUBJECT {
        let length = email.subject.chars().count();
        if length > MAX_SUBJECT {
            return Err(over_limit("subject", "characters", MAX_SUBJECT, length));
        }
    }
    if email.attachments.len() > MAX_ATTACHMENTS {
        return Err(over_limit(
            "attachments",
            "attachments",
            MAX_ATTACHMENTS,
            email.attachments.len(),
        ));
    }
    for (index, attachment) in email.attachments.iter().enumerate() {
        if attachment.filename.is_empty() {
            return Err(InvalidInput::new(
                format!("attachments[{index}].filename"),
                "must not be empty",
            ));
        }
    }
    Ok(())
}

/// Checks the number of emails in a batch.
pub(super) fn check_batch_size(emails: &[Email]) -> Result<(), InvalidInput> {
    if emails.is_empty() {
        return Err(InvalidInput::new("emails", "at least one email is required"));
    }
    if emails.len() > MAX_BATCH {
        return Err(over_limit("emails", "emails", MAX_BATCH, emails.len()));
    }
    Ok(())
}

/// Checks a single email address.
fn address(field: &'static str, text: &str) -> Result<(), InvalidInput> {
    if can_be_address(text) { Ok(()) } else { Err(InvalidInput::new(field, NOT_AN_ADDRESS)) }
}

/// Checks the address of a contact, which has its name in another field.
pub(super) fn contact_address(text: &str) -> Result<(), InvalidInput> {
    let invalid = |_| InvalidInput::new("email", "not an email address, such as `a@b`");
    address("email", text).map_err(invalid)
}

/// Rejects only what cannot be an email address: a missing `@`, or white space or
/// control characters in the address, which in `Name <a@b>` is the part in angle brackets.
fn can_be_address(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(named) => named.rfind('<').map_or(text, |open| &named[open + 1..]),
        None => text,
    };
    if address.is_ascii() {
        let mut has_at = false;
        address.bytes().all(|byte| {
            has_at |= byte == b'@';
            byte.is_ascii_graphic()
        }) && has_at
    } else {
        address.contains('@') && !address.chars().any(|c| c.is_whitespace() || c.is_control())
    }
}

const NOT_AN_ADDRESS: &str = "not an email address; use `a@b` or `Name <a@b>`";

fn over_limit(field: &'static str, unit: &str, limit: usize, actual: usize) -> InvalidInput {
    InvalidInput::over_limit(field, unit, limit as u64, actual as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_only_impossible_addresses() {
        for good in ["a@b", "Ada <a@b>", "\"A @ B\" <a@b>", "ä@ö.example", " a@b ", "a@[::1]"] {
            assert!(can_be_address(good), "{good}");
        }
        for bad in ["", "a", "a b@c", "Ada <a b@c>", "a@b\r\nBcc: x", "Ada a@b", "<>"] {
            assert!(!can_be_address(bad), "{bad}");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let email = |to: usize, subject: usize, attachments: usize| {
            let mut email = Email::new("a@b", "c@d", "ü".repeat(subject));
            email.to = vec!["c@d".to_owned(); to];
            email.attachments =
                vec![crate::email::Attachment::from_bytes("n", Vec::new()); attachments];
            email
        };
        assert_eq!(check_email(&email(50, 998, 20)), Ok(()));
        for (bad, field, limit) in [
            (email(51, 998, 20), "to", 50),
            (email(50, 999, 20), "subject", 998),
            (email(50, 998, 21), "attachments", 20),
        ] {
            let invalid = check_email(&bad).unwrap_err();
            assert_eq!((invalid.field.as_ref(), invalid.limit), (field, Some(limit)));
            assert_eq!(invalid.actual, Some(limit + 1));
        }
    }
}
