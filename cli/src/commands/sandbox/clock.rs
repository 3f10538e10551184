//! The `svc sandbox clock` commands: the local server's clock.

use std::time::Duration;

use clap::Args;
use svc_reference_server::client::Clock;

use crate::command_spec::{changes, reads};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::duration;
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::{control, output};

/// Table columns of the clock.
pub const VIEW: View = View(&[
    Column::new("NOW", "/now", output::Show::Time),
    Column::new("FROZEN", "/frozen", output::Show::Text),
    Column::new("SETTLED", "/settled", output::Show::Text),
    Column::new("NEXT DUE", "/next_due", output::Show::Time),
]);

group! {
    pub enum Command {
        Show(Show),
        Freeze(Freeze),
        Advance(Advance),
        Resume(Resume),
    }
}

/// Show the time and when the next work is due
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Clock>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox clock show")]
pub struct Show {}

impl Show {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().get(), VIEW).await
    }
}

/// Freeze the clock
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Clock>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox clock freeze")]
pub struct Freeze {}

impl Freeze {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().freeze(), VIEW).await
    }
}

/// Advance the clock and wait until the work then due is done
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Clock>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox clock advance 90s")]
pub struct Advance {
    /// Duration, such as 90s, 2h or 1d
    #[arg(value_parser = duration::parse)]
    duration: Duration,
}

impl Advance {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().advance(self.duration), VIEW).await
    }
}

/// Resume the clock
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Clock>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox clock resume")]
pub struct Resume {}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().resume(), VIEW).await
    }
}
