//! `/_sandbox/clock`: freezes, advances and resumes the server's clock, and sets it to real time
//! (`docs/control-interface.md#the-clock`).

use std::sync::Arc;

use crate::clock::clock_wire::{Clock, ClockChange, Due, SETTLE_TIMEOUT, Settle};
use crate::control::Page;
use crate::control::query::timeout;
use crate::http::ControlCall;
use crate::jobs::{Command, job_rows};
use crate::model::{Code, Failure, Result, time};

pub(crate) async fn get(call: ControlCall) -> Result<Clock> {
    call.app.engine.send(Command::State).await
}

pub(crate) async fn set(call: ControlCall<ClockChange>) -> Result<Clock> {
    let app = &call.app;
    let change = &call.body;
    let command = match (change.freeze, &change.advance, change.resume, change.real) {
        (Some(true), None, None, None) => Command::Freeze,
        (None, Some(duration), None, None) => {
            let by = time::parse_duration(duration).ok_or_else(|| {
                Failure::field(
                    "advance",
                    "must be a number with ms, s, m, h or d, such as 90s",
                )
            })?;
            Command::Advance(by)
        }
        (None, None, Some(true), None) => Command::Resume,
        (None, None, None, Some(true)) => Command::Real,
        _ => {
            let message = "must be one of {\"freeze\":true}, {\"advance\":\"90s\"}, {\"resume\":true}, {\"real\":true}";
            return Err(Failure::field("", message));
        }
    };
    app.engine.send(command).await
}

/// Waits until nothing is in progress and nothing is due. Returns 408 after `timeout`, in real time.
pub(crate) async fn settle(call: ControlCall<Settle>) -> Result<Clock> {
    let timeout = timeout(call.body.timeout.as_deref(), SETTLE_TIMEOUT)?;
    let settled = call.app.engine.send(Command::Settle);
    match tokio::time::timeout(timeout, settled).await {
        Ok(clock) => clock,
        Err(_) => {
            let message = format!(
                "work is still in progress after {timeout:?}; an attempt of a delivery takes up to \
                 10s if the webhook does not respond"
            );
            Err(Failure::new(Code::RequestTimeout, message))
        }
    }
}

/// Lists what is due, earliest first.
pub(crate) async fn due(call: ControlCall) -> Result<Page<Due>> {
    let limit = call.limit;
    let app = Arc::clone(&call.app);
    let offset = call.cursor.as_deref().unwrap_or("0").parse::<u32>();
    let invalid = |_| Failure::field("cursor", "must be the `next` value of the previous page");
    let offset = offset.map_err(invalid)?;
    let found = call.read(move |reader, organization| {
        let now = app.clock.now();
        let has_relay = app.relay.is_some();
        job_rows::upcoming(reader, organization, now, has_relay, limit + 1, offset)
    });
    let next = offset.saturating_add(limit as u32);
    Ok(Page::of(found.await?, limit, |_| next.to_string()))
}

/// Runs what is due later about one subject now.
pub(crate) async fn run(call: ControlCall) -> Result<()> {
    let id = call.id();
    let run = call.write(move |tx, _, of| job_rows::hasten(tx, of, &id));
    run.await
}
