//! How much memory a response takes, counted by the allocator. In a binary of its own: an allocator is
//! that of all tests in one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use peak_alloc::PeakAlloc;
use serde_json::Value;
use svc_sdk::EmailClient;
use svc_sdk::email::ContactUpdate;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// About the size of each response, in bytes.
const SIZE: usize = 2 << 20;

/// Times the size of the response.
const MOST: usize = 12;

/// Serves one response for every connection. Returns the base URL.
fn serve(body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
            while lines
                .next()
                .is_some_and(|line| !line.expect("a line").is_empty())
            {}
            // A client that refuses the response closes the connection.
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body.as_bytes());
        }
    });
    url
}

fn repeated(item: &str) -> String {
    let items = vec![item; SIZE / (item.len() + 1)];
    format!("[{}]", items.join(","))
}

/// What is used beyond that before the call, at most.
async fn peak<T>(call: impl Future<Output = T>) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = call.await;
    (result, ALLOCATOR.peak_usage().saturating_sub(before))
}

#[tokio::test]
async fn a_response_takes_at_most_twelve_times_its_size_in_memory() {
    let contact = r#"{"id":"con_019a0b1c2d3e4f","email":"ada.lovelace@example.test","name":"Ada Lovelace","subscribed":true,"createdAt":"2026-01-05T09:00:00Z","metadata":{"plan":"pro","seats":5}}"#;
    let mut read = 0;
    for item in [
        contact,
        "[]",
        "{}",
        "0",
        "1000000000",
        r#""""#,
        r#""aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa""#,
        r#"{"a":0}"#,
        r#"{"a":"aaaaaaaaaaaaaaaaaaaaaaaa"}"#,
        r#"{"id":"con_1","email":"a@b.test"}"#,
        r#"{"id":"con_1","metadata":{"aaaaaaaaaaaaaaaa":{"aaaaaaaaaaaaaaaa":{}}}}"#,
        r#"[[[[[[[["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]]]]]]]]"#,
        r#"{"id":"con_1","aaaaaaaa":1,"bbbbbbbb":2,"cccccccc":3,"dddddddd":4,"eeeeeeee":5,"ffffffff":6,"gggggggg":7}"#,
    ] {
        for body in [
            repeated(item),
            format!(r#"{{"data":{}}}"#, repeated(item)),
            format!(
                r#"{{"id":"con_1","email":"a@b.test","metadata":{{"a":{}}}}}"#,
                repeated(item)
            ),
            format!(
                r#"{{"data":{{"data":{{"data":{{"id":"con_1","a":{}}}}}}}}}"#,
                repeated(item)
            ),
        ] {
            let size = body.len();
            let url = serve(body);
            let client = EmailClient::builder(&url, "mk_test_1")
                .build()
                .expect("a client");

            let (list, of_list) = peak(async { client.contacts().list("aud_1").await }).await;
            read += usize::from(list.is_ok_and(|list| !list.is_empty()));
            let (contact, of_contact) = peak(async {
                client
                    .contacts()
                    .update("con_1", ContactUpdate::default())
                    .await
            })
            .await;
            drop(contact);
            let (raw, of_raw) = peak(async {
                let response = client.raw("GET", "/x").await.expect("a response");
                response.json::<Value>()
            })
            .await;
            drop(raw);

            for (what, used) in [("list", of_list), ("update", of_contact), ("raw", of_raw)] {
                let times = used as f64 / size as f64;
                println!("{what} of {item:.40}: {times:.1}");
                assert!(
                    used <= MOST * size,
                    "{what} of {item:.40}: {times:.1} times"
                );
            }
        }
    }

    assert!(read >= 2, "only {read} of the lists were read");
}
