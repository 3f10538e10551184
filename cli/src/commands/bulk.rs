//! The `svc bulk` commands: an email to each row of a file or each contact of an audience.

mod address;
mod content;
mod delivery;
mod drive;
pub mod jobs;
pub mod list;
mod message;
mod options;
pub mod outcomes;
mod plan;
pub mod queue;
pub mod report;
pub mod resume;
mod rows;
pub mod send;
pub mod status;
mod subscribers;

use crate::output::{Column, Show, View};

/// Table columns of a job.
const VIEW: View = View(&[
    Column::id("JOB", "/job"),
    Column::new("STATE", "/state", Show::Status),
    Column::new("TOTAL", "/total", Show::Number),
    Column::new("ACCEPTED", "/accepted", Show::Number),
    Column::new("REFUSED", "/refused", Show::Number),
    Column::new("UNKNOWN", "/unknown", Show::Number),
    Column::new("NOT SENT", "/not_sent", Show::Number),
    Column::new("LEFT OUT", "/left_out", Show::Number),
    Column::new("CREATED", "/created", Show::Time),
    Column::text("SUBJECT", "/subject").droppable(),
]);

group! {
    pub enum Command {
        Send(Box<send::Send>),
        Plan(Box<queue::plan::Plan>),
        Work(queue::work::Work),
        List(list::List),
        Status(status::Status),
        Resume(resume::Resume),
        Report(report::Report),
    }
}
