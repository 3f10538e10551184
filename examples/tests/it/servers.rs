//! The receivers that are HTTP servers, over real sockets.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use webhook_verify::{MailSigner, Secret};

use crate::program::Program;
use crate::{SECRET, body, signature};

#[test]
fn axum() {
    receives(env!("CARGO_BIN_EXE_receiver-axum"), 204, Invites::Signed);
}

#[test]
fn actix() {
    receives(env!("CARGO_BIN_EXE_receiver-actix"), 204, Invites::All);
}

#[test]
fn hyper() {
    receives(env!("CARGO_BIN_EXE_receiver-hyper"), 200, Invites::Signed);
}

#[test]
fn the_email_services_deliveries() {
    let program = env!("CARGO_BIN_EXE_receiver-email");
    let mut program = Program::start(program, &[("ADDR", "127.0.0.1:0")]);
    let url = program.says();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/hooks").unwrap();
    let signer = MailSigner::new(&Secret::new(SECRET).unwrap());
    let send = |body: &str, signed: &str| {
        let signature = signer.sign(signed.as_bytes()).to_string();
        post(address, &[("Mail-Signature", &signature)], body.len(), body.as_bytes())
    };
    let body = |event: &str, data: &str| {
        format!(
            r#"{{"event":"{event}","id":"{event}","created":"2026-03-01T09:30:00Z","data":{data}}}"#
        )
    };
    let bounced = body("email.bounced", r#"{"emailId":"eml_1","recipient":"ada@example.test"}"#);
    assert_eq!(send(&bounced, &bounced), answer(204));
    assert_eq!(send(&bounced, &bounced), answer(200), "a retry");
    let sent = body("email.sent", r#"{"recipient":"bob@example.test"}"#);
    assert_eq!(send(&sent, &bounced), answer(401), "the signature of another body");
    assert_eq!(send(&sent, &sent), answer(204));
    let received = body("email.received", r#"{"from":"eve@example.test"}"#);
    assert_eq!(send(&received, &received), answer(204));
    let odd = body("email.opened", "[]");
    assert_eq!(send(&odd, &odd), answer(422));
    assert_eq!(program.says(), "email.bounced: do not write to ada@example.test again");
    assert_eq!(program.says(), "email.sent bob@example.test");
    assert_eq!(program.says(), "email.received -");
}

/// Whose body the server asks for with 100 when the sender waits for that.
#[derive(Clone, Copy, PartialEq)]
enum Invites {
    /// Only who has a signature that can be right.
    Signed,
    /// actix-web does so before any extractor runs.
    All,
}

fn receives(program: &str, handled: u16, invites: Invites) {
    let mut program = Program::start(program, &[("ADDR", "127.0.0.1:0")]);
    let url = program.says();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/hooks").unwrap();
    let send = |headers: &[(&str, &str)], body: &[u8]| post(address, headers, body.len(), body);

    let first = body("one");
    let first_signature = signature(first.as_bytes());
    let good = [("X-Service-Signature", &first_signature[..])];
    assert_eq!(send(&good, first.as_bytes()), answer(handled));
    // A retry is the same bytes; it is answered and not handled again.
    assert_eq!(send(&good, first.as_bytes()), answer(200));

    let refused = answer(401);
    assert_eq!(send(&[], first.as_bytes()), refused, "no signature");
    let second = body("two");
    assert_eq!(send(&good, second.as_bytes()), refused, "the signature of another body");
    let twice = [good[0], good[0]];
    assert_eq!(send(&twice, first.as_bytes()), refused, "two header lines");
    let upper = first_signature.to_uppercase();
    let prefix = [("X-Service-Signature", &upper[..])];
    assert_eq!(send(&prefix, first.as_bytes()), refused, "another prefix");
    let bare = [("Mail-Signature", &first_signature[7..])];
    assert_eq!(send(&bare, first.as_bytes()), refused, "the other service's header");
    assert_eq!(post(address, &[], 1 << 40, b""), refused, "refused before it is read");

    // Announced as too large: answered before any of it is sent.
    assert_eq!(post(address, &good, 1024 * 1024 + 1, b""), answer(413));
    // Not announced: read up to the limit, and no further.
    let endless = vec![b'x'; 1024 * 1024 + 1];
    assert_eq!(post_in_chunks(address, &good, &endless), answer(413));
    let largest = format!(
        "{{\"event\":\"extraction.completed\",\"id\":\"large\",\"data\":\"{}\"}}",
        "x".repeat(1024 * 1024 - 62)
    );
    let signed = signature(largest.as_bytes());
    assert!((1024 * 1024 - 10..=1024 * 1024).contains(&largest.len()));
    assert_eq!(send(&[("X-Service-Signature", &signed)], largest.as_bytes()), answer(handled));

    // Who waits to be asked for the body is told without it, where that is up to us.
    let waiting = |headers: &[(&str, &str)], announced: usize, body: &[u8]| {
        let framing = format!("Content-Length: {announced}\r\nExpect: 100-continue");
        let mut connection = send_head(address, headers, &framing);
        let (first, mut said) = read_answer(&mut connection);
        if first != 100 {
            return (false, (first, said));
        }
        connection.get_mut().write_all(body).unwrap();
        let mut status = first;
        while status == 100 {
            (status, said) = read_answer(&mut connection);
        }
        (true, (status, said))
    };
    let patient = body("patient");
    let signed = signature(patient.as_bytes());
    let signed = [("X-Service-Signature", &signed[..])];
    let asked = waiting(&signed, patient.len(), patient.as_bytes());
    assert_eq!(asked, (true, answer(handled)));
    let all = invites == Invites::All;
    assert_eq!(waiting(&[], patient.len(), b""), (all, answer(401)));
    assert_eq!(waiting(&signed, 1024 * 1024 + 1, b""), (all, answer(413)));

    // What a header's value is not: HTTP takes off what stands around it.
    let padded = body("padded");
    let made = signature(padded.as_bytes());
    let around = format!(" \t{made} \t ");
    let good = [("X-Service-Signature", &around[..])];
    assert_eq!(send(&good, padded.as_bytes()), answer(handled));
    let digits = made.strip_prefix("sha256=").unwrap();
    for odd in [
        format!("{made},{made}"),
        format!("{made}, {made}"),
        format!("sha256= {digits}"),
        format!("sha256={}", &digits[1..]),
        format!("{made}0"),
        format!("sha256={}\u{661}", &digits[2..]),
        format!("\"{made}\""),
        String::new(),
    ] {
        let odd = [("X-Service-Signature", &odd[..])];
        assert_eq!(send(&odd, padded.as_bytes()), refused, "{odd:?}");
    }

    // Trailers are no headers: they neither bring a signature nor spoil one.
    let trailing = body("trailing");
    let made = signature(trailing.as_bytes());
    let trailer = |value: &str| format!("X-Service-Signature: {value}\r\n");
    let chunked = |headers: &[(&str, &str)], trailers: &str| {
        exchange(address, headers, CHUNKED, &in_chunks(trailing.as_bytes(), trailers))
    };
    assert_eq!(chunked(&[], &trailer(&made)), refused);
    let good = [("X-Service-Signature", &made[..])];
    assert_eq!(chunked(&good, &trailer("sha256=00")), answer(handled));

    // Said to be compressed, and not touched.
    let encoded = [("X-Service-Signature", &made[..]), ("Content-Encoding", "gzip")];
    assert_eq!(send(&encoded, trailing.as_bytes()), answer(200));

    // Many headers, none of them the one.
    let many: Vec<String> = (0..60).map(|n| format!("X-Service-Signature-{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (&name[..], signed[0].1)).collect();
    assert_eq!(send(&many, patient.as_bytes()), refused);

    let odd = signature(b"[]");
    assert_eq!(send(&[("X-Service-Signature", &odd)], b"[]"), answer(400));

    let mixed_case = signature(second.as_bytes()).to_uppercase().replace("SHA256=", "sha256=");
    let mixed_case = [("x-sErViCe-SiGnAtUrE", &mixed_case[..])];
    assert_eq!(send(&mixed_case, second.as_bytes()), answer(handled));

    // What was handled, and in between nothing else.
    assert_eq!(program.says(), "extraction.completed one");
    assert_eq!(program.says(), "extraction.completed large");
    assert_eq!(program.says(), "extraction.completed patient");
    assert_eq!(program.says(), "extraction.completed padded");
    assert_eq!(program.says(), "extraction.completed trailing");
    assert_eq!(program.says(), "extraction.completed two");
}

fn answer(status: u16) -> (u16, String) {
    (status, String::new())
}

/// Sends a delivery of which a length is announced; gives the status and the
/// body of the answer.
fn post(address: &str, headers: &[(&str, &str)], announced: usize, body: &[u8]) -> (u16, String) {
    exchange(address, headers, &format!("Content-Length: {announced}"), body)
}

/// Sends a delivery of which no length is announced.
fn post_in_chunks(address: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    exchange(address, headers, CHUNKED, &in_chunks(body, ""))
}

const CHUNKED: &str = "Transfer-Encoding: chunked";

/// Each trailer ends with its line.
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
    // A server may refuse and close before the body is there.
    let _ = connection.get_mut().write_all(body);
    read_answer(&mut connection)
}

fn send_head(address: &str, headers: &[(&str, &str)], framing: &str) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(address).unwrap();
    // A bound, and no wait: an answer that does not come fails the test.
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head =
        format!("POST /hooks HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{framing}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    connection.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    BufReader::new(connection)
}

/// Not up to the end of the connection, which some servers hold open for a
/// while when they have not read the whole request.
fn read_answer(connection: &mut impl BufRead) -> (u16, String) {
    let mut line = || {
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        line.trim_end().to_ascii_lowercase()
    };
    let status = line().split(' ').nth(1).expect("an answer").parse().unwrap();
    let mut length = 0;
    loop {
        let line = line();
        if line.is_empty() {
            break;
        }
        assert!(!line.starts_with("transfer-encoding"), "no answer here is that long");
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).unwrap();
    (status, String::from_utf8(body).unwrap())
}
