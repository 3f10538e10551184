//! Reads and verifies an [`http_body::Body`] up to the size limit.

use std::error::Error;
use std::pin::pin;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError};

use super::{Receiver, Rejection};
use crate::{BodyTooLarge, Delivery, Scheme, Verified};

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
        self.log(verified.and_then(|verified| self.parse(verified)))
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
        let content_length = Some(body.size_hint().lower());
        let mut buffered = self.check_head(headers.get_all(S::SIGNATURE_HEADER), content_length)?;
        let mut body = pin!(body);
        // Read until there is no more frame: `is_end_stream` is only a hint, and
        // some bodies never return true.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.body_rejection(&*error.into()))?;
            let Ok(mut data) = frame.into_data() else { continue };
            while data.has_remaining() {
                let chunk = data.chunk();
                buffered.push(chunk)?;
                let len = chunk.len();
                data.advance(len);
            }
        }
        Ok(self.with_event_header_of(buffered.finish()?.map_body(Bytes::from), headers))
    }

    /// An outer size limit, such as tower-http's, is reported as too large as well.
    fn body_rejection(&self, error: &(dyn Error + 'static)) -> Rejection {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<LengthLimitError>() {
                return BodyTooLarge { limit: self.body_limit }.into();
            }
            cause = error.source();
        }
        Rejection::Unreadable
    }
}
