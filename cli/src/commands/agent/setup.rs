//! `svc agent setup`.

use std::env::consts::EXE_EXTENSION;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use schemars::JsonSchema;
use serde::Serialize;

use super::clients::{CLIENTS, Client};
use crate::command_line::shell_quoted;
use crate::command_spec::local;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{of, one_of};
use crate::private;
use crate::settings::{Env, Source};

/// Teaches the command line to assistants without MCP.
const SKILL: &str = include_str!("SKILL.md");

/// The most lines that are shown of the change of a file.
const SHOWN: usize = 20;

/// Connect an assistant to svc
///
/// Adds `svc mcp` to the servers of the client, and SKILL.md to its skills, which teaches the commands
/// to assistants. The change is shown first, and everything else in the files stays. The server works
/// with the sandbox, or with --profile. Run it again after the path of svc has changed.
#[derive(Args, Debug)]
#[command(add = local(|| one_of(&[of::<AgentSetup>, of::<AgentEntry>])))]
#[command(after_long_help = "\
Examples:
  svc agent setup claude-code --yes
  svc agent setup codex --profile staging --yes
  svc agent setup cursor --project --yes
  svc agent setup zed --remove
  svc agent setup --print
  svc agent setup --print --jq .skill > SKILL.md

Claude Desktop has no folder of skills. For other clients, use --print.")]
pub struct Setup {
    /// Client: claude-code, claude-desktop, codex, cursor, vscode, zed or gemini
    #[arg(required_unless_present = "print", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(CLIENTS.map(|client| client.id)))]
    client: Option<String>,
    /// Change the files of the project in this directory, not those of the user
    #[arg(long)]
    project: bool,
    /// Remove what was added
    #[arg(long, conflicts_with = "print")]
    remove: bool,
    /// Print the entry and write nothing
    #[arg(long)]
    print: bool,
}

/// The files that were changed.
#[derive(Serialize, JsonSchema)]
pub struct AgentSetup {
    client: &'static str,
    files: Vec<ChangedFile>,
}

#[derive(Serialize, JsonSchema)]
struct ChangedFile {
    path: String,
    change: &'static str,
}

/// With --print.
#[derive(Serialize, JsonSchema)]
pub struct AgentEntry {
    /// Where it belongs, if a client is given.
    file: Option<String>,
    entry: String,
    /// The content of SKILL.md.
    skill: &'static str,
}

impl Setup {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let env = &context.settings.env;
        let client = CLIENTS.iter().find(|it| Some(it.id) == self.client.as_deref());
        let svc = executable(env)?;
        let profile = &context.settings.profile;
        let mut args = vec!["mcp"];
        if matches!(profile.source, Source::Option(_)) {
            args.extend(["--profile", &profile.value]);
        }
        let Some(client) = client.filter(|_| !self.print) else {
            // Most clients have the form of Claude Desktop.
            let shape = client.unwrap_or(&CLIENTS[1]);
            let entry = shape.with("", &svc, &args).map_err(Failure::other)?;
            let file = client.map(|it| self.settings_of(it, env)).transpose()?;
            let file = file.map(|path| path.display().to_string());
            return context
                .out
                .document(&entry, &AgentEntry { file, entry: entry.clone(), skill: SKILL });
        };
        let mut changes = vec![self.change(client, env, |text| match self.remove {
            true => client.without(text),
            false => client.with(text, &svc, &args).map(Some),
        })?];
        changes.extend(self.change_skill(client, env)?);
        changes.retain(|change| change.before != change.after);
        if !changes.is_empty() {
            if context.out.is_table() {
                context.out.note(&changes.iter().map(Change::shown).collect::<Vec<_>>().join("\n"));
            }
            let paths = changes.iter().map(|change| change.path.display().to_string());
            confirm(context, &format!("Change {}?", paths.collect::<Vec<_>>().join(" and ")))
                .await?;
        }
        changes.iter().try_for_each(Change::write)?;
        let files = changes.iter().map(|change| ChangedFile {
            path: change.path.display().to_string(),
            change: change.kind(),
        });
        let sentence = match (self.remove, changes.is_empty()) {
            (true, true) => format!("nothing to change: {} does not use svc", client.name),
            (true, false) => format!("removed svc from {}", client.name),
            (false, unchanged) => {
                let line =
                    args.iter().fold(svc.clone(), |line, arg| line + " " + &shell_quoted(arg));
                match unchanged {
                    true => format!("nothing to change: {} starts {line}", client.name),
                    false => format!("{} starts {line} from its next start on", client.name),
                }
            }
        };
        context.out.done(&sentence, &AgentSetup { client: client.id, files: files.collect() })
    }

    fn settings_of(&self, client: &Client, env: &Env) -> Result<PathBuf, Failure> {
        client.settings(env, self.project).ok_or_else(|| {
            Failure::usage(format!("--project: {} has no settings of a project", client.name))
                .hint("leave out --project: the settings of the user are changed")
        })
    }

    /// The change of a client's settings.
    fn change(
        &self,
        client: &Client,
        env: &Env,
        edit: impl Fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Change, Failure> {
        let path = self.settings_of(client, env)?;
        let before = read(&path)?;
        let after = edit(before.as_deref().unwrap_or_default()).map_err(|problem| {
            Failure::input(format!("{}: {problem}", path.display()))
                .hint("correct the file, or add the entry yourself: svc agent setup --print")
        })?;
        // Nothing is removed from a file that does not exist.
        let after = after.filter(|after| before.is_some() || !after.is_empty());
        Ok(Change { path, before, after })
    }

    /// The change of the skill, which stays as long as another client that reads it uses svc.
    fn change_skill(&self, client: &Client, env: &Env) -> Result<Option<Change>, Failure> {
        let Some(path) = client.skill(env, self.project) else { return Ok(None) };
        let is_used = |other: &Client| {
            let removal = self.change(other, env, |text| other.without(text));
            removal.is_ok_and(|removal| removal.before != removal.after)
        };
        let mut others = CLIENTS.iter().filter(|other| other.id != client.id);
        let others =
            others.any(|it| it.skill(env, self.project).as_ref() == Some(&path) && is_used(it));
        let before = read(&path)?;
        let after = match self.remove {
            true => before.clone().filter(|_| others),
            false => Some(SKILL.to_owned()),
        };
        Ok(Some(Change { path, before, after }))
    }
}

