//! Writes the source of an outgoing email (`Outgoing`, RFC 5322 with MIME), and has the modules
//! that read messages. The source is deterministic: it is rendered anew each time it is read, and
//! must stay the same. Nothing in it depends on a clock or on chance. `Bcc` is never in it, and
//! content with a bare CR or a NUL is sent as Base64. `dkim.rs` signs it. Received messages are
//! parsed in `mime/incoming.rs`, their parts in `mime/part.rs`.

mod charset;
mod content_type;
mod incoming;
mod parameters;
mod part;
mod shown;
mod transfer;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address as HeaderAddress;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use ring::digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::content_type::detect;
use crate::mail::dkim::SigningKey;
use crate::model::address::Mailbox;
use crate::model::error::Failure;

pub(crate) use content_type::check_content_type;
pub(crate) use incoming::{Incoming, mailboxes};
pub(crate) use part::has_header;

/// Stays encoded in a `Content-ID`.
const NOT_IN_IDS: &AsciiSet = &CONTROLS.add(b' ').add(b'<').add(b'>');

/// References to attachments in the HTML part. Further ones do not count.
const MAX_REFERENCES: usize = 10_000;

/// The longest word of a field that fits in a line after the field's name, in bytes.
const MAX_WORD: usize = 900;

/// An attachment, without its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attachment {
    pub(crate) filename: String,
    pub(crate) content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub(crate) content_id: Option<String>,
    /// In bytes.
    pub(crate) size: usize,
    /// Stored in a separate table.
    #[serde(skip)]
    pub(crate) content: Vec<u8>,
}

impl Attachment {
    /// The id by which the HTML may show it.
    fn id_in_html(&self) -> &str {
        self.content_id.as_deref().unwrap_or(&self.filename)
    }
}

/// An outgoing message. It has no `bcc`, which must not appear in the message.
///
/// The source is deterministic: the caller provides the id and the date.
pub(crate) struct Outgoing<'a> {
    pub(crate) from: &'a Mailbox,
    pub(crate) to: &'a [Mailbox],
    pub(crate) cc: &'a [Mailbox],
    pub(crate) reply_to: &'a [Mailbox],
    pub(crate) subject: &'a str,
    pub(crate) html: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// Custom headers, validated by `address::check_header`.
    pub(crate) headers: &'a Map<String, Value>,
    pub(crate) attachments: &'a [Attachment],
    /// Without the angle brackets.
    pub(crate) message_id: &'a str,
    /// Seconds since the Unix epoch.
    pub(crate) date: i64,
}

