//! The `svc sandbox seed` command.

use clap::Args;
use svc_reference_server::client::Client;

use crate::command_spec::reads;
use crate::context::Context;
use crate::control::{OfOrganization, Text};
use crate::failure::Failure;
use crate::output_schema::of;

/// Write what the sandbox has as a seed file
///
/// The output is a TOML file for `svc sandbox serve --seed`: organizations, domains, templates,
/// audiences with contacts, and webhooks with their secrets. Of the keys, it has those that the server
/// was started with; of the others, the server has only hashes.
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Text>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox seed --export")]
pub struct Seed {
    /// Write the file to standard output
    #[arg(long, required = true)]
    export: bool,
}

impl Seed {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        OfOrganization::default().document(context, Client::seed_file).await
    }
}
