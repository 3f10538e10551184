#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod entries;
mod error;
mod job;
mod journal;
#[cfg(feature = "redis")]
mod queue;
mod request;
mod run;
mod state;

pub use entries::{JobInfo, JournalEntry, RowOutcome, RowRefusal};
pub use error::{Error, ErrorKind};
pub use job::{BulkRow, Job};
pub use journal::{Journal, JournalReader};
#[cfg(feature = "redis")]
pub use queue::{QueueState, QueueStatus, RedisQueue, WorkerStatus};
pub use run::RequestReport;
pub use state::{JournalState, RowState, Totals};
