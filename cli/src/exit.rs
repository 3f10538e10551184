//! The exit codes (`docs/commands/README.md#exit-codes`).

use crate::failure::Kind;

/// Done.
pub const DONE: u8 = 0;
/// Wrong usage, or input refused before anything was sent.
pub const USAGE: u8 = 2;

/// The exit code of a kind of failure.
pub const fn code(kind: Kind) -> u8 {
    match kind {
        // A reader such as `head` has read what it wanted.
        Kind::BrokenPipe | Kind::Shown => DONE,
        Kind::Other => 1,
        Kind::Usage | Kind::InvalidInput => USAGE,
        Kind::Unauthenticated => 3,
        Kind::MissingScope => 4,
        Kind::NotFound => 5,
        Kind::Refused => 6,
        Kind::RateLimited => 7,
        Kind::Unavailable => 8,
        Kind::OutcomeUnknown => 9,
        Kind::CheckFailed => 10,
        Kind::PartlyRefused => 11,
        Kind::Interrupted => 130,
    }
}

/// Every code with its meaning, for `svc schema` and the manual. 9 is never reported as 8.
pub const TABLE: [(u8, &str); 13] = [
    (0, "success"),
    (1, "any other failure"),
    (2, "wrong usage, or input refused before anything was sent"),
    (3, "not authenticated: no key, or 401"),
    (
        4,
        "the key lacks the scope; the message names the scope that the operation needs",
    ),
    (5, "not found: 404 or 410"),
    (
        6,
        "refused by the service: 400, 409, 413, 415, 422, and any other 403",
    ),
    (7, "rate limited after all retries: 429"),
    (
        8,
        "not processed, or safe to retry: no connection, timeout, 5xx",
    ),
    (
        9,
        "outcome unknown: the request may have been processed, an email of svc bulk may have been accepted, or --wait ended before the email's final status",
    ),
    (
        10,
        "a check failed: signature mismatch, domain not verified, test delivery not 2xx, receiver not certified, reference broken, email bounced, failed or cancelled",
    ),
    (11, "part of a batch, an import or a bulk job was refused"),
    (130, "interrupted"),
];
