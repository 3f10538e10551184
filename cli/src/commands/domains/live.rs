//! Shows DNS records to publish beside the current DNS state.

use std::net::SocketAddr;

use clap::Args;
use serde_json::Value;

use crate::context::Context;
use crate::dns::Dns;
use crate::failure::Failure;
use crate::output::one_line;

/// Prints each record on a line, with its value unwrapped on the next so that it can be copied.
pub fn show(context: &Context, rows: &[Value]) -> Result<(), Failure> {
    let text = |row: &Value, key: &str| row[key].as_str().map(one_line_of).unwrap_or_default();
    for (index, row) in rows.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let priority =
            row["priority"].as_u64().map(|p| format!("  priority {p}")).unwrap_or_default();
        let (state, why) = (text(row, "dns"), text(row, "why"));
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        context.out.raw(&format!(
            "{gap}{}  {}{priority}\n  {}\n  DNS now: {}{why}\n",
            text(row, "type"),
            text(row, "name"),
            text(row, "value"),
            context.out.status(&state),
        ))?;
    }
    Ok(())
}

fn one_line_of(text: &str) -> String {
    one_line(text).into_owned()
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
