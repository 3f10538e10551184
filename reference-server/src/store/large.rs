//! The tables `large` and `piece`: large values in pieces, which are stored before the transaction
//! that refers to them, a few in each transaction. So other writers wait for one piece at most,
//! and no thread copies a whole value. A value that is not referred to in the end, because its
//! request fails or the server ends, is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::job::{Job, JobResult};
use super::queue::Queue;
use super::{Reader, Store, Tx};
use crate::model::error::ApiError;
use crate::model::worker::Worker;

/// The bytes that one transaction stores, at most. Values up to a quarter of it are not large.
const PIECE: usize = 1 << 20;
const LARGE: usize = PIECE / 4;

/// Whether values with this many bytes together are stored in pieces.
pub(crate) const fn is_large(bytes: usize) -> bool {
    bytes > LARGE
}

/// A value that is stored, but not referred to. It is removed if this is dropped.
pub(crate) struct Staged {
    id: i64,
    /// Whether there is something to remove: set once the first piece is stored.
    is_stored: Arc<AtomicBool>,
    queue: Arc<Queue>,
}

impl Staged {
    /// Keeps the value if the transaction succeeds, which must store a reference to its id.
    pub(super) fn keep(self, tx: &mut Tx<'_>) -> Result<i64, ApiError> {
        tx.execute("UPDATE large SET is_kept = 1 WHERE id = ?1", [self.id])?;
        let id = self.id;
        // Without a commit, this is dropped as it is.
        tx.after_commit(move || self.is_stored.store(false, Ordering::Relaxed));
        Ok(id)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_stored.load(Ordering::Relaxed) {
            return;
        }
        let id = self.id;
        let run = Box::new(move |tx: Result<&mut Tx<'_>, ApiError>| {
            let removed = tx.and_then(|tx| remove(tx, id));
            JobResult { keep: removed.is_ok(), respond: Box::new(|_| ()) }
        });
        // Otherwise, the next server removes it.
        self.queue.push(Job { durable: false, awaited: false, run });
    }
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Staged").field(&self.id).finish()
    }
}

impl Store {
    /// Stores values in pieces. Returns once they are on disk.
    pub(crate) async fn stage(&self, values: Vec<Bytes>) -> Result<Vec<Staged>, ApiError> {
        let mut staged: Vec<Staged> = Vec::with_capacity(values.len());
        for transaction in transactions(&values) {
            // Others take turns, so that no transaction has the pieces of several requests.
            let _turn = self.staging.acquire().await;
            let queue = Arc::clone(&self.queue);
            let mut last = staged.last().map(|value| value.id);
            let stored = self.write(move |tx| {
                let mut begun = Vec::new();
                for Piece { number, size, bytes } in transaction {
                    if number == 0 {
                        let sql = "INSERT INTO large (size, is_kept) VALUES (?1, 0)";
                        tx.execute(sql, [size as i64])?;
                        last = Some(tx.last_row());
                        let (id, is_stored) = (tx.last_row(), Arc::<AtomicBool>::default());
                        let queue = Arc::clone(&queue);
                        begun.push(Staged { id, is_stored: Arc::clone(&is_stored), queue });
                        tx.after_commit(move || is_stored.store(true, Ordering::Relaxed));
                    }
                    // The caller may have gone, and the value may be removed already.
                    let sql = "INSERT INTO piece SELECT id, ?2, ?3 FROM large WHERE id = ?1";
                    tx.execute(sql, (last, number as i64, &bytes[..]))?;
                }
                Ok(begun)
            });
            staged.extend(stored.await?);
        }
        Ok(staged)
    }
}

/// A piece of a value of this size.
struct Piece {
    number: usize,
    size: usize,
    bytes: Bytes,
}

/// The pieces of the values, by transaction.
fn transactions(values: &[Bytes]) -> Vec<Vec<Piece>> {
    let (mut all, mut free) = (Vec::new(), 0);
    for value in values {
        let (mut at, mut number) = (0, 0);
        loop {
            if free == 0 {
                all.push(Vec::new());
                free = PIECE;
            }
            let end = value.len().min(at + free);
            let piece = Piece { number, size: value.len(), bytes: value.slice(at..end) };
            if let Some(last) = all.last_mut() {
                last.push(piece);
            }
            free -= end - at;
            (at, number) = (end, number + 1);
            if at == value.len() {
                break;
            }
        }
    }
    all
}

