//! The records to publish with what DNS answers right now beside them.

use std::net::SocketAddr;

use clap::Args;

use crate::context::Context;
use crate::dns::Dns;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// A record, what DNS answers, and why it is not enough.
pub const VIEW: View = View(&[
    Column::text("TYPE", "/type"),
    Column::text("NAME", "/name"),
    Column::new("PRIORITY", "/priority", Show::Number),
    Column::new("DNS NOW", "/dns", Show::Status),
    Column::text("WHY", "/why"),
    Column::text("VALUE", "/value"),
]);

/// Where to look records up.
#[derive(Args, Clone, Debug)]
pub struct Lookup {
    /// Ask this DNS server instead of the domain's own
    #[arg(long, value_name = "ADDR")]
    resolver: Option<SocketAddr>,
}

impl Lookup {
    /// The DNS to ask: the one that was named, the sandbox's, or the domain's own.
    pub async fn dns(&self, context: &Context) -> Result<Dns, Failure> {
        if let Some(server) = self.resolver {
            return Ok(Dns::At(server));
        }
        if context.settings.sandbox
            && let Some(server) = context.sandbox().await?.dns()
        {
            return Ok(Dns::At(server));
        }
        Dns::own_servers().map_err(Failure::other)
    }
}
