//! Where `svc` keeps its files.

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::env::Env;
use crate::failure::Failure;

/// The directories for configuration and for data.
pub(super) fn directories(env: &Env) -> Result<(PathBuf, PathBuf), Failure> {
    let named = env.path("XDG_CONFIG_HOME").zip(env.path("XDG_DATA_HOME"));
    let (config, data) = match named {
        Some(both) => both,
        None => {
            let strategy = etcetera::base_strategy::choose_native_strategy()
                .map_err(|_| Failure::other("cannot determine the home directory: set HOME"))?;
            (strategy.config_dir(), strategy.data_dir())
        }
    };
    Ok((config.join("svc"), data.join("svc")))
}

/// The directory for state; `None` on a system that has none.
pub(super) fn state_directory(env: &Env) -> Option<PathBuf> {
    let named = env.path("XDG_STATE_HOME");
    let state =
        named.or_else(|| etcetera::base_strategy::choose_native_strategy().ok()?.state_dir());
    Some(state?.join("svc"))
}
