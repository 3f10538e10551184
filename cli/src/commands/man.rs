//! The `svc man` command.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};
use schemars::JsonSchema;
use serde::Serialize;

use super::help::{exit_codes, variables};
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{any_of, of};

/// Print the manual page, or write one page per command
#[derive(Args, Debug)]
#[command(add = local(|| any_of(&[of::<String>, of::<ManualPages>])))]
#[command(after_long_help = "\
  svc man | man -l -
  svc man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for the pages [default: print svc.1]
    dir: Option<PathBuf>,
}

#[derive(Serialize, JsonSchema)]
pub struct ManualPages {
    /// Where one page of each command was written.
    directory: String,
}

impl Man {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut tree = with_tables(with_all_options((context.tree)()));
        tree.build();
        let Some(dir) = self.dir else {
            if context.out.stdout_is_terminal() && !context.out.has_explicit_format() {
                return Err(
                    Failure::usage("the manual page is in roff, which man formats")
                        .hint("svc man | man -l -\nor write all pages: svc man DIR"),
                );
            }
            let page = page(&tree)?;
            let page = String::from_utf8_lossy(&page);
            return context.out.document(&page, &page);
        };

        let path = context.settings.path(&dir);
        if let Some(name) = dir.to_str()
            && tree.find_subcommand(name).is_some()
            && !path.is_dir()
        {
            return Err(
                Failure::usage(format!("`{name}` is a command, and DIR is a directory"))
                    .hint(format!("the help of the command: svc help {name}")),
            );
        }

        let written = std::fs::create_dir_all(&path);
        let written = written.and_then(|()| write_pages(&tree, &path));
        let directory = dir.display().to_string();
        written.map_err(|error| Failure::input(format!("{directory}: {error}")))?;
        let sentence = format!("wrote a page of each command to {directory}");
        context.out.done(&sentence, &ManualPages { directory })
    }
}

/// Writes the page of a command and of each below it.
fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    let name = Page::new(command.clone()).get_filename();
    std::fs::write(dir.join(name), page(command)?)?;
    let mut below = command.get_subcommands();
    below.try_for_each(|command| write_pages(command, dir))
}

/// The page of a command, in which the lines of examples and tables stay as they are.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let man = Page::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let texts = [
        command.get_before_long_help(),
        command.get_after_long_help(),
    ];
    let texts = texts.into_iter().flatten().map(ToString::to_string);
    let lines = texts.collect::<Vec<_>>().join("\n\n");
    let mut roff = Roff::default();
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }

    roff.control("fi", []).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// A page describes the options that only the long help lists, too.
fn with_all_options(command: Command) -> Command {
    command
        .mut_args(|arg| arg.hide_short_help(false))
        .mut_subcommands(with_all_options)
}

/// Adds to the page of `svc` what is the same for every command.
fn with_tables(tree: Command) -> Command {
    const FILES: [(&str, &str); 4] = [
        ("$XDG_CONFIG_HOME/svc/config.toml", "profiles; no secrets"),
        (
            "$XDG_CONFIG_HOME/svc/credentials.toml",
            "API keys, readable by their owner only",
        ),
        (
            "$XDG_DATA_HOME/svc/deliveries/",
            "deliveries that svc listen has recorded",
        ),
        ("$XDG_DATA_HOME/svc/sandbox/", "data of the sandbox"),
    ];

    let mut text = tree
        .get_after_long_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let files = FILES.map(|(name, meaning)| (name.to_owned(), meaning));
    for (title, rows) in [
        ("Exit status", exit_codes()),
        ("Environment", variables()),
        ("Files", files.to_vec()),
    ] {
        text.push_str(&format!("\n\n{title}:\n"));
        for (name, meaning) in rows {
            text.push_str(&format!("  {name}: {meaning}\n"));
        }
    }
    tree.after_long_help(text)
}
