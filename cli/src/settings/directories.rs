//! Where `svc` keeps its files.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use etcetera::base_strategy::choose_native_strategy;

use super::env::Env;
use crate::failure::Failure;

/// The directories for configuration and for data.
pub(super) fn directories(env: &Env) -> Result<(PathBuf, PathBuf), Failure> {
    let unknown = || Failure::other("cannot determine the home directory: set HOME");
    let native = |of: fn(&Native) -> PathBuf| Some(of(&choose_native_strategy().ok()?));
    let config = directory(env, "XDG_CONFIG_HOME", ".config")
        .or_else(|| native(|native| native.config_dir()));
    let data = directory(env, "XDG_DATA_HOME", ".local/share")
        .or_else(|| native(|native| native.data_dir()));
    Ok((config.ok_or_else(unknown)?.join("svc"), data.ok_or_else(unknown)?.join("svc")))
}

/// The directory for state; `None` on a system that has none.
pub(super) fn state_directory(env: &Env) -> Option<PathBuf> {
    let native = || choose_native_strategy().ok()?.state_dir();
    Some(directory(env, "XDG_STATE_HOME", ".local/state").or_else(native)?.join("svc"))
}

#[cfg(windows)]
type Native = etcetera::base_strategy::Windows;
#[cfg(any(target_os = "macos", target_os = "ios"))]
type Native = etcetera::base_strategy::Apple;
#[cfg(not(any(windows, target_os = "macos", target_os = "ios")))]
type Native = etcetera::base_strategy::Xdg;

/// The directory that a variable names, or, where the XDG rules apply, one below `HOME`.
fn directory(env: &Env, variable: &str, below_home: &str) -> Option<PathBuf> {
    let has_xdg = cfg!(all(unix, not(any(target_os = "macos", target_os = "ios"))));
    let home = || env.path("HOME").filter(|_| has_xdg).map(|home| home.join(below_home));
    env.path(variable).or_else(home)
}
