//! Sends the requests of a check and judges what comes back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use tokio::time::Instant;

use super::checks::{Check, Judge};
use super::exam::{Exam, Finding, Received, Request};

/// The size of the body of [`size_limit`], and of its pieces.
const LARGE: u64 = 32 << 20;
const PIECE: u64 = 64 << 10;
/// Announced by [`body_deadline`]: more than it sends.
const DRIPPED: u64 = 4096;

pub(super) async fn examine(exam: &Exam, check: &Check) -> Finding {
    let mut requests = exam.requests(check);
    let Some(request) = requests.first_mut() else {
        return Finding::skipped("give the old secret with --old-secret-file");
    };
    match check.judge {
        Judge::Accepted => all(exam, &requests, Received::is_accepted).await,
        Judge::Refused => all(exam, &requests, Received::is_refused).await,
        Judge::BytesVerified => {
            let is_fine = |received: &Received| {
                let status = received.status().unwrap_or_default();
                received.is_accepted() || matches!(status, 400 | 402 | 404..500)
            };
            all(exam, &requests, is_fine).await
        }
        Judge::Repeated => repeated(exam, request).await,
        Judge::Simultaneous => simultaneous(exam, request).await,
        Judge::RevealsSignature => reveals_signature(exam, request).await,
        Judge::RefusalReason => refusal_reason(exam, &requests).await,
        Judge::ResponseTime => response_time(exam, request).await,
        Judge::HangUp => hang_up(exam, &requests).await,
        Judge::SizeLimit => size_limit(exam, request).await,
        Judge::BodyDeadline => body_deadline(exam, request).await,
    }
}

/// Sends the requests until a response is not as expected.
async fn all(
    exam: &Exam,
    requests: &[Request],
    is_expected: impl Fn(&Received) -> bool,
) -> Finding {
    let mut seen = Vec::new();
    for request in requests {
        let received = exam.send(request).await;
        let is_expected = is_expected(&received);
        let shown = match request.name.as_str() {
            "" => received.to_string(),
            name => format!("{name}: {received}"),
        };
        // A slow receiver may have accepted what was forged.
        if is_expected && received.timed_out() {
            return Finding::skipped(format!("cannot tell from outside: {shown}"));
        }
        if !is_expected {
            return Finding::not_passed(shown, request);
        }
        let received = received.to_string();
        if !seen.contains(&received) {
            seen.push(received);
        }
    }
    Finding::passed(seen.join(", "))
}

/// A delivery is accepted again.
async fn repeated(exam: &Exam, request: &Request) -> Finding {
    let first = exam.send(request).await;
    if !first.is_accepted() {
        return Finding::skipped(format!("{first}: not accepted the first time"));
    }
    let second = exam.send(request).await;
    if !second.is_accepted() {
        return Finding::not_passed(format!("{first}, then {second}"), request);
    }
    let id = &request.id;
    Finding::passed(format!(
        "{first}, then {second} (only the receiver's own records show if it handled {id} once)"
    ))
}

/// The same delivery three times at once: each is accepted, at once or later.
async fn simultaneous(exam: &Exam, request: &Request) -> Finding {
    let all = join_all((0..3).map(|_| exam.send(request))).await;
    let mut statuses = all.iter().map(ToString::to_string).collect::<Vec<_>>();
    statuses.sort_unstable();
    let statuses = statuses.join(", ");
    match all.iter().find(|received| !received.is_accepted()) {
        None => Finding::passed(statuses),
        Some(_) if all.iter().all(|each| each.is_accepted() || each.asks_to_retry()) => {
            match exam.until_accepted(request).await {
                Ok(later) => Finding::passed(format!("{statuses}; later {later}")),
                Err(later) => Finding::not_passed(format!("{statuses}; later {later}"), request),
            }
        }
        Some(_) => Finding::not_passed(statuses, request),
    }
}

/// The response to a forged delivery contains the correct signature.
async fn reveals_signature(exam: &Exam, request: &Request) -> Finding {
    let received = exam.send(request).await;
    let Received(Ok(response)) = &received else { return Finding::passed(received) };
    let texts = response.headers.values().map(HeaderValue::as_bytes);
    let mut texts = texts.chain([&response.body[..]]).map(String::from_utf8_lossy);
    match texts.any(|text| text.to_lowercase().contains(&request.digits)) {
        true => Finding::not_passed(format!("{received}, with the correct signature"), request),
        false => Finding::passed(&received),
    }
}

/// All refusals look the same.
async fn refusal_reason(exam: &Exam, requests: &[Request]) -> Finding {
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut different = None;
    for request in requests {
        let received = exam.send(request).await;
        if !received.is_refused() {
            return Finding::skipped(format!("{received}: not refused"));
        }
        let body = received.0.as_ref().map_or("".into(), |r| String::from_utf8_lossy(&r.body));
        let look = (received.to_string(), without_numbers(&body));
        if seen.first().is_some_and(|first| *first != look) {
            different = different.or(Some(request));
        }
        seen.push(look);
    }
    let mut statuses = seen.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
    let Some(request) = different else {
        statuses.dedup();
        return Finding::passed(statuses.join(", "));
    };
    let texts = match statuses.windows(2).all(|pair| pair[0] == pair[1]) {
        true => format!("{} with different texts", statuses[0]),
        false => statuses.join(", "),
    };
    Finding::not_passed(texts, request)
}

/// A text without the words that contain digits, such as times and request ids.
fn without_numbers(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect::<Vec<_>>().join(" ")
}

