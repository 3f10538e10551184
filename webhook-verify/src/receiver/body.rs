//! Reads and verifies an [`http_body::Body`] up to the limits.

use std::error::Error;
use std::pin::pin;

use bytes::{Buf, Bytes};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError};

use super::{Receiver, Rejection};
use crate::{BodyTooLarge, RequestParts, Scheme, Verified};

impl<S: Scheme> Receiver<S> {
    /// `framework_limit` is the limit that the framework sets for the size of the body.
    pub(super) async fn verify_body<B>(
        &self,
        parts: &impl RequestParts,
        body: B,
        framework_limit: usize,
    ) -> Result<Verified<S, Bytes>, Rejection>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let limit = self.body_limit.min(framework_limit);
        let announced = Some(body.size_hint().lower());
        let mut incoming = self.begin(parts, announced, limit, 0).await?;
        let mut body = pin!(body);
        // Read until there is no more frame: `is_end_stream` is only a hint, and
        // some bodies never return true.
        while let Some(frame) = incoming.next(body.frame()).await? {
            let frame = frame.map_err(|error| rejection(&*error.into(), limit))?;
            let Ok(mut data) = frame.into_data() else { continue };
            while data.has_remaining() {
                let chunk = data.chunk();
                incoming.push(chunk)?;
                let len = chunk.len();
                data.advance(len);
            }
        }
        Ok(self.with_event_header_of(incoming.finish()?, parts))
    }
}

/// An outer size limit, such as tower-http's, is reported as too large as well.
fn rejection(error: &(dyn Error + 'static), limit: usize) -> Rejection {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return BodyTooLarge { limit }.into();
        }
        cause = error.source();
    }
    Rejection::Unreadable
}
