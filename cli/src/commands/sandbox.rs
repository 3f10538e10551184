//! The `svc sandbox` commands: the sandbox, which has both services.

pub mod clock;
pub mod deliveries;
pub mod dns;
pub mod due;
pub mod emails;
pub mod exec;
pub mod faults;
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
    // With the usual lines above the commands, the short help would not fit on one screen.
    #[command(help_template = "{before-help}{all-args}{after-help}")]
    #[command(subcommand_help_heading = "Commands that run and control the sandbox (svc sandbox COMMAND)")]
    #[command(before_long_help = "\
The sandbox implements both services on this machine, with seeded keys, a
mailbox, DNS and a clock that tests can control.")]
    pub enum Command {
        Serve(Box<serve::Serve>),
        Exec(exec::Exec),
        Status(server::Status),
        Open(open::Open),
        Stop(server::Stop),
        Reset(server::Reset),
        Export(server::Export),
        /// Manage isolated organizations
        #[command(subcommand)]
        Organizations(organizations::Command),
        /// Manage the API keys of the sandbox
        #[command(subcommand)]
        Keys(keys::Command),
        /// Manage email templates
        #[command(subcommand)]
        Templates(templates::Command),
        /// Publish and withdraw records in the built-in DNS zone
        #[command(subcommand)]
        Dns(dns::Command),
        /// Inspect the requests to both services
        ///
        /// The running sandbox has the newest 10 000 requests in memory. Their bodies are
        /// shortened, and secrets in them are redacted.
        #[command(subcommand)]
        Requests(requests::Command),
        /// Inspect the emails that the sandbox accepted
        #[command(subcommand)]
        Emails(emails::Command),
        /// Inspect the messages in the local mailbox
        #[command(subcommand)]
        Messages(messages::Command),
        Event(simulate::Event),
        Inbound(simulate::Inbound),
        Extraction(simulate::Extraction),
        /// Inspect and repeat webhook deliveries
        #[command(subcommand)]
        Deliveries(deliveries::Command),
        /// Show and control the sandbox's clock
        #[command(subcommand)]
        Clock(clock::Command),
        Due(due::Due),
        Settle(clock::Settle),
        /// Inject failures and delays into requests
        #[command(subcommand)]
        Faults(faults::Command),
    }
}
