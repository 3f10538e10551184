//! The plausible live services of `tests/live`: from address and key alone, `svc conform`, and then
//! every operation of the command line and of the SDK. Nothing may be silently wrong.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use svc_sdk::email::{BatchOutcome, Email, EmailStatus, NewContact, NewWebhook};
use svc_sdk::{Dialect, EmailClient};

const KEY: &str = "mk_full_0123456789abcdef";
const EXTRACTION_KEY: &str = "sk_test_full0123456789abcdef";

/// A running service, and a user of `svc` who has nothing but its address and its keys.
struct Live {
    style: u32,
    service: Child,
    url: String,
    home: tempfile::TempDir,
}

/// What a run of `svc` wrote.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    fn id(&self) -> String {
        let value = self.json();
        value["id"]
            .as_str()
            .unwrap_or_else(|| panic!("no id: {self:?}"))
            .to_owned()
    }
}

impl Live {
    fn start(style: u32) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("live/run.py");
        let mut service = Command::new("python3")
            .arg(script)
            .args([&style.to_string(), "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let mut url = String::new();
        let stdout = service.stdout.as_mut().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut url)
            .expect("it listens");
        Self {
            style,
            service,
            url: url.trim().to_owned(),
            home: tempfile::tempdir().expect("a directory"),
        }
    }

    fn svc(&self, args: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_svc-under-test"))
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("SVC_EMAIL_URL", &self.url)
            .env("SVC_EXTRACTION_URL", &self.url)
            .env("SVC_EMAIL_KEY", KEY)
            .env("SVC_EXTRACTION_KEY", EXTRACTION_KEY)
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .output()
            .expect("svc starts");
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// A run that succeeds.
    fn done(&self, args: &[&str]) -> Run {
        let run = self.svc(args);
        let style = self.style;
        let stderr = &run.stderr;
        assert_eq!(run.code, Some(0), "style {style}: svc {args:?}: {stderr}");
        run
    }

    /// What the service itself says.
    async fn control(&self, what: &str) -> Value {
        let client = EmailClient::builder(&self.url, "none")
            .build()
            .expect("a client");
        let response = client
            .raw("GET", format!("/_ctl/{what}"))
            .await
            .expect("a response");
        response.json().expect("JSON")
    }

    fn dialect_file(&self) -> PathBuf {
        self.home.path().join("dialect.toml")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// The statements that a service breaks on purpose: that of style 8 has words of its own for statuses.
fn broken(style: u32) -> &'static [&'static str] {
    match style {
        8 => &["emails.status"],
        _ => &[],
    }
}

fn conform(live: &Live) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let listen = format!("http://127.0.0.1:{port}");
    let run = live.svc(&[
        "conform",
        "--level",
        "send",
        "--to",
        "ada@example.net",
        "--listen",
        &listen,
        "--yes",
        "-o",
        "json",
        "--save",
        "dialect.toml",
    ]);
    assert!(
        matches!(run.code, Some(0 | 10)),
        "style {}: {run:?}",
        live.style
    );

    let report = run.json();
    let rows = report["statements"].as_array().expect("rows");
    let differs: Vec<_> = rows
        .iter()
        .filter(|row| row["result"] == "differs")
        .collect();
    let ids: Vec<_> = differs
        .iter()
        .filter_map(|row| row["id"].as_str())
        .collect();
    assert_eq!(
        ids,
        broken(live.style),
        "style {}: {differs:#?}",
        live.style
    );

    live.done(&["config", "set", "--from", "dialect.toml"]);
}

async fn every_command(live: &Live) {
    let style = live.style;
    let audience = live.done(&["audiences", "create", "News"]).id();
    for number in 1..=30 {
        let name = format!("Other {number}");
        live.done(&["audiences", "create", &name]);
    }

    let audiences = live.done(&["audiences", "list", "-o", "json"]).json();
    assert!(
        audiences.to_string().contains("Other 30"),
        "style {style}: {audiences}"
    );

    live.done(&["audiences", "get", "News"]);
    live.done(&["audiences", "delete", "Other 30", "--yes"]);
    for number in 1..=30 {
        let address = format!("reader{number}@example.net");
        live.done(&[
            "contacts", "create", &audience, &address, "--name", "Ada", "--meta", "a=b", "--topic",
            "x",
        ]);
    }

    let contacts = live.done(&["contacts", "list", "News", "--all", "-o", "json"]);
    let all = contacts.stdout.matches("reader").count();
    assert!(all >= 30, "style {style}: {all} of 30 contacts");

    let contact = live.control("contacts").await;
    let contact = contact
        .as_array()
        .expect("contacts")
        .iter()
        .find(|it| it["email"] == "reader7@example.net");
    let contact = contact.expect("stored")["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    live.done(&[
        "contacts",
        "update",
        &contact,
        "--subscribed",
        "false",
        "--meta",
        "c=d",
    ]);
    let list = live
        .done(&["contacts", "list", "News", "--all", "-o", "json"])
        .json();
    let list = list
        .as_array()
        .cloned()
        .unwrap_or_else(|| list["data"].as_array().cloned().unwrap_or_default());
    let out: Vec<_> = list.iter().filter(|it| it["subscribed"] == false).collect();
    assert_eq!(out.len(), 1, "style {style}: {out:?}");

