//! The `svc sandbox clock` commands: the local server's clock.

pub mod advance;
pub mod freeze;
pub mod resume;
pub mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of the clock.
pub const VIEW: View = View(&[
    Column::new("NOW", "/now", Show::Time),
    Column::new("FROZEN", "/frozen", Show::Text),
    Column::new("SETTLED", "/settled", Show::Text),
    Column::new("NEXT DUE", "/next_due", Show::Time),
]);

/// Show and control the local server's clock
#[derive(Subcommand, Debug)]
pub enum Command {
    Show(show::Show),
    Freeze(freeze::Freeze),
    Advance(advance::Advance),
    Resume(resume::Resume),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Show(args) => args.run(context).await,
            Self::Freeze(args) => args.run(context).await,
            Self::Advance(args) => args.run(context).await,
            Self::Resume(args) => args.run(context).await,
        }
    }
}
