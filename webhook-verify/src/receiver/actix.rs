//! Extractors for actix-web.

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

use crate::{Delivery, Receiver, Rejection, Scheme, TooLarge, Verified};

type LocalFuture<T> = Pin<Box<dyn Future<Output = Result<T, actix_web::Error>>>>;

/// The verified delivery of the request, its envelope read. The [`Receiver`]
/// is app data, bare or in `web::Data`.
impl<S: Scheme> FromRequest for Delivery<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = receiver::<S>(&request)?;
            let verified = receiver.read(&request, payload).await;
            Ok(receiver.log(verified.and_then(|verified| receiver.open(verified)))?)
        })
    }
}

/// The verified body of the request, for what is no JSON envelope. The maximum
/// age does not apply to it.
impl<S: Scheme> FromRequest for Verified<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = receiver::<S>(&request)?;
            let verified = receiver.read(&request, payload).await;
            Ok(receiver.log(verified)?)
        })
    }
}

impl<S: Scheme> Receiver<S> {
    async fn read(
        &self,
        request: &HttpRequest,
        mut payload: Payload,
    ) -> Result<Verified<S, Bytes>, Rejection> {
        let headers = request.headers();
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let announced = announced.and_then(|length| length.parse().ok());
        let signature = headers.get_all(S::SIGNATURE_HEADER).map(HeaderValue::as_bytes);
        let mut collecting = self.begin(signature, announced)?;
        while let Some(piece) = poll_fn(|cx| Pin::new(&mut payload).poll_next(cx)).await {
            collecting.push(piece.map_err(|error| self.unread(&error))?)?;
        }
        let verified = collecting.finish()?.map_body(Bytes::from);
        let lines = self.event_header.as_deref().map(|name| headers.get_all(name));
        let lines = lines.into_iter().flatten().map(HeaderValue::as_bytes);
        Ok(self.with_event_lines(verified, lines))
    }

    fn unread(&self, error: &PayloadError) -> Rejection {
        match error {
            PayloadError::Overflow => TooLarge { limit: self.body_limit }.into(),
            _ => Rejection::Unreadable,
        }
    }
}

fn receiver<S: Scheme>(request: &HttpRequest) -> Result<Receiver<S>, actix_web::Error> {
    let shared = || request.app_data::<web::Data<Receiver<S>>>().map(|shared| shared.as_ref());
    request.app_data::<Receiver<S>>().or_else(shared).cloned().ok_or_else(|| {
        tracing::error!(scheme = S::NAME, "the app data holds no `Receiver` of this scheme");
        actix_web::error::InternalError::from_response(
            "no receiver",
            HttpResponse::InternalServerError().finish(),
        )
        .into()
    })
}

/// The status and an empty body.
impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::UNAUTHORIZED)
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        HttpResponse::new(self.status_code())
    }
}
