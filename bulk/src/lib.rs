#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("svc-bulk needs one of the features `sqlite` and `postgres`");

mod bulk_send;
mod database;
mod error;
mod ledger;
mod record;
mod request;
mod worker;

pub use bulk_send::{BulkSend, RequestReport};
#[cfg(feature = "postgres")]
pub use deadpool_postgres;
pub use error::{Error, ErrorKind, LedgerError, LedgerErrorKind};
pub use ledger::{Ledger, Remembered, Shared};
pub use record::{
    FinalStatus, NewRow, NewSend, RowOutcome, RowRecord, RowRefusal, RowStatus, SendRecord,
    SendState, Totals,
};
