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

group! {
    /// Run and control the local server
    ///
    /// The local server implements both services on this machine, with seeded keys, a mailbox, DNS
    /// and a clock that tests can control.
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
}
