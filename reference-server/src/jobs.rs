//! Work that is due: the clock, the table of jobs, and the handle of the engine, which does them.

pub(crate) mod clock;
pub(crate) mod engine_handle;
pub(crate) mod job;
pub(crate) mod job_rows;

pub(crate) use engine_handle::{Command, EngineHandle};
pub(crate) use job::{Job, Queue};
