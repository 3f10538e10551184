//! The `svc sandbox clock` commands: the sandbox's clock.

use std::time::Duration;

use clap::{Args, Subcommand};
use svc_reference_server::client::{Client, Clock};

use super::due;
use crate::context::Context;
use crate::control::{self, changes, reads};
use crate::failure::{Failure, Kind};
use crate::input::duration;
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::prepared::{Prepared, Preview};

const VIEW: View = View(&[
    Column::time("NOW", "/now"),
    Column::time("NEXT DUE", "/next_due"),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the time and when the next work is due
    #[command(add = reads(of::<Clock>))]
    Show,
    /// Freeze the clock
    #[command(add = changes(of::<Clock>))]
    Freeze,
    /// Advance the clock and wait until the work then due is done
    ///
    /// Waits at most 10 minutes, or --timeout; the advance itself continues. With --dry-run, the clock
    /// does not move, and the work that falls due until then is listed, without what it would cause.
    #[command(add = changes(of::<Clock>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox clock advance 90s
  svc sandbox clock advance 24h --dry-run")]
    Advance {
        /// Duration, such as 90s, 2h or 1d
        #[arg(value_parser = duration::parse)]
        duration: Duration,
    },
    /// Resume the clock
    #[command(add = changes(of::<Clock>))]
    Resume,
    /// Set the clock to the time of the sandbox's computer, and let it run
    ///
    /// What was scheduled while the clock was ahead keeps its time: see svc sandbox due.
    #[command(add = changes(of::<Clock>))]
    Real,
}

/// Wait until all due work is done
///
/// Emails, their events and webhook deliveries that are due at the sandbox's time. --timeout bounds
/// the wait [default: 30s]; then the exit code is 8.
#[derive(Args, Debug)]
#[command(add = reads(of::<Clock>))]
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
    let advance = Prepared::new(Advance { client, by });
    let Advance { client, by } = advance.decide(context).await?;
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
