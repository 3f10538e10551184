//! The command tree. Each leaf command has a struct with its arguments and a `run` method.

pub mod agent;
pub mod api;
pub mod audiences;
pub mod bulk;
pub mod certify;
pub mod completions;
pub mod config;
pub mod conform;
pub mod contacts;
pub mod doctor;
pub mod domains;
pub mod emails;
pub mod extraction;
pub mod help;
pub mod listen;
pub mod login;
pub mod man;
pub mod mcp;
pub mod profiles;
pub mod replay;
pub mod sandbox;
pub mod schema;
pub mod sign;
pub mod trigger;
pub mod verify;
pub mod version;
pub mod watch;
pub mod webhooks;
pub mod whoami;

/// The top-level commands of each section of `svc --help`, in order.
pub const SECTIONS: [(&str, &[&str]); 6] = [
    (
        "Email service",
        &[
            "emails",
            "bulk",
            "audiences",
            "contacts",
            "domains",
            "webhooks",
        ],
    ),
    ("Extraction service", &["extraction"]),
    (
        "Setup",
        &[
            "login", "logout", "profiles", "whoami", "doctor", "conform", "config", "agent",
        ],
    ),
    ("Sandbox", &["sandbox", "watch"]),
    (
        "Webhook receivers",
        &["listen", "replay", "trigger", "certify", "verify", "sign"],
    ),
    (
        "Other",
        &[
            "api",
            "mcp",
            "completions",
            "man",
            "schema",
            "help",
            "version",
        ],
    ),
];

group! {
    pub enum Command {
        /// Send emails and track their status
        #[command(subcommand)]
        Emails(emails::Command),
        /// Send an email to every row of a file or contact of an audience
        #[command(subcommand)]
        Bulk(bulk::Command),
        /// Manage audiences (contact lists)
        #[command(subcommand)]
        Audiences(audiences::Command),
        /// Manage the contacts of an audience
        #[command(subcommand)]
        Contacts(contacts::Command),
        /// Manage sending domains and their DNS records
        #[command(subcommand)]
        Domains(domains::Command),
        /// Manage webhooks for email events
        #[command(subcommand)]
        Webhooks(webhooks::Command),
        /// Manage webhooks for extraction events
        #[command(subcommand)]
        Extraction(extraction::Command),
        Login(login::Login),
        Logout(login::Logout),
        /// Manage profiles: named sets of base URLs and keys
        #[command(subcommand)]
        Profiles(profiles::Command),
        Whoami(whoami::Whoami),
        Doctor(doctor::Doctor),
        Conform(Box<conform::Conform>),
        /// Show settings and where they come from
        #[command(subcommand)]
        Config(config::Command),
        /// Connect assistants to svc
        #[command(subcommand)]
        Agent(agent::Command),
        Watch(watch::Watch),
        Listen(Box<listen::Listen>),
        Replay(replay::Replay),
        Trigger(trigger::Trigger),
        Certify(Box<certify::Certify>),
        Verify(verify::Verify),
        Sign(sign::Sign),
        Api(api::Api),
        Mcp(mcp::Mcp),
        /// Run and control the sandbox
        #[command(subcommand)]
        Sandbox(Box<sandbox::Command>),
        Completions(completions::Completions),
        Man(man::Man),
        Schema(schema::Schema),
        Help(help::Help),
        Version(version::Version),
    }
}
