//! TLS with a private certificate, and proxies.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use webhook_verify::{Secret, Service, Signature};

use crate::support::{Home, TIME_LIMIT, Watchdog, http_response, limit_time};

/// An https application for `localhost` that responds with 201 and an id, and records the requests.
struct App {
    port: u16,
    pem: String,
    requests: Arc<Mutex<Vec<String>>>,
    /// The number of connections, including failed handshakes.
    connections: Arc<AtomicUsize>,
}

impl App {
    fn start() -> Self {
        Self::with_certificate(IsCa::NoCa)
    }

    fn with_certificate(is_ca: IsCa) -> Self {
        Self::serving(is_ca, serve)
    }

    fn serving(is_ca: IsCa, serve: fn(TlsStream, &Mutex<Vec<String>>) -> Option<()>) -> Self {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("created");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let kept = Arc::clone(&requests);
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                limit_time(&stream);
                let tls = ServerConnection::new(Arc::clone(&config)).expect("a connection");
                // A client that does not trust the certificate closes the connection.
                serve(StreamOwned::new(tls, stream), &kept);
            }
        });
        Self {
            port,
            pem: certificate.pem(),
            requests,
            connections,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/hooks", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

type TlsStream = StreamOwned<ServerConnection, TcpStream>;

/// Asks a client of PostgreSQL for its password, and closes the connection.
fn serve_postgres(mut stream: TlsStream, requests: &Mutex<Vec<String>>) -> Option<()> {
    // The client asks for TLS before it begins.
    stream.sock.read_exact(&mut [0; 8]).ok()?;
    stream.sock.write_all(b"S").ok()?;
    let mut buffer = [0; 4096];
    stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
    let ask_for_password = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
    stream.write_all(&ask_for_password).ok()?;
    stream.flush().ok()?;
    let read = stream.read(&mut buffer).ok()?;
    let password = String::from_utf8_lossy(&buffer[..read]).into_owned();
    requests.lock().expect("no panic").push(password);
    Some(())
}

#[test]
fn a_ledger_over_tls_trusts_only_the_bundle_and_keeps_its_password() {
    let home = Home::new();
    let postgres = App::serving(IsCa::NoCa, serve_postgres);
    let bundle = home.file("ca.pem", &postgres.pem);
    let port = postgres.port;
    let url = |host: &str| format!("postgres://svc:hunter2@{host}:{port}/svc?sslmode=require");
    let list = |args: &[&str], host: &str| {
        let run = home.run_with_env(args, &[("SVC_BULK_LEDGER", &url(host))]);
        assert_eq!(
            (run.code, run.error()["code"].as_str()),
            (8, Some("ledger_unreachable")),
            "{run:?}"
        );
        assert!(!run.stderr.contains("hunter2"), "{run:?}");
        run.stderr
    };

    list(&["bulk", "list", "--ca-bundle", &bundle], "localhost");
    let passwords = postgres.requests();
    assert!(passwords.concat().contains("hunter2"), "{passwords:?}");

    // The second certificate is for another name.
    for (args, host) in [
        (&["bulk", "list"][..], "localhost"),
        (&["bulk", "list", "--ca-bundle", &bundle], "127.0.0.1"),
    ] {
        let stderr = list(args, host);
        assert!(stderr.contains("certificate"), "{stderr}");
    }

    assert_eq!(postgres.requests().len(), passwords.len());
}

/// Records one request before it responds, so that the request is recorded when the client ends.
fn serve(mut stream: TlsStream, requests: &Mutex<Vec<String>>) -> Option<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"}") {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }

    requests
        .lock()
        .expect("no panic")
        .push(String::from_utf8_lossy(&request).into_owned());
    stream
        .write_all(http_response(201, "x-app: yes\r\n", r#"{"id":"eml_1"}"#).as_bytes())
        .ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

#[test]
fn trigger_trusts_only_certificates_in_the_bundle() {
    let home = Home::new();
    let app = App::start();
    let bundle = home.file("ca.pem", &app.pem);
    let trigger = ["trigger", "email.sent", "--to", &app.url()];
    let run = home.run(&[&trigger[..], &["--ca-bundle", &bundle]].concat());
    assert_eq!(
        (run.code, run.json()["status"].clone()),
        (0, 201.into()),
        "{run:?}"
    );
    assert!(
        app.requests()[0].starts_with("POST /hooks HTTP/1.1\r\n"),
        "{:?}",
        app.requests()
    );

    let untrusted = home.run(&trigger);
    let error = untrusted.error();
    assert_eq!(
        (untrusted.code, error["code"].clone()),
        (8, "endpoint_not_trusted".into())
    );
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("--ca-bundle")),
        "{error}"
    );

    // The certificate is for another name.
    let other = app.url().replace("localhost", "127.0.0.1");
    let run = home.run(&[
        "trigger",
        "email.sent",
        "--to",
        &other,
        "--ca-bundle",
        &bundle,
    ]);
    assert_eq!(
        (run.code, run.error()["code"].clone()),
        (8, "endpoint_not_trusted".into())
    );

    let rubbish = home.file("rubbish.pem", "-----BEGIN CERTIFICATE-----\n?\n");
    let run = home.run(&[&trigger[..], &["--ca-bundle", &rubbish]].concat());
    assert_eq!(run.code, 2, "{run:?}");

    let absent = home.run(&[&trigger[..], &["--ca-bundle", "nowhere.pem"]].concat());
    assert_eq!(absent.code, 2, "{absent:?}");
    assert_eq!(app.requests().len(), 1);

    // As `openssl req -x509` creates it.
    let authority = App::with_certificate(IsCa::Ca(BasicConstraints::Unconstrained));
    let bundle = home.file("authority.pem", &authority.pem);
    let run = home.run(&[
        "trigger",
        "email.sent",
        "--to",
        &authority.url(),
        "--ca-bundle",
        &bundle,
    ]);
    let hint = run.error()["hint"].clone();
    assert!(
        hint.as_str().is_some_and(|hint| hint.contains("CA:FALSE")),
        "{run:?}"
    );

    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}/hooks", plain.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().expect("a connection");
        let read = stream.read(&mut [0; 4096]).expect("a handshake");
        assert_ne!(read, 0);
        stream
            .write_all(http_response(400, "", "").as_bytes())
            .expect("sent");
    });
    let run = home.run(&["trigger", "email.sent", "--to", &url]);
    let hint = "the application responds without TLS: use a URL that begins with http:";
    assert_eq!(
        (run.code, &run.error()["hint"]),
        (8, &hint.into()),
        "{run:?}"
    );
}

