//! Log messages: the reason of a rejection, and no confidential data.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};

use webhook_verify::dedup::Dedup;

use crate::dedup::{FailingStore, delivery};
use crate::receivers::{BODY, receiver, secret, signature};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In this process, `tracing` may have cached a callsite as disabled because another test reached
/// it first.
#[test]
fn logs_the_reason_and_nothing_confidential() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "logged::in_a_process_of_its_own"])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

#[test]
#[ignore = "run by the test above"]
fn in_a_process_of_its_own() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let receive = async |headers: &[(&str, &str)], body: &str| {
            let headers = headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes()));
            let receiver = receiver().event_header("kind");
            drop(
                receiver
                    .receive_parts(headers, "/", None, body.to_owned())
                    .await,
            );
        };
        receive(
            &[
                ("x-service-signature", &signature(BODY)),
                ("kind", "hush.header"),
            ],
            BODY,
        )
        .await;
        receive(
            &[
                ("x-service-signature", &signature("{}")),
                ("kind", "hush.only"),
            ],
            "{}",
        )
        .await;
        let control = r#"{"event":"a\nb\u001b[2J"}"#;
        receive(&[("x-service-signature", &signature(control))], control).await;
        let long = format!(r#"{{"event":"{}hush"}}"#, "long".repeat(32));
        receive(&[("x-service-signature", &signature(&long))], &long).await;
        receive(&[("x-service-signature", &signature(BODY))], "hush").await;
        receive(&[("x-service-signature", &signature("hush"))], "hush").await;
        receive(&[], "hush").await;
        let dedup = Dedup::new(Arc::new(FailingStore {
            works_for: 1.into(),
            ..Default::default()
        }));
        let again = delivery(BODY);
        drop(
            dedup
                .run_once(again, async |_| Ok::<_, io::Error>(()))
                .await,
        );
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for expected in [
        "status=401 reason=the signature does not match",
        "status=400 reason=the body is not JSON (line 1, column 1)",
        "status=401 reason=the signature header is missing: `Mail-Signature` or `X-Service-Signature`",
        "header_differs=true",
        " path=",
        r#"event=Some("a\nb\u{1b}[2J")"#,
        "longlong\"…",
        "failed to end the claim of a webhook delivery; retrying until its lease ends",
    ] {
        assert!(log.contains(expected), "{expected:?} is not in {log}");
    }

    for hidden in ["hush", "whsec", &signature(BODY)[7..], "7c0e", "total"] {
        assert!(!log.contains(hidden), "{hidden:?} is in {log}");
    }

    drop(secret("x"));
}
