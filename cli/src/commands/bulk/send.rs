//! The `svc bulk send` command.

use std::time::Duration;

use clap::Args;
use svc_sdk::Service;

use super::content::{Content, Prepared};
use super::delivery::Wait;
use super::drive::{self, Again, RunOptions};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::duration;
use crate::stop::StopSignal;

/// Send an email to every row of a file or contact of an audience
///
/// The first line of a CSV file names the columns; NDJSON has an object per line. Every text may
/// contain placeholders such as {{ first_name }}; a row without the value is left out and reported.
/// All rows are read and checked before the first email is sent, and a prompt shows what will be
/// sent.
///
/// What is sent is recorded, so that a job can be killed at any point: `svc bulk resume` sends only
/// what was not sent. The exit code is 11 if emails are refused, 9 if the outcome of some is
/// unknown, 10 if --wait finds emails that are not delivered, and 130 after Ctrl-C; of several, 9
/// comes before 11, and 11 before 10.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk send people.csv --from hello@example.com \\
      --subject 'Hi {{ first_name }}' \\
      --html @news.html --unsubscribe 'https://example.com/u/{{ token }}'
  svc bulk send --audience Newsletter --from hello@example.com --subject News \\
      --text @news.txt
  svc bulk send people.ndjson --from hello@example.com --subject Hi \\
      --template welcome --rate 50/s
  svc bulk send people.csv --from hello@example.com --subject Hi \\
      --text @news.txt --only-to me@example.com

Scope: emails:send (and contacts:manage with --audience, emails:read with --wait)")]
pub struct Send {
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    wait: Wait,
    /// Longest Retry-After of a 429 to wait for
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = duration::parse, default_value = "15m")]
    max_retry_after: Duration,
    /// Maximum requests in flight
    ///
    /// Each has up to 100 emails.
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
}

impl Send {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let plan = self.content.plan(context, self.concurrency)?;
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let prepared =
            self.content.prepare(context, (&client, &key), plan, "Send", &mut stop).await?;
        let Some(Prepared { draft, plan, info }) = prepared else { return Ok(()) };
        let (folder, journal) = draft.start(&info)?;
        let max_retry_after = self.max_retry_after;
        let options = RunOptions { again: Again::default(), max_retry_after, subscribers: None };
        let sent = drive::run(context, &client, &folder, &plan, journal, options, &mut stop).await;
        self.wait.after(sent, context, &client, &folder, &mut stop).await
    }
}
