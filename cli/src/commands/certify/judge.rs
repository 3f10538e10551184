//! Judges the responses to the requests of a check.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};

use super::exam::{Exam, Finding, Received};
use super::request::Request;
use crate::deliver::{DeliveryResponse, RESPONSE_TIMEOUT};

/// Half of the service's timeout.
const SLOW: Duration = Duration::from_secs(5);
/// The size of the body of [`size_limit`], and of its pieces.
const LARGE: u64 = 32 << 20;
const PIECE: u64 = 64 << 10;
/// The pace of [`body_deadline`], and the time after which it ends.
const DRIP: Duration = Duration::from_millis(500);
const DRIPPING: Duration = Duration::from_secs(15);
/// Announced by [`body_deadline`]: more than it sends.
const DRIPPED: u64 = 4096;

mod hang_up;

/// How what comes back is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judge {
    /// Every request gets a 2xx response.
    Accepted,
    Refused,
    BytesVerified,
    Repeated,
    Simultaneous,
    RevealsSignature,
    RefusalReason,
    OldSecret,
    ResponseTime,
    HangUp,
    SizeLimit,
    BodyDeadline,
}

impl Judge {
    /// Sends the requests of a check and judges what comes back.
    pub(super) async fn examine(self, exam: &Exam, check: &str, requests: &[Request]) -> Finding {
        match self {
            Self::Accepted => all(exam, check, requests, Received::is_accepted).await,
            Self::Refused => refused(exam, check, requests).await,
            Self::BytesVerified => bytes_verified(exam, check, requests).await,
            Self::Repeated => repeated(exam, check, requests).await,
            Self::Simultaneous => simultaneous(exam, check, requests).await,
            Self::RevealsSignature => reveals_signature(exam, check, requests).await,
            Self::RefusalReason => refusal_reason(exam, check, requests).await,
            Self::OldSecret => old_secret(exam, check, requests).await,
            Self::ResponseTime => response_time(exam, check, requests).await,
            Self::HangUp => hang_up::hang_up(exam, check, requests).await,
            Self::SizeLimit => size_limit(exam, check, requests).await,
            Self::BodyDeadline => body_deadline(exam, check, requests).await,
        }
    }
}

/// Every request gets a response, and not a 2xx one.
async fn refused(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let timed_out = Cell::new(false);
    let is_refused = |received: &Received| {
        timed_out.set(received.timed_out());
        received.is_refused() && !received.timed_out()
    };
    let found = all(exam, check, requests, is_refused).await;
    match timed_out.get() {
        // A slow receiver may have accepted it.
        true => Finding::skipped(format!("cannot tell from outside: {}", found.received)),
        false => found,
    }
}

/// The signature is not blamed for the encoding of the body.
async fn bytes_verified(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let is_fine = |received: &Received| {
        received.is_accepted()
            || received.status().is_some_and(|status| {
                (400..500).contains(&status) && status != 401 && status != 403
            })
    };
    all(exam, check, requests, is_fine).await
}

/// Sends the requests until a response is not as expected.
async fn all(
    exam: &Exam,
    check: &str,
    requests: &[Request],
    is_expected: impl Fn(&Received) -> bool,
) -> Finding {
    let mut seen = Vec::new();
    for request in requests {
        let received = exam.send(check, request).await;
        if !is_expected(&received) {
            return match request.name {
                Some(name) => exam.not_passed(format!("{name}: {received}"), request),
                None => exam.not_passed(received, request),
            };
        }
        let received = received.to_string();
        if !seen.contains(&received) {
            seen.push(received);
        }
    }
    match requests.first() {
        Some(first) => exam.passed(seen.join(", "), first),
        None => Finding::skipped("nothing to send"),
    }
}

/// A delivery is accepted again.
async fn repeated(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let first = exam.send(check, request).await;
    let second = match first.is_accepted() {
        true => exam.send(check, request).await,
        false => return Finding::skipped(format!("{first}: not accepted the first time")),
    };
    let mut received = format!("{first}, then {second}");
    if second.is_accepted() {
        let id = &request.id;
        let _ = write!(received, " (only the receiver's own records show if it handled {id} once)");
    }
    let finding = match second.is_accepted() {
        true => exam.passed(received, request),
        false => exam.not_passed(received, request),
    };
    let line = repeated_line(exam, request, "for n in 1 2; do ", "; done");
    finding.reproduced_by(line)
}

/// The same delivery three times at once: each is accepted, at once or later.
async fn simultaneous(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let all = join_all((0..3).map(|_| exam.send(check, request))).await;
    let mut statuses = all.iter().map(ToString::to_string).collect::<Vec<_>>();
    statuses.sort_unstable();
    let mut received = statuses.join(", ");
    let mut is_fine = all.iter().all(|received| received.is_accepted() || received.asks_to_retry());
    if is_fine && !all.iter().all(Received::is_accepted) {
        let later = exam.until_accepted(check, request).await;
        is_fine = later.is_ok();
        let (Ok(later) | Err(later)) = later;
        received = format!("{received}; later {later}");
    }
    let finding = match is_fine {
        true => exam.passed(received, request),
        false => exam.not_passed(received, request),
    };
    let line = repeated_line(exam, request, "for n in 1 2 3; do ", " & done; wait");
    finding.reproduced_by(line)
}

/// The request in a loop of the shell.
fn repeated_line(exam: &Exam, request: &Request, before: &str, after: &str) -> String {
    // The loop must repeat one delivery, and `svc trigger` would send a new one each time.
    let body = request.body.clone();
    let line = exam.sender.command(&request.clone().with_body(body));
    match line.find("curl ") {
        Some(at) => format!("{}{before}{}{after}", &line[..at], &line[at..]),
        None => line,
    }
}

