//! Proxies, named by the environment or by the program: which requests go by
//! way of them, and what they see. The environment belongs to the whole
//! process, so what reads it is a process of its own.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::peer::{Peer, answer};
use crate::tls;

/// Forwards what comes by CONNECT, and answers everything else itself.
struct Proxy {
    address: String,
    connections: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start() -> Self {
        Self::answering("HTTP/1.1 200 Connected\r\n\r\n").await
    }

    /// Answers CONNECT so; anything but 200 is the end of it.
    async fn answering(connect: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let place = {
                    let mut all = all.lock().unwrap();
                    all.push(String::new());
                    all.len() - 1
                };
                tokio::spawn(forward(stream, connect, Arc::clone(&all), place));
            }
        });
        Self { address, connections }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that came from the client, for each connection.
    fn seen(&self) -> Vec<String> {
        self.connections.lock().unwrap().clone()
    }
}

async fn forward(
    mut client: TcpStream,
    connect: &str,
    all: Arc<Mutex<Vec<String>>>,
    place: usize,
) -> Option<()> {
    let note = |bytes: &[u8]| all.lock().unwrap()[place].push_str(&String::from_utf8_lossy(bytes));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    note(&head);
    let head = String::from_utf8(head).unwrap();
    let Some(target) = head.strip_prefix("CONNECT ") else {
        client.write_all(answer(200, r#"{"id":"by proxy"}"#).as_bytes()).await.ok()?;
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.ok()?;
        return Some(());
    };
    client.write_all(connect.as_bytes()).await.ok()?;
    if !connect.starts_with("HTTP/1.1 200") {
        return None;
    }
    let target = TcpStream::connect(target.split(' ').next()?).await.ok()?;
    let (mut from_target, mut to_target) = target.into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let back = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_target, &mut to_client).await;
    });
    let mut buffer = [0; 4096];
    loop {
        match from_client.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                note(&buffer[..count]);
                to_target.write_all(&buffer[..count]).await.ok()?;
            }
        }
    }
    drop(to_target);
    back.await.ok()
}

/// No test of its own: the process that finds its proxy in the environment.
#[tokio::test]
#[ignore = "started by the tests of this file"]
async fn child() {
    let url = std::env::var("SVC_TEST_URL").unwrap();
    let mut builder = EmailClient::builder(url, "mk_secret").retries(0);
    if let Ok(pem) = std::env::var("SVC_TEST_CA") {
        builder = builder.ca_bundle(pem).platform_certificates(false);
    }
    if std::env::var_os("SVC_TEST_NO_PROXY").is_some() {
        builder = builder.no_proxy();
    }
    let email = Email::new("a@b", "c@d", "s");
    let said = match builder.build().unwrap().emails().send(&email).await {
        Ok(email) => format!("sent {}", email.id),
        Err(error) => format!("{} {}", error.kind().name(), error.outcome().as_str()),
    };
    writeln!(std::io::stdout(), "\nsaid: {said}").unwrap();
}

