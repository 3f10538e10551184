//! Ten thousand ways to name a recipient, under a recipient guard: whatever leaves the client is read
//! as three other programs read it, and names nobody outside the guard.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use mail_parser::MessageParser;
use serde_json::{Value, json};
use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, ErrorKind, ExtractionClient, RecipientGuard};

const WAYS: usize = 10_000;
/// Allowed is this domain alone.
const ALLOWED: &str = "allowed.test";
const VICTIM: &str = "ada@customer.test";

/// A request as it left the client.
struct Recorded {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A service that records what it gets.
struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let recorded = Arc::clone(&recorded);
                std::thread::spawn(move || serve(stream, &recorded));
            }
        });
        Self { address, requests }
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, recorded: &Mutex<Vec<Recorded>>) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split(' ').map(str::to_owned);
        let method = words.next()?;
        let target = words.next()?;
        let mut headers = Vec::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().ok()?;
            }
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8_lossy(&body).into_owned();
        recorded.lock().expect("no panic").push(Recorded {
            method,
            target,
            headers,
            body,
        });
        let answer = "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\n\
                      content-length: 14\r\n\r\n{\"id\":\"eml_1\"}";
        out.write_all(answer.as_bytes()).ok()?;
    }
}

/// A small generator of random numbers, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const SEPARATORS: [&str; 22] = [
    ",", ";", " ", "\r\n", "\n", "\r", "\u{b}", "\u{c}", "\0", "\u{85}", "\u{2028}", "\u{2029}",
    ", ", "%2C", "\u{ff0c}", "\u{ff1b}", "\t", "|", "?", "=?", "\u{200b}", ":",
];

/// Texts that may name the victim, beside an address that is allowed.
fn address(random: &mut Random) -> String {
    let separator = random.of(&SEPARATORS);
    let victim = VICTIM;
    match random.below(22) {
        0 => victim.to_owned(),
        1 => format!("me@{ALLOWED}{separator}{victim}"),
        2 => format!("{victim}{separator}me@{ALLOWED}"),
        3 => format!("{victim} <me@{ALLOWED}>"),
        4 => format!("Me <me@{ALLOWED}>{separator}Ada <{victim}>"),
        5 => format!("\"{victim}\" <me@{ALLOWED}>"),
        6 => format!("\"Me{separator}<{victim}>\" <me@{ALLOWED}>"),
        7 => format!("=?utf-8?q?ada=40customer.test=2C?= <me@{ALLOWED}>"),
        8 => format!("=?utf-8?b?YWRhQGN1c3RvbWVyLnRlc3Q=?=@{ALLOWED}"),
        9 => format!("ada%customer.test@{ALLOWED}"),
        10 => format!("customer.test!ada@{ALLOWED}"),
        11 => format!("ada\u{ff20}customer.test{separator}<me@{ALLOWED}>"),
        12 => format!("me@{ALLOWED} ({victim})"),
        13 => format!("Team: me@{ALLOWED}{separator}{victim};"),
        14 => format!("<@{ALLOWED}:{victim}>"),
        15 => format!("me@{ALLOWED}.customer.test"),
        16 => format!("me@customer.test#@{ALLOWED}"),
        17 => format!("me@allowed{separator}.test"),
        18 => format!("\"me@{ALLOWED}\"@customer.test"),
        19 => format!("Me <me@{ALLOWED}>"),
        20 => format!("me+x@{}", ALLOWED.to_uppercase()),
        _ => format!("me@{ALLOWED}"),
    }
}

/// The ways in an email.
fn email(random: &mut Random) -> Email {
    let good = format!("me@{ALLOWED}");
    let mut email = Email::new("shop@shop.test", good.as_str(), "Hi").text("Hello");
    let line = format!("x{}Bcc: {VICTIM}", random.of(&SEPARATORS));
    let victims = json!([VICTIM]);
    for _ in 0..=random.below(2) {
        email = match random.below(18) {
            0..4 => email.to(address(random)),
            4 | 5 => email.cc(address(random)),
            6 | 7 => email.bcc(address(random)),
            8 => {
                let names = [
                    "Bcc",
                    "bcc ",
                    "Resent-To",
                    "X-SMTPAPI",
                    "X-MC-BccAddress",
                    "Envelope-To",
                    "Apparently-To",
                    "X-Rcpt-To",
                    "Delivered-To",
                    "X-Forward-To",
                    "To\u{b}",
                ];
                email.header(random.of(&names), VICTIM)
            }
            9 => {
                let names = ["References", "In-Reply-To", "X-Campaign", "Subject", "X-A"];
                let value = [
                    json!(line),
                    json!([line]),
                    json!({"a": [line]}),
                    json!({line.clone(): 1}),
                ];
                let value = value[random.below(4)].clone();
                email.headers.insert(random.of(&names).to_owned(), value);
                email
            }
            10 => email.header(format!("X-A{}Bcc", random.of(&SEPARATORS)), VICTIM),
            11 => {
                let names = [
                    "audienceId",
                    "recipients",
                    "contactIds",
                    "to[0]",
                    "TO",
                    "bcc[]",
                    "envelope",
                    "personalizations",
                    "listId",
                    "segment",
                    "rcpt",
                    "destinations",
                ];
                email.extra(random.of(&names), victims.clone())
            }
            12 => email.template(line.clone()),
            13 => {
                let file = Attachment::from_bytes("a.txt", "x");
                let changed = match random.below(3) {
                    0 => file.filename(line.clone()),
                    1 => file.extra("contentId", line.clone()),
                    _ => file.extra(line.clone(), "x"),
                };
                email.attachment(changed)
            }
            14 => {
                let file = Attachment::from_bytes("a.txt", "x");
                email.attachment(file.content_type(line.clone()))
            }
            15 => email.tag(line.clone(), line.clone()),
            16 => email.reply_to(line.clone()),
            _ => email.scheduled_at(line.clone()),
        };
    }

    if random.below(8) == 0 {
        email.subject = line;
    }
    email
}

