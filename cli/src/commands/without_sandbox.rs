//! `svc sandbox` of a build without the sandbox.

use std::ffi::OsString;

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::sandbox::Sandbox;

#[derive(Args, Debug)]
pub struct Command {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        Sandbox::attach(&context.settings).await.map(drop)
    }
}