/// The response to a forged delivery contains the correct signature.
async fn reveals_signature(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let received = exam.send(check, request).await;
    if !received.is_connected() {
        return exam.not_passed(received, request);
    }
    let Received(Ok(response)) = &received else { return exam.passed(received, request) };
    let digits = exam.sender.digits(&request.body);
    let is_revealed = text_of(response).to_lowercase().contains(&digits);
    match is_revealed {
        true => exam.not_passed(format!("{received}, with the correct signature"), request),
        false => exam.passed(received, request),
    }
}

/// The headers and the body of a response.
fn text_of(response: &DeliveryResponse) -> String {
    let headers = response.headers.values().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let headers = headers.collect::<Vec<_>>().join("\n");
    format!("{headers}\n{}", String::from_utf8_lossy(&response.body))
}

/// All refusals look the same.
async fn refusal_reason(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut different = None;
    for request in requests {
        let received = exam.send(check, request).await;
        if !received.is_refused() {
            return Finding::skipped(format!("{received}: not refused"));
        }
        let body = match &received.0 {
            Ok(response) => without_numbers(&String::from_utf8_lossy(&response.body)),
            Err(_) => String::new(),
        };
        if seen.first().is_some_and(|first| *first != (received.to_string(), body.clone())) {
            different = different.or(Some(request));
        }
        seen.push((received.to_string(), body));
    }
    let mut statuses = seen.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
    let Some(request) = different else {
        statuses.dedup();
        return exam.passed(statuses.join(", "), &requests[0]);
    };
    let texts = match statuses.windows(2).all(|pair| pair[0] == pair[1]) {
        true => format!("{} with different texts", statuses[0]),
        false => statuses.join(", "),
    };
    exam.not_passed(texts, request)
}

/// A text without the words that contain digits, such as times and request ids.
fn without_numbers(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

/// A delivery that is signed with the old secret is accepted.
async fn old_secret(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    match exam.sender.old_secret {
        Some(_) => all(exam, check, requests, Received::is_accepted).await,
        None => Finding::skipped("give the old secret with --old-secret-file"),
    }
}

/// All deliveries so far, and one more, were accepted quickly.
async fn response_time(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let received = exam.send(check, request).await;
    let slowest = exam.slowest.get();
    match received.is_accepted() {
        false => Finding::skipped(format!("{received}: not accepted")),
        true if slowest <= SLOW => {
            exam.passed(format!("{} ms at most", slowest.as_millis()), request)
        }
        true => exam.not_passed(format!("{:.1} s", slowest.as_secs_f64()), request),
    }
}

/// A large body is refused before it has arrived.
async fn size_limit(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let piece = Bytes::from(vec![b' '; PIECE as usize]);
    let pieces = stream::iter((0..LARGE / PIECE).map(move |_| {
        counted.fetch_add(PIECE, Ordering::Relaxed);
        Ok::<_, io::Error>(Frame::data(piece.clone()))
    }));
    let delivery = exam.sender.delivery(check, request);
    let body = StreamBody::new(pieces);
    let received = exam.deliverer.post_stream(&delivery, LARGE, body, RESPONSE_TIMEOUT).await;
    let received = Received(received);
    let sent = sent.load(Ordering::Relaxed);
    let mebibytes = sent as f64 / f64::from(1 << 20);
    let finding = if !received.is_connected() {
        exam.is_lost.set(true);
        Finding::skipped(received.to_string())
    } else if sent == LARGE && received.status() != Some(413) {
        exam.not_passed(format!("{received} after all 32 MiB"), request)
    } else if received.timed_out() {
        Finding::skipped(format!("only {mebibytes:.1} MiB were taken within 10 s"))
    } else {
        exam.passed(format!("{received} after {mebibytes:.1} MiB at most"), request)
    };
    let curl = exam.sender.curl(request);
    finding.reproduced_by(format!("head -c {LARGE} /dev/zero | {curl} --data-binary @-"))
}

/// A body that arrives too slowly is given up.
async fn body_deadline(exam: &Exam, check: &str, requests: &[Request]) -> Finding {
    let request = &requests[0];
    let drops = stream::unfold((), |()| async {
        tokio::time::sleep(DRIP).await;
        Some((Ok::<_, io::Error>(Frame::data(Bytes::from_static(b" "))), ()))
    });
    let delivery = exam.sender.delivery(check, request);
    let body = StreamBody::new(drops.boxed());
    let started = tokio::time::Instant::now();
    let received = Received(exam.deliverer.post_stream(&delivery, DRIPPED, body, DRIPPING).await);
    let finding = match received.timed_out() {
        true => exam.not_passed("still waiting after 15 s", request),
        false if !received.is_connected() => {
            exam.is_lost.set(true);
            Finding::skipped(received.to_string())
        }
        false => {
            let seconds = started.elapsed().as_secs_f64();
            exam.passed(format!("{received} after {seconds:.1} s"), request)
        }
    };
    let curl = exam.sender.curl(request);
    let (pause, seconds) = (DRIP.as_secs_f64(), DRIPPING.as_secs());
    // Without `Transfer-Encoding` and `Expect`, which curl adds to a body of unknown length.
    finding.reproduced_by(format!(
        "{{ while printf ' '; do sleep {pause}; done; }} | {curl} -X POST -T - \
             -H 'Content-Length: {DRIPPED}' -H 'Transfer-Encoding:' -H 'Expect:' -m {seconds}"
    ))
}
