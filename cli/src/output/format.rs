//! The format of the output, as options name it.

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
    /// A header line and one line per object
    Csv,
    /// Lines of a zone file; of `svc domains records`
    #[value(hide = true)]
    Bind,
    /// Resources of the type aws_route53_record; of `svc domains records`
    #[value(hide = true)]
    Terraform,
}

impl Format {
    /// The name that `--output` takes.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether only `svc domains records` has it.
    pub fn is_of_dns_records(self) -> bool {
        matches!(self, Self::Bind | Self::Terraform)
    }
}