impl Outgoing<'_> {
    /// The unsigned source.
    pub(crate) fn source(&self) -> Vec<u8> {
        let mut message = MessageBuilder::new()
            .header("From", header_address(self.from))
            .header("Date", Date::new(self.date))
            .header("Message-ID", MessageId::new(self.message_id))
            .header("Subject", Text::new(self.subject));
        for (name, mailboxes) in [
            ("To", self.to),
            ("Cc", self.cc),
            ("Reply-To", self.reply_to),
        ] {
            if !mailboxes.is_empty() {
                let list = mailboxes.iter().map(header_address).collect();
                message = message.header(name, HeaderAddress::new_list(list));
            }
        }

        for (name, value) in self.headers {
            let value = value.as_str().unwrap_or_default();
            let is_list_id = name.eq_ignore_ascii_case("List-Id");
            message = if is_folded_only(name) || is_foldable(value) {
                message.header(name.as_str(), Raw::new(ascii(value)))
            } else if let (true, Some((phrase, id))) = (is_list_id, value.rsplit_once('<')) {
                let phrase = phrase.trim().trim_matches('"');
                let id = ascii(id.trim_end().trim_end_matches('>'));
                message.header(name.as_str(), HeaderAddress::new_address(Some(phrase), id))
            } else {
                message.header(name.as_str(), Text::new(value))
            };
        }

        let mut source = Vec::new();
        message.body(self.body()).serialize(&mut source);
        source
    }

    /// The source with the domain's `DKIM-Signature` prepended.
    pub(crate) fn signed(
        &self,
        key: &SigningKey,
        domain: &str,
        selector: &str,
    ) -> Result<Vec<u8>, Failure> {
        let source = self.source();
        let mut signed = key.sign(domain, selector, &source)?.into_bytes();
        signed.extend_from_slice(&source);
        Ok(signed)
    }

    /// Builds `mixed(alternative(text, related(html, inline…)), attachments…)`. A level
    /// with only one part is omitted. An attachment that the HTML shows as `cid:ID` is inline: its
    /// content id, or else its file name.
    fn body(&self) -> MimePart<'_> {
        let html = self.html.unwrap_or_default();
        let lower = html.to_ascii_lowercase();
        let references = lower
            .match_indices("cid:")
            .map(|(at, _)| percent_decode_str(&html[at + 4..]));
        let references: Vec<_> = references.take(MAX_REFERENCES).collect();
        let is_inline = |attachment: &&Attachment| {
            let name = attachment.id_in_html();
            references.iter().cloned().any(|mut reference| {
                let is_end = |byte: u8| byte.is_ascii_whitespace() || b"\"'<>()".contains(&byte);
                reference.by_ref().take(name.len()).eq(name.bytes())
                    && reference.next().is_none_or(is_end)
            })
        };

        let (inline, attached): (Vec<_>, Vec<_>) = self.attachments.iter().partition(is_inline);
        let inline = inline.into_iter().map(|one| {
            part(one, "inline").cid(utf8_percent_encode(one.id_in_html(), NOT_IN_IDS).to_string())
        });
        let attached = attached.into_iter().map(|one| part(one, "attachment"));
        let html = self.html.map(|html| {
            let html = text_part("text/html", html);
            self.multipart("related", std::iter::once(html).chain(inline))
        });
        let text = match (self.text, &html) {
            (None, Some(_)) => None,
            (text, _) => Some(text_part("text/plain", text.unwrap_or_default())),
        };
        let body = self.multipart("alternative", text.into_iter().chain(html));
        self.multipart("mixed", std::iter::once(body).chain(attached))
    }

    fn multipart<'p>(
        &self,
        subtype: &str,
        parts: impl Iterator<Item = MimePart<'p>>,
    ) -> MimePart<'p> {
        let mut parts: Vec<_> = parts.collect();
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let kind = ContentType::new(format!("multipart/{subtype}"))
            .attribute("boundary", self.boundary(subtype));
        MimePart::new(kind, parts)
    }

    /// Returns a boundary that is deterministic, unpredictable for the sender, and
    /// contains `=_`, which occurs in no Base64 or quoted-printable text.
    fn boundary(&self, subtype: &str) -> String {
        let hash = digest::digest(&digest::SHA256, self.message_id.as_bytes());
        format!("=_{subtype}_{}", hex::encode(&hash.as_ref()[..12]))
    }
}

/// Whether a field has ids or URLs, which no mail program looks for in encoded words (RFC 2047 §5).
fn is_folded_only(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_list = name.starts_with("list-") && name != "list-id";
    is_list || matches!(&*name, "in-reply-to" | "references") || name.ends_with("message-id")
}

/// Whether a value may stay as it is, for the programs that read it: no line of it is too long after
/// it is folded at white space.
fn is_foldable(value: &str) -> bool {
    value.is_ascii() && value.split(' ').all(|word| word.len() <= MAX_WORD)
}

/// The URLs of a value without other characters than ASCII.
fn ascii(value: &str) -> String {
    utf8_percent_encode(value, &AsciiSet::EMPTY).to_string()
}

/// The part of an attachment, whose type is detected from its name if it is not given.
fn part<'p>(attachment: &'p Attachment, disposition: &'static str) -> MimePart<'p> {
    let Attachment {
        filename,
        content_type,
        content,
        ..
    } = attachment;
    let kind = content_type.as_deref().unwrap_or_else(|| detect(filename));
    encoded(ContentType::new(kind), content).header(
        "Content-Disposition",
        ContentType::new(disposition).attribute("filename", filename.as_str()),
    )
}

fn text_part<'p>(kind: &'static str, text: &'p str) -> MimePart<'p> {
    if has_bare_cr_or_nul(text.as_bytes()) {
        return encoded(
            ContentType::new(kind).attribute("charset", "utf-8"),
            text.as_bytes(),
        );
    }
    MimePart::new(kind, text)
}

/// A part in the encoding that its content needs. Content with a bare CR or a NUL byte, which a relay
/// may change, or take for the end of the message, leaves as Base64.
fn encoded<'p>(kind: ContentType<'p>, content: &'p [u8]) -> MimePart<'p> {
    if !has_bare_cr_or_nul(content) {
        return MimePart::new(kind, content);
    }
    let lines: Vec<String> = content.chunks(57).map(|line| BASE64.encode(line)).collect();
    MimePart::new(kind, lines.join("\r\n").into_bytes()).transfer_encoding("base64")
}

