//! Accepting deliveries.

use std::sync::Arc;
use std::time::Duration;

use webhook_inbox::{Accepted, ErrorKind, Job};
use webhook_verify::{Event, Receiver, Secret, Service, Signature, Verifier};

use crate::databases::with_each_database;
use crate::support::{SECRET, always_ok, body, delivery, eventually, quick, stop, verified};

with_each_database! {
    async fn a_repeated_delivery_is_handled_once(bench: B) {
        let here = bench.inbox();
        let there = bench.inbox();
        assert_eq!(here.accept(&delivery("1")).await.unwrap(), Accepted::New);
        assert_eq!(there.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);
        assert_eq!(there.accept(&delivery("2")).await.unwrap(), Accepted::New);

        let workers = [B::run(quick(&here), always_ok()), B::run(quick(&there), always_ok())];
        let handled = bench.wait_for(2).await;
        assert_eq!(handled, ["email:email.bounced:id:1", "email:email.bounced:id:2"]);
        // Handled deliveries are remembered.
        assert_eq!(here.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);

        for (inbox, worker) in [here, there].iter().zip(workers) {
            stop(inbox, worker).await;
        }

        assert_eq!(bench.handled().await, handled);
    }

    async fn scopes_and_tenants_are_apart(bench: B) {
        let inbox = bench.inbox();
        for scope in ["a", "b"] {
            assert_eq!(inbox.scope(scope).accept(&delivery("1")).await.unwrap(), Accepted::New);
        }

        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);

        let again = inbox.scope("a").scope("b").accept(&delivery("1")).await.unwrap();
        assert_eq!(again, Accepted::Duplicate);

        // What the receiver's resolver has decided is the scope.
        let verifier = Verifier::email(Secret::new(SECRET).unwrap());
        let receiver = Receiver::resolving(move |_| {
            let verifier = verifier.clone();
            async move { Ok(Some(("tenant".into(), verifier))) }
        });
        let signature = Signature::sign(Service::Email, &Secret::new(SECRET).unwrap(), body("1"));
        let name = Service::Email.signature_header();
        let value = signature.to_string();
        let headers = [(name, value.as_bytes())];
        let of_tenant = receiver.receive_parts(headers, "/", None, body("1")).await.unwrap();
        assert_eq!(inbox.accept(&of_tenant).await.unwrap(), Accepted::New);

        let worker = B::run(quick(&inbox), Arc::new(|job: &Job| {
            let expected = job.scope().map(|scope| format!("{scope}/email:email.bounced:id:1"));
            let expected = expected.unwrap_or_else(|| "email:email.bounced:id:1".to_owned());
            assert_eq!(job.delivery().key(), expected);
            Ok(())
        }));
        let handled = bench.wait_for(4).await;
        assert_eq!(handled.len(), 4, "{handled:?}");
        assert!(handled.contains(&"tenant/email:email.bounced:id:1".to_owned()), "{handled:?}");

        stop(&inbox, worker).await;
    }

    /// A sender may put anything into a field that is documented as a text.
    async fn unusual_deliveries_are_stored(bench: B) {
        let inbox = bench.inbox();
        let unusual = [
            "{\"event\":\"a\\u0000b\",\"id\":\"\\u0000\"}".to_owned(),
            format!("{{\"event\":\"email.sent\",\"id\":\"{}\"}}", "ü".repeat(100_000)),
            format!("{{\"event\":\"email.sent\",\"x\":\"{}\"}}", "y".repeat(1 << 20)),
        ];
        for body in &unusual {
            assert_eq!(inbox.accept(&verified(body)).await.unwrap(), Accepted::New);
            assert_eq!(inbox.accept(&verified(body)).await.unwrap(), Accepted::Duplicate);
        }

        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let worker = B::run(quick(&inbox), Arc::new(move |job: &Job| {
            sender.send(job.delivery().body().to_vec()).map_err(Into::into)
        }));
        bench.wait_for(3).await;
        let mut received: Vec<_> = (0..3).map(|_| receiver.try_recv().unwrap()).collect();
        received.sort_by_key(Vec::len);
        let mut sent = unusual.map(String::into_bytes);
        sent.sort_by_key(Vec::len);
        assert_eq!(received, sent);

        stop(&inbox, worker).await;
    }

    async fn a_handler_gets_what_was_accepted(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let worker = B::run(quick(&inbox), Arc::new(move |job: &Job| {
            Ok(sender.send((job.delivery().clone(), job.attempt(), job.received_at()))?)
        }));
        let (seen, attempt, received_at) = seen.recv().await.unwrap();
        assert_eq!((seen.event(), seen.id(), attempt), (&Event::EmailBounced, Some("1"), 1));
        assert_eq!(seen.data_json(), r#"{"to":"ada@example.test"}"#);
        assert!(received_at.elapsed().unwrap() < Duration::from_secs(600), "{received_at:?}");

        stop(&inbox, worker).await;
    }

    async fn missing_and_other_tables_are_reported(bench: B) {
        bench.execute("DROP TABLE webhook_inbox; DROP TABLE webhook_inbox_schema").await;
        let inbox = bench.inbox();
        let error = inbox.accept(&delivery("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated);
        assert!(error.to_string().contains("Inbox::migrate"), "{error}");

        let waiting = B::run(quick(&inbox), always_ok());
        // Processes that start at the same time.
        let there = bench.inbox();
        let (one, two) = tokio::join!(inbox.migrate(), there.migrate());
        one.and(two).unwrap();
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);

        bench.wait_for(1).await;
        stop(&inbox, waiting).await;
        // A newer version of the crate.
        bench.execute("UPDATE webhook_inbox_schema SET version = 7").await;
        let inbox = bench.inbox();
        let ended = B::run(quick(&inbox), always_ok()).await.unwrap();
        for error in [inbox.migrate().await.unwrap_err(), ended.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::OtherSchema);
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("version 7") && source.contains("has 2"), "{source}");
        }
    }

    /// More than one statement deletes.
    async fn what_was_handled_is_deleted_after_the_retention(bench: B) {
        let inbox = bench.inbox();
        inbox.accept(&delivery("1")).await.unwrap();
        let worker = B::run(quick(&inbox), always_ok());
        bench.wait_for(1).await;
        stop(&inbox, worker).await;
        bench
            .execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
                 INSERT INTO webhook_inbox (key, service, event, body, received_at, status, ended_at) \
                 SELECT key || i, service, event, body, received_at, 'done', ended_at \
                 FROM webhook_inbox, n",
            )
            .await;
        let rows = async || bench.count("SELECT count(*) FROM webhook_inbox").await;
        for retention in [Duration::from_secs(3600), Duration::MAX] {
            let inbox = bench.inbox();
            let worker = B::run(quick(&inbox).retention(retention), always_ok());
            inbox.until_idle().await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            stop(&inbox, worker).await;
            assert_eq!(rows().await, 2501, "they are too new");
        }

        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::Duplicate);

        let inbox = bench.inbox();
        let worker = B::run(quick(&inbox).retention(Duration::ZERO), always_ok());
        eventually("all are deleted", async || (rows().await == 0).then_some(())).await;
        assert_eq!(inbox.accept(&delivery("1")).await.unwrap(), Accepted::New);

        stop(&inbox, worker).await;
    }
}
