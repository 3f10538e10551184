//! Reads and redirects the recipients in the body of a request. What cannot be read with
//! certainty is refused.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value};

use super::{ActiveGuard, Address, shown};
use crate::client::call::Request;
use crate::client::payload::{JSON, Payload, Piece, Streamed, push_json_string};
use crate::decode::JsonCursor;
use crate::error::Target;
use crate::{InvalidInput, Operation};

const RECIPIENTS: [&str; 3] = ["to", "cc", "bcc"];

/// The other documented fields of an email, in lower case. None of them names recipients.
const OTHER_FIELDS: [&str; 11] = [
    "from",
    "subject",
    "html",
    "text",
    "replyto",
    "headers",
    "attachments",
    "tags",
    "scheduledat",
    "templateid",
    "variables",
];

/// Headers of an email that a service may take for recipients.
const RECIPIENT_HEADERS: [&str; 7] =
    ["to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc", "apparently-to"];

/// Redirects and checks a request, and returns the number of its recipients.
pub(super) fn check(guard: &ActiveGuard, request: &mut Request) -> Result<u64, InvalidInput> {
    let is_batch = match request.target {
        Target::Operation(Operation::EmailsSend) => false,
        Target::Operation(Operation::EmailsSendBatch) => true,
        Target::Operation(_) => return Ok(0),
        Target::Raw => {
            let reads = matches!(
                request.method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE
            );
            if reads && matches!(request.payload, Payload::Empty) {
                return Ok(0);
            }
            return Err(InvalidInput::new(
                "path",
                "the path is not documented, so the request may send emails that cannot be checked",
            ));
        }
    };
    let body = Body::new(&request.payload);
    let mut changes = Changes { parts: Vec::new(), copied: 0 };
    let emails = match is_batch {
        true => body.emails()?,
        false => vec![(String::new(), 0..body.text.len())],
    };
    let mut count = 0;
    for (prefix, range) in emails {
        let mut email = RawEmail::read(&body, &prefix, range)?;
        if let Some(redirect) = &guard.redirect
            && email.redirect(redirect)
        {
            changes.replace(&email);
        }
        count += email.check(guard)?;
    }
    if !changes.parts.is_empty() {
        request.payload = body.rebuilt(changes);
    }
    Ok(count)
}

/// The JSON text of a body, and the attachments that are read when it is sent.
struct Body {
    text: Bytes,
    /// The contents of attachments, each with its place in the text.
    contents: Vec<(usize, Piece)>,
}

impl Body {
    fn new(payload: &Payload) -> Self {
        let mut contents = Vec::new();
        let text = match payload {
            Payload::Empty => Bytes::new(),
            Payload::Bytes(bytes, _) => bytes.clone(),
            Payload::Streamed(streamed) => {
                let mut text = Vec::new();
                for piece in &streamed.pieces {
                    match piece {
                        Piece::Text(part) => text.extend_from_slice(part),
                        content => contents.push((text.len(), content.clone())),
                    }
                }
                text.into()
            }
        };
        Self { text, contents }
    }

    /// The emails of a batch, each with the prefix of its fields in errors.
    fn emails(&self) -> Result<Vec<(String, Range<usize>)>, InvalidInput> {
        let all = 0..self.text.len();
        let list = match self.members(&all) {
            None => all,
            // An object with the array in one field.
            Some(members) => match <[_; 1]>::try_from(members) {
                Ok([(_, list)]) => list,
                Err(_) => return Err(unreadable("")),
            },
        };
        let elements = self.elements(&list).ok_or_else(|| unreadable(""))?;
        let named = |(index, range)| (format!("emails[{index}]."), range);
        Ok(elements.into_iter().enumerate().map(named).collect())
    }

    /// The names and the places of the values of the object at `range`.
    fn members(&self, range: &Range<usize>) -> Option<Vec<(String, Range<usize>)>> {
        let text = self.text.slice(range.clone());
        let (mut cursor, mut members) = (JsonCursor::new(&text).ok()?, Vec::new());
        let read = cursor.object(|name, cursor| {
            members.push((name, place(cursor, range.start)?));
            Ok(())
        });
        read.and_then(|()| cursor.end()).ok().map(|()| members)
    }

