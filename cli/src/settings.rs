//! From what was typed to what it means: flags, environment, profile and
//! defaults, with precedence applied once.

pub mod env;
pub mod files;
pub mod flags;
pub mod key;
pub mod keyring;
mod proxy;
mod resolve;

pub use env::Env;
pub use files::{Credentials, Profiles, Wire};
pub use flags::{GlobalFlags, OutputFormat};
pub use key::Key;
pub use proxy::Proxies;
pub use resolve::{Settings, Source, Sourced};
