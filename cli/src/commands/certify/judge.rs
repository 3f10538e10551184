//! Sends the requests of a check and judges what comes back.

use hyper::header::HeaderValue;

use super::checks::{Check, Judge};
use super::exam::{Exam, Finding, Grade, Received, Request};
use crate::deliver::DeliveryError;

/// Fails if the receiver cannot be reached.
pub(super) async fn examine(exam: &Exam, check: &Check) -> Result<Finding, DeliveryError> {
    let requests = exam.requests(check);
    match check.judge {
        Judge::Accepted => all(exam, &requests, Received::is_accepted).await,
        Judge::Refused => all(exam, &requests, |received| !received.is_accepted()).await,
        Judge::BytesVerified => {
            let is_fine = |received: &Received| {
                let status = received.status().unwrap_or_default();
                received.is_accepted() || matches!(status, 400 | 402 | 404..500)
            };
            all(exam, &requests, is_fine).await
        }
        Judge::Repeated => repeated(exam, &requests[0]).await,
        Judge::RevealsSignature => reveals_signature(exam, &requests[0]).await,
    }
}

/// Sends the requests until a response is not as expected.
async fn all(
    exam: &Exam,
    requests: &[Request],
    is_expected: impl Fn(&Received) -> bool,
) -> Result<Finding, DeliveryError> {
    let mut seen = Vec::new();
    for request in requests {
        let received = exam.send(request).await?;
        let is_expected = is_expected(&received);
        let shown = match request.name.as_str() {
            "" => received.to_string(),
            name => format!("{name}: {received}"),
        };
        // A slow receiver may have accepted what was forged.
        if is_expected && received.timed_out() {
            return Ok(Finding::new(
                Grade::Skipped,
                format!("cannot tell from outside: {shown}"),
            ));
        }
        if !is_expected {
            return Ok(Finding::failed(shown, request));
        }
        let received = received.to_string();
        if !seen.contains(&received) {
            seen.push(received);
        }
    }
    Ok(Finding::new(Grade::Passed, seen.join(", ")))
}

/// A delivery is accepted again.
async fn repeated(exam: &Exam, request: &Request) -> Result<Finding, DeliveryError> {
    let first = exam.send(request).await?;
    if !first.is_accepted() {
        return Ok(Finding::new(
            Grade::Skipped,
            format!("{first}: not accepted the first time"),
        ));
    }

    let second = exam.send(request).await?;
    if !second.is_accepted() {
        return Ok(Finding::failed(format!("{first}, then {second}"), request));
    }

    let id = &request.id;
    Ok(Finding::new(
        Grade::Passed,
        format!(
            "{first}, then {second} (only the receiver's own records show if it handled {id} once)"
        ),
    ))
}

/// The response to a forged delivery contains the correct signature.
async fn reveals_signature(exam: &Exam, request: &Request) -> Result<Finding, DeliveryError> {
    let received = exam.send(request).await?;
    let Received(Ok(response)) = &received else {
        return Ok(Finding::new(Grade::Passed, received));
    };

    let texts = response.headers.values().map(HeaderValue::as_bytes);
    let mut texts = texts
        .chain([&response.body[..]])
        .map(String::from_utf8_lossy);
    Ok(
        if texts.any(|text| text.to_lowercase().contains(&request.digits)) {
            Finding::failed(format!("{received}, with the correct signature"), request)
        } else {
            Finding::new(Grade::Passed, &received)
        },
    )
}