struct Clients {
    email: EmailClient,
    extraction: ExtractionClient,
}

impl Clients {
    /// Tries one way. Returns whether the guard stopped it.
    async fn try_one(&self, random: &mut Random) -> bool {
        let result = match random.below(10) {
            0..6 => self.email.emails().send(email(random)).await.map(drop),
            6 => {
                let emails = [
                    Email::new("a@shop.test", "me@allowed.test", "Hi"),
                    email(random),
                ];
                self.email.emails().send_batch(&emails).await.map(drop)
            }
            _ => self.raw(random).await,
        };
        match result {
            Ok(()) => false,
            Err(error) => matches!(error.kind(), ErrorKind::RecipientGuard(_)),
        }
    }

    async fn raw(&self, random: &mut Random) -> Result<(), svc_sdk::Error> {
        let methods = [
            "POST", "PUT", "PATCH", "GET", "HEAD", "DELETE", "OPTIONS", "SEND",
        ];
        let paths = [
            "/api/v1/emails",
            "/api/v1/emails/",
            "//api/v1/emails",
            "/api/v1//emails",
            "/API/v1/Emails",
            "/api/v1/emails/batch",
            "/api/v1/%65mails",
            "/api/v1/emails;x=y",
            "/api/v1/emails.json",
            "/api/v1/messages",
            "/api/v1/audiences/..%2Femails%3F/contacts",
            "/api/v1/webhooks/x%2f..%2f..%2femails/test",
            "/api/v1/emails%2Fbatch",
            "/api/v1/audiences/aud_1/send",
            "/v1/emails",
            "/v1/webhooks",
            "/api/v1/audiences",
            "/api/v1/emails/eml_1",
        ];
        let queries = [
            "",
            "?_method=POST",
            "?X-HTTP-Method-Override=POST",
            "?a=b&%5fmethod=POST",
        ];
        let method = random.of(&methods);
        let path = random.of(&paths);
        let path = format!("{path}{}", random.of(&queries));
        let mut call = match random.below(2) {
            0 => self.email.raw(method, &path),
            _ => self.extraction.raw(method, &path),
        };
        if random.below(3) > 0 {
            call = call.json(&json!({"from": "a@shop.test", "to": VICTIM, "subject": "x"}));
        }
        let overrides = [
            "X-HTTP-Method-Override",
            "X-Method-Override",
            "X-HTTP-Method",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-Forwarded-Uri",
        ];
        if random.below(3) == 0 {
            call = call.header(
                random.of(&overrides),
                random.of(&["POST", "/api/v1/emails"]),
            );
        }

        call.await.map(drop)
    }
}

