//! Settings: flags, environment, `--env-file`, profile and defaults, resolved once by precedence.

mod credentials;
mod directories;
mod env;
mod files;
pub mod flags;
mod guard;
mod hour;
pub mod key;
pub mod keyring;
mod proxy;
mod resolve;
mod source;
pub mod table;

pub use credentials::Credentials;
pub use env::{Env, key_variable, url_setting_names};
pub use files::Profiles;
pub use flags::GlobalFlags;
pub use guard::Guard;
pub use key::Key;
pub use proxy::Proxies;
pub use resolve::{Settings, UnknownEntry, color_choice, unknown_profile};
pub use source::{Source, Sourced};
pub use table::SettingValue;