/// A file before and after; `None` if it does not exist.
struct Change {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
}

impl Change {
    fn kind(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "created",
            (_, None) => "removed",
            _ => "changed",
        }
    }

    /// The lines that differ, except those of a new or removed SKILL.md.
    fn shown(&self) -> String {
        let title = format!("{} ({})", self.path.display(), self.kind());
        if let (None, Some(whole)) | (Some(whole), None) = (&self.before, &self.after)
            && whole == SKILL
        {
            return title;
        }
        let lines = |text: &Option<String>| {
            text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let same = |(a, b): &(&String, &String)| a == b;
        let start = before.iter().zip(&after).take_while(same).count();
        let (before, after) = (&before[start..], &after[start..]);
        let end = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
        let removed = before[..before.len() - end].iter().map(|line| format!("- {line}"));
        let added = after[..after.len() - end].iter().map(|line| format!("+ {line}"));
        let mut changes = removed.chain(added).collect::<Vec<_>>();
        let more = changes.len().saturating_sub(SHOWN);
        if more > 0 {
            changes.truncate(SHOWN);
            changes.push(format!("… {more} more lines"));
        }
        changes.insert(0, title);
        changes.join("\n")
    }

    fn write(&self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", self.path.display()));
        if read(&self.path)? != self.before {
            let changed =
                format!("{}: another program has changed it meanwhile", self.path.display());
            return Err(Failure::other(changed).hint("run the command again"));
        }
        match &self.after {
            Some(after) => private::replace_of_others(&self.path, after.as_bytes()).map_err(failed),
            None => {
                fs::remove_file(&self.path).map_err(failed)?;
                // The folder of the skill, which is empty now.
                match self.path.parent().filter(|_| self.path.ends_with("svc/SKILL.md")) {
                    Some(folder) => fs::remove_dir(folder).or(Ok(())),
                    None => Ok(()),
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::input(format!("{}: {error}", path.display()))),
    }
}

/// The path of this program: the one on the search path, if it is the same file, as a package manager
/// may put each version into another folder.
fn executable(env: &Env) -> Result<String, Failure> {
    let this = std::env::current_exe()?;
    let name = Path::new("svc").with_extension(EXE_EXTENSION);
    let same = |path: &PathBuf| match (fs::canonicalize(path), fs::canonicalize(&this)) {
        (Ok(path), Ok(this)) => path == this,
        _ => false,
    };
    let folders = std::env::split_paths(env.get("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let mut found = folders.iter().filter(|it| it.is_absolute()).map(|folder| folder.join(&name));
    let path = found.find(same).unwrap_or(this);
    let path = path.into_os_string().into_string();
    path.map_err(|path| Failure::other(format!("{}: the path of svc is not UTF-8", path.display())))
}
