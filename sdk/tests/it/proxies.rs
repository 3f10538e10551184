//! Proxies from the environment or the builder: which requests use them and what they see.
//! Environment variables are global to a process, so tests that need them start a child
//! process.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::Command;

use crate::mock_server::{MockServer, response};
use crate::tls;

/// A proxy that forwards CONNECT tunnels and responds to all other requests itself.
struct Proxy {
    address: String,
    connections: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start() -> Self {
        Self::responding_to_connect("HTTP/1.1 200 Connected\r\n\r\n").await
    }

    /// Responds to CONNECT with `connect`, and closes the connection unless that is a 200.
    async fn responding_to_connect(connect: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let index = {
                    let mut all = all.lock().unwrap();
                    all.push(String::new());
                    all.len() - 1
                };
                tokio::spawn(forward(stream, connect, Arc::clone(&all), index));
            }
        });
        Self {
            address,
            connections,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All data received from clients, per connection.
    fn received(&self) -> Vec<String> {
        self.connections.lock().unwrap().clone()
    }
}

async fn forward(
    mut client: TcpStream,
    connect: &str,
    all: Arc<Mutex<Vec<String>>>,
    index: usize,
) -> Option<()> {
    let record =
        |bytes: &[u8]| all.lock().unwrap()[index].push_str(&String::from_utf8_lossy(bytes));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }

    record(&head);
    let head = String::from_utf8(head).unwrap();
    let Some(target) = head.strip_prefix("CONNECT ") else {
        client
            .write_all(response(200, r#"{"id":"by proxy"}"#).to_string().as_bytes())
            .await
            .ok()?;
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
                record(&buffer[..count]);
                to_target.write_all(&buffer[..count]).await.ok()?;
            }
        }
    }

    drop(to_target);
    back.await.ok()
}

/// Not a test of its own: the child process that reads its proxy from the environment.
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
    let result = match builder.build() {
        Err(error) => format!("no client: {error}"),
        Ok(client) => match client.emails().send(&email).await {
            Ok(email) => format!("sent {}", email.id),
            Err(error) => format!("{} {}", error.kind().name(), error.outcome().as_str()),
        },
    };
    writeln!(std::io::stdout(), "\nresult: {result}").unwrap();
}

/// Runs the child process with this environment and returns its result.
async fn run(environment: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["proxies::child", "--exact", "--ignored", "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }

    // In a CGI program, `HTTP_PROXY` is set by a request header and must be ignored.
    command
        .env_remove("REQUEST_METHOD")
        .envs(environment.iter().copied());
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let result = text.lines().find_map(|line| line.strip_prefix("result: "));
    result
        .unwrap_or_else(|| panic!("the child process printed no result: {text}"))
        .to_owned()
}

#[tokio::test]
async fn tunnels_https_so_that_the_proxy_never_sees_the_key() {
    let (url, pem) = tls::start().await;
    let target = url.strip_prefix("https://").unwrap();
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let proxy = Proxy::start().await;
        let with_password = proxy.url().replace("http://", "http://ada:hidden@");
        let environment = [
            (name, with_password.as_str()),
            ("SVC_TEST_URL", &url),
            ("SVC_TEST_CA", &pem),
        ];
        assert_eq!(run(&environment).await, "sent x", "{name}");
        let received = proxy.received();
        assert_eq!(received.len(), 1, "{name}");
        assert!(
            received[0].starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")),
            "{}",
            received[0]
        );
        let lower = received[0].to_ascii_lowercase();
        assert!(lower.contains("\r\nproxy-authorization: basic "), "{lower}");
        for secret in ["mk_secret", "\r\nauthorization:", "a@b"] {
            assert!(!lower.contains(secret), "{secret} in {lower}");
        }
    }
}

