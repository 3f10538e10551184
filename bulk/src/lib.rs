//! Bulk sending: thousands or millions of emails from one program, which may be killed at any
//! point without sending an email twice or leaving one out.
//!
//! A [`Job`] takes a stream of rows, renders an email from each, and sends them with
//! [`send_batch`](svc_sdk::email::Emails::send_batch). A [`Journal`] records what is sent: the
//! rows of a request before it is sent, and the outcome of each row after it. A later run
//! with the same rows and the same journal continues where the previous one ended:
//!
//! - Rows that were accepted, refused or invalid are never sent again.
//! - Rows that were not sent are sent.
//! - Rows of a request without an outcome are *unknown*: the service may have accepted them.
//!   They are kept back and counted, unless the operator says
//!   [`resend_unknown`](Job::resend_unknown).
//! - If the service honors idempotency keys, say so with
//!   [`idempotency_key_life`](Job::idempotency_key_life): every request then has a key of its own,
//!   and a request with an unknown outcome is repeated with its key, as long as the service
//!   remembers it.
//! - A job whose sender, template or key the service refuses stops, and its rows stay unsent.
//!
//! With the feature `redis`, several processes on any number of machines share a job: a
//! `RedisQueue` holds its rows and its outcomes, and `Job::work` sends a part at a time.
//!
//! Memory does not grow with the number of rows, apart from about one bit for each.
//!
//! ```no_run
//! # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
//! use std::io;
//!
//! use futures_util::stream;
//! use svc_bulk::{FileJournal, Job, JobInfo, Row};
//! use svc_sdk::email::Email;
//!
//! let people = ["ada@example.com", "bob@example.com"];
//! let rows = people.iter().zip(1..).map(|(address, number)| Row::new(number, *address));
//! let mut journal = FileJournal::open_or_create("news.ndjson", &JobInfo::new("list-7"))?;
//! let totals = Job::new(&client)
//!     .rate(50)
//!     .run(
//!         stream::iter(rows.map(Ok::<_, io::Error>)),
//!         |to| Ok::<_, io::Error>(Email::new("hello@shop.example", *to, "News").text("Hello")),
//!         &mut journal,
//!     )
//!     .await?;
//! println!("{} accepted, {} unknown", totals.accepted, totals.unknown);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod collect;
mod driver;
mod entry;
mod error;
mod file;
mod job;
mod journal;
mod pace;
#[cfg(feature = "redis")]
mod queue;
mod run;
mod state;

pub use entry::{Entry, JobInfo, RowOutcome};
pub use error::{Error, ErrorKind};
pub use file::{FileJournal, Records};
pub use job::{ChunkReport, Job, Row};
pub use journal::{Journal, JournalFuture};
#[cfg(feature = "redis")]
pub use queue::{QueueState, QueueStatus, RedisQueue, WorkerStatus};
pub use state::{State, Totals};
