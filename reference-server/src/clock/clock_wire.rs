//! The clock in the control interface: the endpoints of `/_sandbox/clock`, `/_sandbox/settle` and
//! `/_sandbox/due`, their types, and the methods of `Client`. One clock serves all organizations; a
//! list of `Due` work is of one. `ClockChange` has exactly one field. Times are those of the
//! server's clock, but the limits of an advance and of `settle` are real time. `clock_api.rs`
//! handles the requests, and `engine.rs` moves the clock.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::{Client, Cursor, Endpoint, GET, POST, Page, Request, requests};
use crate::model::time::duration_text;
use crate::model::{Timestamp, schema};

requests! {
    /// Returns the state of the clock, which all organizations of the server share.
    CLOCK: fn clock() -> Clock = Endpoint::new(GET, "sandboxClockGet", "/_sandbox/clock", "Get the clock").of_server();

    /// Lists what an organization has due, earliest first.
    DUE: fn due() -> Page<Due> = Endpoint::list(
        "sandboxDueList",
        "/_sandbox/due",
        "List what is due next",
        Cursor::Text,
    );

    /// Runs what is due later about an email, a message or a delivery now.
    RUN: fn run_due(id) -> () = Endpoint::new(
        POST,
        "sandboxDueRun",
        "/_sandbox/due/{id}/run",
        "Run what is due later about an email, a message or a delivery now",
    );
}

pub(crate) const CHANGE: Endpoint<ClockChange, Clock> = Endpoint::new(
    POST,
    "sandboxClockChange",
    "/_sandbox/clock",
    "Change the clock: freeze, advance or resume it, or set it to real time",
)
.of_server();

pub(crate) const SETTLE: Endpoint<Settle, Clock> = Endpoint::new(
    POST,
    "sandboxSettle",
    "/_sandbox/settle",
    "Settle: wait until all that is due has happened",
)
.of_server()
.optional_body()
.changes_nothing();

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    /// How long to wait, in real time, at most `10m`. Default: `30s`. Then the status is 408.
    #[schemars(with = "Option<schema::Duration>")]
    pub(crate) timeout: Option<String>,
}

/// How long it waits by default until all that is due has happened, and at most.
pub(crate) const SETTLE_TIMEOUT: [Duration; 2] = [Duration::from_secs(30), MAX_ADVANCE];

/// Exactly one of the fields; `freeze`, `resume` and `real` are true.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{"advance": "24h"}]))]
pub(crate) struct ClockChange {
    pub(crate) freeze: Option<bool>,
    #[schemars(with = "Option<schema::Duration>")]
    pub(crate) advance: Option<String>,
    pub(crate) resume: Option<bool>,
    /// Back to the time of the server's computer, and running.
    pub(crate) real: Option<bool>,
}

/// The state of the server's clock.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Clock {
    /// The clock's time.
    pub now: Timestamp,
    /// Whether it stands still.
    pub frozen: bool,
    /// Whether no work is in progress and none is due at or before `now`.
    pub settled: bool,
    /// When the next work is due.
    pub next_due: Option<Timestamp>,
    /// How far it is ahead of the clock of the server's computer, in milliseconds; negative if it is
    /// behind it.
    pub ahead: i64,
}

/// Something that is due.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Due {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// `email`: it is sent; `recipient`: a delayed one gets an email; `relay`: an email goes there;
    /// `message`: a received one is announced; `delivery`: an attempt of it is made; `expiry`: of an
    /// idempotency key.
    #[schemars(extend("enum" = ["email", "recipient", "relay", "message", "delivery", "expiry"]))]
    pub kind: String,
    /// The ID of the email, of the message or of the delivery; the key of an expiry.
    pub subject: String,
    /// The event as a sentence: what happens, to whom and why.
    pub description: String,
}

/// How long an advance may take: it runs all work that falls due.
const MAX_ADVANCE: Duration = Duration::from_secs(600);

impl Client {
    /// Freezes the clock.
    pub fn freeze(&self) -> Request<Clock> {
        self.change(&ClockChange {
            freeze: Some(true),
            ..ClockChange::default()
        })
    }

    /// Advances the clock, and waits until everything that falls due is done.
    pub fn advance(&self, by: Duration) -> Request<Clock> {
        let advance = Some(duration_text(by));
        self.change(&ClockChange {
            advance,
            ..ClockChange::default()
        })
    }

    /// Lets the clock continue from its own time.
    pub fn resume(&self) -> Request<Clock> {
        self.change(&ClockChange {
            resume: Some(true),
            ..ClockChange::default()
        })
    }

    /// Sets the clock to the time of the server's computer, even if this sets it back, and lets it run.
    ///
    /// Work that was scheduled while the clock was ahead keeps its times.
    pub fn real_time(&self) -> Request<Clock> {
        self.change(&ClockChange {
            real: Some(true),
            ..ClockChange::default()
        })
    }

    /// Waits until all that is due has happened: mail, events and deliveries. That is: no work is
    /// in progress, and none is due at or before the time of the clock.
    ///
    /// # Errors
    ///
    /// With status 408 after `timeout`, in real time, at most ten minutes.
    pub fn settle(&self, timeout: Duration) -> Request<Clock> {
        let settle = Settle {
            timeout: Some(duration_text(timeout)),
        };
        self.send(&SETTLE, &[], &settle).waits(timeout)
    }

    fn change(&self, change: &ClockChange) -> Request<Clock> {
        self.send(&CHANGE, &[], change).waits(MAX_ADVANCE)
    }
}