    live.done(&["contacts", "delete", &contact, "--yes"]);

    let domain = live.done(&["domains", "create", "new.example"]).json();
    live.done(&["domains", "list"]);
    assert!(
        domain.to_string().contains("v=spf1"),
        "style {style}: {domain}"
    );
    assert_eq!(
        live.svc(&["domains", "verify", "new.example"]).code,
        Some(10),
        "style {style}"
    );

    live.done(&["domains", "verify", "new.example"]);
    live.done(&["domains", "delete", "new.example", "--yes"]);

    let webhook = live.done(&[
        "webhooks",
        "create",
        "https://hooks.example/a",
        "--event",
        "email.sent",
    ]);
    assert!(
        webhook.json()["signingSecret"].is_string(),
        "style {style}: {webhook:?}"
    );

    live.done(&["webhooks", "list"]);
    live.done(&[
        "webhooks",
        "update",
        "https://hooks.example/a",
        "--active",
        "false",
    ]);
    // Nobody listens there.
    let test = live.svc(&["webhooks", "test", "https://hooks.example/a"]);
    assert_ne!(test.code, Some(0), "style {style}: {test:?}");

    live.done(&["webhooks", "delete", "https://hooks.example/a", "--yes"]);

    let send = [
        "emails",
        "send",
        "--from",
        "a@example.com",
        "--subject",
        "Hi",
        "--text",
        "Hello",
        "--to",
    ];
    let sent = live.done(&[&send[..], &["ada@example.net"]].concat()).id();
    live.done(&["emails", "get", &sent]);
    live.done(&["emails", "get", &sent, "--wait"]);
    let bounced = live.svc(&[&send[..], &["bounce@example.net", "--wait"]].concat());
    assert_eq!(bounced.code, Some(10), "style {style}: {bounced:?}");

    let later = live
        .done(&[&send[..], &["ada@example.net", "--at", "+1h"]].concat())
        .id();
    live.done(&["emails", "cancel", &later]);
    batch(live).await;

    live.done(&["api", "GET", "/v1/me", "--service", "extraction"]);
    let created = [
        "extraction",
        "webhooks",
        "create",
        "https://hooks.example/x",
        "--event",
        "extraction.completed",
    ];
    assert!(
        live.done(&created).json()["secret"].is_string(),
        "style {style}"
    );

    live.done(&["extraction", "webhooks", "list"]);
    live.done(&[
        "extraction",
        "webhooks",
        "delete",
        "https://hooks.example/x",
        "--yes",
    ]);
    let state = live.control("state").await;
    let left = ["webhooks", "xhooks"].map(|kind| state[kind].clone());
    assert_eq!(left, [0, 0].map(Value::from), "style {style}: {state}");
}

