//! Checks the fields of an email in JSON before it is sent, for `emails send` and
//! `emails batch`. `misspelled` finds a field that was probably meant to be a documented one: the
//! service might ignore it, and send at once what was scheduled. Other fields that are not
//! documented are sent with a warning. Problems name the field and never its value.

use std::collections::BTreeSet;

use svc_sdk::email::Email;

use crate::context::Context;
use crate::input::email::{invisible_character, with_quoted_name};
use crate::suggest::nearest;

/// The fields of an email (`docs/email-service/README.md#emails`).
const FIELDS: [&str; 14] = [
    "from",
    "to",
    "subject",
    "html",
    "text",
    "cc",
    "bcc",
    "replyTo",
    "headers",
    "attachments",
    "tags",
    "scheduledAt",
    "templateId",
    "variables",
];

/// A field with a name that no email has, and the documented one that was probably meant. The
/// service might ignore it: an email with `scheduledat` would go out at once.
pub(super) fn misspelled(email: &Email) -> Option<(&str, &'static str)> {
    email
        .extra
        .keys()
        .find_map(|name| Some((name.as_str(), meant(name)?)))
}

/// Refuses an address with an invisible character, and quotes names with characters that separate
/// addresses. The error is a field and its problem, without the address.
pub(super) fn settle_addresses(email: &mut Email) -> Result<(), (String, String)> {
    settle(&mut email.from).map_err(|problem| ("from".to_owned(), problem))?;
    for (field, list) in [
        ("to", &mut email.to),
        ("cc", &mut email.cc),
        ("bcc", &mut email.bcc),
        ("replyTo", &mut email.reply_to),
    ] {
        for (index, address) in list.iter_mut().enumerate() {
            settle(address).map_err(|problem| (format!("{field}[{index}]"), problem))?;
        }
    }
    Ok(())
}

fn settle(address: &mut String) -> Result<(), String> {
    if let Some(problem) = invisible_character(address) {
        return Err(problem);
    }
    *address = with_quoted_name(address)
        .ok_or("the name has a quotation mark, a backslash or another address; leave that out")?;
    Ok(())
}

/// The fields that the reference does not name. They are sent unchanged.
pub(super) fn undocumented(email: &Email) -> impl Iterator<Item = &str> {
    let attached = email.attachments.iter().flat_map(|it| it.extra.keys());
    email.extra.keys().chain(attached).map(String::as_str)
}

/// Warns that fields are sent unchanged, because the service may ignore them.
pub(super) fn warn<'a>(context: &Context, names: impl IntoIterator<Item = &'a str>) {
    let names = names.into_iter().collect::<BTreeSet<_>>();
    if !names.is_empty() {
        let shown = names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ");
        context
            .out
            .warning(&format!("not documented, sent unchanged: {shown}"));
    }
}

/// Says that placeholders without a template are not filled.
pub(super) fn warn_of_placeholders<'a>(
    context: &Context,
    emails: impl IntoIterator<Item = &'a Email>,
) {
    let is_name = |text: &str| {
        text.trim_start()
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    };
    let contains = |text: &String| {
        text.split("{{")
            .skip(1)
            .any(|inside| is_name(inside) && inside.contains("}}"))
    };
    let has_placeholder = |email: &Email| {
        let texts = [
            Some(&email.subject),
            email.html.as_ref(),
            email.text.as_ref(),
        ];
        email.template_id.is_none() && texts.into_iter().flatten().any(contains)
    };

    if emails.into_iter().any(has_placeholder) {
        context.out.warning(
            "placeholders such as {{ name }} are sent unchanged; --template and `svc bulk send` \
             fill them",
        );
    }
}

fn meant(name: &str) -> Option<&'static str> {
    let letters = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
    // Other services' names of the time: without it, the email would go out at once.
    if ["sendat", "deliverat"].contains(&letters(name).as_str()) {
        return Some("scheduledAt");
    }
    let known = FIELDS.map(letters);
    let similar = nearest(&letters(name), known.iter().map(String::as_str))?;
    FIELDS.into_iter().find(|field| letters(field) == similar)
}

/// Whether there is anything to send; an empty text that was asked for is content too.
pub(super) fn has_content(email: &Email) -> bool {
    email.html.is_some()
        || email.text.is_some()
        || email.template_id.is_some()
        || !email.attachments.is_empty()
        || email
            .extra
            .keys()
            .any(|field| field.to_lowercase().contains("template"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_fields_are_known() {
        for (name, expected) in [
            ("scheduled_at", "scheduledAt"),
            ("ScheduledAt", "scheduledAt"),
            ("shceduledAt", "scheduledAt"),
            ("sendAt", "scheduledAt"),
            ("deliver_at", "scheduledAt"),
            ("attachment", "attachments"),
            ("template", "templateId"),
            ("template-id", "templateId"),
            ("reply-to", "replyTo"),
            ("reply_to", "replyTo"),
            ("Reply To", "replyTo"),
            ("Subject", "subject"),
            ("sbuject", "subject"),
            ("tag", "tags"),
            ("variable", "variables"),
        ] {
            assert_eq!(meant(name), Some(expected), "{name}");
        }
        for name in [
            "trackOpens",
            "priority",
            "x",
            "ipPool",
            "test",
            "id",
            "lang",
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
