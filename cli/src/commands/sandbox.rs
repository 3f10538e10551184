//! The `svc sandbox` commands: the local server, which has both services.

pub mod clock;
pub mod deliveries;
pub mod dns;
pub mod emails;
pub mod faults;
pub mod follow;
pub mod keys;
pub mod messages;
pub mod open;
pub mod organizations;
pub mod requests;
pub mod serve;
pub mod server;
pub mod simulate;
pub mod templates;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Run and control the local server
///
/// The local server implements both services on this machine, with seeded keys, a mailbox, DNS and
/// a clock that tests can control.
#[derive(Subcommand, Debug)]
// With the usual blank line above the commands, the short help would not fit on one screen.
#[command(help_template = "{about-with-newline}\n{usage-heading} {usage}\n{all-args}{after-help}")]
pub enum Command {
    Serve(serve::Serve),
    Status(server::Status),
    Open(open::Open),
    Stop(server::Stop),
    Reset(server::Reset),
    #[command(subcommand)]
    Organizations(organizations::Command),
    #[command(subcommand)]
    Keys(keys::Command),
    #[command(subcommand)]
    Templates(templates::Command),
    #[command(subcommand)]
    Dns(dns::Command),
    #[command(subcommand)]
    Requests(requests::Command),
    #[command(subcommand)]
    Emails(emails::Command),
    #[command(subcommand)]
    Messages(messages::Command),
    Event(simulate::Event),
    Inbound(simulate::Inbound),
    Extraction(simulate::Extraction),
    #[command(subcommand)]
    Deliveries(deliveries::Command),
    #[command(subcommand)]
    Clock(clock::Command),
    #[command(subcommand)]
    Faults(faults::Command),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Serve(args) => args.run(context).await,
            Self::Status(args) => args.run(context).await,
            Self::Open(args) => args.run(context).await,
            Self::Stop(args) => args.run(context).await,
            Self::Reset(args) => args.run(context).await,
            Self::Organizations(command) => command.run(context).await,
            Self::Keys(command) => command.run(context).await,
            Self::Templates(command) => command.run(context).await,
            Self::Dns(command) => command.run(context).await,
            Self::Requests(command) => command.run(context).await,
            Self::Emails(command) => command.run(context).await,
            Self::Messages(command) => command.run(context).await,
            Self::Event(args) => args.run(context).await,
            Self::Inbound(args) => args.run(context).await,
            Self::Extraction(args) => args.run(context).await,
            Self::Deliveries(command) => command.run(context).await,
            Self::Clock(command) => command.run(context).await,
            Self::Faults(command) => command.run(context).await,
        }
    }
}
