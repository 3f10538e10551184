//! Callbacks, custom HTTP clients, proxies, blocking calls, rate limits and tracing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_sdk::{Attempt, EmailClient, ExtractionClient};

use crate::clock::{Clock, wait_until};
use crate::mock_server::{MockServer, response_with_headers};

#[tokio::test]
async fn on_attempt_runs_after_every_attempt() {
    let server = MockServer::start([
        response_with_headers(503, "X-Request-Id: r1\r\nRetry-After: 0\r\n", ""),
        response_with_headers(200, "X-Request-Id: r2\r\n", r#"{"id":"x"}"#),
    ])
    .await;
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&recorded);
    let observe = move |attempt: &Attempt<'_>| {
        let Attempt {
            number,
            status,
            method,
            url,
            request_id,
            failure,
            retry_in,
            ..
        } = *attempt;
        let failure = failure.map(svc_sdk::ErrorKind::name);
        sink.lock().unwrap().push(format!(
            "{number} {} {method} {url} {status:?} {request_id:?} {failure:?} {retry_in:?}",
            attempt.operation.unwrap()
        ));
    };

    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .on_attempt(observe);
    let client = client.build().unwrap();
    client.emails().get("x").await.unwrap();
    let url = format!("{}/api/v1/emails/x", server.url());
    assert_eq!(
        *recorded.lock().unwrap(),
        [
            format!(
                "1 email emails.get GET {url} Some(503) Some(\"r1\") Some(\"server\") Some(0ns)"
            ),
            format!("2 email emails.get GET {url} Some(200) Some(\"r2\") None None"),
        ]
    );
}

/// Neither is in `Debug`, and the key is masked.
#[tokio::test]
async fn on_attempt_sees_headers_and_bodies() {
    let server = MockServer::start([
        response_with_headers(429, "X-A: 1\r\nRetry-After: 0\r\n", "busy"),
        response_with_headers(200, "X-A: 2\r\n", r#"{"id":"a1","name":"News"}"#),
    ])
    .await;
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&recorded);
    let observe = move |attempt: &Attempt<'_>| {
        let debug = format!("{attempt:?}");
        assert!(
            !debug.contains("News") && !debug.contains("secret"),
            "{debug}"
        );
        let request = attempt.request();
        let headers = attempt.response_headers().unwrap();
        let key = request
            .headers
            .iter()
            .find(|(name, _)| name == "authorization")
            .unwrap();
        sink.lock().unwrap().push(format!(
            "{} {} {:?} {}",
            key.1,
            String::from_utf8(request.body().unwrap()).unwrap(),
            headers["x-a"],
            std::str::from_utf8(attempt.response_body()).unwrap(),
        ));
    };

    let client = EmailClient::builder(server.url(), "mk_secret").no_proxy();
    let client = client
        .back_off(Duration::ZERO, Duration::ZERO)
        .on_attempt(observe);
    client
        .build()
        .unwrap()
        .audiences()
        .create("News")
        .await
        .unwrap();
    assert_eq!(
        *recorded.lock().unwrap(),
        [
            r#"Bearer *** {"name":"News"} "1" busy"#,
            r#"Bearer *** {"name":"News"} "2" {"id":"a1","name":"News"}"#,
        ]
    );
}

/// The callback receives the duration of the attempt, the response that of the whole call.
#[tokio::test]
async fn reports_durations_of_attempts_and_calls() {
    let clock = Clock::pause();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(tokio::sync::Semaphore::new(0));
    let ask = Arc::clone(&asked);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = Vec::new();
        for status in [503, 200] {
            crate::mock_server::read_request(&mut stream, &mut buffer)
                .await
                .unwrap();
            ask.add_permits(1);
            tokio::time::sleep(Duration::from_secs(3)).await;
            let response = response_with_headers(status, "Retry-After: 2\r\n", "[]");
            tokio::io::AsyncWriteExt::write_all(&mut stream, response.to_string().as_bytes())
                .await
                .unwrap();
        }
    });
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&recorded);
    let client = EmailClient::builder(url, "k").no_proxy();
    let client = client.on_attempt(move |attempt| sink.lock().unwrap().push(attempt.elapsed));
    let call = client.build().unwrap().domains().list().with_response();
    let call = tokio::spawn(call.into_future());
    for (attempt, rest) in [(1, 2), (2, 0)] {
        asked.acquire().await.unwrap().forget();
        clock.advance(Duration::from_millis(3_001)).await;
        wait_until("attempt finished", || {
            recorded.lock().unwrap().len() == attempt
        })
        .await;
        clock.advance(Duration::from_millis(rest * 1_001)).await;
    }

    let elapsed = call.await.unwrap().unwrap().elapsed;
    assert_eq!(elapsed.as_secs(), 8);
    assert!(
        recorded
            .lock()
            .unwrap()
            .iter()
            .all(|elapsed| elapsed.as_secs() == 3),
        "{recorded:?}"
    );
}

