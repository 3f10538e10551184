//! Verification and signing with an [`http::HeaderMap`] and a complete body.

use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;

use super::RequestHead;
use super::any::AnyOf;
use super::resolver::sealed;
use crate::{
    AnyDelivery, AnyReceiver, BodyBytes, Delivery, Receiver, Rejection, RequestParts, Scheme,
    Signer, Verified, Verifier, VerifyError,
};

impl<S: Scheme> Verifier<S> {
    /// Verifies a body against the signature header in `headers`, of which there
    /// must be exactly one.
    ///
    /// The event header, if the scheme has one, is added to the result for
    /// comparison ([`Delivery::header_event`]).
    ///
    /// # Errors
    ///
    /// The errors of [`verify_header_values`](Self::verify_header_values).
    pub fn verify_headers<B: BodyBytes>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        let verified = self.verify_header_values(headers.get_all(S::SIGNATURE_HEADER), body)?;
        let values = S::EVENT_HEADER.map(|name| headers.get_all(name));
        let values: Vec<_> = values.into_iter().flatten().map(HeaderValue::as_bytes).collect();
        Ok(match super::join_values(&values) {
            Some(value) => verified.with_compared_event_header(&value),
            None => verified,
        })
    }
}

impl<S: Scheme> Receiver<S> {
    /// Verifies a request whose body is complete, for example from `lambda_http`
    /// or from a framework without an adapter.
    ///
    /// `request` is an `http::request::Parts` or an `http::HeaderMap`. With a `HeaderMap`,
    /// the path is empty for [`Receiver::resolving`], which is the only part of this
    /// function that waits.
    ///
    /// If it fails, respond with [`Rejection::status`] and an empty body.
    ///
    /// ```
    /// # use http::HeaderMap;
    /// # use webhook_verify::{MailEvent, MailSigner, MailVerifier, Receiver, Secret};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let signer = MailSigner::new(&Secret::new("whsec_3f1c")?);
    /// # let body = r#"{"event":"email.sent"}"#;
    /// # let mut headers = HeaderMap::new();
    /// # signer.sign_headers(&mut headers, body);
    /// let receiver = Receiver::new(MailVerifier::new(Secret::new("whsec_3f1c")?));
    /// let delivery = receiver.receive(&headers, body).await?;
    /// assert_eq!(*delivery.event(), MailEvent::Sent);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejection`]. The reason is also logged with `tracing`.
    pub async fn receive<B: BodyBytes>(
        &self,
        request: &impl RequestParts,
        body: B,
    ) -> Result<Delivery<S, B>, Rejection> {
        let verified = self.verify_complete(request, body).await;
        self.log(verified.and_then(|verified| self.parse(verified)))
    }
}

impl AnyReceiver {
    /// Verifies a request whose body is complete, like [`Receiver::receive`].
    ///
    /// # Errors
    ///
    /// [`Rejection`]. The reason is also logged with `tracing`.
    pub async fn receive(
        &self,
        request: &impl RequestParts,
        body: impl Into<bytes::Bytes>,
    ) -> Result<AnyDelivery, Rejection> {
        let result = self.receive_complete(request, body.into()).await;
        self.log(result)
    }

    async fn receive_complete(
        &self,
        request: &impl RequestParts,
        body: bytes::Bytes,
    ) -> Result<AnyDelivery, Rejection> {
        match self.receiver_for(request).await? {
            AnyOf::Extraction(receiver) => {
                let verified = receiver.verify_complete(request, body).await?;
                receiver.parse(verified).map(AnyDelivery::Extraction)
            }
            AnyOf::Mail(receiver) => {
                let verified = receiver.verify_complete(request, body).await?;
                receiver.parse(verified).map(AnyDelivery::Mail)
            }
        }
    }
}

impl sealed::RequestParts for HeaderMap {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes).collect()
    }

    fn to_head(&self) -> RequestHead {
        head("", None, self)
    }
}

impl sealed::RequestParts for Parts {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        sealed::RequestParts::values(&self.headers, name)
    }

    fn to_head(&self) -> RequestHead {
        head(self.uri.path(), self.uri.query(), &self.headers)
    }
}

fn head(path: &str, query: Option<&str>, headers: &HeaderMap) -> RequestHead {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    RequestHead::new(path, query, headers)
}

impl<S: Scheme> Signer<S> {
    /// Signs a body and sets the signature header in `headers`, replacing any
    /// existing one.
    pub fn sign_headers(&self, headers: &mut HeaderMap, body: impl AsRef<[u8]>) {
        let value = HeaderValue::try_from(self.sign(body).to_string());
        let value = value.unwrap_or_else(|_| unreachable!("hex digits are a valid header value"));
        headers.insert(S::SIGNATURE_HEADER, value);
    }
}
