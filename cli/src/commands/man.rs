//! The `svc man` command.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_spec::local;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output_schema::{any_of, of};
use crate::settings::table::{OTHER_VARIABLES, SETTINGS};

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
        let tree = with_tables(with_all_options((context.tree)()));
        let Some(dir) = self.dir else {
            if context.out.stdout_is_terminal() && !context.out.has_explicit_format() {
                return Err(
                    Failure::usage("the manual page is in roff, which man formats")
                        .hint("svc man | man -l -\nor write all pages: svc man DIR"),
                );
            }
            let mut page = Vec::new();
            Page::new(tree).render(&mut page)?;
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
        let written = written.and_then(|()| clap_mangen::generate_to(tree, &path));
        let directory = dir.display().to_string();
        written.map_err(|error| Failure::input(format!("{directory}: {error}")))?;
        let sentence = format!("wrote a page of each command to {directory}");
        context.out.done(&sentence, &ManualPages { directory })
    }
}

/// A page describes the options that only the long help lists, too.
fn with_all_options(command: Command) -> Command {
    command
        .mut_args(|arg| arg.hide_short_help(false))
        .mut_subcommands(with_all_options)
}

/// Adds to the page of `svc` what is the same for every command.
fn with_tables(tree: Command) -> Command {
    const STANDARD: [(&str, &str); 7] = [
        ("HTTPS_PROXY, HTTP_PROXY, ALL_PROXY", "proxies"),
        ("NO_PROXY", "hosts that are reached without a proxy"),
        ("NO_COLOR", "turns colors off"),
        ("CLICOLOR_FORCE", "turns colors on"),
        (
            "TZ",
            "time zone of times without one, and of the times in tables",
        ),
        (
            "XDG_CONFIG_HOME",
            "directory of the configuration [default: ~/.config]",
        ),
        (
            "XDG_DATA_HOME",
            "directory of the data [default: ~/.local/share]",
        ),
    ];
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
    let mut section = |title: &str, rows: &mut dyn Iterator<Item = (String, &str)>| {
        text.push_str(&format!("\n\n{title}:\n"));
        rows.for_each(|(name, meaning)| text.push_str(&format!("  {name}: {meaning}\n")));
    };
    let named = |(name, meaning): &(&str, &'static str)| ((*name).to_owned(), *meaning);
    section(
        "Exit status",
        &mut exit::TABLE
            .iter()
            .map(|(code, why)| (code.to_string(), *why)),
    );
    let settings = SETTINGS
        .iter()
        .filter_map(|one| Some((one.variable?.to_owned(), one.help)));
    section(
        "Environment",
        &mut settings.chain(OTHER_VARIABLES.iter().chain(&STANDARD).map(named)),
    );
    section("Files", &mut FILES.iter().map(named));
    tree.after_long_help(text)
}
