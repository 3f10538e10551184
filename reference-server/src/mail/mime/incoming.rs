//! Parses a received message as `Incoming`: addresses, subject, text, HTML, header and attachments,
//! all decoded. Parsing cannot fail: what is damaged is read as far as it can be, and a source
//! without a header is all text. The structure of the parts is read in `part.rs`; `shown.rs`
//! decides which of them are text and which are files.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::parsers::MessageStream;
use mail_parser::{Addr, Address, HeaderName};
use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::part::Part;
use super::shown::Shown;
use super::{charset, words};
use crate::mail::header::Field;
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
    /// Reads a message. What has no header is all text.
    pub(crate) fn parse(source: &[u8]) -> Self {
        let message = Part::read(source);
        let around = message.charset().unwrap_or_default();
        let text = |field: &Field<'_>| charset::undeclared(&field.unfolded(), &around);
        let first = |name| message.field(name).map(text).unwrap_or_default();
        let (shown, files) = Shown::of(&message);
        Self {
            from: mailboxes(&first("From"))
                .into_iter()
                .next()
                .unwrap_or_default(),
            to: mailboxes(&first("To")),
            cc: mailboxes(&first("Cc")),
            subject: words::decode(&first("Subject")),
            text: shown.text,
            html: shown.html,
            headers: headers(
                message
                    .fields
                    .iter()
                    .map(|field| (field.name(), text(field))),
            ),
            attachments: files
                .into_iter()
                .map(|file| attachment(file, &around))
                .collect(),
        }
    }

    /// The header alone.
    pub(crate) fn without_content(&self) -> Self {
        Self {
            from: self.from.clone(),
            to: self.to.clone(),
            subject: self.subject.clone(),
            headers: self.headers.clone(),
            ..Self::default()
        }
    }
}

fn attachment(file: &Part<'_>, around: &str) -> IncomingAttachment {
    let content = file.file();
    let content_type = if file.has_type || file.content_type.value == "message/rfc822" {
        file.content_type.value.clone()
    } else {
        "application/octet-stream".to_owned()
    };
    IncomingAttachment {
        filename: file.file_name(around),
        content_type,
        content_id: file.id(),
        size: content.len(),
        content,
    }
}

fn headers<'f>(fields: impl Iterator<Item = (&'f [u8], String)>) -> Map<String, Value> {
    let mut headers = Map::new();
    for (name, value) in fields {
        let value = words::decode(&value);
        // Known names in their usual case.
        let name = HeaderName::from(String::from_utf8_lossy(name)).into_string();
        let joined = headers.entry(name).and_modify(|before| {
            if let Value::String(before) = before {
                before.extend(["\n", &value]);
            }
        });
        joined.or_insert(Value::String(value));
    }
    headers
}

/// The mailboxes of a list, as they are shown: some have a name alone.
pub(crate) fn mailboxes(list: &str) -> Vec<String> {
    // The parser decodes words, but not a character that is split between them.
    let list = words::decode_with(list, |text| {
        format!(" =?utf-8?B?{}?=", STANDARD.encode(text))
    });
    let list = with_quoted_parts_in_brackets(&list);
    // It loses the space before a quoted string.
    let list = format!("{}\n", QUOTED.replace_all(&list, "\"$1$2\""));
    let parsed = MessageStream::new(list.as_bytes())
        .parse_address()
        .into_address();
    let parsed = parsed.iter().flat_map(Address::iter);
    let has_brackets = list.contains('<');
    parsed
        .filter_map(|one| mailbox(one, has_brackets))
        .collect()
}

/// A quoted string, and the space before it.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"([ \t]*)"((?:[^"\\]|\\.)*)""#).expect("a valid pattern"));

