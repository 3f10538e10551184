//! `svc`, the command-line client of the email-sending and the document-extraction service.
//!
//! The program is a library so that tests can build and inspect its command tree ([`command`]), and
//! [`run`] it in their own process.

#![expect(
    unreachable_pub,
    reason = "the public items are re-exported at the end of this file"
)]

#[macro_use]
mod command_tree;

mod app;
mod browser;
mod command_line;
mod command_spec;
mod commands;
mod complete;
mod contact_pages;
mod context;
mod control;
mod deliver;
mod diagnose;
mod dns;
mod dry_run;
mod events;
mod exit;
mod failure;
mod follow;
mod hints;
mod input;
mod output;
mod output_schema;
mod path_in_json;
mod pending_changes;
mod prepared;
mod private_files;
mod process;
mod recorded_deliveries;
mod resource;
mod sandbox;
mod sdk_error;
mod settings;
mod signing;
mod spelling;
mod stop;
mod suggest;
mod time_options;
mod urls;
mod usage;
mod zone;

pub use app::{command, main, run};
pub use command_spec::{CommandSpec, Effect};
pub use exit::TABLE as EXIT_CODES;
pub use process::{Process, Terminals};
pub use zone::Zone;

/// Every command without subcommands, in the order of the help.
pub fn commands() -> Vec<CommandSpec> {
    command_spec::all(&command())
}

/// Reads a file of people or emails, for fuzzing. Returns the numbers of its records, or why it is
/// refused.
#[doc(hidden)]
pub fn read_records(content: Vec<u8>) -> Result<Vec<u64>, String> {
    let refused = |failure: failure::Failure| failure.message.clone();
    let reader = Box::new(std::io::Cursor::new(content));
    let mut records =
        input::records::Records::new(reader, std::path::Path::new("file")).map_err(refused)?;
    let mut rule = input::opt_outs::OptOuts::default();
    let mut numbers = Vec::new();
    while let Some(record) = records.next().map_err(refused)? {
        rule.judge(&record, None);
        numbers.push(record.number);
    }

    Ok(numbers)
}