#[tokio::test]
async fn nothing_that_leaves_names_anyone_outside_the_guard() {
    let seed = std::env::var("SVC_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0x5eed_0049_u64);
    let mut random = Random(seed);
    let recorder = Recorder::start();
    let url = format!("http://{}", recorder.address);
    let guard = || RecipientGuard::allow([format!("@{ALLOWED}")]);
    let clients = Clients {
        email: EmailClient::builder(&url, "mk_test_1")
            .recipient_guard(guard())
            .local_checks(false)
            .retries(0)
            .build()
            .expect("a client"),
        extraction: ExtractionClient::builder(&url, "sk_test_1")
            .recipient_guard(guard())
            .retries(0)
            .build()
            .expect("a client"),
    };
    let mut stopped = 0;
    for _ in 0..WAYS {
        stopped += usize::from(clients.try_one(&mut random).await);
    }

    let requests = recorder.requests.lock().expect("no panic");
    println!("seed {seed}: {stopped} stopped, {} left", requests.len());
    assert!(stopped > WAYS / 2 && requests.len() > WAYS / 100);

    let mut recipients = Vec::new();
    for request in requests.iter() {
        check_request(request, &mut recipients);
    }

    recipients.sort_unstable();
    recipients.dedup();
    for text in &recipients {
        for address in as_mail_parser_reads(text) {
            assert_is_allowed(&address, text);
        }
    }

    check_with_python(&recipients);
}

/// Checks a request, and collects the texts that are recipients in it.
fn check_request(request: &Recorded, recipients: &mut Vec<String>) {
    let Recorded { method, target, .. } = request;
    let describe = || format!("{method} {target} {}", request.body);
    let sends = method == "POST" && ["/api/v1/emails", "/api/v1/emails/batch"].contains(&&**target);
    for (name, _) in &request.headers {
        let is_override = ["method", "url", "uri"]
            .iter()
            .any(|word| name.contains(word));
        assert!(!is_override, "{}: {name}", describe());
    }

    if !sends {
        // Another method, another path, or a documented request that sends nothing.
        let reads = matches!(method.as_str(), "GET" | "HEAD");
        assert!(!reads || request.body.is_empty(), "{}", describe());
        assert!(!target.to_lowercase().contains("method"), "{}", describe());
        assert!(!target.to_lowercase().contains("%2f"), "{}", describe());
        assert!(
            reads || !target.to_lowercase().contains("mail"),
            "{}",
            describe()
        );
        return;
    }

    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    let emails = match &body {
        Value::Array(emails) => emails.as_slice(),
        email => std::slice::from_ref(email),
    };
    for email in emails {
        let known = [
            "from",
            "to",
            "cc",
            "bcc",
            "subject",
            "text",
            "html",
            "replyTo",
            "headers",
            "tags",
            "scheduledAt",
            "templateId",
            "variables",
            "attachments",
        ];
        for (name, value) in email.as_object().expect("an object") {
            assert!(known.contains(&name.as_str()), "{name} in {}", describe());
            if ["to", "cc", "bcc"].contains(&name.as_str()) {
                let list = value.as_array().expect("a list");
                recipients.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
            }
        }
        let message = rendered(email);
        let parsed = MessageParser::default()
            .parse(message.as_bytes())
            .expect("a message");
        for header in parsed.headers() {
            let name = header.name().to_lowercase();
            let names_recipients = ["bcc", "rcpt", "envelope", "smtpapi", "resent", "delivered"]
                .iter()
                .any(|word| name.contains(word));
            assert!(!names_recipients, "{name} in {message:?}");
        }
    }
}

/// The message that a careless service would make of an email: every text where it belongs, and every
/// character that some program takes for a line end made one.
fn rendered(email: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };

    let mut message = String::new();
    for name in ["from", "subject", "replyTo", "scheduledAt", "templateId"] {
        message.push_str(&format!("X-{name}: {}\r\n", text(&email[name])));
    }

    for part in ["headers", "tags"] {
        for (name, value) in email[part].as_object().into_iter().flatten() {
            message.push_str(&format!("{name}: {}\r\n", text(value)));
        }
    }

    for file in email["attachments"].as_array().into_iter().flatten() {
        for (name, value) in file.as_object().into_iter().flatten() {
            message.push_str(&format!("X-File-{name}: {}\r\n", text(value)));
        }
    }

    let line_ends = ['\u{b}', '\u{c}', '\0', '\u{85}', '\u{2028}', '\u{2029}'];
    message.replace(line_ends, "\r\n").replace('\n', "\r\n") + "\r\nHello\r\n"
}

fn as_mail_parser_reads(text: &str) -> Vec<String> {
    let message = format!("To: {text}\r\n\r\n");
    let parsed = MessageParser::default()
        .parse(message.as_bytes())
        .expect("a message");
    let list = parsed.to().into_iter().flat_map(|list| list.iter());
    list.filter_map(|mailbox| mailbox.address().map(str::to_owned))
        .collect()
}

fn assert_is_allowed(address: &str, text: &str) {
    let domain = address.rsplit('@').next().unwrap_or_default();
    assert!(
        domain.eq_ignore_ascii_case(ALLOWED) && address.matches('@').count() == 1,
        "{text:?} is read as {address:?}"
    );
}

/// The two parsers of Python's `email` package, if it is installed.
fn check_with_python(recipients: &[String]) {
    let script = "import email.utils, email.message, email.policy, json, sys\n\
        for text in json.load(sys.stdin):\n \
        message = email.message.EmailMessage(policy=email.policy.SMTP)\n \
        message['To'] = text\n \
        names = [address.addr_spec for address in message['To'].addresses]\n \
        names += [address for _, address in email.utils.getaddresses([text])]\n \
        print(json.dumps([text, names]))\n";
    let child = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    // On a machine without Python, two parsers are left.
    let Ok(mut child) = child else {
        return;
    };

    let input = json!(recipients).to_string();
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success());

    for line in String::from_utf8(output.stdout).expect("text").lines() {
        let (text, addresses): (String, Vec<String>) = serde_json::from_str(line).expect("JSON");
        for address in addresses.iter().filter(|address| !address.is_empty()) {
            assert_is_allowed(address, &text);
        }
    }
}
