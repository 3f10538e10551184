//! The requests of the checks, and the shell commands that repeat them.

use std::fmt::Write as _;

use hyper::body::Bytes;
use hyper::http::Extensions;
use serde_json::Value;
use svc_sdk::Service;
use webhook_verify::Secret;

use super::keys::{Key, header_of, sign};
use crate::command_line::shell_quoted;
use crate::commands::trigger::payload;
use crate::deliver::Delivery;
use crate::urls::parse_url;

/// A delivery that may be forged.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Tells the request from the others of its check.
    pub(super) name: Option<&'static str>,
    /// Name of the event.
    event: String,
    /// The id in the body.
    pub(super) id: String,
    /// The unsigned headers, such as the content type and the header that names the event.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// What the signature covers, if it is not the body.
    signed: Option<Vec<u8>>,
    /// The signature headers: none, one, or several.
    signatures: Vec<Signature>,
    /// Whether `svc trigger` sends an equal request.
    is_plain: bool,
}

/// A signature header.
#[derive(Clone, Debug)]
pub(super) enum Signature {
    /// Signed with the receiver's secret, in the header of this service.
    Signed(Service, Form),
    /// Signed with a secret that the receiver had before.
    SignedWithOldSecret,
    /// A value that needs no secret, in the header of the service under test.
    Literal(String),
}

/// How a signature is written.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// As the service writes it.
    Documented,
    /// With upper-case hex digits.
    UpperCase,
    /// With this number of digits.
    FirstDigits(usize),
    /// With this number of correct digits, and zeros after them.
    ZerosAfter(usize),
    /// With text before and after it.
    Around(String, String),
    /// Twice, with this text between.
    Twice(&'static str),
    /// With this text before the digits.
    Prefix(&'static str),
}

impl Request {
    /// A good delivery of the event, with a new id.
    pub(super) fn good(service: Service, event: &str) -> Self {
        Self { is_plain: true, ..Self::with_value(service, event, &payload::of(event)) }
    }

    /// A good delivery with this JSON as its body.
    pub(super) fn with_value(service: Service, event: &str, value: &Value) -> Self {
        Self {
            name: None,
            event: event.to_owned(),
            id: value["id"].as_str().unwrap_or_default().to_owned(),
            headers: payload::headers(service, value),
            body: value.to_string().into_bytes(),
            signed: None,
            signatures: vec![Signature::Signed(service, Form::Documented)],
            is_plain: false,
        }
    }

    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Replaces the body, with a signature of the new one.
    pub(super) fn with_body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), is_plain: false, ..self }
    }

    /// Keeps the body, with a signature of another one.
    pub(super) fn signed_over(self, signed: impl Into<Vec<u8>>) -> Self {
        Self { signed: Some(signed.into()), is_plain: false, ..self }
    }

    /// Replaces the signature headers.
    pub(super) fn with_signatures(self, signatures: impl Into<Vec<Signature>>) -> Self {
        Self { signatures: signatures.into(), is_plain: false, ..self }
    }

    /// Whether the body can get another id: its signature is made where it is sent.
    fn is_signed_when_sent(&self) -> bool {
        self.signed.is_none()
            && !self.signatures.is_empty()
            && !self.signatures.iter().any(|signature| matches!(signature, Signature::Literal(_)))
    }

    /// Replaces the id in text for a shell by one with the time `$T`, because a receiver that has
    /// seen the id may respond in another way.
    fn with_new_id(&self, shell_text: String) -> String {
        match self.is_signed_when_sent() {
            true => shell_text.replace(&self.id, r#"00000000-0000-4000-8000-'"$T"'00"#),
            false => shell_text,
        }
    }

    /// The bytes that the signature covers.
    pub(super) fn signed_bytes(&self) -> &[u8] {
        self.signed.as_deref().unwrap_or(&self.body)
    }
}

/// What signs requests and addresses them.
pub(super) struct Sender {
    pub(super) service: Service,
    pub(super) url: String,
    pub(super) secret: Secret,
    pub(super) old_secret: Option<Secret>,
    /// Keys that a receiver may confuse with the secret, with their names.
    pub(super) other_keys: Vec<(&'static str, Key)>,
    /// As typed, for the shell commands: the secrets themselves are never shown.
    pub(super) secret_file: String,
    pub(super) old_secret_file: String,
    pub(super) ca_bundle: Option<String>,
}

impl Sender {
    /// The request of a check, signed. Its user agent names the check, for the receiver's log.
    pub(super) fn delivery(&self, check: &str, request: &Request) -> Delivery {
        let mut headers = request.headers.clone();
        for (name, value) in &mut headers {
            if name == "user-agent" {
                *value = format!("{value} (certify {check})");
            }
        }
        headers.extend(request.signatures.iter().map(|signature| {
            let (name, value) = self.signature_header(signature, request.signed_bytes());
            (name.to_owned(), value)
        }));
        Delivery {
            url: self.url.clone(),
            headers,
            body: Bytes::from(request.body.clone()),
            extensions: Extensions::new(),
        }
    }

    fn signature_header(&self, signature: &Signature, signed: &[u8]) -> (&'static str, String) {
        match signature {
            Signature::Signed(service, form) => {
                let (name, prefix) = header_of(*service);
                (name, form.of(&sign(*service, &self.secret, signed), prefix))
            }
            Signature::SignedWithOldSecret => {
                let secret = self.old_secret.as_ref().unwrap_or(&self.secret);
                (header_of(self.service).0, sign(self.service, secret, signed))
            }
            Signature::Literal(value) => (header_of(self.service).0, value.clone()),
        }
    }