/// What the command says of a batch is what the service did.
async fn batch(live: &Live) {
    let style = live.style;
    let emails = serde_json::json!([
        {"from": "a@example.com", "to": "one@example.net", "subject": "s", "text": "t"},
        {"from": "a@unverified.example", "to": "two@example.net", "subject": "s", "text": "t"},
    ]);
    let file = live.home.path().join("batch.json");
    std::fs::write(&file, emails.to_string()).expect("written");
    let run = live.svc(&["emails", "batch", "batch.json"]);
    let stored = live.control("emails").await;
    let to = |address: &str| stored.to_string().contains(address);
    assert!(!to("two@example.net"), "style {style}: {stored}");

    // 9: the command says that it cannot tell.
    let expected = if to("one@example.net") {
        [11, 9]
    } else {
        [6, 9]
    };
    let code = run.code.expect("an exit code");
    assert!(expected.contains(&code), "style {style}: {run:?}");
}

async fn every_operation_of_the_sdk(live: &Live) {
    let style = live.style;
    let text = std::fs::read_to_string(live.dialect_file()).expect("saved");
    let dialect: Dialect = toml::from_str(&text).expect("a dialect");
    let client = EmailClient::builder(&live.url, KEY)
        .dialect(dialect)
        .build()
        .expect("a client");
    let audience = client
        .audiences()
        .create("From the SDK")
        .await
        .expect("created");
    client.audiences().get(&audience.id).await.expect("found");
    let new = NewContact::new("sdk@example.net")
        .name("Sdk")
        .metadata("a", "b");
    let contact = client
        .contacts()
        .create(&audience.id, new)
        .await
        .expect("created");
    let listed = client.contacts().list(&audience.id).await.expect("a list");
    assert_eq!(listed.items.len(), 1, "style {style}");
    assert_eq!(
        listed.items[0].email.as_deref(),
        Some("sdk@example.net"),
        "style {style}"
    );

    client
        .contacts()
        .delete(&contact.id)
        .await
        .expect("deleted");
    client
        .audiences()
        .delete(&audience.id)
        .await
        .expect("deleted");
    let domain = client
        .domains()
        .create("sdk.example")
        .await
        .expect("created");
    let shown = serde_json::to_string(&domain).expect("JSON");
    assert!(shown.contains("v=spf1"), "style {style}: {shown}");
    assert!(
        !client
            .domains()
            .verify(&domain.id)
            .await
            .expect("checked")
            .is_verified(),
        "style {style}"
    );
    assert!(
        client
            .domains()
            .verify(&domain.id)
            .await
            .expect("checked")
            .is_verified(),
        "style {style}"
    );

    client.domains().delete(&domain.id).await.expect("deleted");
    let new = NewWebhook::new("https://hooks.example/sdk", ["email.sent"]);
    let webhook = client.webhooks().create(&new).await.expect("created");
    assert!(webhook.signing_secret.is_some(), "style {style}");

    client
        .webhooks()
        .delete(&webhook.id)
        .await
        .expect("deleted");
    let email = Email::new("a@example.com", "ada@example.net", "Hi").text("Hello");
    let sent = client.emails().send(&email).await.expect("accepted");
    let done = client.emails().wait(&sent.id).await.expect("final");
    assert_eq!(done.status, Some(EmailStatus::Delivered), "style {style}");

    let batch = client
        .emails()
        .send_batch(&[email.clone(), email])
        .await
        .expect("accepted");
    let accepted =
        |item: &svc_sdk::email::BatchItem| matches!(item.outcome, BatchOutcome::Accepted(_));
    assert!(
        batch.items.iter().all(accepted) && batch.items.len() == 2,
        "style {style}: {batch:?}"
    );
}

async fn from_address_and_key_alone(style: u32) {
    let live = Live::start(style);
    conform(&live);
    every_command(&live).await;
    every_operation_of_the_sdk(&live).await;
}

macro_rules! styles {
    ($($name:ident: $style:literal;)+) => {$(
        #[tokio::test]
        async fn $name() {
            from_address_and_key_alone($style).await;
        }
    )+};
}

styles! {
    a_service_like_resend: 1;
    a_service_with_json_api: 2;
    a_service_like_google: 3;
    a_service_with_laravel: 4;
    a_service_like_aws: 5;
    a_service_in_go: 6;
    a_service_with_django: 7;
    a_service_of_a_soap_team: 8;
    a_service_of_a_chat_platform: 9;
    a_service_with_json_ld: 10;
    a_service_of_an_old_mail_house: 11;
}
