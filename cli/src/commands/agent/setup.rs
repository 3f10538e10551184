//! `svc agent setup`.

use std::env::consts::EXE_EXTENSION;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use schemars::JsonSchema;
use serde::Serialize;

use super::clients::CLIENTS;
use crate::command_line::shell_quoted;
use crate::command_spec::local;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{any_of, of};
use crate::private;
use crate::settings::{Env, Source, home_directory, read_if_present};

/// Teaches the command line to assistants without MCP.
const SKILL: &str = include_str!("SKILL.md");

/// The byte order mark, which some editors put at the start of a file.
const MARK: char = '\u{feff}';

/// Connect an assistant to svc
///
/// Adds `svc mcp` to the servers of the client, and SKILL.md to its skills, which teaches the commands
/// to assistants. The change is shown first, and everything else in the files stays. The server works
/// with the sandbox, or with --profile. Run it again after the path of svc has changed.
#[derive(Args, Debug)]
#[command(add = local(|| any_of(&[of::<AgentSetup>, of::<AgentEntry>])))]
#[command(after_long_help = "\
  svc agent setup claude-code --yes
  svc agent setup codex --profile staging --yes
  svc agent setup zed --remove
  svc agent setup --print
  svc agent setup --print --jq .skill > SKILL.md

Claude Desktop has no folder of skills. For other clients, use --print.")]
pub struct Setup {
    /// Client: claude-code, claude-desktop, codex, cursor, vscode, zed or gemini
    #[arg(required_unless_present = "print", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(CLIENTS.map(|client| client.id)))]
    client: Option<String>,
    /// Remove what was added
    #[arg(long, conflicts_with = "print")]
    remove: bool,
    /// Print the entry and write nothing
    #[arg(long)]
    print: bool,
}

/// The files that were changed or removed.
#[derive(Serialize, JsonSchema)]
pub struct AgentSetup {
    client: &'static str,
    files: Vec<String>,
}

/// With --print.
#[derive(Serialize, JsonSchema)]
pub struct AgentEntry<'a> {
    entry: &'a str,
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
        // Most clients have the form of Claude Desktop.
        let client = CLIENTS
            .iter()
            .find(|it| Some(it.id) == self.client.as_deref());
        let client = client.unwrap_or(&CLIENTS[1]);
        if self.print {
            let entry = &client.edit("", &svc, Some(&args)).map_err(Failure::other)?;
            return context.out.document(
                entry,
                &AgentEntry {
                    entry,
                    skill: SKILL,
                },
            );
        }
        let added = (!self.remove).then_some(&*args);
        let mut changes = vec![Change::of((client.settings)(env), |text| {
            client.edit(text, &svc, added)
        })?];
        if let Some(path) = client.skill(env) {
            // It stays as long as another client that reads it uses svc.
            let is_used = CLIENTS.iter().any(|other| {
                let Ok(Some(text)) = read_if_present(&(other.settings)(env)) else {
                    return false;
                };
                other.id != client.id
                    && other.skill(env).as_ref() == Some(&path)
                    && other.edit(&text, &svc, None).is_ok_and(|rest| rest != text)
            });
            let sentence = SKILL.split('.').next().unwrap_or_default();
            changes.push(Change::of(path, |text| {
                match (self.remove, text.is_empty() || text.starts_with(sentence)) {
                    (true, true) if !is_used => Ok(String::new()),
                    (true, _) => Ok(text.to_owned()),
                    (false, true) => Ok(SKILL.to_owned()),
                    (false, false) => Err("it is not the skill of svc".to_owned()),
                }
            })?);
        }
        changes.retain(|change| change.before != change.after);
        let files = changes
            .iter()
            .map(|change| change.path.display().to_string());
        let files = files.collect::<Vec<_>>();
        if !changes.is_empty() {
            let shown = changes.iter().map(Change::shown).collect::<String>();
            shown.lines().for_each(|line| context.out.note(line));
            confirm(context, &format!("Change {}?", files.join(" and "))).await?;
        }
        changes
            .iter()
            .try_for_each(|change| change.write(&home_directory(env)))?;
        let line = args
            .iter()
            .fold(svc.clone(), |line, arg| line + " " + &shell_quoted(arg));
        let sentence = match self.remove {
            true => format!("{} does not use svc", client.name),
            false => format!("{} starts {line} from its next start on", client.name),
        };
        context.out.done(
            &sentence,
            &AgentSetup {
                client: client.id,
                files,
            },
        )
    }
}

/// A file before and after; `None` if it does not exist.
struct Change {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
}

impl Change {
    /// The change of a file. One that is empty then is removed.
    fn of(
        path: PathBuf,
        edit: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, Failure> {
        let before = read_if_present(&path)?;
        let text = before.as_deref().unwrap_or_default();
        let (mark, text) = text.split_at(if text.starts_with(MARK) {
            MARK.len_utf8()
        } else {
            0
        });
        let edited = edit(text).map_err(|problem| {
            Failure::input(format!("{}: {problem}", path.display())).hint(
                "correct the file, give what is yours another name, or add what svc agent setup --print shows",
            )
        })?;
        let after = match edited == text {
            true => before.clone(),
            false => Some(format!("{mark}{edited}")).filter(|_| !edited.trim().is_empty()),
        };
        Ok(Self {
            path,
            before,
            after,
        })
    }

    /// The lines that differ, except those of a new or removed SKILL.md.
    fn shown(&self) -> String {
        let lines = |text: &Option<String>| {
            let text = text
                .as_deref()
                .filter(|text| *text != SKILL)
                .unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let same = |(a, b): &(&String, &String)| a == b;
        let start = before.iter().zip(&after).take_while(same).count();
        let (before, after) = (&before[start..], &after[start..]);
        let end = before
            .iter()
            .rev()
            .zip(after.iter().rev())
            .take_while(same)
            .count();
        let removed = before[..before.len() - end]
            .iter()
            .map(|line| format!("- {line}\n"));
        let added = after[..after.len() - end]
            .iter()
            .map(|line| format!("+ {line}\n"));
        let kind = match (&self.before, &self.after) {
            (None, _) => "new",
            (_, None) => "removed",
            _ => "changed",
        };
        let title = format!("{} ({kind})\n", self.path.display());
        title + &removed.chain(added).collect::<String>()
    }

    /// Writes it. If a file is removed, so are the folder that is empty then, and up to two above.
    fn write(&self, home: &Path) -> Result<(), Failure> {
        let path = &self.path;
        if read_if_present(path)? != self.before {
            let changed = format!(
                "{}: another program has changed it meanwhile",
                path.display()
            );
            return Err(Failure::other(changed).hint("run the command again"));
        }
        let written = match &self.after {
            Some(after) => private::replace_of_others(path, after.as_bytes()),
            None => fs::remove_file(path).map(|()| {
                let mut folders = path
                    .ancestors()
                    .skip(1)
                    .take(3)
                    .take_while(|folder| *folder != home);
                let _ = folders.try_for_each(fs::remove_dir);
            }),
        };
        written.map_err(|error| Failure::other(format!("{}: {error}", path.display())))
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