#[test]
fn deliveries_are_forwarded_and_replayed_over_tls() {
    let home = Home::new();
    let app = App::start();
    let bundle = home.file("ca.pem", &app.pem);
    let secret = home.file("secret", "whsec_1");
    let url = app.url();
    let deliver = |options: &[&str]| {
        let args = ["listen", "--secret-file", &secret, "--forward-to", &url];
        let mut child = home
            .command(&[&args[..], options].concat())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let _watchdog = Watchdog::start(&child);
        let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut next = || -> Value {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut lines, &mut line).expect("a line");
            serde_json::from_str(&line).expect("JSON")
        };
        let address = next()["listening"]
            .as_str()
            .expect("an address")
            .replace("http://", "");
        let body = r#"{"event":"email.sent","id":"1"}"#;
        let signature = Signature::sign(
            Service::Email,
            &Secret::new("whsec_1").expect("a secret"),
            body,
        );
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: x\r\nMail-Signature: {signature}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        let seen = next();
        child.kill().expect("killed");
        child.wait().expect("ends");
        (response, seen)
    };

    let (response, seen) = deliver(&["--ca-bundle", &bundle]);
    assert!(
        response.starts_with("HTTP/1.1 201") && response.contains("x-app: yes"),
        "{response}"
    );
    assert!(app.requests()[0].ends_with(r#"{"event":"email.sent","id":"1"}"#));

    let id = seen["id"].as_str().expect("an id");
    let run = home.run(&["replay", id, "--ca-bundle", &bundle]);
    assert_eq!(
        (run.code, run.json()[0]["status"].clone()),
        (0, 201.into()),
        "{run:?}"
    );
    assert_eq!(app.requests().len(), 2);

    // An untrusted certificate is not a restart, so svc does not retry.
    let before = app.connections.load(Ordering::SeqCst);
    let (response, seen) = deliver(&[]);
    assert!(response.starts_with("HTTP/1.1 502"), "{response}");
    assert!(
        seen["problem"]
            .as_str()
            .is_some_and(|p| p.contains("TLS connection") && p.contains("--ca-bundle")),
        "{seen}"
    );
    assert_eq!(
        app.connections.load(Ordering::SeqCst),
        before + 1,
        "retried: {seen}"
    );
    assert_eq!(app.requests().len(), 2);

    let (response, _) = deliver(&["--skip-verify"]);
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");

    let far = [
        "--forward-to",
        "https://shop.example/hooks",
        "--skip-verify",
    ];
    let run = home.run(&[&["listen", "--secret-file", &secret][..], &far].concat());
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("--ca-bundle"), "{run:?}");
}

