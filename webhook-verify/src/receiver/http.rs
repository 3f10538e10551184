//! Verification and signing with an [`http::HeaderMap`] and a complete body.

use http::header::{HeaderMap, HeaderValue};

use crate::{Delivery, Receiver, Rejection, Scheme, Signer, Verified, Verifier, VerifyError};

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
    pub fn verify_headers<B: AsRef<[u8]>>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        let verified = self.verify_header_values(headers.get_all(S::SIGNATURE_HEADER), body)?;
        let values = S::EVENT_HEADER.map(|name| headers.get_all(name));
        Ok(match super::join_values(values.into_iter().flatten().map(HeaderValue::as_bytes)) {
            Some(value) => verified.with_compared_event_header(&value),
            None => verified,
        })
    }
}

impl<S: Scheme> Receiver<S> {
    /// Verifies a request whose body is complete, for example from `lambda_http`
    /// or from a framework without an adapter.
    ///
    /// If it fails, respond with [`Rejection::status`] and an empty body.
    ///
    /// ```
    /// # use http::HeaderMap;
    /// # use webhook_verify::{MailEvent, MailSigner, MailVerifier, Receiver, Secret};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let signer = MailSigner::new(&Secret::new("whsec_3f1c")?);
    /// # let body = r#"{"event":"email.sent"}"#;
    /// # let mut headers = HeaderMap::new();
    /// # signer.sign_headers(&mut headers, body);
    /// let receiver = Receiver::new(MailVerifier::new(Secret::new("whsec_3f1c")?));
    /// let delivery = receiver.receive(&headers, body)?;
    /// assert_eq!(*delivery.event(), MailEvent::Sent);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejection`]. The reason is also logged with `tracing`.
    pub fn receive<B: AsRef<[u8]>>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Delivery<S, B>, Rejection> {
        let verified = self.verify(headers.get_all(S::SIGNATURE_HEADER), body);
        self.log(
            verified.and_then(|verified| self.parse(self.with_event_header_of(verified, headers))),
        )
    }

    pub(super) fn with_event_header_of<B: AsRef<[u8]>>(
        &self,
        verified: Verified<S, B>,
        headers: &HeaderMap,
    ) -> Verified<S, B> {
        let values = self.event_header.as_deref().map(|name| headers.get_all(name));
        self.with_event_header_values(
            verified,
            values.into_iter().flatten().map(HeaderValue::as_bytes),
        )
    }
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
