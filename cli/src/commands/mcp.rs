//! The `svc mcp` command: a server of the Model Context Protocol, for agents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::Args;
use rmcp::ServiceExt as _;
use serde_json::json;
use tokio::sync::{Mutex, OnceCell, Semaphore};

use self::audit::Audit;
use self::calls::{MAX_CALLS, Shared};
use self::runner::Runner;
use self::server::McpServer;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Streams;
use crate::settings::Source;
use crate::settings::table::MCP_GROUPS as GROUPS;
use crate::stop::StopSignal;

mod arguments;
mod audit;
mod calls;
mod content;
mod describe;
mod http;
mod plans;
mod resources;
mod runner;
mod server;
mod table;

/// Serve agents over the Model Context Protocol
///
/// Uses the sandbox unless --profile or SVC_PROFILE names a profile. With the sandbox, everything is
/// allowed; with a profile only reading, until --allow or the profile's mcp_policy opens groups: send,
/// contacts, domains, webhooks, delete, sandbox.
#[derive(Args, Debug)]
#[command(add = local(|| json!({"description": "messages of the protocol; with --listen, a line with the URL"})).until_interrupted().multi_threaded())]
#[command(after_long_help = "\
  svc mcp
  svc mcp --profile staging --allow send,contacts
  svc mcp --listen 127.0.0.1:4090 --tools look sandbox")]
pub struct Mcp {
    /// Groups that are allowed beside reading
    #[arg(long, value_name = "GROUP", value_parser = GROUPS, value_delimiter = ',', num_args = 1.., hide_possible_values = true)]
    allow: Option<Vec<String>>,
    /// Offer only the tools of these groups
    #[arg(long, value_name = "GROUP", value_parser = GROUPS, value_delimiter = ',', num_args = 1.., hide_possible_values = true)]
    tools: Vec<String>,
    /// Serve over HTTP at a loopback address
    ///
    /// Port 0 picks a free port. Clients send the bearer token of SVC_MCP_TOKEN, or of a file that is named at the start.
    #[arg(long, value_name = "ADDR", value_parser = http::parse_address)]
    listen: Option<SocketAddr>,
}

impl Mcp {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let is_named = !matches!(settings.profile.source, Source::Profile | Source::Default);
        let is_live = is_named && !settings.sandbox;
        let allowed = self.allow.unwrap_or_else(|| {
            if is_live {
                settings.mcp_policy.clone().unwrap_or_default()
            } else {
                GROUPS.map(str::to_owned).to_vec()
            }
        });
        let mut tools = table::tools(&(context.tree)());
        tools.retain(|tool| self.tools.is_empty() || self.tools.iter().any(|it| it == tool.group));
        let shared = Arc::new(Shared {
            tools,
            allowed,
            runner: Runner::new(context, is_live)?,
            audit: Audit(settings.state_dir.join("mcp.ndjson")),
            root: arguments::root(&settings.env)?,
            is_live,
            settings: settings.clone(),
            sandbox: context.clients.sandbox.clone(),
            plans: Mutex::default(),
            missing_scopes: OnceCell::new(),
            recipients: AtomicU64::default(),
            running: [const { Semaphore::const_new(MAX_CALLS as usize) }; 2],
        });
        let server = McpServer(shared.clone());
        let mut stop = StopSignal::listen(settings.env.signals)?;
        let serve = async {
            match self.listen {
                Some(address) => http::serve(server, address, context).await,
                None => {
                    if context.out.stdin_is_terminal() {
                        context.out.note("this is for programs: enter the command in the settings of an assistant");
                    }
                    if let Ok(running) = server.serve(Streams::for_protocol()).await {
                        let _ = running.waiting().await;
                    }
                    Ok(())
                }
            }
        };
        let served = tokio::select! {
            served = serve => served,
            _ = stop.recv() => Ok(()),
        };
        // Calls that do something are completed and recorded. A second signal does not wait for them.
        let all = shared.running[0].acquire_many(MAX_CALLS);
        tokio::select! {
            _ = tokio::time::timeout(settings.timeout.value, all) => {}
            _ = stop.recv() => {}
        }
        // The commands that wait for a decision hold the sandbox.
        shared.plans.lock().await.clear();
        served
    }
}
