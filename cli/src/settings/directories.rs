//! Where `svc` keeps its files.

use std::path::Path;
use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use etcetera::base_strategy::choose_native_strategy;

use super::env::Env;

/// In place of the home directory of a user who has neither an entry nor `HOME`, as in containers.
/// Nothing can be read or written below it, and an error about a file there says what to do.
const UNKNOWN_HOME: &str = "/dev/null/unknown home directory, set HOME";

/// Whether a path stands for one in an unknown home directory.
pub fn is_unknown(path: &Path) -> bool {
    path.starts_with(UNKNOWN_HOME)
}

/// The directories for configuration and for data.
pub(super) fn directories(env: &Env) -> (PathBuf, PathBuf) {
    let unknown = || PathBuf::from(UNKNOWN_HOME);
    let native = |of: fn(&Native) -> PathBuf| Some(of(&choose_native_strategy().ok()?));
    let config =
        directory(env, "XDG_CONFIG_HOME", ".config").or_else(|| native(Native::config_dir));
    let data = directory(env, "XDG_DATA_HOME", ".local/share").or_else(|| native(Native::data_dir));
    (
        config.unwrap_or_else(unknown).join("svc"),
        data.unwrap_or_else(unknown).join("svc"),
    )
}

/// The directory for state; `None` on a system that has none.
pub(super) fn state_directory(env: &Env) -> Option<PathBuf> {
    let native = || choose_native_strategy().ok()?.state_dir();
    Some(
        directory(env, "XDG_STATE_HOME", ".local/state")
            .or_else(native)?
            .join("svc"),
    )
}

/// The home directory of the user.
pub fn home_directory(env: &Env) -> PathBuf {
    let home = env.path("HOME").filter(|_| cfg!(unix));
    home.or_else(|| etcetera::home_dir().ok())
        .unwrap_or_else(|| PathBuf::from(UNKNOWN_HOME))
}

/// Where editors and other applications keep their settings: `~/.config`, on macOS
/// `~/Library/Application Support`, on Windows `%APPDATA%`.
pub fn applications_directory(env: &Env) -> PathBuf {
    let (variable, in_home) = match std::env::consts::OS {
        "macos" => (None, "Library/Application Support"),
        "windows" => (Some("APPDATA"), "AppData/Roaming"),
        _ => (Some("XDG_CONFIG_HOME"), ".config"),
    };
    let named = variable.and_then(|variable| env.path(variable));
    named.unwrap_or_else(|| home_directory(env).join(in_home))
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
    let home = || {
        env.path("HOME")
            .filter(|_| has_xdg)
            .map(|home| home.join(below_home))
    };
    env.path(variable).or_else(home)
}
