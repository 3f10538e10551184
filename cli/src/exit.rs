//! The exit codes (`docs/commands/README.md#exit-codes`).

use crate::failure::Kind;

/// Done.
pub const DONE: u8 = 0;
/// Any failure without a more specific code.
pub const OTHER: u8 = 1;
/// Wrong usage, or input refused before anything was sent.
pub const USAGE: u8 = 2;
/// Not authenticated: no key, or 401.
pub const UNAUTHENTICATED: u8 = 3;
/// The key lacks the scope that the operation needs.
pub const MISSING_SCOPE: u8 = 4;
/// Not found: 404.
pub const NOT_FOUND: u8 = 5;
/// Refused by the service: 400, 409, 413, 415, 422, and any other 403.
pub const REFUSED: u8 = 6;
/// Rate limited after all retries: 429.
pub const RATE_LIMITED: u8 = 7;
/// Not processed, or safe to retry: no connection, timeout, 5xx.
pub const UNAVAILABLE: u8 = 8;
/// Outcome unknown: the request may have been processed. Never reported as 8.
pub const OUTCOME_UNKNOWN: u8 = 9;
/// A check failed.
pub const CHECK_FAILED: u8 = 10;
/// Part of a batch was refused.
pub const PARTLY_REFUSED: u8 = 11;
/// Interrupted by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// The exit code of a kind of failure.
pub const fn code(kind: Kind) -> u8 {
    match kind {
        // A reader such as `head` has read what it wanted.
        Kind::BrokenPipe => DONE,
        Kind::Other => OTHER,
        Kind::Usage | Kind::InvalidInput => USAGE,
        Kind::Unauthenticated => UNAUTHENTICATED,
        Kind::MissingScope => MISSING_SCOPE,
        Kind::NotFound => NOT_FOUND,
        Kind::Refused => REFUSED,
        Kind::RateLimited => RATE_LIMITED,
        Kind::Unavailable => UNAVAILABLE,
        Kind::OutcomeUnknown => OUTCOME_UNKNOWN,
        Kind::CheckFailed => CHECK_FAILED,
        Kind::PartlyRefused => PARTLY_REFUSED,
        Kind::Interrupted => INTERRUPTED,
    }
}

/// Every code with its meaning, for `svc schema` and the manual.
pub const TABLE: [(u8, &str); 13] = [
    (DONE, "done"),
    (OTHER, "any other failure"),
    (USAGE, "wrong usage, or input refused before anything was sent"),
    (UNAUTHENTICATED, "not authenticated: no key, or 401"),
    (
        MISSING_SCOPE,
        "the key lacks the scope; the message names the scope that the operation needs",
    ),
    (NOT_FOUND, "not found: 404"),
    (REFUSED, "refused by the service: 400, 409, 413, 415, 422, and any other 403"),
    (RATE_LIMITED, "rate limited after all retries: 429"),
    (UNAVAILABLE, "not processed, or safe to retry: no connection, timeout, 5xx"),
    (
        OUTCOME_UNKNOWN,
        "outcome unknown: the request may have been processed, or --wait ended before the final status",
    ),
    (
        CHECK_FAILED,
        "a check failed: signature mismatch, domain not verified, test delivery not 2xx, receiver not certified, email bounced, failed or cancelled",
    ),
    (PARTLY_REFUSED, "part of a batch was refused"),
    (INTERRUPTED, "interrupted"),
];
