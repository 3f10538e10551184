//! The clients that start MCP servers, and where each of them keeps its settings and skills.

use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use super::{NAME, json, toml};
use crate::settings::{Env, applications_directory, home_directory};

/// A path that depends on the user.
type OfUser = fn(&Env) -> PathBuf;

/// A client, as its documentation describes it.
pub struct Client {
    /// The word on the command line.
    pub id: &'static str,
    pub name: &'static str,
    /// The member of the settings that holds the servers.
    key: &'static str,
    /// Whether an entry names the transport.
    has_type: bool,
    /// Its settings.
    pub settings: OfUser,
    /// The folder that holds its `skills`.
    skills: Option<OfUser>,
}

/// Where several clients read skills.
const AGENTS: Option<OfUser> = Some(|env| home(env, ".agents"));

#[rustfmt::skip]
pub const CLIENTS: [Client; 7] = [
    Client { id: "claude-code", name: "Claude Code", key: "mcpServers", has_type: true,
        settings: |env| named(env, "CLAUDE_CONFIG_DIR", "").join(".claude.json"),
        skills: Some(|env| named(env, "CLAUDE_CONFIG_DIR", ".claude")) },
    Client { id: "claude-desktop", name: "Claude Desktop", key: "mcpServers", has_type: false,
        settings: |env| applications_directory(env).join("Claude/claude_desktop_config.json"), skills: None },
    Client { id: "codex", name: "Codex", key: "mcp_servers", has_type: false,
        settings: |env| named(env, "CODEX_HOME", ".codex").join("config.toml"), skills: AGENTS },
    Client { id: "cursor", name: "Cursor", key: "mcpServers", has_type: true,
        settings: |env| home(env, ".cursor/mcp.json"), skills: AGENTS },
    Client { id: "vscode", name: "VS Code", key: "servers", has_type: true,
        settings: |env| applications_directory(env).join("Code/User/mcp.json"), skills: AGENTS },
    Client { id: "zed", name: "Zed", key: "context_servers", has_type: false,
        settings: |env| match cfg!(target_os = "macos") {
            true => home(env, ".config/zed/settings.json"),
            false => applications_directory(env).join("zed/settings.json"),
        }, skills: AGENTS },
    Client { id: "gemini", name: "Gemini CLI", key: "mcpServers", has_type: false,
        settings: |env| named(env, "GEMINI_CLI_HOME", "").join(".gemini/settings.json"),
        skills: Some(|env| named(env, "GEMINI_CLI_HOME", "").join(".gemini")) },
];

impl Client {
    /// Where it reads the skill.
    pub fn skill(&self, env: &Env) -> Option<PathBuf> {
        Some(self.skills?(env).join("skills").join(NAME).join("SKILL.md"))
    }

    /// The settings with the entry of `svc mcp` and these arguments, or without it. An entry that starts
    /// something else than `svc mcp`, with this path of `svc` or another one, is refused.
    pub fn edit(&self, settings: &str, svc: &str, args: Option<&[&str]>) -> Result<String, String> {
        let kind = self.has_type.then(|| ("type".to_owned(), "stdio".into()));
        let entry = args.map(|args| {
            let members = [
                ("command".to_owned(), svc.into()),
                ("args".to_owned(), json!(args)),
            ];
            kind.into_iter().chain(members).collect::<Map<_, _>>()
        });
        let (edited, before) = match self.id {
            "codex" => toml::edit(settings, self.key, entry.as_ref())?,
            _ => json::edit(settings, self.key, entry.as_ref())?,
        };
        let is_ours = before.is_none_or(|before| {
            let command = before["command"].as_str().unwrap_or_default();
            let is_svc = command == svc || Path::new(command).file_stem() == Some(NAME.as_ref());
            is_svc && before["args"][0] == "mcp"
        });
        is_ours.then_some(edited).ok_or_else(|| {
            format!("its server `{NAME}` does not start svc mcp: give it another name")
        })
    }
}

fn home(env: &Env, path: &str) -> PathBuf {
    home_directory(env).join(path)
}

/// The directory that a variable of the client names, or one in the home directory.
fn named(env: &Env, variable: &str, in_home: &str) -> PathBuf {
    env.path(variable).unwrap_or_else(|| home(env, in_home))
}
