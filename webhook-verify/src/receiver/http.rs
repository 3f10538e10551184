//! For everything that has an [`http::HeaderMap`] and the whole body.

use http::header::{HeaderMap, HeaderValue};

use crate::{Delivery, Receiver, Rejection, Scheme, Signer, Verified, Verifier, VerifyError};

impl<S: Scheme> Verifier<S> {
    /// Verifies a body against the signature header among `headers`, of which
    /// there must be exactly one.
    ///
    /// # Errors
    ///
    /// [`VerifyError`]
    pub fn verify_headers<B: AsRef<[u8]>>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        let verified = self.verify_lines(headers.get_all(S::SIGNATURE_HEADER), body)?;
        let lines = S::EVENT_HEADER.map(|name| headers.get_all(name));
        Ok(match super::joined(lines.into_iter().flatten().map(HeaderValue::as_bytes)) {
            Some(value) => verified.with_compared_header(&value),
            None => verified,
        })
    }
}

impl<S: Scheme> Receiver<S> {
    /// Takes a delivery whose body is there as a whole, as from `lambda_http`
    /// or a framework of your own. The answer to an error is
    /// [`Rejection::status`] with an empty body.
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
    /// [`Rejection`], whose reason also goes to `tracing`.
    pub fn receive<B: AsRef<[u8]>>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Delivery<S, B>, Rejection> {
        let verified = self.verify(headers.get_all(S::SIGNATURE_HEADER), body);
        self.log(verified.and_then(|verified| self.open(self.with_event_of(verified, headers))))
    }

    pub(super) fn with_event_of<B: AsRef<[u8]>>(
        &self,
        verified: Verified<S, B>,
        headers: &HeaderMap,
    ) -> Verified<S, B> {
        let lines = self.event_header.as_deref().map(|name| headers.get_all(name));
        self.with_event_lines(verified, lines.into_iter().flatten().map(HeaderValue::as_bytes))
    }
}

impl<S: Scheme> Signer<S> {
    /// Signs a body and puts the signature header among `headers`, in place of
    /// any that is there.
    pub fn sign_headers(&self, headers: &mut HeaderMap, body: impl AsRef<[u8]>) {
        let value = HeaderValue::try_from(self.sign(body).to_string());
        let value = value.unwrap_or_else(|_| unreachable!("hex digits are a header value"));
        headers.insert(S::SIGNATURE_HEADER, value);
    }
}
