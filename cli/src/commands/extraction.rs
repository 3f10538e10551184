//! The `svc extraction` commands: the document-extraction service.

pub mod webhooks;

group! {
    pub enum Command {
        /// Manage webhooks for extraction events
        #[command(subcommand)]
        Webhooks(webhooks::Command),
    }
}
