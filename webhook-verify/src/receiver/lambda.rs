//! AWS Lambda behind API Gateway (REST and HTTP APIs), a function URL or a
//! load balancer. These types hold what the four kinds of event have in
//! common, so that nothing depends on a version of the runtime.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Delivery, Receiver, Rejection, Scheme, TooLarge};

/// An HTTP request as Lambda hands it to a function: the payload type of
/// `lambda_runtime::LambdaEvent`.
///
/// ```
/// use webhook_verify::{ExtractionVerifier, LambdaResponse, LambdaRequest, Receiver, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let receiver = Receiver::new(ExtractionVerifier::new(Secret::new("whsec_3f1c")?));
/// let request: LambdaRequest = serde_json::from_str(
///     r#"{"headers":{"host":"example.com"},"body":"e30=","isBase64Encoded":true}"#,
/// )?;
/// let answer = request.answer(match receiver.receive_lambda(&request) {
///     Ok(delivery) => LambdaResponse::new(200),
///     Err(refused) => refused.into(),
/// });
/// assert_eq!(answer.status_code, 401);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LambdaRequest {
    #[serde(default)]
    headers: Option<BTreeMap<String, Option<String>>>,
    /// REST APIs give every line here and only the last one in `headers`;
    /// load balancers give one or the other, as they are set up.
    #[serde(default)]
    multi_value_headers: Option<BTreeMap<String, Option<Vec<String>>>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: Option<bool>,
}

impl LambdaRequest {
    /// The answer as the caller of this request reads it: its headers in
    /// `multiValueHeaders` where the request's came so, else in `headers`.
    pub fn answer(&self, answer: impl Into<LambdaResponse>) -> LambdaResponse {
        let mut answer = answer.into();
        answer.form = if self.multi_value_headers.is_some() { Form::Multi } else { Form::Single };
        answer
    }

    /// Every line of a header. Names come in any case, and more than once.
    fn lines(&self, name: &str) -> Vec<&str> {
        let several: Vec<&str> = of_name(self.multi_value_headers.as_ref(), name)
            .flatten()
            .map(String::as_str)
            .collect();
        if !several.is_empty() {
            return several;
        }
        of_name(self.headers.as_ref(), name).map(String::as_str).collect()
    }

    fn bytes(&self, limit: usize) -> Result<Bytes, Rejection> {
        let Some(body) = &self.body else { return Ok(Bytes::new()) };
        if !self.is_base64_encoded.unwrap_or(false) {
            return Ok(Bytes::copy_from_slice(body.as_bytes()));
        }
        // Four letters are at most three bytes: no need to decode what is too large anyway.
        if body.len() / 4 * 3 > limit.saturating_add(2) {
            return Err(TooLarge { limit }.into());
        }
        STANDARD.decode(body).map(Bytes::from).map_err(|_| Rejection::Unreadable)
    }
}

/// Nothing of headers or body.
impl fmt::Debug for LambdaRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LambdaRequest")
            .field("body_length", &self.body.as_ref().map(String::len))
            .field("is_base64_encoded", &self.is_base64_encoded)
            .finish_non_exhaustive()
    }
}

impl<S: Scheme> Receiver<S> {
    /// Takes a delivery that came as a Lambda event, decoding its body where
    /// it is Base64.
    ///
    /// # Errors
    ///
    /// [`Rejection`], which turns into the [`LambdaResponse`] and whose reason
    /// also goes to `tracing`.
    pub fn receive_lambda(&self, request: &LambdaRequest) -> Result<Delivery<S, Bytes>, Rejection> {
        self.log(self.open_lambda(request))
    }

    fn open_lambda(&self, request: &LambdaRequest) -> Result<Delivery<S, Bytes>, Rejection> {
        let signature = request.lines(S::SIGNATURE_HEADER);
        // Before the body is decoded, as everywhere.
        crate::Signature::<S>::from_lines(&signature)?;
        let verified = self.verify(&signature, request.bytes(self.body_limit)?)?;
        let event = self.event_header.as_deref().map(|name| request.lines(name));
        self.open(self.with_event_lines(verified, event.into_iter().flatten()))
    }
}

/// The answer of a function.
///
/// [`LambdaRequest::answer`] gives it the form that the caller reads. Without
/// that its headers are there in both forms, so that every caller finds them: a
/// load balancer takes an answer in the other form for a failure, a REST API
/// sends what it is given twice in two lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LambdaResponse {
    /// The HTTP status.
    pub status_code: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: String,
    /// Always false: the body is text.
    pub is_base64_encoded: bool,
    form: Form,
}

/// Where the headers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Both,
    Single,
    Multi,
}

impl LambdaResponse {
    /// An answer with an empty body.
    pub fn new(status: u16) -> Self {
        Self {
            status_code: status,
            headers: BTreeMap::new(),
            body: String::new(),
            is_base64_encoded: false,
            form: Form::Both,
        }
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

impl Serialize for LambdaResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("statusCode", &self.status_code)?;
        if self.form != Form::Multi {
            fields.serialize_entry("headers", &self.headers)?;
        }
        if self.form != Form::Single {
            let lines: BTreeMap<_, _> =
                self.headers.iter().map(|(n, value)| (n, [value])).collect();
            fields.serialize_entry("multiValueHeaders", &lines)?;
        }
        fields.serialize_entry("body", &self.body)?;
        fields.serialize_entry("isBase64Encoded", &self.is_base64_encoded)?;
        fields.end()
    }
}

impl From<Rejection> for LambdaResponse {
    fn from(refused: Rejection) -> Self {
        Self::new(refused.status())
    }
}

fn of_name<'a, V>(
    headers: Option<&'a BTreeMap<String, Option<V>>>,
    name: &str,
) -> impl Iterator<Item = &'a V> {
    let named =
        headers.into_iter().flatten().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
    named.filter_map(|(_, value)| value.as_ref())
}
