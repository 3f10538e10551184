//! `/_sandbox/clock`: freezes, advances and resumes the server's clock
//! (`docs/control-interface.md#the-clock`).

use crate::api::app::App;
use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json};
use crate::control::clock::{self, Clock, ClockChange};
use crate::engine::State;
use crate::model::error::ApiError;
use crate::model::time;
use crate::model::timestamp::Timestamp;
use crate::store::meta;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox server");
    r.control(clock::CLOCK, get);
    r.control(clock::CHANGE, set);
}

pub(crate) async fn get(call: ControlCall) -> Result<Json<Clock>, ApiError> {
    show(&call.app().engine.state().await?)
}

pub(crate) async fn set(call: ControlCall<ClockChange>) -> Result<Json<Clock>, ApiError> {
    let (app, change) = (call.app(), &call.body);
    let engine = &app.engine;
    // Fail before the change if the database is not writable: an advance cannot be undone.
    save(app).await?;
    let state = match (change.freeze, &change.advance, change.resume) {
        (Some(true), None, None) => engine.freeze().await?,
        (None, Some(duration), None) => {
            let by = time::parse_duration(duration).ok_or_else(|| {
                ApiError::field("advance", "must be a number with ms, s, m, h or d, such as 90s")
            })?;
            if !time::is_representable(app.clock.now().saturating_add(by)) {
                let message = "must not move the clock beyond the year 9999";
                return Err(ApiError::field("advance", message));
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
    // The clock has changed, even if that cannot be saved.
    save(app).await.map_err(|error| {
        let (now, why) = (time::rfc3339(state.now), error.message());
        let message = format!("the clock is now at {now}, but this was not saved: {why}");
        ApiError::new(error.code(), message)
    })?;
    show(&state)
}

/// Saves the state of the clock, so that it continues from there after a restart.
async fn save(app: &App) -> Result<(), ApiError> {
    let mode = app.clock.mode();
    app.store.write(move |tx| meta::set_clock(tx, mode)).await
}

fn show(state: &State) -> Result<Json<Clock>, ApiError> {
    Json::of(&Clock {
        now: state.now.into(),
        frozen: state.frozen,
        settled: state.settled,
        next_due: state.next_due.map(Timestamp::from),
    })
}
