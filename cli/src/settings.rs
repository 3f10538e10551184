//! Settings: flags, environment, `--env-file`, profile and defaults, resolved once by precedence.

pub mod dialect;
mod directories;
mod env;
mod files;
pub mod flags;
mod guard;
pub mod key;
mod key_command;
mod proxy;
mod resolve;
pub mod table;

pub use directories::{applications_directory, home_directory, is_unknown};
pub use env::{Env, key_variables, url_setting_names};
pub use files::{ProfileFile, read_if_present};
pub use flags::GlobalFlags;
pub use guard::Guard;
pub use key::Key;
pub use proxy::Proxies;
pub use resolve::Sourced;
pub use resolve::{
    Settings, Source, color_choice, is_same_base_url, key_command_entry, two_keys, unknown_profile,
    url_entry,
};
