//! Times on the command line, relative to the clock that decides about them.

use chrono::{DateTime, FixedOffset, Local, Offset as _, TimeDelta, Utc};
use svc_sdk::email::ScheduledAt;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::input::at::{self, Direction};
use crate::input::iso8601::Iso8601;
use crate::zone::Zone;

/// How far a send time may be in the past and still mean now.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(1);

/// Reads the time of an option. Returns it with the current time: the sandbox's, whose clock may
/// have been advanced, or this machine's.
pub async fn read(
    context: &Context,
    option: &str,
    text: &str,
    direction: Direction,
) -> Result<(DateTime<FixedOffset>, DateTime<FixedOffset>), Failure> {
    context.settings.zone()?;
    let now = now(context).await?;
    Ok((parse(context, option, text, &now, direction)?, now))
}

/// Parses the time of an option, in the zone of the run.
pub fn parse(
    context: &Context,
    option: &str,
    text: &str,
    now: &DateTime<FixedOffset>,
    direction: Direction,
) -> Result<DateTime<FixedOffset>, Failure> {
    let parsed = match context.settings.zone()? {
        Zone::Local => at::parse(text, &now.with_timezone(&Local), direction),
        Zone::Fixed(_) => at::parse(text, now, direction),
    };
    parsed.map_err(|error| Failure::usage(format!("{option}: {error}")))
}

/// Like [`read`], as text for the sandbox's control interface.
pub async fn after(context: &Context, text: Option<&str>) -> Result<Option<String>, Failure> {
    past(context, "--after", text).await
}

/// Like [`after`], for another option.
pub async fn past(
    context: &Context,
    option: &str,
    text: Option<&str>,
) -> Result<Option<String>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let (instant, _) = read(context, option, text, Direction::Past).await?;
    Ok(Some(instant.to_rfc3339()))
}

/// Reads the time of `--at`, which must not be in the past. Returns it with the current time.
pub async fn read_schedule(
    context: &Context,
    words: &str,
) -> Result<(DateTime<FixedOffset>, DateTime<FixedOffset>), Failure> {
    let (instant, now) = read(context, "--at", words, Direction::Future).await?;
    check_schedule(&ScheduledAt::at(&instant), &now, true).map_err(|problem| {
        Failure::usage(format!("--at: {problem}"))
            .hint("give a later time, or omit --at to send now")
    })?;
    Ok((instant, now))
}

/// Checks that the time of a scheduled email is not in the past, in whichever form of ISO 8601: a
/// service would send it at once. A time without a zone is in the past if it is there in UTC or here.
/// A text in another form, which a service may read as a time in the past, is refused if `is_strict`.
pub fn check_schedule(
    at: &ScheduledAt,
    now: &DateTime<FixedOffset>,
    is_strict: bool,
) -> Result<(), String> {
    let Some(time) = Iso8601::parse(at.as_str()) else {
        return if is_strict {
            Err("not a time in ISO 8601, such as 2026-12-01T09:00:00Z".to_owned())
        } else {
            Ok(())
        };
    };

    let in_zone = |zone: FixedOffset| time.local.and_local_timezone(zone).single();
    let instant = match time.offset {
        Some(zone) => in_zone(zone),
        None => in_zone(*now.offset()).min(in_zone(Utc.fix())),
    };
    let Some(instant) = instant.filter(|instant| *instant < *now - CLOCK_SKEW) else {
        return Ok(());
    };

    let shown = instant.with_timezone(&now.timezone());
    let shown = shown.format("%Y-%m-%d %H:%M:%S %:z");
    let without_zone = match time.offset {
        Some(_) => "",
        None => "; a time without a zone may be read as UTC: add Z or an offset such as +01:00",
    };
    Err(format!("{shown} is in the past{without_zone}"))
}

/// The time of the clock that decides about scheduled emails.
pub async fn now(context: &Context) -> Result<DateTime<FixedOffset>, Failure> {
    let zone = context.settings.env.zone;
    let uses_sandbox = context.settings.sandbox || context.command.is_of_sandbox;
    if !uses_sandbox {
        return Ok(zone.at(&Utc::now()));
    }
    let client = control::client(context).await?;
    let clock = control::read(context, client.clock()).await?;
    Ok(zone.at(&clock.now))
}
