//! `svc` drives the email-sending and the document-extraction service from a
//! terminal, a script or an agent.
//!
//! The program is a library, so that tests can build its command tree and walk
//! it:
//!
//! ```
//! let tree = svc_cli::command();
//! assert!(tree.find_subcommand("emails").is_some());
//! ```

#![expect(
    unreachable_pub,
    reason = "what is public is decided here, at the end of this file; inside, everything may be used"
)]

mod advice;
mod app;
mod changes;
mod command_line;
mod command_spec;
mod commands;
mod complete;
mod confirm;
mod context;
mod control;
mod deliver;
mod dns;
mod dry_run;
mod exit;
mod failure;
mod input;
mod output;
mod recorded;
mod sandbox;
mod sdk_error;
mod sent;
mod settings;
mod stop;
mod wait;

pub use app::{command, main};
pub use command_spec::{COMMANDS, CommandSpec, Effect};
pub use exit::TABLE as EXIT_CODES;
