//! The format and the colors of the output, as options name them.

use clap::ValueEnum;

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    // Written as soon as it is available.
    Ndjson,
    /// One YAML document
    Yaml,
    /// A header line and one line per object
    Csv,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Even if standard output is not a terminal.
    Always,
    /// Never.
    Never,
}
