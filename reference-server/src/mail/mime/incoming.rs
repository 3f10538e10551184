//! Parses received messages.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::{MessageParser, MessagePart, MimeHeaders as _, PartType};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::guard::{guarded, restored};
use crate::mail::header::{Field, FieldText, Header};
use crate::model::schema;

/// Content of a received message.
//
// `docs/undocumented/services.md#delivery-payload`
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "Content")]
pub(crate) struct Incoming {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    #[serde(skip)]
    pub(crate) cc: Vec<String>,
    pub(crate) subject: String,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    /// Decoded header fields. The values of a repeated field are joined by line breaks, which
    /// no single value contains.
    pub(crate) headers: Map<String, Value>,
    pub(crate) attachments: Vec<IncomingAttachment>,
}

/// A file attached to a received message.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceivedAttachment")]
pub(crate) struct IncomingAttachment {
    pub(crate) filename: Option<String>,
    pub(crate) content_type: String,
    /// Without the angle brackets.
    pub(crate) content_id: Option<String>,
    /// Size in bytes.
    pub(crate) size: usize,
    #[serde(serialize_with = "base64")]
    #[schemars(with = "schema::Base64")]
    pub(crate) content: Vec<u8>,
}

fn base64<S: Serializer>(content: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(content))
}

impl Incoming {
    /// Parses a message. Returns `None` if it has no header.
    pub(crate) fn parse(source: &[u8]) -> Option<Self> {
        let header = Header::parse(source);
        let headers = headers(&header);
        if headers.is_empty() {
            return None;
        }
        let texts = |name: &str| -> Vec<String> {
            let mailboxes = header.mailboxes(name);
            mailboxes.iter().map(ToString::to_string).collect()
        };
        let subject = header.all("Subject").last().and_then(Field::text);
        let mut message = Self {
            from: texts("From").into_iter().next().unwrap_or_default(),
            to: texts("To"),
            cc: texts("Cc"),
            subject: subject.map(|subject| subject.value).unwrap_or_default(),
            headers,
            ..Self::default()
        };
        message.read_content(&header);
        Some(message)
    }

    /// Reads the texts and the attachments. The parser sees only the fields that are about them, so
    /// that it cannot take a part of another field for one of them.
    fn read_content(&mut self, header: &Header<'_>) {
        let mut content = b"MIME-Version: 1.0\r\n".to_vec();
        let is_of_content =
            |field: &&Field<'_>| field.is_shown() && !field.is("From") && !field.is("Subject");
        for field in header.fields.iter().filter(is_of_content) {
            // On one line, so that a folded line of white space does not end the header.
            let unfolded = field.raw.iter().filter(|byte| !b"\r\n".contains(byte));
            content.extend(unfolded);
            content.extend_from_slice(b"\r\n");
        }
        content.extend_from_slice(b"\r\n");
        content.extend_from_slice(header.body);
        let copy = guarded(&content);
        let Some(message) = MessageParser::default().parse(&copy[..]) else {
            return;
        };
        let is_changed = matches!(copy, Cow::Owned(_));
        let bytes = |bytes: &[u8]| {
            if is_changed {
                restored(bytes.to_vec())
            } else {
                bytes.to_vec()
            }
        };
        // ASCII takes the place of ASCII, so this cannot fail.
        let text = |text: &str| String::from_utf8(bytes(text.as_bytes())).unwrap_or_default();
        let attachment = |part: &MessagePart<'_>| {
            let content_type = part.content_type().map(|kind| match kind.subtype() {
                Some(subtype) => text(&format!("{}/{subtype}", kind.ctype())),
                None => text(kind.ctype()),
            });
            IncomingAttachment {
                filename: part.attachment_name().map(text),
                content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
                content_id: part.content_id().map(text),
                size: part.contents().len(),
                content: bytes(part.contents()),
            }
        };
        self.text = message.text_bodies().find_map(|part| match &part.body {
            PartType::Text(body) => Some(text(body)),
            _ => None,
        });
        self.html = message.html_bodies().find_map(|part| match &part.body {
            PartType::Html(body) => Some(text(body)),
            _ => None,
        });
        self.attachments = message.attachments().map(attachment).collect();
    }
}

