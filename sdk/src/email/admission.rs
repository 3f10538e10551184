//! What a recipient guard checks of an email: everything that may name a recipient.

use super::message::Email;
use crate::engine::{ActiveGuard, refuse, shown};
use crate::error::{Error, InvalidInput};

/// Headers of an email that a service may take for recipients.
const RECIPIENT_HEADERS: [&str; 7] = [
    "to",
    "cc",
    "bcc",
    "resent-to",
    "resent-cc",
    "resent-bcc",
    "apparently-to",
];

const LINE_END: &str = "contains a line end, which may start another header";

/// Returns the email as it may be sent. `prefix` is its place in a batch.
pub(super) fn admit(guard: &ActiveGuard, email: &Email, prefix: &str) -> Result<Email, Error> {
    let refused = |field: String, problem: &str| {
        Err(refuse(InvalidInput::new(
            format!("{prefix}{field}"),
            problem.to_owned(),
        )))
    };
    let has_line_end = |text: &str| text.contains(['\r', '\n']);
    for (name, value) in &email.extra {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        let plain = letters.collect::<String>().to_lowercase();
        let names_recipients = ["to", "cc", "bcc"].contains(&plain.as_str());
        if names_recipients || value.to_string().contains('@') {
            return refused(shown(name), "an additional field that may name recipients");
        }
    }
    for (name, value) in &email.headers {
        let field = format!("headers.{}", shown(name));
        if RECIPIENT_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str()) {
            return refused(
                field,
                "a header that names recipients; use `to`, `cc` or `bcc`",
            );
        }
        if has_line_end(name) || value.as_str().is_some_and(has_line_end) {
            return refused(field, LINE_END);
        }
    }
    let lines = [("from", &email.from), ("subject", &email.subject)].into_iter();
    for (field, text) in lines.chain(email.reply_to.iter().map(|text| ("replyTo", text))) {
        if has_line_end(text) {
            return refused(field.to_owned(), LINE_END);
        }
    }
    let mut email = email.clone();
    if let Some(address) = guard.redirect() {
        redirect(&mut email, address);
    }
    for (field, list) in [("to", &email.to), ("cc", &email.cc), ("bcc", &email.bcc)] {
        for (index, recipient) in list.iter().enumerate() {
            if let Some(problem) = guard.problem_with(recipient) {
                return refused(format!("{field}[{index}]"), &problem);
            }
        }
    }
    Ok(email)
}

/// Replaces the recipients, and names them in headers.
fn redirect(email: &mut Email, address: &str) {
    let originals = [
        (
            "X-Original-To",
            std::mem::replace(&mut email.to, vec![address.to_owned()]),
        ),
        ("X-Original-Cc", std::mem::take(&mut email.cc)),
        ("X-Original-Bcc", std::mem::take(&mut email.bcc)),
    ];
    for (name, list) in originals {
        email
            .headers
            .retain(|known, _| !known.eq_ignore_ascii_case(name));
        if !list.is_empty() {
            let list = list
                .iter()
                .map(|text| shown(text))
                .collect::<Vec<_>>()
                .join(", ");
            email.headers.insert(name.to_owned(), list.into());
        }
    }
}
