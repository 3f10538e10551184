//! The `svc man` command.

use std::path::PathBuf;

use clap::Args;
use clap_mangen::roff::{Roff, bold, roman};
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::settings::table::{OTHER_VARIABLES, SETTINGS};

/// Print the manual page, or write one page per command
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc man | man -l -
  svc man ~/.local/share/man/man1

Scope: none")]
pub struct Man {
    /// Directory for the pages [default: print svc.1]
    dir: Option<PathBuf>,
}

impl Man {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut tree = crate::command();
        tree.build();
        let Some(dir) = self.dir else {
            if context.out.stdout_is_terminal() && !context.out.has_explicit_format() {
                return Err(Failure::usage("the manual page is in roff, which man formats")
                    .hint("svc man | man -l -\nor write all pages: svc man DIR"));
            }
            let page = page(&tree, &["svc".to_owned()])?;
            return context.out.document(&page, &Page { name: "svc.1", page: &page });
        };
        if let Some(name) = dir.to_str()
            && tree.find_subcommand(name).is_some()
            && !context.settings.path(&dir).is_dir()
        {
            return Err(Failure::usage(format!("`{name}` is a command, and DIR is a directory"))
                .hint(format!(
                    "the help of the command: svc help {name}\nor write the pages: svc man ./{name}"
                )));
        }
        let failed = |error: std::io::Error| Failure::input(format!("{}: {error}", dir.display()));
        std::fs::create_dir_all(context.settings.path(&dir)).map_err(failed)?;
        let mut written = Vec::new();
        let mut todo = vec![(vec!["svc".to_owned()], &tree)];
        while let Some((words, command)) = todo.pop() {
            let path = dir.join(format!("{}.1", words.join("-")));
            std::fs::write(context.settings.path(&path), page(command, &words)?).map_err(failed)?;
            written.push(path.display().to_string());
            let below = command.get_subcommands().filter(|c| !c.is_hide_set());
            todo.extend(below.map(|c| ([&words[..], &[c.get_name().to_owned()]].concat(), c)));
        }
        written.sort();
        let sentence = format!("wrote {} pages to {}", written.len(), dir.display());
        context.out.done(&sentence, &Written { pages: written })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Page<'a> {
    name: &'static str,
    /// In roff.
    page: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Written {
    /// The paths of the files.
    pages: Vec<String>,
}

/// The manual page of a command, in roff.
fn page(command: &clap::Command, words: &[String]) -> Result<String, Failure> {
    // The page lists the global options as well.
    let mut command = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let usage = command.render_usage().to_string();
    let mut related = related(&command, words);
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let has_subcommands = command.has_subcommands();
    let page = clap_mangen::Man::new(command)
        // An empty date would make roff take the next field for it.
        .date(" ")
        .source(concat!("svc ", env!("CARGO_PKG_VERSION")))
        .manual("svc manual");
    let mut bytes = Vec::new();
    page.render_title(&mut bytes)?;
    page.render_name_section(&mut bytes)?;
    synopsis(&usage).to_writer(&mut bytes)?;
    page.render_description_section(&mut bytes)?;
    page.render_options_section(&mut bytes)?;
    if has_subcommands {
        page.render_subcommands_section(&mut bytes)?;
    }
    more(&help).to_writer(&mut bytes)?;
    tables().to_writer(&mut bytes)?;
    if !related.is_empty() {
        related.sort();
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        let last = related.len() - 1;
        for (index, name) in related.iter().enumerate() {
            let after = if index < last { "(1)," } else { "(1)" };
            roff.control("BR", [name.as_str(), after]);
        }
        roff.to_writer(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The sections that are the same for every command.
fn tables() -> Roff {
    const STANDARD: [(&str, &str); 7] = [
        ("HTTPS_PROXY, HTTP_PROXY, ALL_PROXY", "proxies"),
        ("NO_PROXY", "hosts that are reached without a proxy"),
        ("NO_COLOR", "turns colors off"),
        ("CLICOLOR_FORCE", "turns colors on"),
        ("TZ", "time zone of times without one, and of the times in tables"),
        ("XDG_CONFIG_HOME", "directory of the configuration [default: ~/.config]"),
        ("XDG_DATA_HOME", "directory of the data [default: ~/.local/share]"),
    ];
    const FILES: [(&str, &str); 4] = [
        ("$XDG_CONFIG_HOME/svc/config.toml", "profiles; no secrets"),
        ("$XDG_CONFIG_HOME/svc/credentials.toml", "API keys, readable by their owner only"),
        ("$XDG_DATA_HOME/svc/deliveries/", "deliveries that svc listen has recorded"),
        ("$XDG_DATA_HOME/svc/sandbox/", "data of the local server"),
    ];
    let mut roff = Roff::new();
    let mut section = |title: &str, rows: &mut dyn Iterator<Item = (String, &str)>| {
        roff.control("SH", [title]);
        for (name, meaning) in rows {
            roff.control("TP", []);
            roff.text([bold(name)]);
            roff.text([roman(meaning)]);
        }
    };
    let named = |(name, meaning): &(&str, &'static str)| ((*name).to_owned(), *meaning);
    section("EXIT STATUS", &mut exit::TABLE.iter().map(|(code, why)| (code.to_string(), *why)));
    let settings = SETTINGS.iter().filter_map(|one| Some((one.variable?.to_owned(), one.help)));
    let others = OTHER_VARIABLES.iter().chain(&STANDARD).map(named);
    section("ENVIRONMENT", &mut settings.chain(others));
    section("FILES", &mut FILES.iter().map(named));
    roff
}

/// The usage line of the help. Options have a section of their own.
fn synopsis(usage: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([roman(usage.trim_start_matches("Usage: "))]);
    roff
}

/// The pages of the parent command and of the subcommands.
fn related(command: &clap::Command, words: &[String]) -> Vec<String> {
    let name = words.join("-");
    let above = words.split_last().map(|(_, above)| above.join("-"));
    let below = command.get_subcommands().filter(|c| !c.is_hide_set());
    let below = below.map(|c| format!("{name}-{}", c.get_name()));
    above.filter(|above| !above.is_empty()).into_iter().chain(below).collect()
}

/// The text below the options. Prose is filled; examples stay unfilled.
fn more(help: &str) -> Roff {
    let mut roff = Roff::new();
    let rest = match help.strip_prefix("Examples:\n") {
        Some(rest) => {
            roff.control("SH", ["EXAMPLES"]);
            rest
        }
        None if help.is_empty() => return roff,
        None => {
            roff.control("SH", ["NOTES"]);
            help
        }
    };
    let mut in_example = false;
    for line in rest.lines() {
        if in_example != line.starts_with("  ") {
            in_example = !in_example;
            roff.control(if in_example { "nf" } else { "fi" }, []);
        }
        match line {
            "" => roff.control("PP", []),
            line => roff.text([roman(line)]),
        };
    }
    if in_example {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_explain_the_exit_status_the_environment_and_the_files() {
        let mut tree = crate::command();
        tree.build();
        let page = page(&tree, &["svc".to_owned()]).expect("a page");
        for (section, entry) in [
            ("EXIT STATUS", "\\fB10\\fR"),
            ("ENVIRONMENT", "\\fBSVC_PROFILE\\fR"),
            ("FILES", "svc/config.toml"),
        ] {
            let start = page
                .find(&format!(".SH \"{section}\""))
                .or_else(|| page.find(&format!(".SH {section}")));
            let rest = &page[start.expect(section)..];
            assert!(rest.contains(entry), "{section}: {rest}");
        }
    }
}
