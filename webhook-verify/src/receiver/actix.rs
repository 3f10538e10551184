//! actix-web extractors: `Delivery`, `Verified` and `AnyDelivery`.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use actix_web::body::BoxBody;
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::test::TestRequest;
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError, web};
use bytes::Bytes;
use futures_core::Stream;

use super::RequestHead;
use super::any::AnyOf;
use super::resolver::sealed::RequestParts;
use crate::{
    AnyDelivery, AnyReceiver, BodyTooLarge, Delivery, Receiver, Rejection, Scheme, Verified,
};

/// What actix-web buffers for a connection whose body arrives, in bytes. It keeps this memory
/// while the sender pauses.
const BUFFERS: usize = 192 * 1024;

type LocalFuture<T> = Pin<Box<dyn Future<Output = Result<T, actix_web::Error>>>>;

/// Extracts the verified delivery of the request. Register the [`Receiver`] as app
/// data, directly or in `web::Data`.
///
/// The limit of a registered `PayloadConfig` applies too.
impl<S: Scheme> FromRequest for Delivery<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = app_data::<Receiver<S>>(&request)?;
            let verified = receiver.verify_payload(&request, payload).await;
            Ok(receiver.log(verified.and_then(|verified| receiver.parse(verified)))?)
        })
    }
}

/// Extracts the verified body of the request without parsing an envelope. The
/// maximum age is not checked.
///
/// The limit of a registered `PayloadConfig` applies too.
impl<S: Scheme> FromRequest for Verified<S, Bytes> {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = app_data::<Receiver<S>>(&request)?;
            let verified = receiver.verify_payload(&request, payload).await;
            Ok(receiver.log(verified)?)
        })
    }
}

/// Extracts the verified delivery of either service. Register the [`AnyReceiver`] as app
/// data, directly or in `web::Data`.
impl FromRequest for AnyDelivery {
    type Error = actix_web::Error;
    type Future = LocalFuture<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let receiver = app_data::<AnyReceiver>(&request)?;
            let result = receiver.receive_payload(&request, payload).await;
            Ok(receiver.log(result)?)
        })
    }
}

impl AnyReceiver {
    async fn receive_payload(
        &self,
        request: &HttpRequest,
        payload: Payload,
    ) -> Result<AnyDelivery, Rejection> {
        match self.receiver_for(request).await? {
            AnyOf::Extraction(receiver) => {
                let verified = receiver.verify_payload(request, payload).await?;
                receiver.parse(verified).map(AnyDelivery::Extraction)
            }
            AnyOf::Mail(receiver) => {
                let verified = receiver.verify_payload(request, payload).await?;
                receiver.parse(verified).map(AnyDelivery::Mail)
            }
        }
    }
}

impl<S: Scheme> Receiver<S> {
    async fn verify_payload(
        &self,
        request: &HttpRequest,
        mut payload: Payload,
    ) -> Result<Verified<S, Bytes>, Rejection> {
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|length| length.parse().ok());
        let limit = limit_of_framework(request, self.body_limit);
        let mut incoming = self.begin(request, announced, limit, BUFFERS).await?;
        loop {
            let next = poll_fn(|cx| Pin::new(&mut payload).poll_next(cx));
            match incoming.next(next).await? {
                Some(Ok(chunk)) => incoming.push(&chunk)?,
                Some(Err(PayloadError::Overflow)) => return Err(BodyTooLarge { limit }.into()),
                Some(Err(_)) => return Err(Rejection::Unreadable),
                None => break,
            }
        }
        Ok(self.with_event_header_of(incoming.finish()?, request))
    }
}

/// The smaller of `limit` and the limit of a `PayloadConfig` that the application has
/// registered. The default of 256 KiB, which applies without one, is not a decision of
/// the application.
fn limit_of_framework(request: &HttpRequest, limit: usize) -> usize {
    let shared = || request.app_data::<web::Data<web::PayloadConfig>>().map(|data| data.as_ref());
    let Some(config) = request.app_data::<web::PayloadConfig>().or_else(shared) else {
        return limit;
    };
    // `PayloadConfig` has no accessor for its limit. But the extractor of actix-web
    // refuses an announced length beyond it before it reads, so that a binary search finds
    // it.
    let accepts = |length: usize| {
        let mut probe = TestRequest::default().app_data(config.clone());
        probe = probe.insert_header((CONTENT_LENGTH, length));
        if let Some(value) = request.headers().get(CONTENT_TYPE) {
            probe = probe.insert_header((CONTENT_TYPE, value.clone()));
        }
        let (probe, mut payload) = (probe.to_http_request(), Payload::None);
        let mut extracted = pin!(Bytes::from_request(&probe, &mut payload));
        match extracted.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => {
                error.as_response_error().status_code() != StatusCode::PAYLOAD_TOO_LARGE
            }
            _ => true,
        }
    };
    if accepts(limit) {
        return limit;
    }
    let (mut accepted, mut refused) = (0, limit);
    while accepted + 1 < refused {
        let middle = accepted + (refused - accepted) / 2;
        if accepts(middle) {
            accepted = middle;
        } else {
            refused = middle;
        }
    }
    accepted
}

impl RequestParts for HttpRequest {
    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.headers().get_all(name).map(HeaderValue::as_bytes).collect()
    }

    fn to_head(&self) -> RequestHead {
        let query = Some(self.query_string()).filter(|query| !query.is_empty());
        let headers = self.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
        RequestHead::new(self.path(), query, headers)
    }
}

fn app_data<R: Clone + 'static>(request: &HttpRequest) -> Result<R, actix_web::Error> {
    let shared = || request.app_data::<web::Data<R>>().map(|shared| shared.as_ref());
    request.app_data::<R>().or_else(shared).cloned().ok_or_else(|| {
        let receiver = std::any::type_name::<R>();
        tracing::error!(receiver, "no receiver of this type is registered as app data");
        actix_web::error::InternalError::from_response(
            "no receiver is registered",
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
        let mut response = HttpResponse::new(self.status_code());
        // Otherwise actix-web keeps the connection, with the rest of the body in its buffers.
        response.head_mut().set_connection_type(ConnectionType::Close);
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
