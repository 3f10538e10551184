//! `svc watch`: prints what changes in the sandbox, one line for each `Notification`. `follow` asks
//! the control interface for what came after a position, and the server responds when there is
//! something. A failure of the first request ends the command; later only a 4xx does, and the
//! server may stop and start again. If notifications were missed, a note says so.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use svc_reference_server::client::{Client, Direction, Notification, NotificationPage};

use crate::command_spec::local;
use crate::context::Context;
use crate::control;
use crate::failure::{Failure, Kind};
use crate::output_schema::{described, of};
use crate::stop::{Stop, StopSignal};

/// Watch requests, emails, deliveries and attempts as they happen
///
/// Prints one line for each in the sandbox. Piped, each line is JSON and has everything that
/// changes. If the server is started again at the same address, the command continues. Ctrl-C ends
/// it with exit code 130, SIGTERM with 0.
#[derive(Args, Debug)]
#[command(add = local(|| described("one line each: `ready`, then whatever changes", of::<Notification>)).of_organization().until_interrupted())]
#[command(after_long_help = "\
  svc watch
  svc watch -o ndjson --jq .type")]
pub struct Watch {}

impl Watch {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        follow(context).await
    }
}

/// How long the server waits for an event.
const POLL: Duration = Duration::from_secs(20);
/// The pause before the server is asked again after a failure.
const RETRY: Duration = Duration::from_millis(500);

/// Prints what changes, until a signal stops the command.
///
/// # Errors
///
/// If the first request fails. Later the server may be stopped and started again.
async fn follow(context: &Context) -> Result<(), Failure> {
    // Before the first line is printed: its reader may stop the command at once.
    let mut stop = StopSignal::listen(context.settings.env.signals)?;
    let follow = async {
        let client = control::client(context).await?;
        let begun = client.notifications(None, POLL);
        let begun = (begun.decode)(&context.caller.perform(begun.call).await?)?;
        for event in &begun.data {
            context.out.event("ready; press Ctrl-C to stop", event)?;
        }
        print_all(context, &client, begun.next).await
    };
    tokio::select! {
        ended = follow => ended,
        signal = stop.recv() => match signal {
            Stop::Interrupt => Err(Failure::new(Kind::Interrupted, "interrupted")),
            Stop::Terminate => Ok(()),
        },
    }
}

/// Prints the events after a position.
async fn print_all(
    context: &Context,
    client: &Client,
    mut position: String,
) -> Result<(), Failure> {
    let mut is_connected = true;
    loop {
        let NotificationPage { data, next, .. } =
            match client.notifications(Some(&position), POLL).await {
                Ok(events) => events,
                Err(error)
                    if error
                        .status()
                        .is_some_and(|status| status.is_client_error()) =>
                {
                    return Err(svc_sdk::Error::from(error).into());
                }
                Err(_) => {
                    if std::mem::take(&mut is_connected) {
                        context
                            .out
                            .note("the server does not respond; waiting for it");
                    }
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
        if !std::mem::replace(&mut is_connected, true) {
            context.out.note("the server responds again");
        }
        position = next;
        for event in &data {
            if matches!(event, Notification::Reset { .. }) {
                context.out.note("events may be missing");
            }
            print(context, event)?;
        }
    }
}

/// Prints an event: on one line for people, with a status in its color.
fn print(context: &Context, event: &Notification) -> Result<(), Failure> {
    let code = |status: Option<u16>| status.map_or("---".to_owned(), |status| status.to_string());
    let (at, kind, status, after) = match event {
        Notification::Request(request) => {
            let path = &request.path;
            let took = request.duration_ms;
            let silent = if request.status.is_none() {
                ", no response"
            } else {
                ""
            };
            let about = format!("{} {path} in {took} ms{silent}", request.method);
            (request.started_at, "request", code(request.status), about)
        }
        Notification::Attempt(attempt) => {
            let number = attempt.number;
            let url = &attempt.url;
            let took = attempt.duration_ms;
            let error = match (&attempt.error, attempt.status) {
                (Some(error), _) => format!(": {error}"),
                (None, None) => ": no response".to_owned(),
                (None, Some(_)) => String::new(),
            };
            let about = format!("number {number} to {url} in {took} ms{error}");
            (attempt.started_at, "attempt", code(attempt.status), about)
        }
        Notification::Email(email) => {
            let to = email.to.join(", ");
            let about = format!("{} to {to}: {}", email.id, email.subject);
            (
                email.updated_at,
                "email",
                email.status.as_str().to_owned(),
                about,
            )
        }
        Notification::Message(message) => {
            let about = format!(
                "{} to {}: {}",
                message.id, message.recipient, message.subject
            );
            let direction = match message.direction {
                Direction::Outgoing => "outgoing",
                _ => "incoming",
            };
            (message.created_at, "message", direction.to_owned(), about)
        }
        Notification::Delivery(delivery) => {
            let about = format!("{} of {}", delivery.id, delivery.event);
            (
                delivery.updated_at,
                "delivery",
                delivery.state.as_str().to_owned(),
                about,
            )
        }
        // The others have no line of their own.
        _ if context.out.is_table() => return Ok(()),
        _ => return context.out.event("", event),
    };
    let at = context
        .settings
        .env
        .zone
        .at(&DateTime::<Utc>::from(at))
        .format("%H:%M:%S");
    let before = format!("{at}  {kind:<8}  ");
    let gap = " ".repeat(11_usize.saturating_sub(status.len()).max(2));
    context
        .out
        .status_event(&before, &status, &(gap + &after), event)
}
