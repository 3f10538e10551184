//! One client in several runtimes, such as a static one in `#[tokio::test]` functions.

use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::mock_server::MockServer;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server on a thread of its own.
fn server() -> (Runtime, MockServer) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(MockServer::json(200, r#"{"id":"x"}"#));
    (runtime, server)
}

/// A runtime that exists but does not run drives none of its connections.
#[test]
fn a_client_works_in_runtimes_that_take_turns() {
    let (_server_runtime, server) = server();
    let client = server
        .email()
        .timeout(Duration::from_secs(60))
        .retries(0)
        .build()
        .unwrap();
    let start = Instant::now();
    let first = runtime();
    let second = runtime();
    for _ in 0..3 {
        for runtime in [&first, &second] {
            runtime
                .block_on(client.emails().get("x").into_future())
                .unwrap();
        }
    }

    assert!(start.elapsed() < Duration::from_secs(40), "a call hung");
}

/// A runtime that ends takes none of the others' connections with it.
#[test]
fn a_client_survives_the_end_of_a_runtime() {
    let (_server_runtime, server) = server();
    let client = server
        .email()
        .timeout(Duration::from_secs(60))
        .retries(0)
        .build()
        .unwrap();
    for _ in 0..20 {
        runtime()
            .block_on(client.emails().get("x").into_future())
            .unwrap();
    }

    let threads: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                for _ in 0..10 {
                    runtime()
                        .block_on(client.emails().get("x").into_future())
                        .unwrap();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(server.request_count(), 100);
}
