//! The clients that start MCP servers, and where each of them keeps its settings and skills.

use std::path::PathBuf;

use serde_json::json;
use toml_edit::{DocumentMut, Table};

use super::NAME;
use crate::command_line::shell_quoted;
use crate::settings::table::to_item;
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
    /// The client's own command that adds a server, before the name of the server and its command line.
    add: Option<&'static str>,
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
        add: Some("claude mcp add --scope user"),
        settings: |env| named(env, "CLAUDE_CONFIG_DIR", "").join(".claude.json"),
        skills: Some(|env| named(env, "CLAUDE_CONFIG_DIR", ".claude")) },
    Client { id: "claude-desktop", name: "Claude Desktop", key: "mcpServers", has_type: false, add: None,
        settings: |env| applications_directory(env).join("Claude/claude_desktop_config.json"), skills: None },
    Client { id: "codex", name: "Codex", key: "mcp_servers", has_type: false, add: Some("codex mcp add"),
        settings: |env| named(env, "CODEX_HOME", ".codex").join("config.toml"), skills: AGENTS },
    Client { id: "cursor", name: "Cursor", key: "mcpServers", has_type: true, add: None,
        settings: |env| home(env, ".cursor/mcp.json"), skills: AGENTS },
    Client { id: "vscode", name: "VS Code", key: "servers", has_type: true, add: None,
        settings: |env| applications_directory(env).join("Code/User/mcp.json"), skills: AGENTS },
    Client { id: "zed", name: "Zed", key: "context_servers", has_type: false, add: None,
        settings: |env| match cfg!(target_os = "macos") {
            true => home(env, ".config/zed/settings.json"),
            false => applications_directory(env).join("zed/settings.json"),
        }, skills: AGENTS },
    Client { id: "gemini", name: "Gemini CLI", key: "mcpServers", has_type: false, add: None,
        settings: |env| named(env, "GEMINI_CLI_HOME", "").join(".gemini/settings.json"),
        skills: Some(|env| named(env, "GEMINI_CLI_HOME", "").join(".gemini")) },
];

impl Client {
    /// Where it reads the skill.
    pub fn skill(&self, env: &Env) -> Option<PathBuf> {
        Some(self.skills?(env).join("skills").join(NAME).join("SKILL.md"))
    }

    /// The part of its settings that starts `svc` with these arguments.
    pub fn entry(&self, svc: &str, args: &[&str]) -> String {
        let mut entry = json!({"command": svc, "args": args});
        if self.has_type {
            entry["type"] = "stdio".into();
        }
        if self.id != "codex" {
            return format!("{:#}\n", json!({self.key: {NAME: entry}}));
        }
        let mut server = Table::new();
        for (member, value) in entry.as_object().into_iter().flatten() {
            server[member.as_str()] = to_item(value);
        }
        let mut servers = Table::new();
        servers.set_implicit(true);
        servers[NAME] = server.into();
        let mut settings = DocumentMut::new();
        settings[self.key] = servers.into();
        settings.to_string()
    }

    /// The client's own command that does the same.
    pub fn command(&self, svc: &str, args: &[&str]) -> Option<String> {
        let start = self.add?;
        let words = [&[svc], args].concat();
        let words = words
            .into_iter()
            .map(|word| shell_quoted(word).into_owned());
        let words = words.collect::<Vec<_>>();
        Some(format!("{start} {NAME} -- {}", words.join(" ")))
    }
}

fn home(env: &Env, path: &str) -> PathBuf {
    home_directory(env).join(path)
}

/// The directory that a variable of the client names, or one in the home directory.
fn named(env: &Env, variable: &str, in_home: &str) -> PathBuf {
    env.path(variable).unwrap_or_else(|| home(env, in_home))
}
