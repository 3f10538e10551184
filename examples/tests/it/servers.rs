//! Runs the receivers that are HTTP servers, over real sockets.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use webhook_verify::{Secret, Service, Signature};

use crate::program::{Program, example};
use crate::{SECRET, body, signature};

#[test]
fn axum() {
    check_receiver(&example("receiver_axum"), 204, Continue::WellFormed);
}

#[test]
fn actix() {
    check_receiver(&example("receiver_actix"), 204, Continue::Always);
}

#[test]
fn hyper() {
    check_receiver(&example("receiver_hyper"), 204, Continue::WellFormed);
}

#[test]
fn email() {
    let program = &example("receiver_email");
    let mut program = Program::start(program, &[("ADDR", "127.0.0.1:0")]);
    let url = program.next_line();
    let address = url
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/hooks")
        .unwrap();
    let secret = Secret::new(SECRET).unwrap();
    let send = |body: &str, signed: &str| {
        let signature = Signature::sign(Service::Email, &secret, signed).to_string();
        post(
            address,
            &[("Mail-Signature", &signature)],
            body.len(),
            body.as_bytes(),
        )
    };

    let body =
        |event: &str, data: &str| format!(r#"{{"event":"{event}","id":"{event}","data":{data}}}"#);
    let bounced = body(
        "email.bounced",
        r#"{"emailId":"eml_1","recipient":"ada@example.test"}"#,
    );
    assert_eq!(send(&bounced, &bounced), response(204));
    assert_eq!(send(&bounced, &bounced), response(200), "a retry");

    let sent = body("email.sent", r#"{"recipient":"bob@example.test"}"#);
    assert_eq!(
        send(&sent, &bounced),
        response(401),
        "the signature of another body"
    );
    assert_eq!(send(&sent, &sent), response(204));

    let received = body("email.received", r#"{"from":"eve@example.test"}"#);
    assert_eq!(send(&received, &received), response(204));

    let invalid = body("email.opened", "[]");
    assert_eq!(send(&invalid, &invalid), response(422));
    assert_eq!(
        program.next_line(),
        "email.bounced: do not write to ada@example.test again"
    );
    assert_eq!(program.next_line(), "email.sent bob@example.test");
    assert_eq!(program.next_line(), "email.received -");
}

/// The receiver responds 200 to each delivery, and handles it once, also after a restart.
#[test]
fn inbox() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("app.db").display().to_string();
    let start = || {
        let environment = [("ADDR", "127.0.0.1:0"), ("DATABASE", &database[..])];
        let mut program = Program::start(&example("receiver_inbox"), &environment);
        let url = program.next_line();
        let address = url
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/hooks")
            .unwrap();
        (program, address.to_owned())
    };
    let send = |address: &str, body: &str, signature: &str| {
        post(
            address,
            &[("X-Service-Signature", signature)],
            body.len(),
            body.as_bytes(),
        )
    };

    let (mut program, address) = start();
    let first = body("one");
    let signed = signature(first.as_bytes());
    assert_eq!(send(&address, &first, &signed), response(200));
    assert_eq!(send(&address, &first, &signed), response(200), "a retry");
    assert_eq!(
        send(&address, &body("two"), &signed),
        response(401),
        "another body"
    );
    assert_eq!(program.next_line(), "extraction.completed one");

    let connection = rusqlite::Connection::open(&database).unwrap();
    // The line is printed before the commit.
    let wait_until_done = |expected: i64| {
        let count = "SELECT count(*) FROM webhook_inbox WHERE status = 'done'";
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while connection
            .query_row(count, [], |row| row.get::<_, i64>(0))
            .unwrap()
            < expected
        {
            assert!(
                std::time::Instant::now() < deadline,
                "{expected} are handled within 60 s"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };

    wait_until_done(1);
    drop(program);

    let (_program, address) = start();
    let last = body("last");
    assert_eq!(send(&address, &first, &signed), response(200), "a retry");
    assert_eq!(
        send(&address, &last, &signature(last.as_bytes())),
        response(200)
    );

    wait_until_done(2);
    let mut results = connection
        .prepare("SELECT id FROM results ORDER BY id")
        .unwrap();
    let results = results
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap);
    assert_eq!(results.collect::<Vec<String>>(), ["last", "one"]);
}

/// When the server sends `100 Continue` to a sender that waits for it.
#[derive(Clone, Copy, PartialEq)]
enum Continue {
    /// Only for a well-formed signature header.
    WellFormed,
    /// For every request, because actix-web sends it before any extractor runs.
    Always,
}

fn check_receiver(program: &str, handled: u16, continues: Continue) {
    let mut program = Program::start(program, &[("ADDR", "127.0.0.1:0")]);
    let url = program.next_line();
    let address = url
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/hooks")
        .unwrap();
    let send = |headers: &[(&str, &str)], body: &[u8]| post(address, headers, body.len(), body);

    let first = body("one");
    let first_signature = signature(first.as_bytes());
    let valid = [("X-Service-Signature", &first_signature[..])];
    assert_eq!(send(&valid, first.as_bytes()), response(handled));
    // A retry of the same bytes gets a response and is not handled again.
    assert_eq!(send(&valid, first.as_bytes()), response(200));

    let unauthorized = response(401);
    assert_eq!(send(&[], first.as_bytes()), unauthorized, "no signature");

    let second = body("two");
    assert_eq!(
        send(&valid, second.as_bytes()),
        unauthorized,
        "the signature of another body"
    );

    let twice = [valid[0], valid[0]];
    assert_eq!(
        send(&twice, first.as_bytes()),
        unauthorized,
        "two header lines"
    );

    let upper = first_signature.to_uppercase();
    let prefix = [("X-Service-Signature", &upper[..])];
    assert_eq!(
        send(&prefix, first.as_bytes()),
        unauthorized,
        "another prefix"
    );

    let bare = [("Mail-Signature", &first_signature[7..])];
    assert_eq!(
        send(&bare, first.as_bytes()),
        unauthorized,
        "the other service's header"
    );
    assert_eq!(
        post(address, &[], 1 << 40, b""),
        unauthorized,
        "rejected before the body is read"
    );

    // Announced as too large: rejected before the body is sent.
    assert_eq!(post(address, &valid, 1024 * 1024 + 1, b""), response(413));

    // Without an announced size, the body is read up to the limit.
    let too_large = vec![b'x'; 1024 * 1024 + 1];
    assert_eq!(post_in_chunks(address, &valid, &too_large), response(413));

    let largest = format!(
        "{{\"event\":\"extraction.completed\",\"id\":\"large\",\"data\":\"{}\"}}",
        "x".repeat(1024 * 1024 - 62)
    );
    let signed = signature(largest.as_bytes());
    assert!((1024 * 1024 - 10..=1024 * 1024).contains(&largest.len()));
    assert_eq!(
        send(&[("X-Service-Signature", &signed)], largest.as_bytes()),
        response(handled)
    );

    // A sender that waits for `100 Continue` gets the rejection without sending the
    // body, unless the server sends `100 Continue` to everyone.
    let waiting = |headers: &[(&str, &str)], announced: usize, body: &[u8]| {
        let framing = format!("Content-Length: {announced}\r\nExpect: 100-continue");
        let mut connection = send_head(address, headers, &framing);
        let (first, mut body_of_response) = read_response(&mut connection);
        if first != 100 {
            return (false, (first, body_of_response));
        }
        connection.get_mut().write_all(body).unwrap();
        let mut status = first;
        while status == 100 {
            (status, body_of_response) = read_response(&mut connection);
        }
        (true, (status, body_of_response))
    };

    let patient = body("patient");
    let signed = signature(patient.as_bytes());
    let signed = [("X-Service-Signature", &signed[..])];
    let result = waiting(&signed, patient.len(), patient.as_bytes());
    assert_eq!(result, (true, response(handled)));

    let always = continues == Continue::Always;
    assert_eq!(waiting(&[], patient.len(), b""), (always, response(401)));
    assert_eq!(
        waiting(&signed, 1024 * 1024 + 1, b""),
        (always, response(413))
    );

    // Whitespace around a header's value is not part of it in HTTP.
    let padded = body("padded");
    let signed_value = signature(padded.as_bytes());
    let surrounded = format!(" \t{signed_value} \t ");
    let valid = [("X-Service-Signature", &surrounded[..])];
    assert_eq!(send(&valid, padded.as_bytes()), response(handled));

    let digits = signed_value.strip_prefix("sha256=").unwrap();
    for invalid in [
        format!("{signed_value},{signed_value}"),
        format!("{signed_value}, {signed_value}"),
        format!("sha256= {digits}"),
        format!("sha256={}", &digits[1..]),
        format!("{signed_value}0"),
        format!("sha256={}\u{661}", &digits[2..]),
        format!("\"{signed_value}\""),
        String::new(),
    ] {
        let invalid = [("X-Service-Signature", &invalid[..])];
        assert_eq!(
            send(&invalid, padded.as_bytes()),
            unauthorized,
            "{invalid:?}"
        );
    }

    // Trailers are not headers: they neither provide nor invalidate a signature.
    let trailing = body("trailing");
    let signed_value = signature(trailing.as_bytes());
    let trailer = |value: &str| format!("X-Service-Signature: {value}\r\n");
    let chunked = |headers: &[(&str, &str)], trailers: &str| {
        exchange(
            address,
            headers,
            CHUNKED,
            &in_chunks(trailing.as_bytes(), trailers),
        )
    };

    assert_eq!(chunked(&[], &trailer(&signed_value)), unauthorized);

    let valid = [("X-Service-Signature", &signed_value[..])];
    assert_eq!(chunked(&valid, &trailer("sha256=00")), response(handled));

    // `Content-Encoding` is ignored.
    let encoded = [
        ("X-Service-Signature", &signed_value[..]),
        ("Content-Encoding", "gzip"),
    ];
    assert_eq!(send(&encoded, trailing.as_bytes()), response(200));

    // Many headers, none of which is the signature header.
    let many: Vec<String> = (0..60)
        .map(|n| format!("X-Service-Signature-{n}"))
        .collect();
    let many: Vec<_> = many.iter().map(|name| (&name[..], signed[0].1)).collect();
    assert_eq!(send(&many, patient.as_bytes()), unauthorized);

    let not_json = signature(b"[");
    assert_eq!(
        send(&[("X-Service-Signature", &not_json)], b"["),
        response(400)
    );

    let mixed_case = signature(second.as_bytes())
        .to_uppercase()
        .replace("SHA256=", "sha256=");
    let mixed_case = [("x-sErViCe-SiGnAtUrE", &mixed_case[..])];
    assert_eq!(send(&mixed_case, second.as_bytes()), response(handled));

    // The handled deliveries, and no others.
    assert_eq!(program.next_line(), "extraction.completed one");
    assert_eq!(program.next_line(), "extraction.completed large");
    assert_eq!(program.next_line(), "extraction.completed patient");
    assert_eq!(program.next_line(), "extraction.completed padded");
    assert_eq!(program.next_line(), "extraction.completed trailing");
    assert_eq!(program.next_line(), "extraction.completed two");
}

fn response(status: u16) -> (u16, String) {
    (status, String::new())
}

/// Sends a delivery with a `Content-Length`, and returns the status and body of the
/// response.
fn post(address: &str, headers: &[(&str, &str)], announced: usize, body: &[u8]) -> (u16, String) {
    exchange(
        address,
        headers,
        &format!("Content-Length: {announced}"),
        body,
    )
}

/// Sends a delivery with a chunked body.
fn post_in_chunks(address: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    exchange(address, headers, CHUNKED, &in_chunks(body, ""))
}

const CHUNKED: &str = "Transfer-Encoding: chunked";

/// Encodes a body in chunks. Each trailer must end with a line break.
fn in_chunks(body: &[u8], trailers: &str) -> Vec<u8> {
    let mut chunks = Vec::new();
    for chunk in body.chunks(16 * 1024) {
        chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunks.extend_from_slice(chunk);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    chunks
}

fn exchange(address: &str, headers: &[(&str, &str)], framing: &str, body: &[u8]) -> (u16, String) {
    let mut connection = send_head(address, headers, framing);
    // The server may reject the request and close the connection before it has the body.
    let _ = connection.get_mut().write_all(body);
    read_response(&mut connection)
}

fn send_head(address: &str, headers: &[(&str, &str)], framing: &str) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(address).unwrap();
    // A missing response fails the test instead of blocking it.
    connection
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut head =
        format!("POST /hooks HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{framing}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }

    connection
        .write_all(format!("{head}\r\n").as_bytes())
        .unwrap();
    BufReader::new(connection)
}

/// Reads by `Content-Length` and not until the end of the connection, because some
/// servers keep it open if they have not read the whole request.
fn read_response(connection: &mut impl BufRead) -> (u16, String) {
    let mut line = || {
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        line.trim_end().to_ascii_lowercase()
    };

    let status = line()
        .split(' ')
        .nth(1)
        .expect("no response")
        .parse()
        .unwrap();
    let mut length = 0;
    loop {
        let line = line();
        if line.is_empty() {
            break;
        }
        assert!(
            !line.starts_with("transfer-encoding"),
            "no response is chunked"
        );
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }

    let mut body = vec![0; length];
    connection.read_exact(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}