#[tokio::test]
async fn configures_the_http_client() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let host = format!("http://mail.invalid:{}", server.address().port());
    let address = server.address();
    let client = EmailClient::builder(host, "mk_secret")
        .no_proxy()
        .configure_http(move |http| http.resolve("mail.invalid", address));
    assert_eq!(
        client.build().unwrap().emails().get("x").await.unwrap().id,
        "x"
    );
    assert_eq!(
        server.single_request().header("authorization"),
        Some("Bearer mk_secret")
    );
}

#[tokio::test]
async fn all_callbacks_run_in_order() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let first = Arc::clone(&log);
    let second = Arc::clone(&log);
    let client = server
        .email()
        .on_attempt(move |_| first.lock().unwrap().push("first"))
        .on_attempt(move |_| second.lock().unwrap().push("second"))
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["first", "second"]);
}

#[tokio::test]
async fn uses_or_bypasses_a_proxy() {
    let proxy = MockServer::json(200, r#"{"id":"by proxy"}"#).await;
    let client = EmailClient::builder("http://mail.invalid", "k").proxy(proxy.url());
    assert_eq!(
        client.build().unwrap().emails().get("x").await.unwrap().id,
        "by proxy"
    );
    assert_eq!(proxy.single_request().line, "GET /api/v1/emails/x HTTP/1.1");

    let client = EmailClient::builder("http://mail.invalid", "k")
        .no_proxy()
        .retries(0);
    assert!(
        client
            .build()
            .unwrap()
            .emails()
            .get("x")
            .await
            .unwrap_err()
            .is_connect()
    );
}

/// Compile-time assertions about public types.
#[test]
fn handles_are_send_sync_and_small() {
    fn handle<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}

    fn shared<T: Send + Sync + std::fmt::Debug + 'static>() {}

    fn future<T: IntoFuture<IntoFuture: Send + 'static> + Send>() {}

    handle::<EmailClient>();
    handle::<ExtractionClient>();
    handle::<svc_sdk::EmailClientBuilder>();
    handle::<svc_sdk::ExtractionClientBuilder>();
    handle::<svc_sdk::email::Emails>();
    handle::<svc_sdk::email::Audiences>();
    handle::<svc_sdk::email::Contacts>();
    handle::<svc_sdk::email::Domains>();
    handle::<svc_sdk::email::Webhooks>();
    handle::<svc_sdk::extraction::Webhooks>();
    handle::<svc_sdk::email::Email>();
    handle::<svc_sdk::email::Attachment>();
    handle::<svc_sdk::email::EmailRecord>();
    handle::<svc_sdk::email::BatchResponse>();
    handle::<svc_sdk::extraction::Me>();
    handle::<svc_sdk::List<svc_sdk::email::Contact>>();
    handle::<svc_sdk::RequestPreview>();
    handle::<svc_sdk::Response<svc_sdk::Deleted>>();
    handle::<svc_sdk::Secret>();
    shared::<svc_sdk::Error>();
    future::<svc_sdk::Call<svc_sdk::email::EmailRecord>>();
    future::<svc_sdk::Wait<svc_sdk::email::EmailRecord>>();
    assert_eq!(size_of::<svc_sdk::Error>(), size_of::<usize>());
    assert_eq!(size_of::<EmailClient>(), size_of::<usize>());
}

/// The required scope can be evaluated in a constant.
const NEEDED: Option<svc_sdk::Scope> = svc_sdk::Operation::EmailsSend.required_scope();

#[test]
fn required_scope_is_const() {
    assert_eq!(NEEDED, Some(svc_sdk::Scope::EmailsSend));
}

