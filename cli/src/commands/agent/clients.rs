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
    /// The settings of a user.
    user: OfUser,
    /// The settings of a project.
    project: Option<&'static str>,
    /// Where the folder `skills` of a user and of a project is.
    skills: Option<(OfUser, &'static str)>,
}

/// Where several clients read skills.
const AGENTS: Option<(OfUser, &str)> = Some((|env| home(env, ".agents"), ".agents"));

#[rustfmt::skip]
pub const CLIENTS: [Client; 7] = [
    Client { id: "claude-code", name: "Claude Code", key: "mcpServers", has_type: true,
        user: |env| named(env, "CLAUDE_CONFIG_DIR", "").join(".claude.json"), project: Some(".mcp.json"),
        skills: Some((|env| named(env, "CLAUDE_CONFIG_DIR", ".claude"), ".claude")) },
    Client { id: "claude-desktop", name: "Claude Desktop", key: "mcpServers", has_type: false,
        user: |env| applications_directory(env).join("Claude/claude_desktop_config.json"), project: None, skills: None },
    Client { id: "codex", name: "Codex", key: "mcp_servers", has_type: false,
        user: |env| named(env, "CODEX_HOME", ".codex").join("config.toml"), project: Some(".codex/config.toml"),
        skills: AGENTS },
    Client { id: "cursor", name: "Cursor", key: "mcpServers", has_type: true,
        user: |env| home(env, ".cursor/mcp.json"), project: Some(".cursor/mcp.json"), skills: AGENTS },
    Client { id: "vscode", name: "VS Code", key: "servers", has_type: true,
        user: |env| applications_directory(env).join("Code/User/mcp.json"), project: Some(".vscode/mcp.json"), skills: AGENTS },
    Client { id: "zed", name: "Zed", key: "context_servers", has_type: false,
        user: |env| match cfg!(target_os = "macos") {
            true => home(env, ".config/zed/settings.json"),
            false => applications_directory(env).join("zed/settings.json"),
        }, project: Some(".zed/settings.json"), skills: AGENTS },
    Client { id: "gemini", name: "Gemini CLI", key: "mcpServers", has_type: false,
        user: |env| named(env, "GEMINI_CLI_HOME", "").join(".gemini/settings.json"), project: Some(".gemini/settings.json"),
        skills: Some((|env| named(env, "GEMINI_CLI_HOME", "").join(".gemini"), ".gemini")) },
];

impl Client {
    /// Its settings, if it has any of a project.
    pub fn settings(&self, env: &Env, of_project: bool) -> Option<PathBuf> {
        match of_project {
            true => Some(env.cwd.join(self.project?)),
            false => Some((self.user)(env)),
        }
    }

    /// Where it reads the skill.
    pub fn skill(&self, env: &Env, of_project: bool) -> Option<PathBuf> {
        let (user, project) = self.skills?;
        let folder = if of_project { env.cwd.join(project) } else { user(env) };
        Some(folder.join("skills").join(NAME).join("SKILL.md"))
    }

    /// The settings with the entry of `svc mcp` and these arguments, or without it. An entry that starts
    /// something else than `svc mcp`, with this path of `svc` or another one, is refused.
    pub fn edit(&self, settings: &str, svc: &str, args: Option<&[&str]>) -> Result<String, String> {
        let kind = self.has_type.then(|| ("type".to_owned(), "stdio".into()));
        let entry = args.map(|args| {
            let members = [("command".to_owned(), svc.into()), ("args".to_owned(), json!(args))];
            kind.into_iter().chain(members).collect::<Map<_, _>>()
        });
        let is_toml = self.project.is_some_and(|file| file.ends_with(".toml"));
        let edit = if is_toml { toml::edit } else { json::edit };
        let (edited, before) = edit(settings, self.key, entry.as_ref())?;
        let is_ours = before.is_none_or(|before| {
            let command = before["command"].as_str().unwrap_or_default();
            let is_svc = command == svc || Path::new(command).file_stem() == Some(NAME.as_ref());
            is_svc && before["args"][0] == "mcp"
        });
        match is_ours {
            true => Ok(edited),
            false => {
                Err(format!("its server `{NAME}` does not start svc mcp: give it another name"))
            }
        }
    }
}

fn home(env: &Env, path: &str) -> PathBuf {
    home_directory(env).join(path)
}

/// The directory that a variable of the client names, or one in the home directory.
fn named(env: &Env, variable: &str, in_home: &str) -> PathBuf {
    env.path(variable).unwrap_or_else(|| home(env, in_home))
}
