//! The `svc bulk` commands: an email to each row of a file or each contact of an audience.

mod again;
pub mod ledger;
pub mod manage;
mod message;
pub mod outcomes;
mod people;
mod plan;
mod postgres;
pub mod resume;
mod run;
pub mod send;
mod wait;
pub mod work;

group! {
    pub enum Command {
        Send(Box<send::Send>),
        List(manage::List),
        Status(manage::Status),
        Resume(resume::Resume),
        Pause(manage::Pause),
        Cancel(manage::Cancel),
        Settle(manage::Settle),
        Report(manage::Report),
        Remove(manage::Remove),
        Forget(manage::Forget),
        Work(work::Work),
    }
}
