//! Deliveries whose last attempt failed.

use std::sync::Arc;
use std::time::SystemTime;

use webhook_verify::Delivery;

use crate::{Database, Error, Inbox};

/// The dead letters of an inbox: deliveries whose last attempt failed.
///
/// They are kept until you replay or delete them. Get one from
/// [`Inbox::dead_letters`](crate::Inbox::dead_letters).
#[derive(Clone, Debug)]
pub struct DeadLetters<D> {
    inbox: Inbox<D>,
}

impl<D: Database> DeadLetters<D> {
    pub(crate) fn new(inbox: Inbox<D>) -> Self {
        Self { inbox }
    }

    /// Lists up to `limit` dead letters in the order of their [`DeadLetter::id`], of all
    /// scopes.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn list(&self, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        self.list_after(0, limit).await
    }

    /// Lists up to `limit` dead letters whose id is greater than `id`: the next page.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn list_after(&self, id: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        self.inbox.database.dead_letters(id, limit).await
    }

    /// Makes a dead letter due at once, with all its attempts again. Returns whether there
    /// was a dead letter with this id.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn replay(&self, id: i64) -> Result<bool, Error> {
        self.replayed(Some(id)).await.map(|count| count > 0)
    }

    /// Makes all dead letters due at once. Returns how many there were.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn replay_all(&self) -> Result<u64, Error> {
        self.replayed(None).await
    }

    /// Deletes a dead letter. Returns whether there was a dead letter with this id.
    ///
    /// Its delivery is not remembered: if the sender repeats it, it is new.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn delete(&self, id: i64) -> Result<bool, Error> {
        self.inbox.database.delete_dead_letter(id).await
    }

    async fn replayed(&self, id: Option<i64>) -> Result<u64, Error> {
        let count = self.inbox.database.replay(id).await?;
        if count > 0 {
            self.inbox.wake();
            tracing::info!(count, "dead letters of the webhook inbox are replayed");
        }
        Ok(count)
    }
}

/// A delivery whose last attempt failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The number of the row in the table `webhook_inbox`.
    pub id: i64,
    /// The delivery. Its key includes the scope.
    pub delivery: Delivery,
    /// The scope in which the delivery was accepted.
    pub scope: Option<Arc<str>>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The last attempt's error and its sources, at most 2000 characters.
    pub error: String,
    /// When the delivery was accepted.
    pub received_at: SystemTime,
    /// When the last attempt failed.
    pub failed_at: SystemTime,
}
