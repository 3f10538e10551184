//! `/_sandbox/clock`: freezes the server's clock, advances it, lets it go on.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reply, json as reply};
use crate::engine::State;
use crate::error::ApiError;
use crate::openapi::schema;
use crate::time;
use crate::web::Input;

/// One of the three.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ClockChange")]
#[schemars(extend("oneOf" = [
    {"properties": {"freeze": {"const": true}}, "required": ["freeze"]},
    {"properties": {"advance": {"type": "string"}}, "required": ["advance"]},
    {"properties": {"resume": {"const": true}}, "required": ["resume"]},
]))]
pub(crate) struct Change {
    #[schemars(extend("enum" = [true, null]))]
    freeze: Option<bool>,
    #[schemars(with = "Option<schema::Duration>")]
    advance: Option<String>,
    #[schemars(extend("enum" = [true, null]))]
    resume: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Clock {
    #[schemars(with = "schema::Time")]
    now: String,
    frozen: bool,
    /// Nothing is in flight, and nothing due at or before `now`.
    settled: bool,
    #[schemars(with = "Option<schema::Time>")]
    next_due: Option<String>,
}

pub(super) async fn get(input: Input) -> Reply {
    let state = input.app.engine.state().await?;
    show(&state)
}

pub(super) async fn set(mut input: Input) -> Reply {
    let change: Change = input.object().await?;
    let engine = &input.app.engine;
    // Where nothing can be written the clock stays as it is: an advance could
    // not be taken back.
    keep(&input).await?;
    let state = match (change.freeze, change.advance, change.resume) {
        (Some(true), None, None) => engine.freeze().await?,
        (None, Some(duration), None) => {
            let by = time::parse_duration(&duration).ok_or_else(|| {
                ApiError::field("advance", "must be a number with ms, s, m, h or d, such as 90s")
            })?;
            if !time::is_representable(input.app.clock.now().saturating_add(by)) {
                return Err(ApiError::field("advance", "must end before the year 10000"));
            }
            engine.advance(by).await?
        }
        (None, None, Some(true)) => engine.resume().await?,
        _ => {
            let message =
                "must be one of {\"freeze\":true}, {\"advance\":\"90s\"}, {\"resume\":true}";
            return Err(ApiError::field("", message));
        }
    };
    // It has happened, whether or not a restart will know of it.
    keep(&input).await.map_err(|error| {
        let now = time::rfc3339(state.now);
        let why = error.message();
        ApiError::new(error.code(), format!("the clock is at {now}, which was not written: {why}"))
    })?;
    show(&state)
}

/// Writes down how the clock goes: a restart goes on from here. Writes in any
/// case: SQLite takes a row that is replaced by its like for no change, and
/// says nothing of a full disk.
async fn keep(input: &Input) -> Result<(), ApiError> {
    let mode = input.app.clock.mode().to_text();
    let kept = input.app.store.write(move |tx| {
        tx.execute("DELETE FROM meta WHERE key = 'clock'", [])?;
        tx.execute("INSERT INTO meta VALUES ('clock', ?1)", [&mode])?;
        Ok(())
    });
    kept.await
}

fn show(state: &State) -> Reply {
    let clock = Clock {
        now: time::rfc3339(state.now),
        frozen: state.frozen,
        settled: state.settled,
        next_due: state.next_due.map(time::rfc3339),
    };
    reply(StatusCode::OK, &clock)
}
