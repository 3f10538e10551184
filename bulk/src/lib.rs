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

pub use entries::{JobInfo, RowOutcome, RowRefusal, SendState};
pub use error::{Error, ErrorKind};
pub use job::Job;
pub use journal::Journal;
#[cfg(feature = "redis")]
pub use queue::{QueueStatus, RedisQueue};
pub use run::RequestReport;
pub use state::{JournalState, RowState, Totals};