fn headers(header: &Header<'_>) -> Map<String, Value> {
    let mut headers = Map::new();
    for FieldText { name, value } in header.fields.iter().filter_map(Field::text) {
        let value = value.trim().replace(['\r', '\n'], " ");
        let joined = headers.entry(name).and_modify(|before| {
            if let Value::String(before) = before {
                before.extend(["\n", &value]);
            }
        });
        joined.or_insert(Value::String(value));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_headers_and_body() {
        let source = b"Received: from a by b\r\nReceived: from c\r\n by d\r\n\
            From: =?utf-8?q?Zo=C3=AB?= <zoe@example.test>\r\nTo: a@x.test, B <b@x.test>\r\n\
            X-Empty:\r\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\r\nMessage-ID: <1@example.test>\r\n\
            Date: Tue, 14 Nov 2023 23:13:20 +0100\r\n\r\nHello\r\n";
        let message = Incoming::parse(source).expect("a message");
        assert_eq!(message.from, "Zoë <zoe@example.test>");
        assert_eq!(message.to, ["a@x.test", "B <b@x.test>"]);
        assert_eq!(message.subject, "Grüße");
        assert_eq!(message.text.as_deref(), Some("Hello\r\n"));
        assert_eq!(message.html, None);
        assert_eq!(message.headers["Date"], "Tue, 14 Nov 2023 23:13:20 +0100");
        assert_eq!(message.headers["Received"], "from a by b\nfrom c by d");
        assert_eq!(message.headers["Subject"], "Grüße");
        assert_eq!(message.headers["To"], "a@x.test, B <b@x.test>");
        assert_eq!(message.headers["X-Empty"], "");
    }

    #[test]
    fn rejects_input_without_header_and_tolerates_malformed_messages() {
        assert!(Incoming::parse(b"").is_none());
        assert!(Incoming::parse(b"\r\n\r\nbody").is_none());
        let deep = b"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(2000);
        let _ = Incoming::parse(&deep);
        assert!(Incoming::parse(b"From: \xff\xfe\r\nSubject: =?x?y?z\r\n\r\n\xff").is_some());
    }

    #[test]
    fn an_attached_message_is_a_file() {
        let source = b"From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
            --b\r\n\r\nsee Content-Type: message/rfc822\r\n--b\r\n\
            Content-Type: message/RFC822; name=\"global message/global.eml\"\r\n\r\n\
            Subject: inner\r\n\r\nHello\r\n--b--\r\n";
        let message = Incoming::parse(source).expect("a message");
        assert_eq!(
            message.text.as_deref(),
            Some("see Content-Type: message/rfc822")
        );
        let [file] = &message.attachments[..] else {
            panic!("one attachment")
        };
        assert_eq!(file.content_type, "message/rfc822");
        assert_eq!(file.filename.as_deref(), Some("global message/global.eml"));
        assert_eq!(file.content, b"Subject: inner\r\n\r\nHello");
        assert_eq!(
            message.headers["Content-Type"],
            "multipart/mixed; boundary=b"
        );
    }

    /// Such a part lost its last letters, or overflowed.
    #[test]
    fn a_part_may_end_with_a_soft_line_break() {
        for declared in [
            "boundary=b",
            "boundary=\"b\"",
            "x=y;\r\n BOUNDARY=\"b\"; z=y",
        ] {
            for end in ["=\r\n", "=\n", "= \r\n"] {
                for body in ["x", "a=\r\n--c\r\nTransfer-Encoding: 7bit"] {
                    let source = format!(
                        "From: a@b.test\r\nContent-Type: multipart/mixed; {declared}\r\n\r\n\
                         --b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{body}{end}\
                         --b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n\
                         eA==\r\n--b\r\nContent-Type: text/csv\r\n\r\nc=\r\n--b--\r\n"
                    );
                    let message = Incoming::parse(source.as_bytes()).expect("a message");
                    let text = body.replace("=\r\n", "");
                    assert_eq!(message.text.as_deref(), Some(&text[..]), "{source}");
                    let files = message.attachments.iter().map(|file| &file.content[..]);
                    assert!(files.eq([&b"x"[..], b"c="]), "{source}");
                }
            }
        }
    }

    /// Each of these overflowed the stack or took minutes.
    #[test]
    fn hostile_structures_take_linear_time() {
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(20_000);
        let encoded = {
            use base64::Engine as _;
            let inner = STANDARD.encode(&nested);
            format!(
                "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n{inner}"
            )
        };
        let digests =
            "Content-Type: multipart/digest; boundary=a\r\n\r\n--a\r\n\r\n".repeat(20_000);
        let pieces: String = (0..40_000).map(|n| format!(";\r\n name*{n}*=x")).collect();
        let unbounded = format!(
            "Content-Type: multipart/mixed; boundary=a\r\n\r\n{}",
            "--a\r\nContent-Type: multipart/mixed; boundary=nope\r\n\r\n".repeat(20_000)
        );
        let words = format!("Subject: {}\r\n\r\n", "=?utf-8?q?".repeat(40_000));
        let comments = format!("To: {}a@b.test\r\n\r\n", "(".repeat(200_000));
        let messages = [
            ("nested", nested),
            ("encoded", encoded),
            ("digests", digests),
            (
                "pieces",
                format!("Content-Type: text/plain{pieces}\r\n\r\nx"),
            ),
            ("unbounded", unbounded),
            ("words", words),
            ("comments", comments),
        ];
        for (name, message) in messages {
            let started = std::time::Instant::now();
            let _ = Incoming::parse(message.as_bytes());
            let took = started.elapsed();
            assert!(
                took < std::time::Duration::from_secs(5),
                "{name} took {took:?}"
            );
            eprintln!("{name} {took:?}");
        }
    }
}
