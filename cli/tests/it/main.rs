//! Integration tests of `svc` as a process: standard output, standard error and exit code are
//! checked together.
#![expect(unreachable_pub, reason = "a test binary has no public interface")]

#[cfg(target_os = "linux")]
mod agent;
mod between_runs;
#[cfg(unix)]
mod bulk;
mod certify;
mod complete;
#[cfg(unix)]
mod conform;
mod contacts;
mod doctor;
mod domains;
mod errors;
mod every_command;
mod examples;
mod help;
mod hostile;
#[cfg(unix)]
mod listen;
mod mcp;
mod names;
mod options;
mod output;
mod process;
mod profile;
#[cfg(unix)]
mod prompts;
#[cfg(unix)]
mod pty;
mod recipient_guard;
mod reference;
#[cfg(unix)]
mod runs;
mod sandbox;
mod schema;
mod secrets;
mod settings;
#[cfg(unix)]
mod shells;
mod sign;
mod single_emails;
mod support;
#[cfg(unix)]
mod terminal;
mod tidy;
mod tls;
mod tree;
mod usage;
mod waits;
mod words;
