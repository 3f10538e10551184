//! Shows DNS records to publish beside the current DNS state.

use std::net::SocketAddr;

use clap::Args;

use crate::context::Context;
use crate::dns::Dns;
use crate::dns::compare::Row;
use crate::failure::Failure;
use crate::output::one_line;

/// Prints each record on a line, with its value unwrapped on the next so that it can be copied.
pub fn show(context: &Context, rows: &[Row<'_>]) -> Result<(), Failure> {
    let text =
        |text: Option<&str>| text.map(|text| one_line(text).into_owned()).unwrap_or_default();
    for (index, Row { record, result }) in rows.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let priority = record.priority.map(|p| format!("  priority {p}")).unwrap_or_default();
        let why = result.why.as_deref().map(|why| format!(" ({})", one_line(why)));
        context.out.raw(&format!(
            "{gap}{}  {}{priority}\n  {}\n  DNS now: {}{}\n",
            text(record.record_type),
            text(record.name),
            text(record.value),
            context.out.status(result.state),
            why.unwrap_or_default(),
        ))?;
    }
    Ok(())
}

/// The DNS server to query.
#[derive(Args, Clone, Debug)]
pub struct Lookup {
    /// DNS server to query [default: the domain's own]
    #[arg(long, value_name = "ADDR", value_parser = crate::input::address::parse)]
    resolver: Option<SocketAddr>,
}

impl Lookup {
    /// The DNS to query: the one of `--resolver`, the sandbox's, or the domain's own servers.
    pub async fn dns(&self, context: &Context) -> Result<Dns, Failure> {
        if let Some(server) = self.resolver {
            return Ok(Dns::At(server));
        }
        if context.settings.sandbox
            && let Some(server) = context.sandbox().await?.dns()
        {
            return Ok(Dns::sandbox(server));
        }
        Dns::authoritative().map_err(Failure::other)
    }
}
