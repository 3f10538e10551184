//! AWS Lambda behind API Gateway (REST and HTTP APIs), a function URL or a load
//! balancer.
//!
//! The types contain the fields that the four event formats have in common, so
//! that this crate does not depend on a version of the Lambda runtime.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use super::RequestHead;
use super::any::AnyOf;
use super::resolver::sealed::{self, RequestParts as _};
use crate::{
    AnyDelivery, AnyReceiver, BodyTooLarge, Delivery, Receiver, Rejection, Scheme, Verified,
};

/// An HTTP request as AWS Lambda passes it to a function. Use it as the payload
/// type of `lambda_runtime::LambdaEvent`.
///
/// ```
/// use webhook_verify::{ExtractionVerifier, LambdaRequest, LambdaResponse, Receiver, Secret};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let receiver = Receiver::new(ExtractionVerifier::new(Secret::new("whsec_3f1c")?));
/// let request: LambdaRequest = serde_json::from_str(
///     r#"{"headers":{"host":"example.com"},"body":"e30=","isBase64Encoded":true}"#,
/// )?;
/// let response = request.respond(match receiver.receive_lambda(&request).await {
///     Ok(delivery) => LambdaResponse::new(200),
///     Err(rejection) => rejection.into(),
/// });
/// assert_eq!(response.status_code, 401);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LambdaRequest {
    #[serde(default)]
    headers: Option<BTreeMap<String, Option<String>>>,
    /// REST APIs send all values here and only the last one in `headers`. Load
    /// balancers send one of the two fields, depending on their configuration.
    #[serde(default)]
    multi_value_headers: Option<BTreeMap<String, Option<Vec<String>>>>,
    /// The path, from REST APIs and load balancers.
    #[serde(default)]
    path: Option<String>,
    /// The path, from HTTP APIs and function URLs.
    #[serde(default)]
    raw_path: Option<String>,
    #[serde(default)]
    raw_query_string: Option<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: Option<bool>,
}

impl LambdaRequest {
    /// Converts a result into the response to this request.
    ///
    /// The response's headers are in `multiValueHeaders` if the request's headers
    /// were, otherwise in `headers`, as the sender of the event requires.
    pub fn respond(&self, response: impl Into<LambdaResponse>) -> LambdaResponse {
        let mut response = response.into();
        response.header_format = if self.multi_value_headers.is_some() {
            HeaderFormat::MultiValue
        } else {
            HeaderFormat::SingleValue
        };
        response
    }

    /// All values of a header. Names are case-insensitive and can occur more than
    /// once.
    fn header_values(&self, name: &str) -> Vec<&str> {
        let multiple: Vec<&str> = entries_named(self.multi_value_headers.as_ref(), name)
            .flatten()
            .map(String::as_str)
            .collect();
        if !multiple.is_empty() {
            return multiple;
        }
        entries_named(self.headers.as_ref(), name).map(String::as_str).collect()
    }

    /// The body, decoded from Base64 if the event says so.
    fn decoded_body(&self, limit: usize) -> Result<Bytes, Rejection> {
        let Some(body) = &self.body else { return Ok(Bytes::new()) };
        if !self.is_base64_encoded.unwrap_or(false) {
            return Ok(Bytes::copy_from_slice(body.as_bytes()));
        }
        // Four characters decode to at most three bytes, so a body that is certainly too
        // large is not decoded.
        if body.len() / 4 * 3 > limit.saturating_add(2) {
            return Err(BodyTooLarge { limit }.into());
        }
        STANDARD.decode(body).map(Bytes::from).map_err(|_| Rejection::Unreadable)
    }
}

/// Shows nothing of the headers and the body.
impl fmt::Debug for LambdaRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LambdaRequest")
            .field("body_length", &self.body.as_ref().map(String::len))
            .field("is_base64_encoded", &self.is_base64_encoded)
            .finish_non_exhaustive()
    }
}

impl<S: Scheme> Receiver<S> {
    /// Verifies a request that was received as a Lambda event. A Base64 body is
    /// decoded first.
    ///
    /// Only the function of [`Receiver::resolving`] makes it wait.
    ///
    /// # Errors
    ///
    /// [`Rejection`], which converts into a [`LambdaResponse`]. The reason is also
    /// logged with `tracing`.
    pub async fn receive_lambda(
        &self,
        request: &LambdaRequest,
    ) -> Result<Delivery<S, Bytes>, Rejection> {
        let verified = self.verify_lambda(request).await;
        self.log(verified.and_then(|verified| self.parse(verified)))
    }