    /// The places of the elements of the array at `range`.
    fn elements(&self, range: &Range<usize>) -> Option<Vec<Range<usize>>> {
        let text = self.text.slice(range.clone());
        let (mut cursor, mut elements) = (JsonCursor::new(&text).ok()?, Vec::new());
        let read = cursor.array(|cursor| {
            elements.push(place(cursor, range.start)?);
            Ok(())
        });
        read.and_then(|()| cursor.end()).ok().map(|()| elements)
    }

    fn value(&self, range: &Range<usize>) -> Option<Value> {
        serde_json::from_slice(&self.text[range.clone()]).ok()
    }

    /// The body with changes.
    fn rebuilt(self, mut changes: Changes) -> Payload {
        changes.parts.push(Part::Kept(changes.copied..self.text.len()));
        let (mut pieces, mut text) = (Vec::new(), Vec::new());
        let mut contents = self.contents.into_iter().peekable();
        for part in changes.parts {
            let kept = match part {
                Part::New(new) => {
                    text.extend_from_slice(&new);
                    continue;
                }
                Part::Kept(range) => range,
            };
            let mut from = kept.start;
            while let Some((at, content)) = contents.next_if(|(at, _)| *at < kept.end) {
                text.extend_from_slice(&self.text[from..at]);
                pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                pieces.push(content);
                from = at;
            }
            text.extend_from_slice(&self.text[from..kept.end]);
        }
        if pieces.is_empty() {
            return Payload::Bytes(text.into(), JSON);
        }
        pieces.push(Piece::Text(text.into()));
        let length = pieces.iter().map(Piece::length).fold(0, u64::saturating_add);
        Payload::Streamed(Arc::new(Streamed { pieces, length }))
    }
}

/// Skips the next value and returns its place in the body.
fn place(
    cursor: &mut JsonCursor<'_>,
    base: usize,
) -> Result<Range<usize>, crate::decode::DecodeError> {
    cursor.peek();
    let start = cursor.position();
    cursor.skip()?;
    Ok(base + start..base + cursor.position())
}

/// The parts of a new body, up to `copied` of the old one.
struct Changes {
    parts: Vec<Part>,
    copied: usize,
}

enum Part {
    Kept(Range<usize>),
    New(Vec<u8>),
}

impl Changes {
    fn replace(&mut self, email: &RawEmail) {
        self.parts.push(Part::Kept(self.copied..email.range.start));
        let mut text = vec![b'{'];
        let name = |text: &mut Vec<u8>, name: &str| {
            if !text.ends_with(b"{") {
                text.push(b',');
            }
            push_json_string(text, name);
            text.push(b':');
        };
        for (field, value) in &email.replaced {
            name(&mut text, field);
            text.extend_from_slice(value.to_string().as_bytes());
        }
        for (field, range) in &email.kept {
            name(&mut text, field);
            self.parts.push(Part::New(std::mem::take(&mut text)));
            self.parts.push(Part::Kept(range.clone()));
        }
        text.push(b'}');
        self.parts.push(Part::New(text));
        self.copied = email.range.end;
    }
}

/// An email in a body.
struct RawEmail {
    prefix: String,
    range: Range<usize>,
    /// The addresses in `to`, `cc` and `bcc`, with their field.
    recipients: Vec<(String, String)>,
    headers: Map<String, Value>,
    /// The fields that a redirect does not change.
    kept: Vec<(String, Range<usize>)>,
    /// The fields that it replaces.
    replaced: Vec<(&'static str, Value)>,
}

impl RawEmail {
    fn read(body: &Body, prefix: &str, range: Range<usize>) -> Result<Self, InvalidInput> {
        let members = body.members(&range).ok_or_else(|| unreadable(prefix))?;
        let (mut recipients, mut headers) = (Vec::new(), Map::new());
        let (mut kept, mut seen) = (Vec::new(), Vec::new());
        for (name, value) in members {
            let known = name.to_lowercase();
            let refused = |problem: &'static str| {
                Err(InvalidInput::new(format!("{prefix}{}", shown(&name)), problem))
            };
            if seen.contains(&known) {
                return refused("given twice; a service may read either of them");
            }
            let decoded = || body.value(&value);
            match known.as_str() {
                "to" | "cc" | "bcc" => match decoded().and_then(addresses) {
                    Some(list) => {
                        let field = |index| format!("{prefix}{known}[{index}]");
                        recipients.extend(
                            list.into_iter().enumerate().map(|(at, text)| (field(at), text)),
                        );
                    }
                    None => return refused("not an address or a list of addresses"),
                },
                "headers" => match decoded() {
                    Some(Value::Object(object)) => {
                        check_headers(&object, prefix)?;
                        headers = object;
                    }
                    Some(Value::Null) => {}
                    _ => return refused("not an object of headers"),
                },
                "from" | "subject" | "replyto" => {
                    if decoded().is_none_or(|value| any_text(&value, &has_line_end)) {
                        return refused("contains a line end, which may start another header");
                    }
                    kept.push((name, value));
                }
                known if OTHER_FIELDS.contains(&known) => kept.push((name, value)),
                _ => {
                    if decoded().is_none_or(|value| any_text(&value, &|text| text.contains('@'))) {
                        return refused(
                            "an undocumented field with an `@`, which may name recipients",
                        );
                    }
                    kept.push((name, value));
                }
            }
            seen.push(known);
        }
        let prefix = prefix.to_owned();
        Ok(Self { prefix, range, recipients, headers, kept, replaced: Vec::new() })
    }