fn has_bare_cr_or_nul(content: &[u8]) -> bool {
    let is_bare = |(at, byte): (usize, &u8)| {
        *byte == 0 || *byte == b'\r' && content.get(at + 1) != Some(&b'\n')
    };
    content.iter().enumerate().any(is_bare)
}

fn header_address(mailbox: &Mailbox) -> HeaderAddress<'_> {
    HeaderAddress::new_address(mailbox.name.as_deref(), mailbox.address.to_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(filename: &str, content_type: Option<&str>, content: &[u8]) -> Attachment {
        Attachment {
            filename: filename.to_owned(),
            content_type: content_type.map(str::to_owned),
            content_id: None,
            size: content.len(),
            content: content.to_vec(),
        }
    }
    use crate::mail::dkim::SANDBOX_KEY;

    struct Email {
        from: Mailbox,
        to: Vec<Mailbox>,
        cc: Vec<Mailbox>,
        reply_to: Vec<Mailbox>,
        headers: Map<String, Value>,
    }

    fn mailboxes(texts: &[&str]) -> Vec<Mailbox> {
        texts
            .iter()
            .map(|text| Mailbox::parse(text).expect("valid"))
            .collect()
    }

    fn email() -> Email {
        Email {
            from: Mailbox::parse(
                "Zoë \"Z\" Müller <hello@sandbox.test>"
                    .replace('"', "")
                    .as_str(),
            )
            .expect("valid"),
            to: mailboxes(&["ada@example.test", "\"Doe, John\" <john@münchen.test>"]),
            cc: mailboxes(&["carol@example.test"]),
            reply_to: mailboxes(&["Support <help@sandbox.test>"]),
            headers: Map::from_iter([("X-Campaign".into(), "Frühling".into())]),
        }
    }

    impl Email {
        fn outgoing<'a>(
            &'a self,
            html: Option<&'a str>,
            text: Option<&'a str>,
            attachments: &'a [Attachment],
        ) -> Outgoing<'a> {
            Outgoing {
                from: &self.from,
                to: &self.to,
                cc: &self.cc,
                reply_to: &self.reply_to,
                subject: "Grüße — 你好 🎉",
                html,
                text,
                headers: &self.headers,
                attachments,
                message_id: "0190-abc@sandbox.test",
                date: 1_700_000_000,
            }
        }
    }

    #[test]
    fn builds_a_plain_message() {
        let email = Email {
            from: Mailbox::parse("Ada <ada@sandbox.test>").expect("valid"),
            to: mailboxes(&["bob@example.test"]),
            cc: vec![],
            reply_to: vec![],
            headers: Map::new(),
        };
        let mut outgoing = email.outgoing(None, Some("Hello\nthere\n"), &[]);
        outgoing.subject = "Hi";
        let source = String::from_utf8(outgoing.source()).expect("ASCII");
        assert_eq!(
            source,
            "From: \"Ada\" <ada@sandbox.test>\r\n\
             Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n\
             Message-ID: <0190-abc@sandbox.test>\r\n\
             Subject: Hi\r\n\
             To: <bob@example.test>\r\n\
             MIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=\"utf-8\"\r\n\
             Content-Transfer-Encoding: 7bit\r\n\
             \r\n\
             Hello\r\nthere\r\n"
        );
    }

    /// Some programs write only the low byte of a character.
    #[test]
    fn no_character_of_a_text_becomes_a_line_break() {
        let breaks = [
            "\u{560d}\u{560a}",
            "\u{10d}\u{10a}",
            "\u{d0d}\u{a0a}",
            "\u{1f40d}\u{1f40a}",
            "\u{85}",
            "\u{2028}\u{2029}",
        ];
        for text in breaks.map(|breaks| format!("a{breaks}X-Evil: 1")) {
            let mut email = email();
            email.from.name = Some(text.clone());
            email.headers = ["X-Campaign", "List-Unsubscribe", "In-Reply-To"]
                .map(|name| (name.to_owned(), text.clone().into()))
                .into_iter()
                .collect();
            let mut attached = file(&text, None, b"x");
            attached.content_id = Some(text.clone());
            let html = format!("<img src=\"cid:{text}\">");
            let files = [attached, file(&format!("b{text}"), None, b"y")];
            let mut outgoing = email.outgoing(Some(&html), None, &files);
            outgoing.subject = &text;
            let source = outgoing.source();
            assert!(source.is_ascii(), "{text:?}");
            let source = String::from_utf8(source).expect("ASCII");
            assert!(
                !source
                    .split(['\r', '\n'])
                    .any(|line| line.starts_with("X-Evil")),
                "{source}"
            );
            let incoming = Incoming::parse(source.as_bytes());
            assert_eq!(incoming.subject, text);
            assert_eq!(incoming.headers["X-Campaign"], text);
            assert_eq!(incoming.attachments[0].filename.as_ref(), Some(&text));
            assert!(!incoming.headers.contains_key("X-Evil"), "{source}");
        }
    }

    #[test]
    fn built_messages_parse_back() {
        let files = [
            file("logo.png", None, b"\x89PNG\r\n\x1a\n0"),
            file("größe 1.csv", None, b"a,b\nc,d\r\ne"),
            file("x", Some("application/x-y"), b"\0\xff"),
        ];
        let html = "<p>Grüße</p><img src=\"cid:logo.png\">";
        let text = "Grüße\n.\nFrom here  \n";
        let email = email();
        let source = email.outgoing(Some(html), Some(text), &files).source();
        let incoming = Incoming::parse(&source);
        assert_eq!(incoming.from, "Zoë Z Müller <hello@sandbox.test>");
        let to = [
            "ada@example.test",
            "\"Doe, John\" <john@xn--mnchen-3ya.test>",
        ];
        assert_eq!(incoming.to, to);
        assert_eq!(incoming.cc, ["carol@example.test"]);
        assert_eq!(incoming.subject, "Grüße — 你好 🎉");
        assert_eq!(incoming.html.as_deref(), Some(html));
        assert_eq!(
            incoming.text.map(|t| t.replace("\r\n", "\n")).as_deref(),
            Some(text)
        );
        let header = |name| incoming.headers.get(name).and_then(|v| v.as_str());
        assert_eq!(header("X-Campaign"), Some("Frühling"));
        assert_eq!(header("Reply-To"), Some("\"Support\" <help@sandbox.test>"));
        assert_eq!(header("Message-ID"), Some("<0190-abc@sandbox.test>"));
        assert_eq!(header("Date"), Some("Tue, 14 Nov 2023 22:13:20 +0000"));
        assert_eq!(header("Bcc"), None);
        let found: Vec<_> = incoming
            .attachments
            .iter()
            .map(|a| {
                (
                    a.filename.as_deref(),
                    a.content_type.as_str(),
                    &a.content[..],
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (Some("logo.png"), "image/png", &files[0].content[..]),
                (Some("größe 1.csv"), "text/csv", &files[1].content[..]),
                (Some("x"), "application/x-y", &files[2].content[..]),
            ]
        );
        assert_eq!(
            incoming.attachments[0].content_id.as_deref(),
            Some("logo.png")
        );
        let source = String::from_utf8(source).expect("ASCII");
        assert!(source.lines().all(|line| line.len() <= 78), "{source}");
        for line in [
            "inline; filename=\"logo.png\"",
            "attachment; filename=\"x\"",
        ] {
            assert!(
                source.contains(&format!("Content-Disposition: {line}\r\n")),
                "{source}"
            );
        }

        for subtype in ["mixed", "alternative", "related"] {
            assert!(
                source.contains(&format!("Content-Type: multipart/{subtype};")),
                "{source}"
            );
        }
    }

    #[test]
    fn an_attachment_that_the_html_shows_is_inline() {
        let html = "<img src=cid:a.png><img src='CID:my%20logo.png'> url(cid:c(1).svg) cid:d.png.old \
                    cid: cid:zo\u{eb}.png, cid:last";
        let id = |filename| {
            let files = [file(filename, None, b"x")];
            let source = email().outgoing(Some(html), None, &files).source();
            let part = Incoming::parse(&source).attachments.remove(0);
            part.content_id
        };
        for (name, expected) in [
            ("a.png", Some("a.png")),
            ("my logo.png", Some("my%20logo.png")),
            ("c(1).svg", Some("c(1).svg")),
            ("last", Some("last")),
            ("a", None),
            ("d.png", None),
            ("A.png", None),
            ("zo\u{eb}.png", None),
            ("b.png", None),
        ] {
            assert_eq!(id(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn ids_and_urls_are_folded_and_not_encoded() {
        let url = format!("<https://a.test/{}>", "x".repeat(2_000));
        let references = vec!["<0123456789@mail.example.test>"; 60].join(" ");
        let mut email = email();
        for (name, value) in [
            ("List-Unsubscribe", &*format!("{url}, <mailto:a@b.test>")),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
            ("References", &references),
            ("in-reply-to", &references),
            ("X-Original-Message-ID", &references),
            ("List-Help", "<https://a.test/ü>"),
            (
                "Feedback-ID",
                &*format!("{} a.test", "campaign ".repeat(20)),
            ),
            (
                "List-Id",
                &*format!("\"{}é\" <list.a.test>", "long ".repeat(20)),
            ),
        ] {
            email.headers.insert(name.to_owned(), value.into());
        }

        let source = email.outgoing(None, Some("x"), &[]).source();
        let headers = Incoming::parse(&source).headers;
        let source = String::from_utf8(source).expect("ASCII");
        let (head, _) = source.split_once("\r\n\r\n").expect("a header");
        let encoded: Vec<_> = head.lines().filter(|line| line.contains("=?")).collect();
        assert!(
            encoded.iter().all(|line| !line.contains("a.test")),
            "{encoded:?}"
        );
        assert!(
            head.contains(&format!("{url},\r\n <mailto:a@b.test>\r\n")),
            "{head}"
        );
        assert!(head.contains("<https://a.test/%C3%BC>"), "{head}");
        assert!(head.contains("?=\r\n <list.a.test>"), "{head}");
        for name in ["References", "In-Reply-To", "X-Original-Message-ID"] {
            assert_eq!(headers[name], *references, "{name}");
        }

        let long = head.lines().filter(|line| line.len() > 78).count();
        assert_eq!(long, 1);
    }

    #[test]
    fn source_and_signature_are_deterministic() {
        let files = [file("a.txt", None, b"x")];
        let email = email();
        let outgoing = email.outgoing(Some("<b>x</b>"), Some("x"), &files);
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let signed = outgoing.signed(&key, "sandbox.test", "s1").expect("signed");
        assert_eq!(
            signed,
            outgoing.signed(&key, "sandbox.test", "s1").expect("signed")
        );
        assert!(signed.starts_with(b"DKIM-Signature: v=1;"));
        assert!(signed.ends_with(&outgoing.source()));
    }

    #[test]
    fn supports_html_only_and_empty_emails() {
        let email = email();
        let nothing = Incoming::parse(&email.outgoing(None, None, &[]).source());
        assert_eq!((nothing.html, nothing.text.as_deref()), (None, Some("")));
        let html = email.outgoing(Some("<i>x</i>"), None, &[]).source();
        let html = Incoming::parse(&html);
        assert_eq!((html.html.as_deref(), html.text), (Some("<i>x</i>"), None));
    }

    #[test]
    fn lines_stay_within_the_length_limit() {
        let mut email = email();
        email.headers = Map::from_iter([("X-Long".into(), "x".repeat(5000).into())]);
        email.to = (0..50)
            .map(|n| Mailbox::parse(&format!("Recipient {n} <r{n}@example.test>")).expect("valid"))
            .collect();
        let long = "y".repeat(5000);
        let mut outgoing = email.outgoing(Some(&long), Some(&long), &[]);
        let subject = "s".repeat(998);
        outgoing.subject = &subject;
        let source = outgoing.source();
        assert!(
            source.split(|&b| b == b'\n').all(|line| line.len() <= 999),
            "a line is too long"
        );
        let incoming = Incoming::parse(&source);
        assert_eq!(incoming.subject, subject);
        assert_eq!(incoming.to.len(), 50);
        assert_eq!(incoming.text.as_deref(), Some(long.as_str()));
        let header = incoming.headers.get("X-Long").and_then(|v| v.as_str());
        assert_eq!(header.map(str::len), Some(5000));
    }

    #[test]
    fn a_bare_line_break_or_a_nul_byte_is_encoded() {
        let files = [
            file("a.txt", None, b"a\r.\r\nb"),
            file("b.txt", None, b"a\0b"),
        ];
        let email = email();
        for text in [
            "one\r.\r\ntwo",
            "\r.\r",
            "a\0b",
            "= cote\u{e9} \r \n\t\n.\r\n x",
        ] {
            let html = format!("<pre>{text}</pre>");
            let source = email.outgoing(Some(&html), Some(text), &files).source();
            assert!(!has_bare_cr_or_nul(&source), "{text:?}");
            assert!(
                source.split(|&b| b == b'\n').all(|line| line.len() <= 78),
                "{text:?}"
            );
            let parsed = Incoming::parse(&source);
            assert_eq!(parsed.text.as_deref(), Some(text));
            for (file, parsed) in files.iter().zip(&parsed.attachments) {
                assert_eq!(parsed.content, file.content);
            }
        }
    }
}
