//! The `svc agent` commands: assistants that use `svc`.

use std::env::consts::EXE_EXTENSION;
use std::fs;
use std::path::Path;

use clap::Args;
use clap::builder::PossibleValuesParser;
use schemars::JsonSchema;
use serde::Serialize;

use self::clients::{Client, clients};
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;
use crate::settings::{Env, Source};

mod clients;

/// The name of the entry and of the skill.
const NAME: &str = "svc";

/// Teaches the command line to assistants without MCP.
const SKILL: &str = include_str!("agent/SKILL.md");

group! {
    pub enum Command {
        Setup(Setup),
    }
}

/// Show how to connect an assistant to svc
///
/// Prints the entry that starts `svc mcp`, and the file it belongs in. No file is changed. The server
/// uses the sandbox, or the profile of --profile. SKILL.md teaches the commands to assistants without
/// MCP.
#[derive(Args, Debug)]
#[command(add = local(of::<AgentSetup<'_>>))]
#[command(after_long_help = "\
  svc agent setup claude-code
  svc agent setup codex --profile staging
  svc agent setup cursor --jq .entry
  svc agent setup codex --skill > SKILL.md")]
pub struct Setup {
    /// Client: claude-code, claude-desktop, codex, cursor, vscode, zed or gemini
    #[arg(hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(clients().iter().map(|client| client.id)))]
    client: Option<String>,
    /// Print SKILL.md instead
    #[arg(long)]
    skill: bool,
}

/// How a client starts `svc mcp`.
#[derive(Serialize, JsonSchema)]
pub struct AgentSetup<'a> {
    /// The text to add to the settings of the client.
    entry: &'a str,
    /// The file with the settings.
    settings: Option<String>,
    /// The client's own command that does the same, if it has one.
    command: Option<String>,
    /// Where the client reads SKILL.md, if it has skills.
    skill_path: Option<String>,
    /// The content of SKILL.md.
    skill: &'static str,
}

impl Setup {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let env = &context.settings.env;
        let svc = executable(env)?;
        let profile = &context.settings.profile;
        let mut args = vec!["mcp"];
        if matches!(profile.source, Source::Option(_)) {
            args.extend(["--profile", &profile.value]);
        }
        let client = clients()
            .iter()
            .find(|it| Some(it.id) == self.client.as_deref());
        // Most clients have the form of Claude Desktop.
        let entry = client.unwrap_or(&clients()[1]).entry(&svc, &args);
        let skill_path = client.and_then(|client| client.skill(env));
        let setup = AgentSetup {
            entry: &entry,
            settings: client.map(|client| client.settings(env).display().to_string()),
            command: client.and_then(|client| client.command(&svc, &args)),
            skill_path: skill_path.map(|path| path.display().to_string()),
            skill: SKILL,
        };
        if self.skill {
            return context.out.document(SKILL, &setup);
        }

        if let Some(client) = client {
            setup.explain(context, client);
        }
        context.out.document(&entry, &setup)
    }
}

impl AgentSetup<'_> {
    /// Says beside the entry what to do with it.
    fn explain(&self, context: &Context, client: &Client) {
        let settings = self.settings.as_deref().unwrap_or_default();
        context.out.note(&format!(
            "add this entry to {settings}, then restart {}",
            client.name
        ));
        if let Some(command) = &self.command {
            context.out.note(&format!("or run: {command}"));
        }
        if let Some(path) = &self.skill_path {
            context.out.hint(&format!(
                "without MCP, store the skill in {path}: svc agent setup --skill"
            ));
        }
    }
}

/// The path of this program: the one on the search path, if it is the same file, as a package manager
/// may put each version into another folder.
fn executable(env: &Env) -> Result<String, Failure> {
    let this = std::env::current_exe()?;
    let real = fs::canonicalize(&this)?;
    let name = Path::new("svc").with_extension(EXE_EXTENSION);
    let mut named = std::env::split_paths(env.get("PATH").unwrap_or_default())
        .map(|folder| folder.join(&name))
        .filter(|path| path.is_absolute());
    let found = named.find(|path| fs::canonicalize(path).is_ok_and(|path| path == real));
    let path = found.unwrap_or(this).into_os_string().into_string();
    path.map_err(|path| Failure::other(format!("{}: the path is not UTF-8", path.display())))
}