/// `--ca-bundle`, `SSL_CERT_FILE` and the profile, for requests to the services.
#[cfg(target_os = "linux")]
#[test]
fn certificates_come_from_option_environment_or_profile() {
    let home = Home::new();
    let app = App::start();
    let bundle = home.file("ca.pem", &app.pem);
    let url = format!("https://localhost:{}", app.port);
    let line = "emails send --from a@b.test --to c@d.test --subject s --text t --retries 0";
    let send = |options: &[&str], env: &[(&str, &str)]| {
        let args = [&line.split(' ').collect::<Vec<_>>()[..], options].concat();
        let own = [
            ("SVC_EMAIL_URL", url.as_str()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ];
        home.run_with_env(&args, &[&own[..], env].concat()).code
    };

    assert_eq!(send(&[], &[]), 8);
    assert_eq!(app.requests().len(), 0);
    assert_eq!(send(&["--ca-bundle", &bundle], &[]), 0);
    assert_eq!(send(&[], &[("SSL_CERT_FILE", &bundle)]), 0);

    let vars = home.file("vars", format!("SSL_CERT_FILE={bundle}\n"));
    assert_eq!(send(&["--env-file", &vars], &[]), 0);

    home.file(
        "config/svc/config.toml",
        format!("[profiles.default]\nca_bundle = \"{bundle}\"\n"),
    );
    assert_eq!(send(&[], &[]), 0);
    assert_eq!(app.requests().len(), 4);
}

#[test]
fn proxies_apply_except_to_excluded_hosts() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    let (asked, asks) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in proxy.incoming().filter_map(Result::ok) {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap_or(0);
            let request = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let _ = stream.write_all(b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n");
            asked.send(request).expect("the test listens");
        }
    });
    let home = Home::new();
    // A port without a listener, so that a direct connection fails immediately.
    let env = [
        ("SVC_EMAIL_URL", "https://localhost:9"),
        ("SVC_EMAIL_KEY", "mk_test_hidden"),
        ("HTTPS_PROXY", address.as_str()),
    ];
    let args = ["audiences", "list", "--retries", "0"];
    let run = home.run_with_env(&args, &env);
    assert_eq!(run.code, 8, "{run:?}");

    let request = asks
        .recv_timeout(TIME_LIMIT)
        .expect("a request to the proxy");
    assert!(
        request.starts_with("CONNECT localhost:9 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(!request.contains("hidden"), "{request}");

    let message = run.error()["message"].clone();
    let message = message.as_str().expect("a message");
    assert!(message.contains(&address), "{message}");

    let direct = [&env[..], &[("NO_PROXY", "localhost")]].concat();
    let run = home.run_with_env(&args, &direct);
    assert_eq!((run.code, asks.try_recv().is_err()), (8, true), "{run:?}");

    // The same from the file of --env-file.
    let file = home.file("proxy.env", format!("HTTPS_PROXY={address}\n"));
    let args = [&args[..], &["--env-file", &file]].concat();
    assert_eq!(home.run_with_env(&args, &env[..2]).code, 8);
    assert!(
        asks.recv_timeout(TIME_LIMIT)
            .expect("a request to the proxy")
            .starts_with("CONNECT localhost:9 ")
    );

    for (file, env) in [
        (
            format!("HTTPS_PROXY={address}\nNO_PROXY=localhost\n"),
            &env[..2],
        ),
        (format!("HTTPS_PROXY={address}\nNO_PROXY=*\n"), &env[..2]),
        // Only for plain http.
        (format!("HTTP_PROXY={address}\n"), &env[..2]),
        ("NO_PROXY=localhost\n".to_owned(), &env[..]),
        ("NO_PROXY=elsewhere.test\n".to_owned(), &direct[..]),
    ] {
        home.file("proxy.env", &file);
        let run = home.run_with_env(&args, env);
        assert_eq!(
            (run.code, asks.try_recv().is_err()),
            (8, true),
            "{file}: {run:?}"
        );
    }
}