    /// Sends the email to this address. Returns false if it has no recipients.
    fn redirect(&mut self, address: &str) -> bool {
        if self.recipients.is_empty() {
            return false;
        }
        for field in RECIPIENTS {
            let name = format!("X-Original-{}{}", field[..1].to_uppercase(), &field[1..]);
            self.headers.retain(|known, _| !known.eq_ignore_ascii_case(&name));
            let start = format!("{}{field}[", self.prefix);
            let originals = self.recipients.iter().filter(|(known, _)| known.starts_with(&start));
            let originals = originals.map(|(_, text)| shown(text)).collect::<Vec<_>>();
            if !originals.is_empty() {
                self.headers.insert(name, originals.join(", ").into());
            }
        }
        self.recipients = vec![(format!("{}to[0]", self.prefix), address.to_owned())];
        self.replaced = vec![
            ("to", vec![address].into()),
            ("headers", Value::Object(std::mem::take(&mut self.headers))),
        ];
        true
    }

    /// Checks the recipients and returns their number.
    fn check(&self, guard: &ActiveGuard) -> Result<u64, InvalidInput> {
        for (field, text) in &self.recipients {
            let problem = match Address::parse(text) {
                // Without rules, several addresses would count as one.
                None => format!(
                    "`{}` can be read as several addresses or none; write `a@b` or `Name <a@b>`",
                    shown(text)
                ),
                Some(address) if !guard.allows(&address) => {
                    format!("{} is not allowed; {}", shown(text), guard.shown_rules())
                }
                _ => continue,
            };
            return Err(InvalidInput::new(field.clone(), problem));
        }
        Ok(self.recipients.len() as u64)
    }
}

fn unreadable(prefix: &str) -> InvalidInput {
    let field = match prefix.trim_end_matches('.') {
        "" => "body".to_owned(),
        email => email.to_owned(),
    };
    InvalidInput::new(field, "not the JSON of an email, so its recipients cannot be checked")
}

/// The addresses of a recipient field: `string or string[]`.
fn addresses(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(vec![text]),
        Value::Array(list) => {
            let text = |each| if let Value::String(text) = each { Some(text) } else { None };
            list.into_iter().map(text).collect()
        }
        _ => None,
    }
}

fn check_headers(headers: &Map<String, Value>, prefix: &str) -> Result<(), InvalidInput> {
    for (name, value) in headers {
        let is_name = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        let problem = if !is_name {
            "not the name of a header"
        } else if RECIPIENT_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            "a header that names recipients; use `to`, `cc` or `bcc`"
        } else if any_text(value, &has_line_end) {
            "contains a line end, which may start another header"
        } else {
            continue;
        };
        return Err(InvalidInput::new(format!("{prefix}headers.{}", shown(name)), problem));
    }
    Ok(())
}

fn has_line_end(text: &str) -> bool {
    text.contains(['\r', '\n'])
}

/// Whether a text or a name in the value fits.
fn any_text(value: &Value, fits: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => fits(text),
        Value::Array(list) => list.iter().any(|each| any_text(each, fits)),
        Value::Object(object) => {
            object.iter().any(|(name, each)| fits(name) || any_text(each, fits))
        }
        _ => false,
    }
}
