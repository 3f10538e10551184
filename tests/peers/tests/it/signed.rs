//! The signed messages of the tests of other projects, and changed ones: what is shown is what was
//! signed, or the signature does not pass. `signed-messages` prepares them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use tokio::net::UdpSocket;

use crate::sandbox::Sandbox;

const MUTATIONS: usize = 2_000;

/// A name server for TXT records.
async fn name_server(keys: BTreeMap<String, String>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
    let address = socket.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut query = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut query).await {
            let answer = answer(&query[..length], &keys);
            let _ = socket.send_to(&answer, client).await;
        }
    });
    address
}

/// The response to a query with one question (RFC 1035 §4).
fn answer(query: &[u8], keys: &BTreeMap<String, String>) -> Vec<u8> {
    let mut at = 12;
    let mut labels = Vec::new();
    while query[at] > 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
        at = end;
    }

    let question = &query[12..at + 5];
    let record = keys.get(&labels.join("."));
    let mut response = query[..2].to_vec();
    response.extend([0x81, if record.is_some() { 0x80 } else { 0x83 }, 0, 1]);
    response.extend([0, u8::from(record.is_some()), 0, 0, 0, 0]);
    response.extend_from_slice(question);
    if let Some(record) = record {
        let mut text = Vec::new();
        for part in record.as_bytes().chunks(255) {
            text.push(part.len() as u8);
            text.extend_from_slice(part);
        }
        response.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0]);
        response.extend((text.len() as u16).to_be_bytes());
        response.extend(text);
    }

    response
}

/// What a person sees of a message. White space is of no account, since a signature may ignore it.
#[derive(Debug, PartialEq)]
struct Shown {
    from: String,
    subject: String,
    content: String,
}

/// Lets the sandbox receive a message. Returns the result of DKIM, and what it shows.
async fn receive(sandbox: &Sandbox, message: &[u8]) -> (Value, Shown) {
    let line = "POST /_sandbox/inbound?to=help@sandbox.test";
    let response = sandbox.request(line, "message/rfc822", message).await;
    let received: Value = serde_json::from_slice(&response).expect("JSON");
    let id = received["messages"][0]["id"].as_str().expect("an id");
    let line = format!("GET /_sandbox/messages/{id}");
    let mut message = sandbox.call(&line, "").await;
    let words = |value: &Value| {
        value
            .as_str()
            .unwrap_or_default()
            .split_whitespace()
            .collect()
    };

    let shown = Shown {
        from: words(&message["from"]),
        subject: words(&message["subject"]),
        content: format!("{} {}", words(&message["text"]), words(&message["html"])),
    };
    (message["authentication"]["dkim"].take(), shown)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const FRAGMENTS: [&str; 14] = [
    "From: eve@evil.test\r\n",
    "\rFrom: eve@evil.test\r\n",
    "\u{c}From: eve@evil.test\r\n",
    "Subject: Pay\r\n",
    "Content-Type: text/html\r\n",
    "Content-Transfer-Encoding: base64\r\n",
    "X-Y: \"\\\r\n",
    "X-Y: z\r\n",
    "\r\n",
    " ",
    "\r\n ",
    "\n",
    "\r",
    "\0",
];

fn mutate(mut message: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(2) {
        let at = random.below(message.len());
        let line = message[..at].iter().rposition(|&byte| byte == b'\n');
        let line = line.map_or(0, |at| at + 1);
        let fragment = FRAGMENTS[random.below(FRAGMENTS.len())].bytes();
        match random.below(5) {
            0 => message[at] = random.below(256) as u8,
            1 => drop(message.remove(at)),
            2 => drop(message.splice(at..at, fragment)),
            _ => drop(message.splice(line..line, fragment)),
        }
    }
    message
}

#[tokio::test]
async fn what_is_shown_of_a_message_that_passes_is_what_was_signed() {
    let Ok(folder) = std::env::var("SVC_PEERS_SIGNED") else {
        println!("ignored: tests/peers/run prepares the messages");
        return;
    };

    let keys = std::fs::read(Path::new(&folder).join("keys.json")).expect("keys");
    let keys = serde_json::from_slice(&keys).expect("JSON");
    let server = name_server(keys).await;
    let sandbox = Sandbox::start(|builder| builder.resolver(server)).await;
    let mut messages = Vec::new();
    for file in std::fs::read_dir(&folder).expect("a folder") {
        let path = file.expect("a file").path();
        let message = std::fs::read(&path).expect("a message");
        if path.extension().is_some_and(|extension| extension == "eml") {
            let (dkim, shown) = receive(&sandbox, &message).await;
            println!("{}: {dkim}", path.display());
            messages.push((path, message, dkim["result"] == "pass", shown));
        }
    }

    for project in ["dkimpy-", "mail-auth-"] {
        let is_of = |path: &Path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(project))
        };
        let passed = messages
            .iter()
            .filter(|(path, _, passed, _)| *passed && is_of(path));
        assert!(passed.count() > 1, "{project}");
    }

    messages.retain(|(_, _, passed, _)| *passed);
    let mut random = Random(0x5eed_0049);
    let mut passed = 0;
    for round in 0..MUTATIONS {
        let (path, message, _, signed) = &messages[round % messages.len()];
        let changed = mutate(message.clone(), &mut random);
        let (dkim, shown) = receive(&sandbox, &changed).await;
        if dkim["result"] == "pass" {
            passed += 1;
            assert_eq!(
                shown,
                *signed,
                "{}: {:?}",
                path.display(),
                String::from_utf8_lossy(&changed)
            );
        }
    }

    assert!(passed > 50, "only {passed} passed");
}
