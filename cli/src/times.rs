//! Times on the command line, relative to the clock that decides about them.

use chrono::{DateTime, FixedOffset, Local};
use serde_json::Value;

use crate::command_spec::is_sandbox;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::input::at::{self, Direction};

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

async fn now(context: &Context) -> Result<DateTime<Local>, Failure> {
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
