//! A database that cannot grow: 507, nothing half done, and well again once
//! there is room.

use crate::harness::Sandbox;

const LIMIT: u64 = 2 << 20;

#[tokio::test]
async fn a_full_database_answers_507_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    for on_disk in [true, false] {
        let sandbox = Sandbox::with(|builder| {
            let builder = builder.database_limit(LIMIT);
            if on_disk { builder.data_dir(directory.path()) } else { builder }
        })
        .await;
        let body = format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{}"}}"#,
            "x".repeat(50_000)
        );
        let mut accepted = Vec::new();
        let refused = loop {
            let answer = sandbox.call("POST /api/v1/emails", &body).await;
            if answer.status != 202 {
                break answer;
            }
            accepted.push(answer.id());
            assert!(accepted.len() < 1000, "it never filled up");
        };
        assert_eq!(
            (refused.status, refused.between(r#""code":""#).as_str()),
            (507, "storage_full")
        );
        // What was there is there, and reading goes on.
        for id in &accepted {
            assert_eq!(sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await.status, 200);
        }
        assert_eq!(
            sandbox.control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#).await.status,
            204
        );
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 202);
        sandbox.settle().await;
        sandbox.server.stop().await;
    }
}
