//! actix-web extractors: `Delivery` and `Verified`.

use std::future::poll_fn;
use std::pin::Pin;

use actix_web::body::BoxBody;
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_LENGTH, HeaderValue};
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError, web};
use bytes::Bytes;
use futures_core::Stream;

use crate::{BodyTooLarge, Delivery, Receiver, Rejection, Scheme, Verified};

type LocalFuture<T> = Pin<Box<dyn Future<Output = Result<T, actix_web::Error>>>>;

/// Extracts the verified delivery of the request. Register the [`Receiver`] as app
/// data, directly or in `web::Data`.
impl<S: Scheme> FromRequest for Delivery<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = receiver_of::<S>(&request)?;
            let verified = receiver.verify_payload(&request, payload).await;
            Ok(receiver.log(verified.and_then(|verified| receiver.parse(verified)))?)
        })
    }
}

/// Extracts the verified body of the request without parsing an envelope. The
/// maximum age is not checked.
impl<S: Scheme> FromRequest for Verified<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = receiver_of::<S>(&request)?;
            let verified = receiver.verify_payload(&request, payload).await;
            Ok(receiver.log(verified)?)
        })
    }
}

impl<S: Scheme> Receiver<S> {
    async fn verify_payload(
        &self,
        request: &HttpRequest,
        mut payload: Payload,
    ) -> Result<Verified<S, Bytes>, Rejection> {
        let headers = request.headers();
        let content_length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let content_length = content_length.and_then(|length| length.parse().ok());
        let signature = headers.get_all(S::SIGNATURE_HEADER).map(HeaderValue::as_bytes);
        let mut buffered = self.check_head(signature, content_length)?;
        while let Some(chunk) = poll_fn(|cx| Pin::new(&mut payload).poll_next(cx)).await {
            buffered.push(chunk.map_err(|error| self.payload_rejection(&error))?)?;
        }
        let verified = buffered.finish()?.map_body(Bytes::from);
        let values = self.event_header.as_deref().map(|name| headers.get_all(name));
        let values = values.into_iter().flatten().map(HeaderValue::as_bytes);
        Ok(self.with_event_header_values(verified, values))
    }

    fn payload_rejection(&self, error: &PayloadError) -> Rejection {
        match error {
            PayloadError::Overflow => BodyTooLarge { limit: self.body_limit }.into(),
            _ => Rejection::Unreadable,
        }
    }
}

fn receiver_of<S: Scheme>(request: &HttpRequest) -> Result<Receiver<S>, actix_web::Error> {
    let shared = || request.app_data::<web::Data<Receiver<S>>>().map(|shared| shared.as_ref());
    request.app_data::<Receiver<S>>().or_else(shared).cloned().ok_or_else(|| {
        tracing::error!(scheme = S::NAME, "no `Receiver` of this scheme is registered as app data");
        actix_web::error::InternalError::from_response(
            "no `Receiver` is registered",
            HttpResponse::InternalServerError().finish(),
        )
        .into()
    })
}

/// Responds with the rejection's status and an empty body.
impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::UNAUTHORIZED)
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        HttpResponse::new(self.status_code())
    }
}