#[cfg(feature = "blocking")]
#[test]
fn blocking_calls_work_without_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(MockServer::start([
        crate::mock_server::response(200, r#"{"id":"x","status":"sent"}"#),
        crate::mock_server::response(404, ""),
        crate::mock_server::response(200, r#"{"id":"x","status":"delivered"}"#),
        crate::mock_server::response(200, r#"[{"id":"1"},{"id":"2"}]"#),
        crate::mock_server::response(200, r#"[{"id":"3"}]"#),
        crate::mock_server::response(200, "[]"),
    ]));
    let client = server.email().build().unwrap();
    assert_eq!(client.emails().get("x").block().unwrap().id, "x");
    assert!(client.emails().get("x").block().unwrap_err().is_not_found());
    assert!(client.emails().wait("x").block().is_ok());

    let contacts = client.contacts().stream("a").block_iter();
    let ids: Vec<_> = contacts.map(|contact| contact.unwrap().id).collect();
    assert_eq!(ids, ["1", "2", "3"]);
}

/// Inside a runtime, blocking would keep a thread from its tasks, so it fails at once.
#[cfg(feature = "blocking")]
#[test]
fn blocking_is_rejected_inside_a_runtime() {
    let peers = tokio::runtime::Runtime::new().unwrap();
    let server = peers.block_on(MockServer::json(200, r#"{"id":"x"}"#));
    let mut current = tokio::runtime::Builder::new_current_thread();
    let mut many = tokio::runtime::Builder::new_multi_thread();
    for builder in [&mut current, &mut many] {
        let runtime = builder.enable_all().build().unwrap();
        let client = server.email().build().unwrap();
        let refused = |client: &EmailClient| {
            let error = client.emails().get("x").block().unwrap_err();
            assert!(
                matches!(error.kind(), svc_sdk::ErrorKind::Config { .. }),
                "{error}"
            );
            assert_eq!(error.outcome(), svc_sdk::Outcome::NotSent);
            assert!(error.to_string().contains("await the call"), "{error}");
            assert!(client.emails().wait("x").block().is_err());
            assert!(
                client
                    .contacts()
                    .stream("x")
                    .block_iter()
                    .next()
                    .unwrap()
                    .is_err()
            );
        };
        runtime.block_on(async {
            // The connection stays open and belongs to this runtime.
            assert_eq!(client.emails().get("x").await.unwrap().id, "x");
            refused(&client);
            let other = client.clone();
            tokio::spawn(async move { refused(&other) }).await.unwrap();
            let other = client.clone();
            let get = move || {
                refused(&other);
                let call = other.emails().get("x").into_future();
                tokio::runtime::Handle::current().block_on(call).unwrap().id
            };
            assert_eq!(tokio::task::spawn_blocking(get).await.unwrap(), "x");
            assert_eq!(client.emails().get("x").await.unwrap().id, "x");
        });
        // Outside, the same client works, with connections of its own.
        assert_eq!(client.emails().get("x").block().unwrap().id, "x");
    }
}

/// A panic in a callback propagates to the caller, as it does when a call is awaited.
#[cfg(feature = "blocking")]
#[test]
fn blocking_propagates_panics_of_callbacks() {
    let peers = tokio::runtime::Runtime::new().unwrap();
    let server = peers.block_on(MockServer::json(200, r#"{"id":"x"}"#));
    let client = server
        .email()
        .on_attempt(|_| panic!("callback failed"))
        .build()
        .unwrap();
    let wait = std::panic::AssertUnwindSafe(|| client.emails().get("x").block());
    let panic = std::panic::catch_unwind(wait).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"callback failed"));

    // The runtime's thread survives.
    let client = server.email().build().unwrap();
    assert_eq!(client.emails().get("x").block().unwrap().id, "x");
}

/// The check for async tasks restores the task's cooperative budget.
#[cfg(feature = "blocking")]
#[tokio::test]
async fn rejected_blocking_calls_do_not_spend_the_task_budget() {
    let client = EmailClient::builder("http://127.0.0.1:9", "k")
        .build()
        .unwrap();
    for _ in 0..1_000 {
        client.emails().get("x").block().unwrap_err();
        assert!(tokio::task::coop::has_budget_remaining());
    }
}

/// They arrive faster than they are read, so that the connection's task has work at every turn.
#[cfg(feature = "blocking")]
#[test]
fn informational_responses_without_an_end_do_not_outlive_the_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(40_000);
        while std::io::Write::write_all(&mut stream, hints.as_bytes()).is_ok() {}
    });
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let call = client.emails().get("eml_1").retries(0);

    let start = std::time::Instant::now();
    let error = call.timeout(Duration::from_millis(500)).block();

    assert_eq!(error.unwrap_err().kind(), &svc_sdk::ErrorKind::Timeout);
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// The hook runs for each attempt, never sees the key and cannot delimit the body.
#[tokio::test]
async fn a_header_hook_changes_the_headers_of_each_attempt() {
    let server = MockServer::start([
        response_with_headers(503, "", ""),
        crate::mock_server::response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let number = std::sync::atomic::AtomicU32::new(0);
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .header_hook(move |headers| {
            assert!(!headers.contains_key("authorization"));
            let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            headers.insert("x-number", number.into());
            headers.insert("authorization", "forged".parse().unwrap());
            headers.insert("content-length", 7.into());
            headers.insert("transfer-encoding", "chunked".parse().unwrap());
        })
        .build()
        .unwrap();
    client
        .contacts()
        .update("x", svc_sdk::email::ContactUpdate::default())
        .await
        .unwrap();
    for (index, request) in server.received_requests().iter().enumerate() {
        assert_eq!(request.header("x-number"), Some(index.to_string().as_str()));
        assert!(
            request
                .header("authorization")
                .unwrap()
                .starts_with("Bearer ")
        );
        assert_eq!(
            (request.header("content-length"), request.body.as_str()),
            (Some("2"), "{}")
        );
        assert_eq!(request.header("transfer-encoding"), None);
    }
}

/// An application's HTTP client is used as it is; a redirect that it follows is an error.
#[tokio::test]
async fn the_application_can_bring_its_http_client() {
    // As a program does whose own reqwest has no TLS feature.
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .no_proxy()
        .user_agent("own")
        .build()
        .unwrap();
    let target = MockServer::json(200, r#"{"id":"x"}"#).await;
    let location = format!("Location: {}/elsewhere\r\n", target.url());
    let server = MockServer::start([
        crate::mock_server::response(200, r#"{"id":"x"}"#),
        response_with_headers(302, &location, ""),
    ])
    .await;
    let client = server.email().http_client(http).build().unwrap();
    client.emails().get("x").await.unwrap();
    let error = client.emails().get("x").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts()),
        (&svc_sdk::ErrorKind::Redirected, 1)
    );
}

#[cfg(feature = "tracing")]
mod spans {
    use std::fmt;

    use tracing::field::{Field, Visit};
    use tracing::span;
    use tracing_subscriber::layer::{Context, SubscriberExt};
    use tracing_subscriber::registry::LookupSpan;
    use tracing_subscriber::{Layer, registry};

    use super::*;
    use crate::mock_server::response;

    /// Records all fields of all spans and events.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<String>>);

    impl Visit for Written {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let text = format!("{}={value:?}\n", field.name());
            self.0.lock().unwrap().push_str(&text);
        }
    }

    impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Written {
        fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, all: Context<'_, S>) {
            let parent = all.span(id).and_then(|span| Some(span.parent()?.name()));
            let parent = format!("parent={}\n", parent.unwrap_or("none"));
            self.0.lock().unwrap().push_str(&parent);
            span.record(&mut self.clone());
        }

        fn on_record(&self, _: &span::Id, values: &span::Record<'_>, _: Context<'_, S>) {
            values.record(&mut self.clone());
        }

        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            if event.metadata().target() == "svc_sdk" {
                let level = format!("level={}\n", event.metadata().level());
                self.0.lock().unwrap().push_str(&level);
                event.record(&mut self.clone());
            }
        }
    }

    /// Runs a test in a separate process: if another test creates a span first, tracing
    /// caches that it is disabled.
    fn run_alone(test: &str) {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", test])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }

    #[test]
    fn spans_contain_operation_and_scope_but_no_content() {
        run_alone("integrations::spans::child");
    }

    /// Whether a missing resource is a problem is for the caller to decide.
    #[test]
    fn a_404_is_no_warning() {
        run_alone("integrations::spans::levels_child");
    }

    #[tokio::test]
    #[ignore = "started by the test above"]
    async fn levels_child() {
        let written = Written::default();
        let _guard = tracing::subscriber::set_default(registry().with(written.clone()));
        for (status, level) in [(404, "DEBUG"), (409, "DEBUG"), (422, "WARN"), (500, "WARN")] {
            let server = MockServer::json(status, "").await;
            let client = server.email().retries(0).build().unwrap();
            client.emails().get("x").await.unwrap_err();
            let written = std::mem::take(&mut *written.0.lock().unwrap());
            assert!(
                written.contains(&format!("level={level}\n")),
                "{status}: {written}"
            );
        }
    }

    #[test]
    fn every_request_has_a_span_also_the_confirming_one() {
        run_alone("integrations::spans::confirming_child");
    }

    #[tokio::test]
    #[ignore = "started by the test above"]
    async fn confirming_child() {
        let written = Written::default();
        let _guard = tracing::subscriber::set_default(registry().with(written.clone()));
        let server = MockServer::start([
            response(500, ""),
            response(409, ""),
            response(200, r#"{"id":"eml_1","status":"cancelled"}"#),
        ])
        .await;
        let client = server.email().back_off(Duration::ZERO, Duration::ZERO);
        let client = client.build().unwrap();
        client.emails().cancel("eml_1").await.unwrap();

        let written = written.0.lock().unwrap();
        let of = |operation: &str| {
            let field = format!("svc.operation={operation:?}\n");
            written.matches(&field).count()
        };

        assert_eq!((of("emails.cancel"), of("emails.get")), (2, 1), "{written}");
    }

    /// `block` runs the call on another thread, in the span of the caller.
    #[cfg(feature = "blocking")]
    #[test]
    fn a_blocking_call_keeps_the_span_of_its_caller() {
        run_alone("integrations::spans::blocking_child");
    }

    #[cfg(feature = "blocking")]
    #[test]
    #[ignore = "started by the test above"]
    fn blocking_child() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(MockServer::json(200, r#"{"id":"x"}"#));
        let written = Written::default();
        let _guard = tracing::subscriber::set_default(registry().with(written.clone()));
        let span = tracing::info_span!("order");
        let client = server.email().build().unwrap();
        span.in_scope(|| client.emails().get("x").block()).unwrap();
        let written = written.0.lock().unwrap();
        assert!(written.contains("parent=order\n"), "{written}");
        assert!(
            written.contains("http.response.status_code=200"),
            "{written}"
        );
    }

    #[tokio::test]
    #[ignore = "started by the test above"]
    async fn child() {
        let written = Written::default();
        let subscriber = registry().with(written.clone());
        let guard = tracing::subscriber::set_default(subscriber);
        let server = MockServer::start([
            response_with_headers(
                429,
                "Retry-After: 0\r\nX-Request-Id: r1\r\n",
                r#"{"message":"private"}"#,
            ),
            response_with_headers(
                202,
                "X-Request-Id: r2\r\n",
                r#"{"id":"private","status":"queued"}"#,
            ),
        ])
        .await;
        let client = server.email().build().unwrap();
        let email = svc_sdk::email::Email::new("private@b", "private@d", "private").text("private");
        client.emails().send(&email).await.unwrap();
        client.contacts().delete("private-id").await.unwrap();
        drop(guard);
        let written = written.0.lock().unwrap().clone();
        let port = server
            .url()
            .rsplit(':')
            .next()
            .map(|port| format!("server.port={port}"));
        for line in [
            port.as_deref().unwrap(),
            "otel.status_code=\"ERROR\"",
            "svc.service=\"email\"",
            "svc.request_id=\"r2\"",
            "otel.name=\"POST /api/v1/emails\"",
            "otel.kind=\"client\"",
            "http.request.method=\"POST\"",
            "url.template=\"/api/v1/emails\"",
            "server.address=\"127.0.0.1\"",
            "svc.operation=\"emails.send\"",
            "svc.required_scope=emails:send",
            "http.response.status_code=429",
            "error.type=\"rate_limited\"",
            "svc.request_id=\"r1\"",
            "svc.outcome=\"refused\"",
            "http.request.resend_count=1",
            "http.response.status_code=202",
        ] {
            assert!(
                written.lines().any(|known| known == line),
                "{line} is not in:\n{written}"
            );
        }

        for secret in ["private@", "\"private\"", "mk_secret", "=private"] {
            assert!(!written.contains(secret), "{secret} is in:\n{written}");
        }
    }
}
