//! The shared bytes of the deliveries in progress: loaded once, however many webhooks they go
//! to, and within a budget of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::model::error::{ApiError, Code};
use crate::store::{Store, bodies, lock};

/// Budget for the shared bytes in memory, in KiB: of all organizations, and of each, so that
/// its slow endpoints leave memory for others.
const BUDGET: u32 = 128 << 10;
const BUDGET_EACH: u32 = 64 << 10;

pub(crate) struct SharedBodies {
    /// By organization and id.
    loaded: Mutex<HashMap<(i64, i64), Weak<SharedBody>>>,
    total: Arc<Semaphore>,
    organizations: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

/// Shared bytes that take a part of the budget until this is dropped.
#[derive(Default)]
pub(crate) struct SharedBody(OnceCell<Loaded>);

struct Loaded {
    bytes: Bytes,
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl SharedBody {
    pub(crate) fn bytes(&self) -> Bytes {
        self.0.get().map(|loaded| loaded.bytes.clone()).unwrap_or_default()
    }
}

impl Default for SharedBodies {
    fn default() -> Self {
        let total = Arc::new(Semaphore::new(BUDGET as usize));
        Self { loaded: Mutex::default(), total, organizations: Mutex::default() }
    }
}

impl SharedBodies {
    /// Returns the bytes, and waits until there is memory for them.
    ///
    /// # Errors
    ///
    /// `NotFound` if the delivery was deleted in the meantime.
    pub(crate) async fn get(
        &self,
        store: &Store,
        organization: i64,
        id: i64,
    ) -> Result<Arc<SharedBody>, ApiError> {
        let body = {
            let mut loaded = lock(&self.loaded);
            if let Some(body) = loaded.get(&(organization, id)).and_then(Weak::upgrade) {
                body
            } else {
                loaded.retain(|_, body| body.strong_count() > 0);
                let body = Arc::new(SharedBody::default());
                loaded.insert((organization, id), Arc::downgrade(&body));
                body
            }
        };
        body.0.get_or_try_init(|| self.load(store, organization, id)).await?;
        Ok(body)
    }

    async fn load(&self, store: &Store, organization: i64, id: i64) -> Result<Loaded, ApiError> {
        let size = store.read(move |reader| bodies::size(reader, id)).await?;
        let size = u32::try_from(size >> 10).unwrap_or(BUDGET_EACH).min(BUDGET_EACH);
        let own = {
            let mut organizations = lock(&self.organizations);
            let new = || Arc::new(Semaphore::new(BUDGET_EACH as usize));
            Arc::clone(organizations.entry(organization).or_insert_with(new))
        };
        // The semaphores are never closed.
        let own = own.acquire_many_owned(size).await.ok();
        let total = Arc::clone(&self.total).acquire_many_owned(size).await.ok();
        let bytes = store.read(move |reader| bodies::find(reader, id)).await?;
        let bytes =
            bytes.ok_or_else(|| ApiError::new(Code::NotFound, "the delivery was deleted"))?;
        Ok(Loaded { bytes: bytes.into(), _permits: [own, total] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bodies::NewBody;
    use crate::store::{Location, reset};

    #[tokio::test]
    async fn no_organization_gets_the_bytes_of_another() {
        let (store, _) = Store::open(&Location::Memory, None).unwrap();
        let put = async |bytes: &'static str| {
            let new = NewBody::new(bytes.into());
            store.write(move |tx| bodies::put(tx, &new)).await.unwrap()
        };
        let shared = SharedBodies::default();
        // An attempt still has the bytes when they are deleted.
        let id = put("first").await;
        let first = shared.get(&store, 1, id).await.unwrap();
        store.write(reset::server).await.unwrap();
        let id = put("second").await;
        for organization in [1, 2] {
            let second = shared.get(&store, organization, id).await.unwrap();
            assert_eq!(second.bytes(), "second", "of organization {organization}");
        }
        assert_eq!(first.bytes(), "first");
    }
}
