//! A good receiver passes, and each defect of a receiver is found.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::Service;

use self::receiver::{Receiver, SECRET};
use super::checks::CHECKS;
use super::exam::{Exam, Finding, Grade};
use super::judge;
use crate::deliver::Deliverer;

#[path = "../../../tests/it/certify/receiver.rs"]
#[expect(
    unreachable_pub,
    dead_code,
    reason = "shared with the integration tests"
)]
mod receiver;

/// Defects, and the checks that they fail, or give advice for.
const DEFECTS: &[(&str, &[&str])] = &[
    ("good-delivery", &["good-delivery"]),
    ("unknown-event", &["unknown-event"]),
    ("unknown-field", &["unknown-field"]),
    ("upper-case-hex", &["upper-case-hex"]),
    ("formatted-body", &["formatted-body"]),
    ("body-not-utf8", &["body-not-utf8"]),
    ("repeated-delivery", &["repeated-delivery"]),
    ("missing-signature", &["missing-signature"]),
    ("empty-signature", &["empty-signature"]),
    // These differ from a good delivery only in the signature.
    (
        "any-signature",
        &[
            "wrong-secret",
            "truncated-signature",
            "changed-body",
            "truncated-body",
            "reserialized-body",
            "decoded-body",
        ],
    ),
    ("wrong-secret", &["wrong-secret"]),
    ("truncated-signature", &["truncated-signature"]),
    (
        "compares-8-digits",
        &["truncated-signature", "extended-signature"],
    ),
    ("extended-signature", &["extended-signature"]),
    ("reserialized-body", &["reserialized-body"]),
    ("decoded-body", &["decoded-body"]),
    ("doubled-header", &["doubled-header"]),
    ("reveals-signature", &["reveals-signature"]),
    ("old-delivery", &["old-delivery"]),
    ("future-delivery", &["future-delivery"]),
    // This is not a defect.
    ("", &[]),
];

fn examine(
    receiver: &Receiver,
    service: Service,
    is_examined: impl Fn(&str) -> bool,
) -> Vec<(&'static str, Finding)> {
    let exam = Exam {
        service,
        url: receiver.url.clone(),
        secret: SECRET.into(),
        deliverer: Deliverer::for_http().expect("a client"),
        timeout: Duration::from_secs(2),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let checks = CHECKS.iter().filter(|check| check.is_for(service));
    let checks = checks.filter(|check| is_examined(check.name));
    let found = |check| {
        runtime
            .block_on(judge::examine(&exam, check))
            .expect("it listens")
    };

    checks.map(|check| (check.name, found(check))).collect()
}

fn not_passed(findings: &[(&'static str, Finding)]) -> Vec<&'static str> {
    let not_passed = findings
        .iter()
        .filter(|(_, found)| found.result == Grade::Failed);
    not_passed.map(|(name, _)| *name).collect()
}

#[test]
fn each_defect_is_found() {
    for check in CHECKS.iter() {
        let is_found = DEFECTS.iter().any(|(_, found)| found.contains(&check.name));
        assert!(is_found, "no receiver fails {}", check.name);
    }
    // Most of the time is spent waiting for slow receivers.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((defect, found)) = DEFECTS.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let receiver = Receiver::start("extraction", defect);
                    let findings = examine(&receiver, Service::Extraction, |_| true);
                    assert_eq!(not_passed(&findings), *found, "{defect}: {findings:#?}");
                }
            });
        }
    });
}

#[test]
fn a_good_receiver_passes_every_check_of_the_email_service() {
    let receiver = Receiver::start("email", "");
    let findings = examine(&receiver, Service::Email, |_| true);
    let passed = findings
        .iter()
        .filter(|(_, found)| found.result == Grade::Passed)
        .count();
    assert_eq!(passed, findings.len(), "{findings:#?}");
}

/// A receiver that is too slow may have accepted what was forged.
#[test]
fn no_response_is_no_refusal() {
    let receiver = Receiver::start("email", "silent-when-forged");
    let findings = examine(&receiver, Service::Email, |check| check == "wrong-secret");
    let expected = "cannot tell from outside: a random secret: no response within 2 s";
    let (_, finding) = &findings[0];
    assert_eq!(
        (finding.result, &*finding.received),
        (Grade::Skipped, expected)
    );
}
