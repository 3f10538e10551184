//! Settings: flags, environment, `--env-file`, profile and defaults, resolved once by precedence.

mod credentials;
mod directories;
pub mod env;
pub mod files;
pub mod flags;
pub mod guard;
mod hour;
pub mod key;
pub mod keyring;
mod proxy;
mod resolve;
mod source;

pub use credentials::Credentials;
pub use env::{Env, key_variable, url_setting_names};
pub use files::{Compatibility, Profiles};
pub use flags::GlobalFlags;
pub use guard::Guard;
pub use key::Key;
pub use proxy::Proxies;
pub use resolve::{Settings, color_choice, unknown_profile};
pub use source::{Source, Sourced};