/// The bytes of a value.
///
/// # Errors
///
/// `NotFound` if it was deleted in the meantime.
pub(super) fn read(reader: Reader<'_>, id: i64) -> Result<Vec<u8>, ApiError> {
    let size = size(reader, id)?;
    let mut bytes = Vec::with_capacity(size);
    let sql = "SELECT bytes FROM piece WHERE large = ?1 ORDER BY number";
    let mut statement = reader.statement(sql)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        bytes.extend_from_slice(row.get_ref(0)?.as_blob().map_err(ApiError::internal)?);
    }
    if bytes.len() == size && size > 0 { Ok(bytes) } else { Err(ApiError::not_found("content")) }
}

/// The number of bytes of a value, without reading them.
pub(super) fn size(reader: Reader<'_>, id: i64) -> Result<usize, ApiError> {
    let sql = "SELECT size FROM large WHERE id = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(usize::try_from(size.unwrap_or(0)).unwrap_or(0))
}

/// The number of large values in the table `deleted`.
pub(super) const DELETED: isize = 5;

/// Removes a value that nothing refers to any more, in slices.
pub(super) fn remove(tx: &mut Tx<'_>, id: i64) -> Result<(), ApiError> {
    let sql = "INSERT OR IGNORE INTO deleted VALUES (?1, ?2)";
    tx.execute(sql, (DELETED as i64, id.to_string()))?;
    tx.worker_due(Worker::Deleted, tx.now);
    Ok(())
}

/// Removes the values that the last server has not referred to.
pub(crate) fn remove_staged(tx: &mut Tx<'_>) -> Result<(), ApiError> {
    // Reads only the index of such values.
    let sql = "INSERT OR IGNORE INTO deleted
               SELECT ?1, id FROM large INDEXED BY large_staged WHERE is_kept = 0 AND id > 0";
    tx.execute(sql, [DELETED as i64])?;
    Ok(())
}

/// Deletes a piece of a value, or else the value. Returns its size in bytes, or `None` if there is
/// none.
pub(super) fn delete_next(tx: &mut Tx<'_>, id: i64) -> Result<Option<i64>, ApiError> {
    let sql = "DELETE FROM piece WHERE large = ?1 AND number =
                   (SELECT number FROM piece WHERE large = ?1 LIMIT 1)
               RETURNING octet_length(bytes)";
    let deleted = tx.find(sql, [id], |row| row.get(0))?;
    if deleted.is_none() {
        tx.execute("DELETE FROM large WHERE id = ?1", [id])?;
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Location;

    #[test]
    fn no_transaction_stores_more_than_a_piece() {
        let values = [10, PIECE - 10, PIECE, 3 * PIECE + 1, 5, 2 * PIECE];
        let values = values.map(|size| Bytes::from_iter((0..size).map(|at| at as u8)));
        let transactions = transactions(&values);
        for transaction in &transactions {
            assert!(transaction.iter().map(|piece| piece.bytes.len()).sum::<usize>() <= PIECE);
        }
        let mut pieces = transactions.into_iter().flatten();
        for value in values {
            let mut joined = Vec::new();
            while joined.len() < value.len() {
                let piece = pieces.next().unwrap();
                assert_eq!((piece.number == 0, piece.size), (joined.is_empty(), value.len()));
                joined.extend_from_slice(&piece.bytes);
            }
            assert!(joined == value);
        }
        assert!(pieces.next().is_none());
    }

    #[tokio::test]
    async fn a_value_is_kept_with_its_transaction_and_removed_otherwise() {
        let (store, _) = Store::open(&Location::Memory, None).unwrap();
        let stage = || store.stage(vec![Bytes::from(vec![b'x'; PIECE + 1]), Bytes::from("y")]);
        let removed = |tx: &mut Tx<'_>| {
            let sql = "SELECT COUNT(*) FROM deleted WHERE kind = 5";
            Ok(tx.find(sql, [], |row| row.get::<_, i64>(0))?)
        };
        let kept = stage().await.unwrap();
        let keep = move |tx: &mut Tx<'_>| kept.into_iter().map(|one| one.keep(tx)).collect();
        let ids: Vec<i64> = store.write(keep).await.unwrap();
        assert_eq!(store.write_relaxed(removed).await.unwrap(), Some(0));
        let read = store.read(move |reader| Ok((read(reader, ids[0])?, read(reader, ids[1])?)));
        assert_eq!(read.await.unwrap(), (vec![b'x'; PIECE + 1], b"y".to_vec()));

        // Background jobs run in order.
        drop(stage().await.unwrap());
        assert_eq!(store.write_relaxed(removed).await.unwrap(), Some(2));
    }
}
