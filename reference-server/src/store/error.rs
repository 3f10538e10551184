//! What a failure of the database means to a client.

use crate::model::error::{ApiError, Code};

impl From<rusqlite::Error> for ApiError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OperationInterrupted, OutOfMemory,
            SystemIoFailure,
        };
        match error.sqlite_error_code() {
            Some(DiskFull) => {
                tracing::error!("the disk is full");
                ApiError::new(Code::StorageFull, "the server's disk is full; nothing was stored")
            }
            // Not a defect: another process may use the database, or the server stops.
            Some(
                CannotOpen | SystemIoFailure | DatabaseBusy | DatabaseLocked | OutOfMemory
                | OperationInterrupted,
            ) => {
                tracing::error!(%error, "the database cannot be read or written");
                ApiError::new(Code::Unavailable, "the server's database cannot be read or written")
                    .retry_after(1)
            }
            _ => ApiError::internal(error),
        }
    }
}
