//! The clients that start MCP servers, and where each of them keeps its settings and skills:
//! `clients.json`.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::json;
use toml_edit::{DocumentMut, Table};

use super::NAME;
use crate::command_line::shell_quoted;
use crate::settings::table::to_item;
use crate::settings::{Env, applications_directory, home_directory};

/// Where a path begins, and the rest of it.
type OfUser = (&'static str, &'static str);

/// A client, as its documentation describes it.
#[derive(Deserialize)]
pub struct Client {
    /// The word on the command line.
    pub id: &'static str,
    pub name: &'static str,
    /// The member of the settings that holds the servers.
    key: &'static str,
    /// Whether an entry names the transport.
    #[serde(default)]
    has_type: bool,
    /// The client's own command that adds a server, before the name of the server and its command line.
    #[serde(borrow)]
    add: Option<&'static str>,
    /// The settings file of the client.
    settings: OfUser,
    /// The folder that holds its `skills`.
    skills: Option<OfUser>,
}

static CLIENTS: LazyLock<Vec<Client>> =
    LazyLock::new(|| serde_json::from_str(include_str!("clients.json")).expect("valid JSON"));

/// The clients; most others have the form of the second one.
pub fn clients() -> &'static [Client] {
    &CLIENTS
}

impl Client {
    /// The file with its settings.
    pub fn settings(&self, env: &Env) -> PathBuf {
        path(env, self.settings)
    }

    /// Where it reads the skill.
    pub fn skill(&self, env: &Env) -> Option<PathBuf> {
        let skills = path(env, self.skills?).join("skills");
        Some(skills.join(NAME).join("SKILL.md"))
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

/// The path of a user. It begins in a directory that is named by a variable of the client or else below
/// the home directory (`VARIABLE:below`), or in one of the operating system.
fn path(env: &Env, (start, rest): OfUser) -> PathBuf {
    let home = home_directory(env);
    let start = match start.split_once(':') {
        Some((variable, below)) => env.path(variable).unwrap_or_else(|| home.join(below)),
        None if start == "home" => home,
        None if start == "config" && cfg!(target_os = "macos") => home.join(".config"),
        None => applications_directory(env),
    };
    start.join(rest)
}
