//! The `svc bulk` commands: an email to each row of a file or each contact of an audience.

mod again;
mod jobs;
pub mod manage;
mod message;
pub mod outcomes;
mod people;
mod plan;
pub mod resume;
mod run;
pub mod send;
pub mod store;
mod wait;
pub mod work;

group! {
    pub enum Command {
        Send(Box<send::Send>),
        List(manage::List),
        Status(manage::Status),
        Resume(resume::Resume),
        Pause(manage::Pause),
        Continue(manage::Continue),
        Cancel(manage::Cancel),
        Settle(manage::Settle),
        Report(manage::Report),
        Remove(manage::Remove),
        Work(work::Work),
    }
}
