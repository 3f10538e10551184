//! Sends the requests of a check and judges what comes back.

use futures_util::future::join_all;
use hyper::header::HeaderValue;

use super::checks::{Check, Judge};
use super::exam::{Exam, Finding, Received, Request};

pub(super) async fn examine(exam: &Exam, check: &Check) -> Finding {
    let requests = exam.requests(check);
    let Some(request) = requests.first() else {
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
