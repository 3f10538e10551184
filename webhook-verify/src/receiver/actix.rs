//! The actix-web extractor.

use std::pin::Pin;

use actix_web::body::BoxBody;
use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_LENGTH, RETRY_AFTER};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{FromRequest, HttpRequest, HttpResponse, ResponseError, web};

use super::{Receiver, RequestHead};
use crate::delivery::Delivery;
use crate::rejection::Rejection;

/// Extracts the verified delivery of the request. Register the [`Receiver`] as app data, directly
/// or in `web::Data`.
impl FromRequest for Delivery {
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, actix_web::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let request = request.clone();
        let mut payload = payload.take();
        Box::pin(async move {
            let in_data = || {
                request
                    .app_data::<web::Data<Receiver>>()
                    .map(|data| data.as_ref())
            };
            let receiver = request
                .app_data::<Receiver>()
                .or_else(in_data)
                .cloned()
                .ok_or_else(|| {
                    actix_web::error::ErrorInternalServerError("no Receiver is registered")
                })?;
            let headers = request.headers().iter();
            let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
            let head = RequestHead::new(request.uri().path(), request.uri().query(), headers);
            let announced = request.headers().get(CONTENT_LENGTH);
            let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
            let read = async || {
                let payload = web::Payload::from_request(&request, &mut payload).await;
                let payload = payload.map_err(|_| Rejection::Unreadable)?;
                let limit = receiver.body_limit;
                let timeout = receiver.body_timeout;
                match tokio::time::timeout(timeout, payload.to_bytes_limited(limit)).await {
                    Ok(Ok(Ok(body))) => Ok(body),
                    Ok(Ok(Err(_))) => Err(Rejection::Unreadable),
                    Ok(Err(_)) => Err(Rejection::TooLarge { limit }),
                    Err(_) => Err(Rejection::Timeout { timeout }),
                }
            };
            Ok(receiver.receive_with(head, announced, read).await?)
        })
    }
}

impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let mut response = HttpResponse::new(self.status_code());
        // actix-web would keep the connection, with the rest of the body in its buffers.
        response
            .head_mut()
            .set_connection_type(ConnectionType::Close);
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
