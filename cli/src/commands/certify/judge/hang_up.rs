//! What becomes of a delivery whose sender disconnects before the response.

use std::time::Duration;

use tokio::time::Instant;

use super::super::exam::{Exam, Finding, Received};
use super::super::request::Request;
use super::repeated_line;
use crate::deliver::RESPONSE_TIMEOUT;

/// Handlers that take less time are not interrupted, because it could not be told whether they
/// finished before the disconnection.
const SHORTEST: Duration = Duration::from_secs(2);
/// How exactly the time of a handler is known.
const MARGIN: Duration = Duration::from_millis(500);

const ADVICE: &str = "check that the receiver marks an id as handled only when its handler has \
                      finished, and that the handler finishes without its sender";

/// A delivery whose sender has disconnected is not lost.
///
/// From outside, only the response to the repeated delivery can be seen. If it is 2xx before the
/// handler can have finished, the receiver has marked the delivery as handled too early.
pub(super) async fn hang_up(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let mut started = Instant::now();
    let first = exam.send(check, &requests[0]).await;
    let took = started.elapsed();
    let (request, cut) = if first.timed_out() {
        (&requests[0], RESPONSE_TIMEOUT)
    } else if let Some(finding) = without_disconnection(&first, took) {
        return finding;
    } else {
        started = Instant::now();
        let cut = exam.send_within(check, &requests[1], took / 2).await;
        if !cut.timed_out() {
            return cannot_tell(&format!("{first} after {:.1} s, then {cut}", took.as_secs_f64()));
        }
        (&requests[1], took / 2)
    };

    let line = || {
        let times = format!("for t in {:.1} 10 10; do ", cut.as_secs_f64());
        repeated_line(exam, request, &times, " -m $t; done")
    };
    let disconnected = format!("after the disconnection at {:.1} s", cut.as_secs_f64());
    let again = match exam.until_accepted(check, request).await {
        Ok(again) => again,
        Err(last) => {
            let received = format!("never accepted {disconnected}; at last {last}");
            return exam.not_passed(received, request).reproduced_by(line());
        }
    };
    let accepted_after = started.elapsed();
    let received = format!(
        "{again} to the repeated delivery, {:.1} s {disconnected}",
        (accepted_after - cut).as_secs_f64()
    );
    // The time of the first delivery may have been an exception.
    let started = Instant::now();
    let limit = accepted_after + SHORTEST;
    let last = exam.send_within(check, &requests[2], limit).await;
    let mut whole = started.elapsed();
    if first.is_accepted() {
        whole = whole.min(took);
    }
    if !last.is_accepted() && !last.timed_out() {
        return cannot_tell(&format!("{received}; another delivery: {last}"));
    }
    if accepted_after + MARGIN < whole {
        let at_least = if last.timed_out() { "at least " } else { "" };
        let received = format!(
            "{received}, though the handler takes {at_least}{:.1} s: the delivery is lost if the \
             handler was stopped, or fails",
            whole.as_secs_f64()
        );
        return exam.not_passed(received, request).reproduced_by(line());
    }
    if accepted_after < cut + MARGIN {
        return cannot_tell(&format!(
            "{received}, and the handler takes {:.1} s",
            whole.as_secs_f64()
        ));
    }
    exam.passed(received, request).reproduced_by(line())
}

/// The finding, if the first response and its time leave nothing to interrupt.
fn without_disconnection(first: &Received, took: Duration) -> Option<Finding> {
    if !first.is_accepted() {
        return Some(Finding::skipped(format!("{first}: not accepted")));
    }
    (took < SHORTEST).then(|| {
        cannot_tell(&format!(
            "{first} after {:.2} s, before any sender disconnects (to have it examined, let the \
             handler take 3 s)",
            took.as_secs_f64()
        ))
    })
}

fn cannot_tell(received: &str) -> Finding {
    Finding::skipped(format!("cannot tell from outside: {received}; {ADVICE}"))
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;
    use hyper::header::HeaderMap;
    use hyper::http::Extensions;

    use super::*;
    use crate::commands::certify::exam::Verdict;
    use crate::deliver::DeliveryResponse;

    #[test]
    fn a_fast_handler_is_not_said_to_survive_a_disconnection() {
        let judged = |status, milliseconds| {
            let duration = Duration::from_millis(milliseconds);
            let (headers, body, extensions) = (HeaderMap::new(), Bytes::new(), Extensions::new());
            let received = DeliveryResponse { status, headers, body, extensions, duration };
            without_disconnection(&Received(Ok(received)), duration)
        };
        for (status, milliseconds, said) in [
            (204, 20, "cannot tell from outside: 204 after 0.02 s, before any sender disconnects"),
            (200, 1999, "cannot tell from outside: 200 after 2.00 s, before any sender"),
            (401, 20, "401: not accepted"),
        ] {
            let finding = judged(status, milliseconds).expect("no disconnection");
            assert_eq!(finding.verdict, Verdict::Skipped);
            assert!(finding.received.starts_with(said), "{}", finding.received);
        }
        // One that takes longer is interrupted.
        assert!(judged(204, 2000).is_none());
    }
}
