//! The memory that a response takes, reserved by its handler until it is sent
//! (`reference-server/LIMITS.md`).

use std::cell::RefCell;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::sync::SemaphorePermit;

use crate::runtime::memory::{RESPONSES, Reserved};

tokio::task_local! {
    /// The memory that the handler of the current request has reserved for its response.
    static RESERVED: RefCell<Reserved>;
}

/// Waits for the memory that the response to the current request takes. Its handler calls this
/// before it reads large content of this size, in bytes.
pub(crate) async fn reserve_response(size: usize) {
    let reserved = RESPONSES.reserve(size).await;
    // Outside of requests there is no response.
    let _ = RESERVED.try_with(|slot| slot.replace(reserved));
}

/// Runs the handler of a request. Its response keeps what the handler has reserved until it is
/// sent, or the client is gone.
pub(crate) async fn holding<E>(
    handler: impl Future<Output = Result<Response<Body>, E>>,
) -> Result<Response<Body>, E> {
    let scope = async { (handler.await, RESERVED.with(RefCell::take)) };
    let (response, reserved) = RESERVED.scope(RefCell::default(), scope).await;
    let mut response = response?;
    let Some(reserved) = reserved else {
        return Ok(response);
    };
    if let Some(size) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, size.into());
    }
    let memory = Arc::new(reserved);
    // hyper keeps each part of a response until it is sent.
    let keep = move |bytes| {
        Bytes::from_owner(Kept {
            bytes,
            _memory: Arc::clone(&memory),
        })
    };
    Ok(response.map(|body| Body::new(body.map_frame(move |frame| frame.map_data(&keep)))))
}

struct Kept {
    bytes: Bytes,
    _memory: Arc<SemaphorePermit<'static>>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