    /// The correct signature of the body, as its digits.
    pub(super) fn digits(&self, body: &[u8]) -> String {
        let (_, prefix) = header_of(self.service);
        sign(self.service, &self.secret, body)[prefix.len()..].to_owned()
    }

    /// A shell command that repeats the request.
    pub(super) fn command(&self, request: &Request) -> String {
        let url = shell_quoted(&shown_url(&self.url)).into_owned();
        let file = shell_quoted(&self.secret_file);
        if request.is_plain {
            let bundle = match &self.ca_bundle {
                Some(path) => format!(" --ca-bundle {}", shell_quoted(path)),
                None => String::new(),
            };
            return format!(
                "svc trigger {} --to {url} --secret-file {file}{bundle}",
                request.event
            );
        }
        let mut line = match request.is_signed_when_sent() {
            true => "T=$(date +%s); ".to_owned(),
            false => String::new(),
        };
        let _ = write!(line, "B={}; ", request.with_new_id(shell_bytes(&request.body)));
        if let Some(signed) = &request.signed {
            let _ = write!(line, "S={}; ", shell_bytes(signed));
        }
        line.push_str(&self.curl(request));
        line.push_str(" --data-binary \"$B\"");
        line
    }

    /// As [`command`](Self::command), without the body and its variables.
    pub(super) fn curl(&self, request: &Request) -> String {
        let mut line = format!("curl -i {}", shell_quoted(&shown_url(&self.url)));
        if let Some(path) = &self.ca_bundle {
            let _ = write!(line, " --cacert {}", shell_quoted(path));
        }
        for (name, value) in request.headers.iter().filter(|(name, _)| name != "user-agent") {
            let header = shell_quoted(&format!("{name}: {value}")).into_owned();
            let _ = write!(line, " -H {}", request.with_new_id(header));
        }
        let signed = if request.signed.is_some() { "S" } else { "B" };
        for signature in &request.signatures {
            let (service, file, filter) = match signature {
                Signature::Signed(service, form) => {
                    (*service, &self.secret_file, form.filter(header_of(*service).1))
                }
                Signature::SignedWithOldSecret => {
                    let filter = Form::Documented.filter("");
                    (self.service, &self.old_secret_file, filter)
                }
                Signature::Literal(value) => {
                    let name = header_of(self.service).0;
                    // curl omits a header without a value unless it ends with a semicolon.
                    let header = match value.as_str() {
                        "" => format!("{name};"),
                        value => format!("{name}: {value}"),
                    };
                    let _ = write!(line, " -H {}", shell_quoted(&header));
                    continue;
                }
            };
            let _ = write!(
                line,
                " -H \"{}: $(printf %s \"${signed}\" | svc sign --service {service} \
                 --secret-file {} --jq {})\"",
                header_of(service).0,
                shell_quoted(file),
                shell_quoted(&filter),
            );
        }
        line
    }
}

impl Form {
    /// A signature in this form, from the one that the service writes.
    fn of(&self, signature: &str, prefix: &str) -> String {
        let digits = &signature[prefix.len()..];
        match self {
            Self::Documented => signature.to_owned(),
            Self::UpperCase => format!("{prefix}{}", digits.to_uppercase()),
            Self::FirstDigits(count) => format!("{prefix}{}", &digits[..*count]),
            Self::ZerosAfter(count) => {
                format!("{prefix}{}{}", &digits[..*count], "0".repeat(digits.len() - count))
            }
            Self::Around(before, after) => format!("{before}{signature}{after}"),
            Self::Twice(between) => format!("{signature}{between}{signature}"),
            Self::Prefix(other) => format!("{other}{digits}"),
        }
    }

    /// The same as a jq filter for the output of `svc sign`.
    fn filter(&self, prefix: &str) -> String {
        let digits = prefix.len();
        match self {
            Self::Documented => ".signature".to_owned(),
            Self::UpperCase if prefix.is_empty() => ".signature | ascii_upcase".to_owned(),
            Self::UpperCase => {
                format!("\"{prefix}\" + (.signature[{digits}:] | ascii_upcase)")
            }
            Self::FirstDigits(count) => format!(".signature[:{}]", digits + count),
            Self::ZerosAfter(count) => {
                let zeros = "0".repeat(64 - count);
                format!(".signature[:{}] + \"{zeros}\"", digits + count)
            }
            Self::Around(before, after) => {
                let literal = |text: &String| format!("\"{text}\"");
                let parts = [literal(before), ".signature".to_owned(), literal(after)];
                parts.into_iter().filter(|part| part != "\"\"").collect::<Vec<_>>().join(" + ")
            }
            Self::Twice(between) => format!(".signature + \"{between}\" + .signature"),
            Self::Prefix(other) => format!("\"{other}\" + .signature[{digits}:]"),
        }
    }
}

/// A URL without its password.
pub(super) fn shown_url(url: &str) -> String {
    match parse_url(url) {
        Some(mut parsed) if parsed.password().is_some() => {
            // Fails only for URLs that cannot have a password.
            let _ = parsed.set_password(Some("***"));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

/// Bytes as a word of a POSIX shell on one line. They must not contain a null byte, or end with a
/// line feed.
fn shell_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let mut format = String::new();
            for byte in bytes {
                match byte {
                    b'%' => format.push_str("%%"),
                    b'\\' => format.push_str(r"\\"),
                    b'\'' => format.push_str(r"'\''"),
                    b' '..=b'~' => format.push(char::from(*byte)),
                    _ => {
                        let _ = write!(format, "\\{byte:03o}");
                    }
                }
            }
            format!("\"$(printf '{format}')\"")
        }
    }
}
