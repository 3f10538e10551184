//! The `svc sandbox clock` commands: the sandbox's clock.

use std::time::Duration;

use clap::{Args, Subcommand};
use svc_reference_server::client::{Client, Clock};

use super::due;
use crate::command_spec::{changes, reads};
use crate::context::Context;
use crate::control;
use crate::failure::{Failure, Kind};
use crate::input::duration;
use crate::output::{Column, Show, View};
use crate::output_schema::of;
use crate::prepared::{Prepared, Preview};

const VIEW: View = View(&[
    Column::new("NOW", "/now", Show::Time),
    Column::new("NEXT DUE", "/next_due", Show::Time),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the time and when the next work is due
    #[command(add = reads(&[], of::<Clock>).of_sandbox())]
    Show,
    /// Freeze the clock
    #[command(add = changes(&[], of::<Clock>).of_sandbox())]
    Freeze,
    /// Advance the clock and wait until the work then due is done
    ///
    /// It waits for 10 minutes, or --timeout. The advance itself goes on. With --dry-run, the clock
    /// stays, and what falls due until then is listed, without what that causes.
    #[command(add = changes(&[], of::<Clock>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox clock advance 90s
  svc sandbox clock advance 24h --dry-run")]
    Advance {
        /// Duration, such as 90s, 2h or 1d
        #[arg(value_parser = duration::parse)]
        duration: Duration,
    },
    /// Resume the clock
    #[command(add = changes(&[], of::<Clock>).of_sandbox())]
    Resume,
    /// Set the clock to the time of the sandbox's computer, and let it run
    ///
    /// What was scheduled while the clock was ahead keeps its time: see svc sandbox due.
    #[command(add = changes(&[], of::<Clock>).of_sandbox())]
    Real,
}

/// Wait until all that is due has happened
///
/// Emails are delivered, and their events and webhook deliveries are done, as far as they are due at
/// the time of the sandbox. --timeout bounds the wait [default: 30s]; then the exit code is 8.
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Clock>).of_sandbox())]
#[command(after_long_help = "\
  svc sandbox settle
  svc sandbox settle --timeout 5s --jq .next_due")]
pub struct Settle {}

impl Settle {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        control::show(context, VIEW, client.settle(context.settings.timeout.value)).await
    }
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        let shown = match self {
            Self::Show => control::show(context, VIEW, client.clock()).await,
            Self::Freeze => control::show(context, VIEW, client.freeze()).await,
            Self::Advance { duration } => advance(context, client, duration).await,
            Self::Resume => control::show(context, VIEW, client.resume()).await,
            Self::Real => control::show(context, VIEW, client.real_time()).await,
        };
        shown.map_err(|failure| match failure.kind() {
            Kind::OutcomeUnknown => failure.hint("see where the clock is: svc sandbox clock show"),
            _ => failure,
        })
    }
}

async fn advance(context: &Context, client: Client, by: Duration) -> Result<(), Failure> {
    let advance = Advance { client, by };
    let Some(Advance { client, by }) = Prepared::new(advance).decide(context).await? else {
        return Ok(());
    };
    let clock = control::read(context, client.advance(by)).await?;
    context.out.one(&clock, VIEW)
}

/// An advance of the clock: what falls due until then says more than the request.
struct Advance {
    client: Client,
    by: Duration,
}

impl Preview for Advance {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        due::until(context, &self.client, self.by).await
    }
}