/// `"a b"@c.test` as `<"a b"@c.test>`: without brackets, the parser takes the quoted part for a name.
fn with_quoted_parts_in_brackets(list: &str) -> String {
    let mut bracketed = String::with_capacity(list.len());
    let mut rest = list;
    while let Some(at) = rest.find("\"@") {
        let start = rest[..at]
            .rfind('"')
            .filter(|start| !rest[..*start].ends_with('<'));
        let end = rest[at..]
            .find([' ', ',', ';', '>', '('])
            .map_or(rest.len(), |end| at + end);
        match start {
            Some(start) => bracketed.extend([&rest[..start], "<", &rest[start..end], ">"]),
            None => bracketed.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }

    bracketed.push_str(rest);
    bracketed
}

fn mailbox(addr: &Addr<'_>, has_brackets: bool) -> Option<String> {
    let name = addr.name().map(str::trim).filter(|name| !name.is_empty());
    let name = name.map(|name| {
        if name.contains(['<', '>', ',', ';', '"', '\\', '@']) {
            format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            name.to_owned()
        }
    });
    Some(match (name, addr.address()) {
        (None, address) => address?.to_owned(),
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (Some(name), None) if has_brackets => format!("{name} <>"),
        (Some(name), None) => name,
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
        let message = Incoming::parse(source);
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
    fn input_without_header_is_text() {
        for (source, text) in [
            ("", ""),
            ("\r\nbody", "body"),
            ("code 482913\r\n", "code 482913\r\n"),
            ("Hello Ada,\r\n\r\nNote: x", "Hello Ada,\r\n\r\nNote: x"),
        ] {
            let message = Incoming::parse(source.as_bytes());
            assert!(message.headers.is_empty(), "{source:?}");
            assert_eq!(message.text.as_deref(), Some(text));
        }
    }

    #[test]
    fn what_stands_before_the_header_does_not_hide_it() {
        let separator = "From ada@a.test Mon Jan  1 00:00:00 2024\r\n";
        for before in ["", "\u{feff}", separator, &format!(">{separator}")] {
            let source = format!("{before}From : ada@a.test\r\nSubject: x\r\n\r\ny");
            let message = Incoming::parse(source.as_bytes());
            assert_eq!(message.from, "ada@a.test", "{before:?}");
            assert_eq!(message.subject, "x", "{before:?}");

            let traced = format!("Return-Path: <b@c.test>\r\n{source}");
            assert_eq!(
                Incoming::parse(traced.as_bytes()).subject,
                "x",
                "{before:?}"
            );
        }

        let body = "From here on\r\n\r\ny";
        let message = format!("Subject: x\r\n{body}");
        assert_eq!(text(message.as_bytes()), body);
    }

    #[test]
    fn a_body_with_a_file_name_is_shown() {
        let part = |kind: &str, content: &str| {
            let name = "Content-Disposition: inline; filename=x";
            format!("\r\n--b\r\nContent-Type: text/{kind}\r\n{name}\r\n\r\n{content}")
        };
        for (kind, content, text, files) in [
            ("alternative", "html", "plain", 0),
            ("mixed", "plain", "plain", 1),
            ("related", "plain", "plain", 1),
            ("signed", "plain", "plain", 1),
        ] {
            let parts = [part("plain", "plain"), part(content, "second")].concat();
            let source = format!("Content-Type: multipart/{kind}; boundary=b\r\n{parts}\r\n--b--");
            let message = Incoming::parse(source.as_bytes());
            assert_eq!(message.text.as_deref(), Some(text), "{kind}");
            assert_eq!(message.html.is_some(), content == "html", "{kind}");
            assert_eq!(message.attachments.len(), files, "{kind}");
        }
    }

    #[test]
    fn a_boundary_belongs_to_the_inner_multipart_until_that_is_closed() {
        let kind = |kind| format!("Content-Type: multipart/{kind}; boundary=b\r\n\r\n--b\r\n");
        let body = "\r\ntext\r\n--b\r\nContent-Type: text/html\r\n\r\nhtml\r\n--b--\r\n";
        let file = "\r\n--b\r\nContent-Type: image/png\r\n\r\nx";
        for source in [
            format!(
                "{}{}{body}{file}\r\n--b--",
                kind("mixed"),
                kind("alternative")
            ),
            format!(
                "{}{}{}{body}{file}\r\n--b--{file}\r\n--b--",
                kind("mixed"),
                kind("related"),
                kind("alternative")
            ),
        ] {
            let message = Incoming::parse(source.as_bytes());
            assert_eq!(message.text.as_deref(), Some("text"), "{source}");
            assert_eq!(message.html.as_deref(), Some("html"), "{source}");
            let files = message.attachments;
            assert!(
                !files.is_empty() && files.iter().all(|file| file.content == b"x"),
                "{source}"
            );
            assert_eq!(files.len(), source.matches("image").count(), "{source}");
        }
    }

    #[test]
    fn flowed_lines_are_joined_within_their_quote() {
        for (flowed, joined) in [
            ("> one \r\n> two\r\nthree", "> one two\r\nthree"),
            ("> a \r\n>> b \r\n>>c\r\nd", "> a \r\n>> b c\r\nd"),
            ("> quote \r\nreply", "> quote \r\nreply"),
            ("text \r\n-- \r\nname", "text \r\n-- \r\nname"),
        ] {
            let source = format!("Content-Type: text/plain; format=flowed\r\n\r\n{flowed}");
            assert_eq!(text(source.as_bytes()), joined);
        }
    }

    fn text(source: &[u8]) -> String {
        Incoming::parse(source)
            .text
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    #[test]
    fn damage_is_read_as_others_read_it() {
        let multipart = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
        let encoded = |charset, content| {
            let kind = format!("Content-Type: text/plain; charset={charset}\r\n");
            format!("{kind}Content-Transfer-Encoding: base64\r\n\r\n{content}")
        };
        for (source, expected) in [
            (format!("{multipart}--b\r\n\r\nx\r\n"), "x"),
            (format!("{multipart}--b\r\n\r\na --b c\r\n--b--\r\n"), "a --b c"),
            (format!("{multipart}--b\r\n\r\n--bc\r\n--b--\r\n"), "--bc"),
            (format!("{multipart}--b \r\n\r\n1\r\n--b\t\r\n\r\n2\r\n--b-- \r\n"), "1\r\n2"),
            (format!("{multipart}no boundary"), "no boundary"),
            ("Content-Type: text\r\n\r\nx".into(), "x"),
            ("Content-Type: text/plain charset=utf-8\r\n\r\nx".into(), "x"),
            ("Content-Transfer-Encoding: base64\r\n\r\neHk".into(), "xy"),
            ("Content-Transfer-Encoding: base64\r\n\r\neA==!".into(), "x"),
            ("Content-Transfer-Encoding: base64\r\n\r\ne H\0k*".into(), "xy"),
            ("Content-Transfer-Encoding: base64\r\n\r\neA==\r\neQ==".into(), "xy"),
            ("Content-Transfer-Encoding: base64\r\n\r\neHk4\r\n\r\n-- \r\nlist".into(), "xy8"),
            ("Content-Transfer-Encoding: quoted-printable\r\n\r\nn=4 =C3=a9=ZZ".into(), "n=4 é=ZZ"),
            (
                "Content-Transfer-Encoding: x-uuencode\r\n\r\nbegin 644 a\r\n#>'EZ\r\n`\r\nend".into(),
                "xyz",
            ),
            (
                "Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\nhttp://a.test/ \r\nb\r\n c".into(),
                "http://a.test/b\r\nc",
            ),
            ("Content-Type: text/plain\r\n\r\n\u{1b}$B$F\u{1b}(B".into(), "て"),
            (encoded("win-1251", "z/A="), "Пр"),
            ("Content-Type: text/plain; charset=utf-7\r\n\r\n1 +- 1 x+AOk.y +AOk".into(), "1 + 1 xé.y é"),
            (
                "Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\u{1b}(B\u{1b}$B$F\u{1b}(B\u{1b}$B$F\r\na".into(),
                "てて\r\na",
            ),
            (encoded("utf-16", "AEcAcg=="), "Gr"),
            (encoded("utf-16", "RwByAA=="), "Gr"),
            ("Subject: x\r\nno field\r\n\r\ny".into(), "no field\r\n\r\ny"),
        ] {
            assert_eq!(text(source.as_bytes()), expected, "{source:?}");
        }
    }

    #[test]
    fn fields_are_read_with_split_characters_and_other_damage() {
        for (field, expected) in [
            ("=?utf-8?Q?=C3?= =?utf-8?Q?=A9?=", "é"),
            ("=?utf-8?B?w6k=?=\r\n\t=?utf-8?Q?_x?=", "é x"),
            ("=?shift_jis?B?g2U=?=", "テ"),
            (
                "=?iso-2022-jp?B?GyRCJUYbKEI=?= =?iso-2022-jp?B?GyRCJUYbKEI=?=",
                "テテ",
            ),
            (
                "=?iso-2022-jp?B?GyRCJUY=?= =?iso-2022-jp?B?JUYbKEI=?=",
                "テテ",
            ),
            ("=?utf-8*en?Q?a?= =?x-unknown?Q?b?=", "ab"),
            ("a =?utf-8?Q?b?= c", "a b c"),
            ("=?utf-8?X?b?= =?", "=?utf-8?X?b?= =?"),
        ] {
            let source = format!("Subject: {field}\r\nSubject: second\r\n\r\n");
            assert_eq!(
                Incoming::parse(source.as_bytes()).subject,
                expected,
                "{field}"
            );
        }
        for (field, expected) in [
            ("\"Name\" <>", "Name <>"),
            ("Ada\r\n     Lovelace <a@b.test>", "Ada Lovelace <a@b.test>"),
            (
                "=?utf-8?Q?Doe,_J=C3?= =?utf-8?Q?=A9?= <a@b.test>",
                "\"Doe, Jé\" <a@b.test>",
            ),
            (
                "=?utf-8?Q?Zo=C3=AB?= \"B.\" =?utf-8?Q?=C3=89?= <a@b.test>",
                "Zoë B. É <a@b.test>",
            ),
            ("\"A \\\"\" \"B\" <a@b.test>", "\"A \\\" B\" <a@b.test>"),
            (
                "Ada \"Countess\" Lovelace <a@b.test>",
                "Ada Countess Lovelace <a@b.test>",
            ),
            ("\"a b\"@c.test", "\"a b\"@c.test"),
            ("\"a@b.test\" <c@b.test>", "\"a@b.test\" <c@b.test>"),
            ("root", "root"),
            ("www-data@app_web_1", "www-data@app_web_1"),
        ] {
            let source = format!("From: {field}\r\nFrom: second@b.test\r\n\r\n");
            assert_eq!(Incoming::parse(source.as_bytes()).from, expected, "{field}");
        }
    }

    #[test]
    fn attachments_are_bytes_under_their_names() {
        for (header, body, name, content) in [
            (
                "text/csv; charset=windows-1252",
                &b"\xe9;x"[..],
                None,
                &b"\xe9;x"[..],
            ),
            (
                "text/plain; name=a.png",
                b"\x89PNG",
                Some("a.png"),
                b"\x89PNG",
            ),
            (
                "text/plain\r\nContent-Disposition: inline; filename=\"a \\\"b.txt\"",
                b"x",
                Some("a \"b.txt"),
                b"x",
            ),
            ("; name=\"x\"", b"globax", Some("x"), b"globax"),
            (
                "text/csv; name*0*=utf-8''%C3; name*1*=%A9; name*2=\".csv\"",
                b"x",
                Some("é.csv"),
                b"x",
            ),
            (
                "text/csv\r\nContent-Disposition: attachment; filename=\"=?euc-jp?B?pcY=?=.csv\"",
                b"x",
                Some("テ.csv"),
                b"x",
            ),
        ] {
            let start = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nbody\r\n--b\r\nContent-Type: ";
            let source = [
                start,
                header.as_bytes(),
                b"\r\n\r\n",
                body,
                b"\r\n--b--\r\n",
            ]
            .concat();
            let message = Incoming::parse(&source);
            assert_eq!(message.text.as_deref(), Some("body"));
            let [file] = &message.attachments[..] else {
                panic!("{header}")
            };
            assert_eq!(
                (file.filename.as_deref(), &file.content[..]),
                (name, content),
                "{header}"
            );
        }
        let alone = Incoming::parse(
            b"Content-Type: text/csv\r\nContent-Disposition: attachment\r\n\r\n\xe9\r\n",
        );
        assert_eq!(alone.attachments[0].content, b"\xe9");
    }

    #[test]
    fn a_word_may_have_bytes_of_its_charset() {
        for (subject, expected) in [
            (&b"=?iso-8859-1?Q?Fr\xf6sche?="[..], "Fr\u{f6}sche"),
            ("=?utf-8?Q?Fr\u{f6}sche?=".as_bytes(), "Fr\u{f6}sche"),
        ] {
            let source = [b"Subject: ", subject, b"\r\n\r\n"].concat();
            assert_eq!(Incoming::parse(&source).subject, expected);
        }
    }

    #[test]
    fn the_parts_of_a_digest_are_messages() {
        let source = b"Content-Type: multipart/digest; boundary=b\r\n\r\n\
            --b\r\n\r\nSubject: inner\r\n\r\nx\r\n--b--\r\n";
        let [file] = &Incoming::parse(source).attachments[..] else {
            panic!("one attachment")
        };
        assert_eq!(file.content_type, "message/rfc822");
        assert_eq!(file.content, b"Subject: inner\r\n\r\nx");
    }

    #[test]
    fn an_attached_message_is_a_file() {
        let source = b"From: a@b.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
            --b\r\n\r\nsee Content-Type: message/rfc822\r\n--b\r\n\
            Content-Type: message/RFC822; name=\"global message/global.eml\"\r\n\r\n\
            Subject: inner\r\n\r\nHello\r\n--b--\r\n";
        let message = Incoming::parse(source);
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
                    let message = Incoming::parse(source.as_bytes());
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
        let repeated = "--a\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n".repeat(20_000);
        let repeated = &repeated["--a\r\n".len()..];
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
            ("repeated", repeated.to_owned()),
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
