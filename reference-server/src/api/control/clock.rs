//! `/_sandbox/clock`: freezes, advances and resumes the server's clock
//! (`docs/control-interface.md#the-clock`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::{Input, Json, JsonBody};
use crate::engine::{Command, State};
use crate::model::error::ApiError;
use crate::model::schema;
use crate::model::time;
use crate::model::timestamp::Timestamp;

/// Exactly one of the fields.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClockChange")]
#[schemars(extend("oneOf" = [
    {"properties": {"freeze": {"const": true}}, "required": ["freeze"]},
    {"properties": {"advance": {"type": "string"}}, "required": ["advance"]},
    {"properties": {"resume": {"const": true}}, "required": ["resume"]},
]))]
pub(crate) struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true, null]))]
    pub(crate) freeze: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Duration>")]
    pub(crate) advance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [true, null]))]
    pub(crate) resume: Option<bool>,
}

/// The state of the server's clock.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Clock {
    /// Its time.
    pub now: Timestamp,
    /// Whether it stands still.
    pub frozen: bool,
    /// Whether no work is in progress and none is due at or before `now`.
    pub settled: bool,
    /// When the next work is due.
    pub next_due: Option<Timestamp>,
}

pub(crate) async fn get(input: Input) -> Result<Json<Clock>, ApiError> {
    show(&input.app.engine.send(Command::State).await?)
}

pub(crate) async fn set(mut input: Input, body: JsonBody<Change>) -> Result<Json<Clock>, ApiError> {
    let change = body.read(&mut input).await?;
    let command = match (change.freeze, change.advance, change.resume) {
        (Some(true), None, None) => Command::Freeze,
        (None, Some(duration), None) => {
            let by = time::parse_duration(&duration).ok_or_else(|| {
                ApiError::field("advance", "must be a number with ms, s, m, h or d, such as 90s")
            })?;
            if !time::is_representable(input.app.clock.now().saturating_add(by)) {
                return Err(ApiError::field(
                    "advance",
                    "must not move the clock beyond the year 9999",
                ));
            }
            Command::Advance(by)
        }
        (None, None, Some(true)) => Command::Resume,
        _ => {
            let message =
                "must be one of {\"freeze\":true}, {\"advance\":\"90s\"}, {\"resume\":true}";
            return Err(ApiError::field("", message));
        }
    };
    show(&input.app.engine.send(command).await?)
}

fn show(state: &State) -> Result<Json<Clock>, ApiError> {
    let clock = Clock {
        now: state.now.into(),
        frozen: state.frozen,
        settled: state.settled,
        next_due: state.next_due.map(Timestamp::from),
    };
    Json::of(&clock)
}
