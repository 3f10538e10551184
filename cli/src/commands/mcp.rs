//! The `svc mcp` command: a server of the Model Context Protocol, for agents.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use clap::{Args, ValueEnum as _};
use serde_json::json;
use svc_sdk::Service;
use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};

use self::audit::Audit;
use self::calls::{MAX_CALLS, Shared};
use self::policy::Policy;
use self::runner::Runner;
use self::server::McpServer;
use self::table::Group;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::Source;
use crate::stop::StopSignal;

mod arguments;
mod audit;
mod calls;
mod content;
mod describe;
mod http;
mod plans;
mod policy;
mod resources;
mod runner;
mod server;
mod stdio;
mod table;

/// Serve agents over the Model Context Protocol
///
/// Uses the sandbox unless --profile or SVC_PROFILE names a profile. With the sandbox, everything is
/// allowed; with a profile only reading, until --allow or the profile's mcp_policy opens groups: send,
/// contacts, domains, webhooks, delete, sandbox.
#[derive(Args, Debug)]
#[command(add = local(|| json!({"description": "messages of the protocol; with --listen, a line with the URL"})).until_interrupted())]
#[command(after_long_help = "\
Examples:
  svc mcp
  svc mcp --profile staging --allow send,contacts
  svc mcp --listen 127.0.0.1:4090 --tools look sandbox")]
pub struct Mcp {
    /// Groups that are allowed beside reading
    #[arg(long, value_name = "GROUP", value_enum, value_delimiter = ',', num_args = 1.., hide_possible_values = true)]
    allow: Option<Vec<Group>>,
    /// Offer only the tools of these groups
    #[arg(long, value_name = "GROUP", value_enum, value_delimiter = ',', num_args = 1.., hide_possible_values = true)]
    tools: Vec<Group>,
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
        let url = |service| settings.url(service).map(|url| &url.source);
        let given = [
            ("--key-file", settings.key_file.is_some()),
            ("--email-url", matches!(url(Service::Email), Some(Source::Option(_)))),
            ("--extraction-url", matches!(url(Service::Extraction), Some(Source::Option(_)))),
        ];
        if let Some((name, _)) = given.iter().find(|(_, given)| !is_live && *given) {
            return Err(Failure::usage(format!("{name} has no effect without --profile"))
                .hint("name the profile that it is for: --profile NAME"));
        }
        let policy = settings.mcp_policy.clone().filter(|_| is_live);
        let allowed = match (self.allow, policy) {
            (Some(allowed), _) => Some(allowed),
            (None, Some(names)) => Some(groups(&names)?),
            (None, None) => is_live.then(Vec::new),
        };
        let profile = is_live.then(|| settings.profile.value.clone());
        let tree = (context.tree)();
        let (sandbox, mut asked) = mpsc::channel::<oneshot::Sender<Result<(), Failure>>>(1);
        let server = McpServer(Arc::new(Shared {
            tools: table::tools(&tree),
            policy: Policy { allowed, selected: self.tools, profile },
            runner: Runner::new(context, tree, is_live),
            audit: Audit::new(settings.state_dir.join("mcp.ndjson")),
            root: arguments::root(&settings.env)?,
            key_files: settings.key_files(),
            secrets: settings.state_dir.join("webhook-secrets"),
            is_live,
            sandbox,
            plans: Mutex::default(),
            missing_scopes: OnceCell::new(),
            running: Semaphore::new(MAX_CALLS as usize),
        }));
        let shared = server.0.clone();
        let mut stop = StopSignal::listen(settings.env.signals)?;
        let hold_sandbox = async {
            while let Some(reply) = asked.recv().await {
                let _ = reply.send(context.sandbox().await.map(drop));
            }
        };
        let serve = async {
            match self.listen {
                Some(address) => http::serve(server, address, context).await,
                None => {
                    if context.out.stdin_is_terminal() {
                        context.out.note("this is for programs: enter the command in the settings of an assistant");
                    }
                    stdio::serve(server, context.out.streams()).await
                }
            }
        };
        let work = async {
            let served = tokio::select! {
                served = serve => served,
                _ = stop.recv() => Ok(()),
            };
            // Calls that run are recorded. A second signal does not wait for them.
            let all = tokio::time::timeout(
                settings.timeout.value,
                shared.running.acquire_many(MAX_CALLS),
            );
            tokio::select! {
                _ = all => {}
                _ = stop.recv() => {}
            }
            served
        };
        tokio::select! {
            served = work => served,
            () = hold_sandbox => Ok(()),
        }
    }
}

/// The groups of a profile's `mcp_policy`.
fn groups(names: &[String]) -> Result<Vec<Group>, Failure> {
    let group = |name: &String| {
        Group::from_str(name, false).map_err(|_| {
            let known = Group::value_variants().iter().map(|group| group.name());
            Failure::input(format!("mcp_policy: `{name}` is not a group"))
                .hint(format!("the groups are {}", known.collect::<Vec<_>>().join(", ")))
        })
    };
    names.iter().map(group).collect()
}