    async fn verify_lambda(
        &self,
        request: &LambdaRequest,
    ) -> Result<Verified<S, Bytes>, Rejection> {
        // The header is checked before the body is decoded.
        crate::Signature::<S>::from_header_values(request.values(S::SIGNATURE_HEADER))?;
        self.verify_complete(request, request.decoded_body(self.body_limit)?).await
    }
}

impl AnyReceiver {
    /// Verifies a request that was received as a Lambda event, like
    /// [`Receiver::receive_lambda`].
    ///
    /// # Errors
    ///
    /// [`Rejection`], which converts into a [`LambdaResponse`]. The reason is also
    /// logged with `tracing`.
    pub async fn receive_lambda(&self, request: &LambdaRequest) -> Result<AnyDelivery, Rejection> {
        let result = self.verify_lambda(request).await;
        self.log(result)
    }

    async fn verify_lambda(&self, request: &LambdaRequest) -> Result<AnyDelivery, Rejection> {
        match self.receiver_for(request).await? {
            AnyOf::Extraction(receiver) => {
                receiver.parse(receiver.verify_lambda(request).await?).map(AnyDelivery::Extraction)
            }
            AnyOf::Mail(receiver) => {
                receiver.parse(receiver.verify_lambda(request).await?).map(AnyDelivery::Mail)
            }
        }
    }
}

impl sealed::RequestParts for LambdaRequest {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.header_values(name).into_iter().map(str::as_bytes).collect()
    }

    fn to_head(&self) -> RequestHead {
        let path = self.raw_path.as_deref().or(self.path.as_deref()).unwrap_or_default();
        let query = self.raw_query_string.as_deref().filter(|query| !query.is_empty());
        let multiple = self.multi_value_headers.iter().flatten().flat_map(|(name, values)| {
            values.iter().flatten().map(move |value| (name.as_str(), value.as_bytes()))
        });
        let single = self.headers.iter().flatten().filter_map(|(name, value)| {
            value.as_ref().map(|value| (name.as_str(), value.as_bytes()))
        });
        RequestHead::new(path, query, multiple.chain(single))
    }
}

/// The HTTP response of a Lambda function.
///
/// Return it through [`LambdaRequest::respond`], which selects the field for the
/// headers that the sender of the event reads. Without that, the headers are
/// serialized as both `headers` and `multiValueHeaders`: every sender finds them,
/// but a REST API sends each header twice. A load balancer that does not find its
/// field treats the response as a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LambdaResponse {
    /// The HTTP status.
    pub status_code: u16,
    /// The headers, one value per name.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: String,
    /// Always false: the body is text.
    pub is_base64_encoded: bool,
    header_format: HeaderFormat,
}

/// The field of the response that contains the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderFormat {
    Both,
    SingleValue,
    MultiValue,
}

impl LambdaResponse {
    /// Creates a response with an empty body.
    pub fn new(status: u16) -> Self {
        Self {
            status_code: status,
            headers: BTreeMap::new(),
            body: String::new(),
            is_base64_encoded: false,
            header_format: HeaderFormat::Both,
        }
    }

    /// Adds a header.
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
        if self.header_format != HeaderFormat::MultiValue {
            fields.serialize_entry("headers", &self.headers)?;
        }
        if self.header_format != HeaderFormat::SingleValue {
            let values: BTreeMap<_, _> =
                self.headers.iter().map(|(name, value)| (name, [value])).collect();
            fields.serialize_entry("multiValueHeaders", &values)?;
        }
        fields.serialize_entry("body", &self.body)?;
        fields.serialize_entry("isBase64Encoded", &self.is_base64_encoded)?;
        fields.end()
    }
}

impl From<Rejection> for LambdaResponse {
    fn from(rejection: Rejection) -> Self {
        let response = Self::new(rejection.status());
        match rejection.retry_after() {
            Some(seconds) => response.header("retry-after", seconds.to_string()),
            None => response,
        }
    }
}

fn entries_named<'a, V>(
    headers: Option<&'a BTreeMap<String, Option<V>>>,
    name: &str,
) -> impl Iterator<Item = &'a V> {
    let entries =
        headers.into_iter().flatten().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
    entries.filter_map(|(_, value)| value.as_ref())
}
