//! Deliveries to an application behind https with a certificate of its own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use webhook_verify::{MailSigner, Secret};

use crate::support::{Home, answer};

/// An application for `localhost` that answers 201 and keeps what it was sent.
struct App {
    port: u16,
    pem: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl App {
    fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let tls = ServerConnection::new(Arc::clone(&config)).expect("a connection");
                // A client that does not trust us hangs up.
                if let Some(request) = take(StreamOwned::new(tls, stream)) {
                    kept.lock().expect("no panic").push(request);
                }
            }
        });
        Self { port, pem: made.cert.pem(), requests }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/hooks", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn take(mut stream: StreamOwned<ServerConnection, TcpStream>) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"}") {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }
    stream.write_all(answer(201, "x-app: yes\r\n", "").as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()?;
    Some(String::from_utf8_lossy(&request).into_owned())
}

#[test]
fn a_test_delivery_trusts_what_the_bundle_holds_and_nothing_else() {
    let (home, app) = (Home::new(), App::start());
    let bundle = home.file("ca.pem", &app.pem);
    let trigger = ["trigger", "email.sent", "--to", &app.url()];
    let run = home.run(&[&trigger[..], &["--ca-bundle", &bundle]].concat());
    assert_eq!((run.code, run.json()["status"].clone()), (0, 201.into()), "{run:?}");
    assert!(app.requests()[0].starts_with("POST /hooks HTTP/1.1\r\n"), "{:?}", app.requests());

    let untrusted = home.run(&trigger);
    let error = untrusted.error();
    assert_eq!((untrusted.code, error["code"].clone()), (8, "endpoint_not_trusted".into()));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--ca-bundle")), "{error}");

    // Its certificate is for another name.
    let other = app.url().replace("localhost", "127.0.0.1");
    let run = home.run(&["trigger", "email.sent", "--to", &other, "--ca-bundle", &bundle]);
    assert_eq!((run.code, run.error()["code"].clone()), (8, "endpoint_not_trusted".into()));

    let rubbish = home.file("rubbish.pem", "-----BEGIN CERTIFICATE-----\n?\n");
    let run = home.run(&[&trigger[..], &["--ca-bundle", &rubbish]].concat());
    assert_eq!(run.code, 2, "{run:?}");
    let absent = home.run(&[&trigger[..], &["--ca-bundle", "nowhere.pem"]].concat());
    assert_eq!(absent.code, 2, "{absent:?}");
    assert_eq!(app.requests().len(), 1);
}

#[test]
fn deliveries_are_passed_on_and_replayed_over_tls() {
    let (home, app) = (Home::new(), App::start());
    let (bundle, secret) = (home.file("ca.pem", &app.pem), home.file("secret", "whsec_1"));
    let url = app.url();
    let deliver = |options: &[&str]| {
        let args = ["listen", "--secret-file", &secret, "--forward-to", &url];
        let mut child = home
            .command(&[&args[..], options].concat())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut next = || -> Value {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut lines, &mut line).expect("a line");
            serde_json::from_str(&line).expect("JSON")
        };
        let address = next()["listening"].as_str().expect("an address").replace("http://", "");
        let body = r#"{"event":"email.sent","id":"1"}"#;
        let signature = MailSigner::new(&Secret::new("whsec_1").expect("a secret")).sign(body);
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: x\r\nMail-Signature: {signature}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut answered = String::new();
        stream.read_to_string(&mut answered).expect("an answer");
        let seen = next();
        child.kill().expect("killed");
        child.wait().expect("ends");
        (answered, seen)
    };
    let (answered, seen) = deliver(&["--ca-bundle", &bundle]);
    assert!(answered.starts_with("HTTP/1.1 201") && answered.contains("x-app: yes"), "{answered}");
    assert!(app.requests()[0].ends_with(r#"{"event":"email.sent","id":"1"}"#));

    let id = seen["id"].as_str().expect("an id");
    let run = home.run(&["replay", id, "--ca-bundle", &bundle]);
    assert_eq!((run.code, run.json()[0]["status"].clone()), (0, 201.into()), "{run:?}");
    assert_eq!(app.requests().len(), 2);

    // That is no restart: the service is told, and a person why.
    let (answered, seen) = deliver(&[]);
    assert!(answered.starts_with("HTTP/1.1 502"), "{answered}");
    assert!(seen["problem"].as_str().is_some_and(|p| p.contains("no secure connection")), "{seen}");
    assert!(seen["duration_ms"].as_u64().is_some_and(|ms| ms < 6000), "it was waited out: {seen}");
    assert_eq!(app.requests().len(), 2);
}