/// What the client does with this environment.
async fn run(environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["proxies::child", "--exact", "--ignored", "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    // Where a web server runs a program, `HTTP_PROXY` is a client's header.
    command.env_remove("REQUEST_METHOD").envs(environment.iter().copied());
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.lines().find_map(|line| line.strip_prefix("said: "));
    said.unwrap_or_else(|| panic!("it said nothing: {text}")).to_owned()
}

#[tokio::test]
async fn https_goes_through_a_tunnel_and_the_proxy_never_sees_the_key() {
    let (url, pem) = tls::start().await;
    let target = url.strip_prefix("https://").unwrap();
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let proxy = Proxy::start().await;
        let with_password = proxy.url().replace("http://", "http://ada:hidden@");
        let environment =
            [(name, with_password.as_str()), ("SVC_TEST_URL", &url), ("SVC_TEST_CA", &pem)];
        assert_eq!(run(&environment).await, "sent x", "{name}");
        let seen = proxy.seen();
        assert_eq!(seen.len(), 1, "{name}");
        assert!(seen[0].starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{}", seen[0]);
        let lower = seen[0].to_ascii_lowercase();
        assert!(lower.contains("\r\nproxy-authorization: basic "), "{lower}");
        for secret in ["mk_secret", "\r\nauthorization:", "a@b"] {
            assert!(!lower.contains(secret), "{secret} in {lower}");
        }
    }
}

#[tokio::test]
async fn plain_http_goes_to_its_proxy_and_the_key_stays_in_its_header() {
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let proxy = Proxy::start().await;
        let url = "http://mail.invalid/base";
        let said = run(&[(name, &proxy.url()), ("SVC_TEST_URL", url)]).await;
        assert_eq!(said, "sent by proxy", "{name}");
        let seen = proxy.seen();
        let [only] = seen.as_slice() else { panic!("{seen:?}") };
        let (line, headers) = only.split_once("\r\n").unwrap();
        assert_eq!(line, "POST http://mail.invalid/base/api/v1/emails HTTP/1.1");
        assert!(headers.contains("authorization: Bearer mk_secret\r\n"), "{headers}");
    }
}

#[tokio::test]
async fn what_is_left_out_goes_directly() {
    let proxy = Proxy::start().await;
    let address = proxy.url();
    let peer = Peer::json(202, r#"{"id":"direct"}"#).await;
    let url = peer.url();
    for environment in [
        &[("HTTP_PROXY", address.as_str()), ("NO_PROXY", "127.0.0.1")][..],
        &[("ALL_PROXY", &address), ("no_proxy", "elsewhere.test,127.0.0.0/8")],
        &[("HTTP_PROXY", &address), ("NO_PROXY", "*")],
        // It is for https alone.
        &[("HTTPS_PROXY", &address)],
        // The program says so.
        &[("HTTP_PROXY", &address), ("SVC_TEST_NO_PROXY", "1")],
    ] {
        let environment = [environment, &[("SVC_TEST_URL", url.as_str())]].concat();
        assert_eq!(run(&environment).await, "sent direct", "{environment:?}");
    }
    let email = Email::new("a@b", "c@d", "s");
    for except in ["127.0.0.1", "elsewhere.test, 127.0.0.0/8", "*"] {
        let client =
            EmailClient::builder(&url, "mk_secret").proxy(address.as_str()).proxy_except(except);
        let sent = client.build().unwrap().emails().send(&email).await;
        assert_eq!(sent.unwrap().id, "direct", "{except}");
    }
    assert_eq!(proxy.seen(), Vec::<String>::new());
    assert_eq!(peer.lines().len(), 8);
    let client =
        EmailClient::builder(&url, "mk_secret").proxy(address.as_str()).proxy_except("b.test");
    assert_eq!(client.build().unwrap().emails().send(&email).await.unwrap().id, "by proxy");
}

#[tokio::test]
async fn a_proxy_that_lets_nothing_through_is_certainly_no_send() {
    let (url, pem) = tls::start().await;
    for refusal in [
        "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "",
    ] {
        let proxy = Proxy::answering(refusal).await;
        let client = EmailClient::builder(&url, "mk_secret").proxy(proxy.url()).ca_bundle(&pem);
        let client = client.platform_certificates(false).retries(0).build().unwrap();
        let error = client.emails().send(&Email::new("a@b", "c@d", "s")).await.unwrap_err();
        assert_eq!(error.outcome(), svc_sdk::Outcome::NotSent, "{refusal}");
        assert!(error.is_connect(), "{refusal}: {error}");
        assert_eq!(proxy.seen().len(), 1);
    }
    // Nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let said = run(&[("HTTPS_PROXY", &format!("http://{gone}")), ("SVC_TEST_URL", &url)]).await;
    assert_eq!(said, "connect not_sent");
}
