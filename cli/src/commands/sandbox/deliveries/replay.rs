//! `svc sandbox deliveries replay`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Send a delivery again: same event id, current secret, one attempt
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox deliveries replay dlv_019a

Scope: none; the local server alone")]
pub struct Replay {
    /// The delivery's id
    #[arg(add = Values::Delivery.candidates())]
    id: String,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let path = format!("/_sandbox/deliveries/{}/replay", control::segment(&self.id)?);
        let request = Request::post(&path).query("organization", self.organization.as_deref());
        control::done(context, request, &format!("delivery {} is sent again", self.id)).await
    }
}
