//! Times on the command line, relative to the clock that decides about them.

use chrono::{DateTime, FixedOffset, Local, TimeDelta};
use serde_json::Value;
use svc_sdk::email::ScheduledAt;

use crate::command_spec::is_sandbox;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::input::at::{self, Direction};
use crate::output::local_time;

/// How far a send time may be in the past and still mean now.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(1);

/// Reads the time of an option. Returns it with the current time: the sandbox's, whose clock may
/// have been advanced, or this machine's.
pub async fn read(
    context: &Context,
    option: &str,
    text: &str,
    direction: Direction,
) -> Result<(DateTime<FixedOffset>, DateTime<Local>), Failure> {
    let now = now(context).await?;
    let instant = at::parse(text, &now, direction)
        .map_err(|error| Failure::usage(format!("{option}: {error}")))?;
    Ok((instant, now))
}

/// As [`read`], as text for the local server's control interface.
pub async fn after(context: &Context, text: Option<&str>) -> Result<Option<String>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let (instant, _) = read(context, "--after", text, Direction::Past).await?;
    Ok(Some(instant.to_rfc3339()))
}

/// Checks that the time of a scheduled email is not in the past. The service decides about a time
/// that it reads differently: one in another format than RFC 3339.
pub fn check_schedule(at: &ScheduledAt, now: &DateTime<Local>) -> Result<(), String> {
    match DateTime::parse_from_rfc3339(at.as_str()) {
        Ok(instant) if instant < *now - CLOCK_SKEW => {
            Err(format!("{} is in the past", local_time(at.as_str())))
        }
        _ => Ok(()),
    }
}

/// The time of the clock that decides about scheduled emails.
pub async fn now(context: &Context) -> Result<DateTime<Local>, Failure> {
    let uses_sandbox = context.settings.sandbox || is_sandbox(context.command);
    if !uses_sandbox || context.settings.dry_run {
        return Ok(Local::now());
    }
    let clock = control::fetch_value(context, Request::get("/_sandbox/clock")).await?;
    let now = clock.get("now").and_then(Value::as_str).map(DateTime::parse_from_rfc3339);
    match now {
        Some(Ok(now)) => Ok(now.with_timezone(&Local)),
        _ => Ok(Local::now()),
    }
}
