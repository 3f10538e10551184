//! Reading an [`http_body::Body`] up to the limit.

use std::error::Error;
use std::pin::pin;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError};

use super::{Receiver, Rejection};
use crate::{Delivery, Scheme, TooLarge, Verified};

impl<S: Scheme> Receiver<S> {
    pub(super) async fn receive_body<B>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Delivery<S, Bytes>, Rejection>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let verified = self.verify_body(headers, body).await;
        self.log(verified.and_then(|verified| self.open(verified)))
    }

    pub(super) async fn verify_body<B>(
        &self,
        headers: &HeaderMap,
        body: B,
    ) -> Result<Verified<S, Bytes>, Rejection>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let announced = Some(body.size_hint().lower());
        let mut collecting = self.begin(headers.get_all(S::SIGNATURE_HEADER), announced)?;
        let mut body = pin!(body);
        // The end is where no frame comes any more. `is_end_stream` is only a
        // hint, and some bodies never give it.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&*error.into()))?;
            let Ok(mut data) = frame.into_data() else { continue };
            while data.has_remaining() {
                let piece = data.chunk();
                collecting.push(piece)?;
                let taken = piece.len();
                data.advance(taken);
            }
        }
        Ok(self.with_event_of(collecting.finish()?.map_body(Bytes::from), headers))
    }

    /// A limit set further out, such as tower-http's, is a limit too.
    fn broken(&self, error: &(dyn Error + 'static)) -> Rejection {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<LengthLimitError>() {
                return TooLarge { limit: self.body_limit }.into();
            }
            cause = error.source();
        }
        Rejection::Unreadable
    }
}
