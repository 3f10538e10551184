//! Jobs in Redis, which workers on any number of machines share.

pub mod list;
pub mod plan;
pub mod report;
pub mod status;
pub mod work;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_bulk::{QueueState, QueueStatus, RedisQueue, WorkerStatus};

use super::jobs::Shown;
use super::plan::Plan;
use super::rows;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::timestamp;

/// The name of the rows that are left out, in Redis.
const LEFT_OUT: &str = "left-out";

/// Where the job is.
#[derive(Args, Debug)]
pub struct QueueOption {
    /// Redis server with the job, such as redis://:PASSWORD@HOST [env: SVC_BULK_QUEUE]
    ///
    /// rediss:// uses TLS; for Redis, --ca-bundle replaces the platform's certificates. Other users
    /// of this machine can read a password in a command line, but not in SVC_BULK_QUEUE, which
    /// --env-file may set, too.
    #[arg(long, value_name = "URL")]
    queue: Option<String>,
}

impl QueueOption {
    /// Whether the option is given, rather than the variable.
    pub fn is_given(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether there is a Redis server.
    pub fn is_set(&self, context: &Context) -> bool {
        self.queue.is_some() || context.settings.bulk_queue.is_some()
    }

    /// Whether a job is in Redis rather than on this machine.
    pub fn is_of_other_machine<T>(&self, context: &Context, here: &Result<T, Failure>) -> bool {
        self.queue.is_some() || (here.is_err() && context.settings.bulk_queue.is_some())
    }

    pub async fn connect(&self, context: &Context) -> Result<RedisQueue, Failure> {
        let (url, source) = match (&self.queue, &context.settings.bulk_queue) {
            (Some(url), _) => (url, "--queue"),
            (None, Some(url)) => (url, "SVC_BULK_QUEUE"),
            (None, None) => {
                return Err(Failure::usage("no Redis server is given")
                    .hint("add --queue redis://HOST, or set SVC_BULK_QUEUE"));
            }
        };
        let connected = match context.ca_bundle()? {
            Some(pem) => RedisQueue::connect_with_ca(url, pem).await,
            None => RedisQueue::connect(url).await,
        };
        connected.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Unsupported => {
                Failure::usage(format!("{source}: {error}"))
            }
            _ => Failure::new(Kind::Unavailable, format!("{source}: {error}"))
                .code("queue_unreachable")
                .hint("check the address and the password, and that Redis is running"),
        })
    }

    /// The option for a hint, without the URL.
    fn hint(&self) -> &'static str {
        if self.queue.is_some() { " --queue URL" } else { "" }
    }
}

/// A row in Redis.
#[derive(Serialize, Deserialize)]
pub struct Row(String, Map<String, Value>);

impl Row {
    fn new(row: &rows::Row) -> Self {
        Self(row.address.clone(), row.values().clone())
    }
}

pub fn plan_of(status: &QueueStatus) -> Result<Plan, Failure> {
    serde_json::from_value(status.info.settings.clone()).map_err(|_| {
        Failure::other("the job in Redis was not made by this version of `svc bulk plan`")
    })
}

/// The job with this id.
pub async fn find(queue: &RedisQueue, job: &str) -> Result<QueueStatus, Failure> {
    queue.status(job).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(Kind::NotFound, format!("no job in Redis has the id `{job}`"))
        }
        _ => Failure::from(error),
    })
}

/// Refuses a server that may lose what it has confirmed, and warns of weaker settings.
pub async fn check_durability(context: &Context, queue: &RedisQueue) -> Result<(), Failure> {
    let warnings = queue.check_durability().await.map_err(|error| match error.kind() {
        std::io::ErrorKind::Unsupported => {
            Failure::input(error.to_string()).code("queue_not_durable")
        }
        _ => Failure::from(error),
    })?;
    warnings.iter().for_each(|warning| context.out.warning(warning));
    Ok(())
}

/// The name of an attachment in Redis.
pub fn attachment(number: usize) -> String {
    format!("attachment-{number}")
}

/// A job in Redis.
pub type QueuedJob = Shown<QueuedState, InQueue>;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueuedState {
    Running,
    Paused,
    Cancelled,
    Complete,
    Unknown,
}

#[derive(Serialize, JsonSchema)]
pub struct InQueue {
    pub workers: Vec<Worker>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Worker {
    /// Its name, with a random suffix.
    worker: String,
    state: WorkerState,
    seen: String,
    requests: u64,
    accepted: u64,
    refused: u64,
    unknown: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WorkerState {
    Sending,
    Waiting,
    Silent,
    Left,
}

pub fn shown(status: &QueueStatus) -> Result<QueuedJob, Failure> {
    let state = match status.state {
        QueueState::Complete if status.totals.unknown > 0 => QueuedState::Unknown,
        QueueState::Complete => QueuedState::Complete,
        QueueState::Paused => QueuedState::Paused,
        QueueState::Cancelled => QueuedState::Cancelled,
        _ => QueuedState::Running,
    };
    let place = InQueue { workers: status.workers.iter().map(worker).collect() };
    Ok(Shown::new(&status.info, &plan_of(status)?, status.totals, state, place))
}

fn worker(worker: &WorkerStatus) -> Worker {
    Worker {
        worker: worker.name.clone(),
        state: match worker {
            _ if worker.has_left => WorkerState::Left,
            _ if worker.silent >= worker.lease => WorkerState::Silent,
            _ if worker.chunks > 0 => WorkerState::Sending,
            _ => WorkerState::Waiting,
        },
        seen: timestamp(worker.seen),
        requests: worker.chunks,
        accepted: worker.totals.accepted,
        refused: worker.totals.refused + worker.totals.invalid,
        unknown: worker.totals.unknown,
    }
}
