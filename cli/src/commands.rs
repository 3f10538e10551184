//! The command tree. Each leaf command has a struct with its arguments and a `run` method.

/// Declares the commands of a group: each variant is a command with a `run` method, or a group.
macro_rules! group {
    (
        $(#[$about:meta])*
        pub enum Command { $($(#[$attribute:meta])* $name:ident($command:ty),)* }
    ) => {
        #[derive(clap::Subcommand, Debug)]
        #[command(defer = true)]
        $(#[$about])*
        pub enum Command { $($(#[$attribute])* $name($command),)* }

        impl Command {
            pub async fn run(
                self,
                context: &$crate::context::Context,
            ) -> Result<(), $crate::failure::Failure> {
                match self {
                    $(Self::$name(command) => command.run(context).await,)*
                }
            }
        }
    };
}

pub mod api;
pub mod audiences;
pub mod bulk;
pub mod certify;
pub mod completions;
pub mod config;
pub mod contacts;
pub mod doctor;
pub mod domains;
pub mod emails;
pub mod extraction;
pub mod help;
pub mod listen;
pub mod login;
pub mod man;
pub mod profiles;
pub mod replay;
#[cfg_attr(not(feature = "sandbox"), path = "commands/without_sandbox.rs")]
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
    ("Email service", &["emails", "bulk", "audiences", "contacts", "domains", "webhooks"]),
    ("Extraction service", &["extraction"]),
    ("Setup", &["login", "logout", "profiles", "whoami", "doctor", "config"]),
    ("Local server", &["sandbox", "watch"]),
    ("Webhook receivers", &["listen", "replay", "trigger", "certify", "verify", "sign"]),
    ("Other", &["api", "completions", "man", "schema", "help", "version"]),
];

group! {
    pub enum Command {
        #[command(subcommand)]
        Emails(emails::Command),
        #[command(subcommand)]
        Bulk(bulk::Command),
        #[command(subcommand)]
        Audiences(audiences::Command),
        #[command(subcommand)]
        Contacts(contacts::Command),
        #[command(subcommand)]
        Domains(domains::Command),
        #[command(subcommand)]
        Webhooks(webhooks::Command),
        #[command(subcommand)]
        Extraction(extraction::Command),
        Login(login::Login),
        Logout(login::Logout),
        #[command(subcommand)]
        Profiles(profiles::Command),
        Whoami(whoami::Whoami),
        Doctor(doctor::Doctor),
        #[command(subcommand)]
        Config(config::Command),
        Watch(watch::Watch),
        Listen(Box<listen::Listen>),
        Replay(replay::Replay),
        Trigger(trigger::Trigger),
        Certify(Box<certify::Certify>),
        Verify(verify::Verify),
        Sign(sign::Sign),
        Api(api::Api),
        #[cfg_attr(feature = "sandbox", command(subcommand))]
        Sandbox(sandbox::Command),
        Completions(completions::Completions),
        Man(man::Man),
        Schema(schema::Schema),
        Help(help::Help),
        Version(version::Version),
    }
}

impl Command {
    /// Whether the command runs the local server for other programs.
    pub fn is_server(&self) -> bool {
        #[cfg(feature = "sandbox")]
        let is_server = matches!(self, Self::Sandbox(sandbox::Command::Serve(_)));
        #[cfg(not(feature = "sandbox"))]
        let is_server = false;
        is_server
    }
}
