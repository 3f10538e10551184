//! Parses received messages.

use mail_parser::{
    Addr, Address, HeaderName, Message, MessageParser, MessagePart, MimeHeaders as _, PartType,
};
use serde_json::{Map, Value};

/// A received message with the fields of `email.received`
/// (`docs/undocumented/email-service.md#delivery-payload`).
pub(crate) struct Incoming {
    pub(crate) from: Option<String>,
    pub(crate) to: Vec<String>,
    pub(crate) cc: Vec<String>,
    pub(crate) subject: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    /// Decoded header fields, in order. The values of a repeated field are joined by
    /// line breaks, which no single value contains.
    pub(crate) headers: Map<String, Value>,
    pub(crate) attachments: Vec<IncomingAttachment>,
}

/// A file attached to a received message.
pub(crate) struct IncomingAttachment {
    pub(crate) filename: Option<String>,
    pub(crate) content_type: String,
    /// Without the angle brackets.
    pub(crate) content_id: Option<String>,
    pub(crate) content: Vec<u8>,
}

impl Incoming {
    /// Parses a message. Returns `None` if it has no header.
    pub(crate) fn parse(source: &[u8]) -> Option<Self> {
        let message = MessageParser::default().parse(source)?;
        if message.headers().is_empty() {
            return None;
        }
        Some(Self {
            from: mailboxes(message.from()).into_iter().next(),
            to: mailboxes(message.to()),
            cc: mailboxes(message.cc()),
            subject: message.subject().map(str::to_owned),
            text: message.text_bodies().find_map(|part| match &part.body {
                PartType::Text(text) => Some(text.clone().into_owned()),
                _ => None,
            }),
            html: message.html_bodies().find_map(|part| match &part.body {
                PartType::Html(html) => Some(html.clone().into_owned()),
                _ => None,
            }),
            headers: headers(&message),
            attachments: message.attachments().map(attachment).collect(),
        })
    }
}

fn headers(message: &Message<'_>) -> Map<String, Value> {
    // Parse every value as text. Without any rule the parser would apply its defaults.
    let texts = MessageParser::new().header_text(HeaderName::Subject).default_header_text();
    let mut headers = Map::new();
    let Some(parsed) = texts.parse_headers(message.raw_message()) else { return headers };
    for header in parsed.headers() {
        let value = header.value().as_text().unwrap_or_default();
        let value = value.trim().replace(['\r', '\n'], " ");
        match headers.entry(header.name()) {
            serde_json::map::Entry::Vacant(entry) => {
                entry.insert(Value::String(value));
            }
            serde_json::map::Entry::Occupied(mut entry) => {
                if let Value::String(before) = entry.get_mut() {
                    before.push('\n');
                    before.push_str(&value);
                }
            }
        }
    }
    headers
}

fn attachment(part: &MessagePart<'_>) -> IncomingAttachment {
    let content_type = part.content_type().map(|kind| match kind.subtype() {
        Some(subtype) => format!("{}/{subtype}", kind.ctype()),
        None => kind.ctype().to_owned(),
    });
    IncomingAttachment {
        filename: part.attachment_name().map(str::to_owned),
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        content_id: part.content_id().map(str::to_owned),
        content: part.contents().to_vec(),
    }
}

fn mailboxes(addresses: Option<&Address<'_>>) -> Vec<String> {
    addresses.map(|list| list.iter().filter_map(mailbox).collect()).unwrap_or_default()
}

fn mailbox(addr: &Addr<'_>) -> Option<String> {
    let address = addr.address()?;
    Some(match addr.name().filter(|name| !name.is_empty()) {
        None => address.to_owned(),
        Some(name) if name.contains(['<', '>', ',', ';', '"', '\\']) => {
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{quoted}\" <{address}>")
        }
        Some(name) => format!("{name} <{address}>"),
    })
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
        assert_eq!(message.from.as_deref(), Some("Zoë <zoe@example.test>"));
        assert_eq!(message.to, ["a@x.test", "B <b@x.test>"]);
        assert_eq!(message.subject.as_deref(), Some("Grüße"));
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
}