/// All deliveries so far, and one more, were accepted quickly.
async fn response_time(exam: &Exam, request: &Request) -> Finding {
    let received = exam.send(request).await;
    let slowest = exam.seen.slowest.get();
    match received.is_accepted() {
        false => Finding::skipped(format!("{received}: not accepted")),
        true if slowest <= exam.timings.slow => {
            Finding::passed(format!("{} ms at most", slowest.as_millis()))
        }
        true => Finding::not_passed(format!("{:.1} s", slowest.as_secs_f64()), request),
    }
}

/// A delivery whose sender has disconnected is not lost.
///
/// From outside, only the response to the repeated delivery can be seen. If it is 2xx before the
/// handler can have finished, the receiver has marked the delivery as handled too early.
async fn hang_up(exam: &Exam, requests: &[Request]) -> Finding {
    let [first, second, third] = requests else { return Finding::skipped("nothing to send") };
    let timings = &exam.timings;
    let mut started = Instant::now();
    let uncut = exam.send(first).await;
    let took = started.elapsed();
    let (request, cut) = if uncut.timed_out() {
        (first, timings.response)
    } else if !uncut.is_accepted() {
        return Finding::skipped(format!("{uncut}: not accepted"));
    } else if took < timings.shortest {
        return cannot_tell(&format!(
            "{uncut} after {:.2} s, before any sender disconnects (to have it examined, let the \
             handler take 3 s)",
            took.as_secs_f64()
        ));
    } else {
        started = Instant::now();
        let cut = exam.send_within(second, took / 2).await;
        if !cut.timed_out() {
            return cannot_tell(&format!("{uncut} after {:.1} s, then {cut}", took.as_secs_f64()));
        }
        (second, took / 2)
    };

    let disconnected = format!("after the disconnection at {:.1} s", cut.as_secs_f64());
    let again = match exam.until_accepted(request).await {
        Ok(again) => again,
        Err(last) => {
            let received = format!("never accepted {disconnected}; at last {last}");
            return Finding::not_passed(received, request);
        }
    };
    let accepted_after = started.elapsed();
    let later = (accepted_after - cut).as_secs_f64();
    let received = format!("{again} to the repeated delivery, {later:.1} s {disconnected}");
    // The time of the first delivery may have been an exception.
    let started = Instant::now();
    let last = exam.send_within(third, accepted_after + timings.shortest).await;
    let mut whole = started.elapsed();
    if uncut.is_accepted() {
        whole = whole.min(took);
    }
    if !last.is_accepted() && !last.timed_out() {
        return cannot_tell(&format!("{received}; another delivery: {last}"));
    }
    let seconds = whole.as_secs_f64();
    if accepted_after + timings.margin < whole {
        let at_least = if last.timed_out() { "at least " } else { "" };
        return Finding::not_passed(
            format!(
                "{received}, though the handler takes {at_least}{seconds:.1} s: the delivery is \
                 lost if the handler was stopped, or fails"
            ),
            request,
        );
    }
    if accepted_after < cut + timings.margin {
        return cannot_tell(&format!("{received}, and the handler takes {seconds:.1} s"));
    }
    Finding::passed(received)
}

fn cannot_tell(received: &str) -> Finding {
    Finding::skipped(format!(
        "cannot tell from outside: {received}; check that the receiver marks an id as handled only \
         when its handler has finished, and that the handler finishes without its sender"
    ))
}

/// A large body is refused before it has arrived.
async fn size_limit(exam: &Exam, request: &mut Request) -> Finding {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let piece = Bytes::from(vec![b' '; PIECE as usize]);
    let pieces = stream::iter((0..LARGE / PIECE).map(move |_| {
        counted.fetch_add(PIECE, Ordering::Relaxed);
        piece.clone()
    }));
    let received = stream(exam, request, LARGE, pieces, exam.timings.response).await;
    let sent = sent.load(Ordering::Relaxed);
    let mebibytes = sent as f64 / f64::from(1 << 20);
    if sent == LARGE && received.status() != Some(413) {
        Finding::not_passed(format!("{received} after all 32 MiB"), request)
    } else if received.timed_out() || !received.is_connected() {
        Finding::skipped(format!("{received}: only {mebibytes:.1} MiB were taken"))
    } else {
        Finding::passed(format!("{received} after {mebibytes:.1} MiB at most"))
    }
}

/// A body that arrives too slowly is given up.
async fn body_deadline(exam: &Exam, request: &mut Request) -> Finding {
    let (drip, dripping) = (exam.timings.drip, exam.timings.dripping);
    let drops = stream::unfold((), move |()| async move {
        tokio::time::sleep(drip).await;
        Some((Bytes::from_static(b" "), ()))
    });
    let started = Instant::now();
    let received = stream(exam, request, DRIPPED, drops, dripping).await;
    if received.timed_out() {
        let seconds = dripping.as_secs_f64();
        return Finding::not_passed(format!("still waiting after {seconds} s"), request);
    }
    let seconds = started.elapsed().as_secs_f64();
    Finding::passed(format!("{received} after {seconds:.1} s"))
}

/// Sends a body of this announced size while it is produced.
async fn stream(
    exam: &Exam,
    request: &mut Request,
    length: u64,
    pieces: impl stream::Stream<Item = Bytes> + Send + Sync + 'static,
    within: Duration,
) -> Received {
    request.delivery.headers.insert(CONTENT_LENGTH, length.into());
    let frames = pieces.map(|piece| Ok::<_, io::Error>(Frame::data(piece)));
    let body = reqwest::Body::wrap(StreamBody::new(frames));
    exam.send_body(request, body, within).await
}
