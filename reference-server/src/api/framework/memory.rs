//! Memory for large bodies of requests and responses, in the whole process: what does not fit waits
//! (`docs/undocumented/both-services.md#bounds`).

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bodies of requests, and those of responses, in KiB each.
const MEMORY: usize = 128 << 10;
/// What is smaller, in bytes, does not count.
const SMALL: usize = 256 << 10;

static REQUESTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MEMORY)));
static RESPONSES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MEMORY)));

pub(crate) type Reserved = Option<OwnedSemaphorePermit>;

tokio::task_local! {
    /// What the handler of the current request has reserved for its response.
    static RESERVED: RefCell<Reserved>;
}

/// Waits for the memory that the body of a request takes, whose size in bytes is at most this.
pub(super) async fn reserve_request(size: usize) -> Reserved {
    reserve(&REQUESTS, size).await
}

/// Waits for the memory that the response to the current request takes. Its handler calls this
/// before it reads large content of this size, in bytes.
pub(crate) async fn reserve_response(size: usize) {
    let reserved = reserve(&RESPONSES, size).await;
    // Outside of requests there is no response.
    let _ = RESERVED.try_with(|slot| slot.replace(reserved));
}

async fn reserve(memory: &Arc<Semaphore>, size: usize) -> Reserved {
    if size < SMALL {
        return None;
    }
    // The semaphores are never closed.
    Arc::clone(memory).acquire_many_owned((size >> 10).min(MEMORY) as u32).await.ok()
}

/// Runs the handler of a request. Its response keeps what the handler has reserved until it is
/// sent, or the client is gone.
pub(crate) async fn holding<E>(
    handler: impl Future<Output = Result<Response<Body>, E>>,
) -> Result<Response<Body>, E> {
    let scope = async { (handler.await, RESERVED.with(RefCell::take)) };
    let (response, reserved) = RESERVED.scope(RefCell::default(), scope).await;
    let mut response = response?;
    let Some(reserved) = reserved else { return Ok(response) };
    if let Some(size) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, size.into());
    }
    let memory = Arc::new(reserved);
    let keep = move |bytes| Bytes::from_owner(Kept { bytes, _memory: Arc::clone(&memory) });
    Ok(response.map(|body| Body::new(body.map_frame(move |frame| frame.map_data(&keep)))))
}

/// A part of a response, which hyper keeps until it is sent.
struct Kept {
    bytes: Bytes,
    _memory: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