#[tokio::test]
async fn forwards_plain_http_through_the_proxy() {
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let proxy = Proxy::start().await;
        let url = "http://mail.invalid/base";
        let result = run(&[(name, &proxy.url()), ("SVC_TEST_URL", url)]).await;
        assert_eq!(result, "sent by proxy", "{name}");
        let received = proxy.received();
        let [only] = received.as_slice() else {
            panic!("{received:?}")
        };
        let (line, headers) = only.split_once("\r\n").unwrap();
        assert_eq!(line, "POST http://mail.invalid/base/api/v1/emails HTTP/1.1");
        assert!(
            headers.contains("authorization: Bearer mk_secret\r\n"),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn bypasses_the_proxy_for_excluded_hosts() {
    let proxy = Proxy::start().await;
    let address = proxy.url();
    let server = MockServer::json(202, r#"{"id":"direct"}"#).await;
    let url = server.url();
    for environment in [
        &[("HTTP_PROXY", address.as_str()), ("NO_PROXY", "127.0.0.1")][..],
        &[
            ("ALL_PROXY", &address),
            ("no_proxy", "elsewhere.test,127.0.0.0/8"),
        ],
        &[("HTTP_PROXY", &address), ("NO_PROXY", "*")],
        // The variable applies to https only.
        &[("HTTPS_PROXY", &address)],
        // Disabled on the builder.
        &[("HTTP_PROXY", &address), ("SVC_TEST_NO_PROXY", "1")],
    ] {
        let environment = [environment, &[("SVC_TEST_URL", url.as_str())]].concat();
        assert_eq!(run(&environment).await, "sent direct", "{environment:?}");
    }

    let email = Email::new("a@b", "c@d", "s");
    for except in ["127.0.0.1", "elsewhere.test, 127.0.0.0/8", "*"] {
        let client = EmailClient::builder(&url, "mk_secret")
            .proxy(address.as_str())
            .proxy_except(except);
        let sent = client.build().unwrap().emails().send(&email).await;
        assert_eq!(sent.unwrap().id, "direct", "{except}");
    }

    assert_eq!(proxy.received(), Vec::<String>::new());
    assert_eq!(server.request_count(), 8);

    let client = EmailClient::builder(&url, "mk_secret")
        .proxy(address.as_str())
        .proxy_except("b.test");
    assert_eq!(
        client
            .build()
            .unwrap()
            .emails()
            .send(&email)
            .await
            .unwrap()
            .id,
        "by proxy"
    );
}

#[tokio::test]
async fn a_refusing_proxy_means_not_sent() {
    let (url, pem) = tls::start().await;
    for refusal in [
        "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "",
    ] {
        let proxy = Proxy::responding_to_connect(refusal).await;
        let client = EmailClient::builder(&url, "mk_secret")
            .proxy(proxy.url())
            .ca_bundle(&pem);
        let client = client
            .platform_certificates(false)
            .retries(0)
            .build()
            .unwrap();
        let error = client
            .emails()
            .send(Email::new("a@b", "c@d", "s"))
            .await
            .unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{refusal}");
        assert_eq!(error.kind(), &ErrorKind::Proxy, "{refusal}");
        assert!(error.is_connect(), "{refusal}: {error}");
        assert_eq!(proxy.received().len(), 1);
    }

    // Nobody else gets the port, and no proxy listens.
    let gone = TcpSocket::new_v4().unwrap();
    gone.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone_url = format!("http://{}", gone.local_addr().unwrap());
    let result = run(&[("HTTPS_PROXY", &gone_url), ("SVC_TEST_URL", &url)]).await;
    assert_eq!(result, "proxy not_sent");

    let result = run(&[("HTTP_PROXY", &gone_url), ("SVC_TEST_URL", "http://x.test")]).await;
    assert_eq!(result, "proxy not_sent");
}

/// Of plain http, the proxy answers in place of the service.
#[tokio::test]
async fn a_407_is_the_proxys() {
    let proxy = MockServer::json(407, "").await;
    let client = EmailClient::builder("http://mail.test", "mk_secret").proxy(proxy.url());
    let client = client.build().unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.attempts()),
        (&ErrorKind::Proxy, Outcome::NotSent, 1)
    );
    assert_eq!(
        error.to_string(),
        "email emails.send: the proxy cannot be reached, or does not forward the request (HTTP \
         407); check the proxy's URL and credentials: `proxy` on the builder, or HTTPS_PROXY, \
         HTTP_PROXY, ALL_PROXY and NO_PROXY"
    );

    let own = reqwest::Proxy::all(proxy.url()).unwrap();
    let own = reqwest::Client::builder().proxy(own).build();
    let client = EmailClient::builder("http://mail.test", "mk_secret").http_client(own.unwrap());
    let error = client.build().unwrap().emails().get("x").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Proxy, Outcome::NotSent)
    );
}

#[tokio::test]
async fn no_proxy_is_read_as_by_curl_and_what_cannot_be_honoured_is_an_error() {
    let proxy = Proxy::start().await;
    let address = proxy.url();
    let server = MockServer::json(202, r#"{"id":"direct"}"#).await;
    let url = server.url();
    let own_port = server.address().to_string();
    for (list, expected) in [
        (own_port.as_str(), "sent direct"),
        ("127.0.0.1:1", "sent by proxy"),
        ("x.test 127.0.0.0/8", "sent direct"),
        (
            "127.*",
            "no client: NO_PROXY: \"127.*\" is none of `host`, `.domain`, `*.domain`, `host:port`, an IP address, `address/bits` and `*`",
        ),
    ] {
        let environment = [
            ("HTTP_PROXY", address.as_str()),
            ("NO_PROXY", list),
            ("SVC_TEST_URL", &url),
        ];
        assert_eq!(run(&environment).await, expected, "{list}");
    }

    // Both reach the proxy, because the name does not exist.
    let builder = EmailClient::builder("http://api.mail.test", "k").proxy(address.as_str());
    let client = builder.clone().proxy_except("*.test:8080").build().unwrap();
    assert_eq!(client.emails().get("x").await.unwrap().id, "by proxy");

    let client = builder
        .proxy_except("*.mail.test")
        .retries(0)
        .build()
        .unwrap();
    let error = client.emails().get("x").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Connect);
}
