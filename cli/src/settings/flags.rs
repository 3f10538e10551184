//! `GlobalFlags`: the options that every command takes, as they were typed. `given` returns the one
//! that sets a setting of `table.rs`, `of_service` those that another command line needs to reach
//! the same service, and `found_in` what can be read from a command line that does not parse. What
//! they mean together with environment and profile is resolved in `resolve.rs`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice, Command, FromArgMatches as _, ValueHint};
use serde_json::Value as Json;

use crate::input::duration;
use crate::output::Format;

/// Options that every command takes.
///
/// They are global, and hidden in the short help (`-h`), which names some of them in its last line:
/// see `app::command`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct GlobalFlags {
    /// Use the sandbox and its keys; no live service is contacted [env: SVC_SANDBOX=1]
    ///
    /// A key in the environment is used if the sandbox has issued it, and otherwise not sent.
    #[arg(long)]
    pub sandbox: bool,

    /// Profile: a named set of base URLs and keys [env: SVC_PROFILE] [default: the active profile]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,

    /// Base URL of the email service [env: SVC_EMAIL_URL]
    #[arg(long, value_name = "URL")]
    pub email_url: Option<String>,

    /// Base URL of the extraction service [env: SVC_EXTRACTION_URL]
    #[arg(long, value_name = "URL")]
    pub extraction_url: Option<String>,

    /// File with the API key, `-` for standard input; the environment variables hold the key itself [env: SVC_EMAIL_KEY, SVC_EXTRACTION_KEY, or SVC_EMAIL_KEY_FILE, SVC_EXTRACTION_KEY_FILE]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,

    /// File with more environment variables, one NAME=VALUE per line
    #[arg(long, value_name = "PATH")]
    pub env_file: Option<PathBuf>,

    /// Output format: table, json, ndjson or csv [env: SVC_OUTPUT] [default: table on a terminal, json otherwise]
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true, overrides_with_all = ["output", "json"])]
    pub output: Option<Format>,

    /// Same as --output json
    #[arg(long, overrides_with_all = ["output", "json"])]
    pub json: bool,

    /// Show every column of a table, even beyond the width of the terminal
    #[arg(long)]
    pub wide: bool,

    /// In CSV, write an apostrophe before a cell that a spreadsheet would calculate (= + - @)
    #[arg(long)]
    pub safe_cells: bool,

    /// Filter the JSON output with a jq expression; with ndjson, each line separately
    #[arg(long, value_name = "FILTER")]
    pub jq: Option<String>,

    /// Print the request, with the key masked, instead of sending it
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,

    /// Time limit over all attempts, such as 500ms, 30s or 2m [default: 30s; certify, bulk: 5m]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration::limit,
        allow_hyphen_values = true
    )]
    pub timeout: Option<String>,

    /// Maximum number of retries [default: 2]
    ///
    /// A request that may have taken effect is retried only if it is idempotent.
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,

    /// PEM file with trusted CA certificates [env: SSL_CERT_FILE; proxies: HTTPS_PROXY, NO_PROXY]
    #[arg(long, value_name = "PATH")]
    pub ca_bundle: Option<PathBuf>,

    /// Suppress progress and hints
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Log requests, attempts and request ids to standard error; -vv: headers and bodies, too
    ///
    /// With -vv, users' content is shown, the first 4 KiB of each body. Keys, signing secrets and
    /// fields whose name says that they are secret are masked.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Color output: auto, always or never [env: NO_COLOR, CLICOLOR_FORCE] [default: auto]
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<ColorChoice>,
}

impl GlobalFlags {
    /// The option that gives a setting, and its value.
    pub(super) fn given(&self, setting: &str) -> Option<(&'static str, Json)> {
        Some(match setting {
            "profile" => ("--profile", self.profile.clone()?.into()),
            "sandbox" => ("--sandbox", self.sandbox.then_some(true)?.into()),
            "email_url" => ("--email-url", self.email_url.clone()?.into()),
            "extraction_url" => ("--extraction-url", self.extraction_url.clone()?.into()),
            "output" if self.json => ("--json", Format::Json.name().into()),
            "output" => ("--output", self.output?.name().into()),
            "timeout" => ("--timeout", self.timeout.clone()?.into()),
            "retries" => ("--retries", self.retries?.into()),
            "ca_bundle" => (
                "--ca-bundle",
                self.ca_bundle.as_ref()?.display().to_string().into(),
            ),
            _ => return None,
        })
    }

    /// The options that decide about the service, for another command line.
    pub fn of_service(&self) -> Vec<OsString> {
        let options: [(_, Option<OsString>); 8] = [
            ("--profile", self.profile.clone().map(Into::into)),
            ("--email-url", self.email_url.clone().map(Into::into)),
            (
                "--extraction-url",
                self.extraction_url.clone().map(Into::into),
            ),
            ("--key-file", self.key_file.clone().map(Into::into)),
            ("--env-file", self.env_file.clone().map(Into::into)),
            ("--ca-bundle", self.ca_bundle.clone().map(Into::into)),
            ("--timeout", self.timeout.clone().map(Into::into)),
            (
                "--retries",
                self.retries.map(|retries| retries.to_string().into()),
            ),
        ];
        let sandbox = self.sandbox.then(|| "--sandbox".into());
        let given = options
            .into_iter()
            .filter_map(|(option, value)| Some([option.into(), value?]));
        given.flatten().chain(sandbox).collect()
    }

    /// The options that decide about the output and the service, anywhere in a command line that may
    /// be wrong or incomplete.
    pub fn found_in(args: &[OsString]) -> Self {
        let options = Command::new("svc")
            .no_binary_name(true)
            .disable_help_flag(true);
        let mut options = Self::augment_args(options).ignore_errors(true);
        let args = args.split(|arg| arg == "--").next().unwrap_or_default();
        let mut found = Self::default();
        // The parser stops at the first word that it does not know, so it starts at each of them.
        for index in 0..args.len() {
            let words = args[index..].iter().take(2);
            let Ok(matches) = options.try_get_matches_from_mut(words) else {
                continue;
            };
            let sandbox = found.sandbox;
            let json = found.json;
            let _ = found.update_from_arg_matches(&matches);
            found.sandbox |= sandbox;
            found.json |= json;
        }

        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_options_at_any_position() {
        let words = [
            "svc",
            "--profile=p",
            "emails",
            "--email-url",
            "http://x",
            "--",
            "--sandbox",
        ];
        let flags = GlobalFlags::found_in(&words.map(OsString::from));
        assert_eq!(flags.profile.as_deref(), Some("p"));
        assert_eq!(flags.email_url.as_deref(), Some("http://x"));
        assert!(!flags.sandbox);
    }
}
