//! The global options as they are typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use crate::complete::Values;
use crate::input::duration;
use crate::output::{ColorChoice, Format};

/// Options that every command takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct GlobalFlags {
    /// Use the local server with its seeded keys; nothing leaves this machine [env: SVC_SANDBOX=1]
    #[arg(long, global = true)]
    pub sandbox: bool,

    /// Use a named set of addresses and keys [env: SVC_PROFILE]
    #[arg(long, global = true, value_name = "NAME", add = Values::Profile.candidates())]
    pub profile: Option<String>,

    /// Base address of the email service [env: SVC_EMAIL_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub email_url: Option<String>,

    /// Base address of the extraction service [env: SVC_EXTRACTION_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub extraction_url: Option<String>,

    /// Read the key from a file, `-` for standard input [env: SVC_EMAIL_KEY, SVC_EXTRACTION_KEY hold the keys themselves]
    #[arg(long, global = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,

    /// Read more environment variables from a file
    #[arg(long, global = true, value_name = "PATH")]
    pub env_file: Option<PathBuf>,

    /// Write results as table, json, ndjson or yaml; default: table on a terminal, JSON when piped [env: SVC_OUTPUT]
    #[arg(short, long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<OutputFormat>,

    /// Write results as JSON
    #[arg(long, global = true, conflicts_with = "output")]
    pub json: bool,

    /// Filter the JSON with a jq expression: with NDJSON each line on its own, else the whole answer, a list included
    #[arg(long, global = true, value_name = "FILTER")]
    pub jq: Option<String>,

    /// Print the request, with the key masked, and send nothing
    #[arg(long, global = true)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long, global = true)]
    pub yes: bool,

    /// One deadline over all attempts, such as 30s
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,

    /// How many times to repeat at most what may be repeated
    #[arg(long, global = true, value_name = "N")]
    pub retries: Option<u32>,

    /// Send this Idempotency-Key with a creating operation
    #[arg(long, global = true, value_name = "KEY")]
    pub idempotency_key: Option<String>,

    /// Trust the certificates in this PEM file [env: SSL_CERT_FILE; proxies: HTTPS_PROXY, NO_PROXY]
    #[arg(long, global = true, value_name = "PATH")]
    pub ca_bundle: Option<PathBuf>,

    /// No progress and no hints
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Show requests, attempts and request ids on standard error
    #[arg(short, long, global = true)]
    pub verbose: bool,

    /// When to use colours: auto, always or never [env: NO_COLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<ColorChoice>,
}

/// The formats as they are typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// One JSON document a line, as they come
    Ndjson,
    /// One YAML document
    Yaml,
}

impl From<OutputFormat> for Format {
    fn from(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Table => Self::Table,
            OutputFormat::Json => Self::Json,
            OutputFormat::Ndjson => Self::Ndjson,
            OutputFormat::Yaml => Self::Yaml,
        }
    }
}
