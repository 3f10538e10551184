//! The content of an email beside its recipients: options of `emails send` and `bulk send`.

use std::ffi::{OsStr, OsString};

use clap::{Args, ValueHint};
use svc_sdk::email::{Email, ScheduledAt};

use crate::complete::{at_file, sender};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::attach::{self, Attach};
use crate::input::pairs;
use crate::time_options;

/// The options of the content.
#[derive(Args, Debug)]
pub struct Content {
    /// Sender: `a@b.com` or `Name <a@b.com>`
    ///
    /// The domain of the address must be verified (`svc domains verify`).
    #[arg(long, value_name = "ADDRESS", add = sender())]
    pub from: Option<String>,
    /// Subject, at most 998 characters
    #[arg(long, value_name = "TEXT")]
    pub subject: Option<String>,
    /// HTML body: text, @file or - for stdin
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    pub html: Option<OsString>,
    /// Plain-text body [default: derived from --html]
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true, add = at_file())]
    pub text: Option<OsString>,
    /// Template id
    #[arg(long, value_name = "ID")]
    pub template: Option<String>,
    /// Reply-To addresses; repeatable
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    pub reply_to: Vec<String>,
    /// Email header; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = pairs::parse_header)]
    pub header: Vec<(String, String)>,
    /// Tracking tag; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse_text)]
    pub tag: Vec<(String, String)>,
    /// Attachment, at most 20; repeatable
    ///
    /// Format: PATH[;name=NAME][;type=MIME]. The name and type default to those of the path.
    /// `-;name=NAME` reads standard input, for a single email.
    #[arg(long, value_name = "PATH[;…]", value_parser = attach::parser(), allow_hyphen_values = true, value_hint = ValueHint::FilePath)]
    pub attach: Vec<Attach>,
    /// Send time: ISO 8601, +2h, 'tomorrow 9am'
    ///
    /// The default is now. With --sandbox, relative times use the clock of the sandbox.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
}

impl Content {
    /// Sets the fields of an email that the options give, except attachments.
    pub async fn apply(&self, context: &Context, email: &mut Email) -> Result<(), Failure> {
        let read = |option, value: &Option<OsString>| match value {
            None => Ok(None),
            Some(value) => {
                let content = context.text(option, value)?;
                refuse_empty(option, value, &content)?;
                Ok::<_, Failure>(Some(content))
            }
        };

        if let Some(from) = &self.from {
            email.from.clone_from(from);
        }
        if let Some(subject) = &self.subject {
            email.subject.clone_from(subject);
        }
        replace(&mut email.reply_to, "--reply-to", &self.reply_to)?;
        email.html = read("--html", &self.html)?.or(email.html.take());
        email.text = read("--text", &self.text)?.or(email.text.take());
        for (name, value) in pairs::headers("--header", self.header.clone())? {
            // The same header of the email, in any case, is overridden.
            email
                .headers
                .retain(|other, _| !other.eq_ignore_ascii_case(&name));
            email.headers.insert(name, value);
        }

        email.tags.extend(pairs::object("--tag", self.tag.clone())?);
        email.template_id = self.template.clone().or(email.template_id.take());
        if let Some(at) = &self.at {
            email.scheduled_at = Some(schedule(context, at).await?);
        }
        Ok(())
    }
}

/// Addresses on the command line replace those of the email. Values are not split at commas because
/// display names may contain them, and the service would see one invalid address.
pub fn replace(list: &mut Vec<String>, option: &str, given: &[String]) -> Result<(), Failure> {
    let is_list = |text: &String| {
        let separates = |separator| {
            text.contains(separator) && text.split(separator).all(|part| part.contains('@'))
        };
        !text.contains('"') && (separates(',') || separates(';'))
    };

    if given.iter().any(is_list) {
        return Err(
            Failure::usage(format!("{option}: several addresses in one value")).hint(format!(
                "separate them: {option} ADDRESS ADDRESS, or repeat {option}"
            )),
        );
    }

    if !given.is_empty() {
        *list = given.to_vec();
    }
    Ok(())
}

/// Refuses an empty file or standard input, such as the output of a command that failed. An empty
/// value on the command line is intended.
fn refuse_empty(option: &str, value: &OsStr, content: &str) -> Result<(), Failure> {
    let is_file = value == "-" || value.as_encoded_bytes().starts_with(b"@");
    if !is_file || !content.trim().is_empty() {
        return Ok(());
    }
    Err(
        Failure::input(format!("{option}: the file or standard input is empty")).hint(format!(
            "nothing was sent; {option} '' sends an empty text on purpose"
        )),
    )
}

/// Parses the time and prints it, so that a misunderstanding is noticed.
async fn schedule(context: &Context, words: &str) -> Result<ScheduledAt, Failure> {
    let (instant, now) = time_options::read_schedule(context, words).await?;
    let shown = context.out.local_time(&instant.to_rfc3339());
    let note = if instant <= now {
        format!("sending now: {shown} is not in the future")
    } else {
        format!("scheduled for {shown}")
    };
    context.out.note(&note);
    Ok(ScheduledAt::at(&instant))
}
