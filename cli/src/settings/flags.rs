//! The global options as clap parses them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches as _, ValueEnum as _, ValueHint};

use super::{SettingValue, Source, Sourced};
use crate::input::duration;
use crate::output::{ColorChoice, Format};

/// Options that every command takes.
///
/// They are hidden in the short help (`-h`), which names some of them in its last line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct GlobalFlags {
    /// Use the sandbox and its seeded keys; no live service is contacted [env: SVC_SANDBOX=1]
    #[arg(long, global = true, hide_short_help = true)]
    pub sandbox: bool,

    /// Profile: a named set of base URLs and keys [env: SVC_PROFILE] [default: the active profile]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub profile: Option<String>,

    /// Base URL of the email service [env: SVC_EMAIL_URL]
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub email_url: Option<String>,

    /// Base URL of the extraction service [env: SVC_EXTRACTION_URL]
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub extraction_url: Option<String>,

    /// File with the API key, `-` for standard input; the environment variables hold the key itself [env: SVC_EMAIL_KEY, SVC_EXTRACTION_KEY, or SVC_EMAIL_KEY_FILE, SVC_EXTRACTION_KEY_FILE]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "PATH",
        value_hint = ValueHint::FilePath
    )]
    pub key_file: Option<PathBuf>,

    /// File with more environment variables, one NAME=VALUE per line
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH")]
    pub env_file: Option<PathBuf>,

    /// Output format: table, json, ndjson or yaml [env: SVC_OUTPUT] [default: table on a terminal, json otherwise]
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub output: Option<Format>,

    /// Same as --output json
    #[arg(long, global = true, hide_short_help = true, conflicts_with = "output")]
    pub json: bool,

    /// Show every column of a table, even beyond the width of the terminal
    #[arg(long, global = true, hide_short_help = true)]
    pub wide: bool,

    /// Filter the JSON output with a jq expression; with ndjson, each line separately
    #[arg(long, global = true, hide_short_help = true, value_name = "FILTER")]
    pub jq: Option<String>,

    /// Print the request, with the key masked, instead of sending it
    #[arg(long, global = true, hide_short_help = true)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long, global = true, hide_short_help = true)]
    pub yes: bool,

    /// Time limit over all attempts, such as 500ms, 30s or 2m [default: 30s; certify, bulk: 5m]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "DURATION",
        value_parser = duration::parse_limit,
        allow_hyphen_values = true
    )]
    pub timeout: Option<Duration>,

    /// Maximum number of retries [default: 2]
    ///
    /// A request that may have taken effect is retried only if it is idempotent.
    #[arg(long, global = true, hide_short_help = true, value_name = "N")]
    pub retries: Option<u32>,

    /// Idempotency-Key header, for commands that create something
    #[arg(long, global = true, hide_short_help = true, value_name = "KEY")]
    pub idempotency_key: Option<String>,

    /// PEM file with trusted CA certificates [env: SSL_CERT_FILE; proxies: HTTPS_PROXY, NO_PROXY]
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH")]
    pub ca_bundle: Option<PathBuf>,

    /// Suppress progress and hints
    #[arg(short, long, global = true, hide_short_help = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Log requests, attempts and request ids to standard error
    #[arg(short, long, global = true, hide_short_help = true)]
    pub verbose: bool,

    /// Color output: auto, always or never [env: NO_COLOR, CLICOLOR_FORCE] [default: auto]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        hide_possible_values = true
    )]
    pub color: Option<ColorChoice>,
}

impl GlobalFlags {
    /// The value of a setting that an option gives, and the option.
    pub(super) fn given(&self, setting: &str) -> Option<Sourced<SettingValue>> {
        let (option, value) = match setting {
            "profile" => ("--profile", SettingValue::Text(self.profile.clone()?)),
            "sandbox" => ("--sandbox", SettingValue::Flag(self.sandbox.then_some(true)?)),
            "email_url" => ("--email-url", SettingValue::Text(self.email_url.clone()?)),
            "extraction_url" => {
                ("--extraction-url", SettingValue::Text(self.extraction_url.clone()?))
            }
            "output" if self.json => ("--json", SettingValue::Text("json".to_owned())),
            "output" => {
                let name = self.output?.to_possible_value()?.get_name().to_owned();
                ("--output", SettingValue::Text(name))
            }
            "timeout" => ("--timeout", SettingValue::Duration(self.timeout?)),
            "retries" => ("--retries", SettingValue::Number(self.retries?)),
            "ca_bundle" => ("--ca-bundle", SettingValue::Path(self.ca_bundle.clone()?)),
            _ => return None,
        };
        Some(Sourced { value, source: Source::Option(option) })
    }

    /// The options that decide about the output, anywhere in a command line that may be wrong.
    pub fn found_in(args: &[OsString]) -> Self {
        let options = Command::new("svc").no_binary_name(true).disable_help_flag(true);
        let mut options = Self::augment_args(options).ignore_errors(true);
        let args = args.split(|arg| arg == "--").next().unwrap_or_default();
        let mut found = Self::default();
        // The parser stops at the first word that it does not know, so it starts at each of them.
        for index in 0..args.len() {
            let words = args[index..].iter().take(2);
            let matches = options.try_get_matches_from_mut(words).ok();
            let Some(Ok(flags)) = matches.map(|found| Self::from_arg_matches(&found)) else {
                continue;
            };
            found.output = flags.output.or(found.output);
            found.json |= flags.json;
            found.jq = flags.jq.or(found.jq);
            found.color = flags.color.or(found.color);
        }
        found
    }
}
