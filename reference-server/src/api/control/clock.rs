//! `/_sandbox/clock`: freezes, advances and resumes the server's clock, and sets it to real time
//! (`docs/control-interface.md#the-clock`).

use crate::api::framework::ControlCall;
use crate::app::engine_handle::Command;
use crate::control::clock::{Clock, ClockChange, SETTLE_TIMEOUT, Settle};
use crate::control::query::timeout;
use crate::model::error::{ApiError, Code};
use crate::model::time;

pub(crate) async fn get(call: ControlCall) -> Result<Clock, ApiError> {
    call.data.app.engine.send(Command::State).await
}

pub(crate) async fn set(call: ControlCall<ClockChange>) -> Result<Clock, ApiError> {
    let (app, change) = (&call.data.app, &call.body);
    let command = match (change.freeze, &change.advance, change.resume, change.real) {
        (Some(true), None, None, None) => Command::Freeze,
        (None, Some(duration), None, None) => {
            let by = time::parse_duration(duration).ok_or_else(|| {
                ApiError::field(
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
            return Err(ApiError::field("", message));
        }
    };
    app.engine.send(command).await
}

/// Waits until nothing is in progress and nothing is due. Returns 408 after `timeout`, in real time.
pub(crate) async fn settle(call: ControlCall<Settle>) -> Result<Clock, ApiError> {
    let timeout = timeout(call.body.timeout.as_deref(), SETTLE_TIMEOUT)?;
    let settled = call.data.app.engine.send(Command::Settle);
    match tokio::time::timeout(timeout, settled).await {
        Ok(clock) => clock,
        Err(_) => {
            let message = format!(
                "work is still in progress after {timeout:?}; an attempt of a delivery takes up to \
                 10s if the webhook does not respond"
            );
            Err(ApiError::new(Code::RequestTimeout, message))
        }
    }
}
