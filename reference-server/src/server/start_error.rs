//! [`StartError`]: why a server did not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::seeds::seed_file::InvalidSeed;
use crate::store::data_dir::RunningServer;

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another server uses the data directory. Use that server, stop it, or choose
    /// another directory.
    #[error("another server is running on {}{}", .directory.display(), at(.running.as_ref()))]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The other server, or `None` if it is still starting.
        running: Option<RunningServer>,
    },
    /// The data directory cannot be used. Check that it is writable.
    #[error("cannot use the data directory {}", .directory.display())]
    Directory {
        /// The data directory.
        directory: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// The database cannot be opened. The message contains the reason.
    #[error("cannot open the database: {0}")]
    Database(String),
    /// The listen address is not a loopback address, and no network was chosen. Choose
    /// [`Network::Trusted`](crate::Network::Trusted) or [`Network::Public`](crate::Network::Public).
    #[error(
        "{addr} is not a loopback address: choose the network `trusted` (containers, CI, a team: \
         seeded keys, open control interface) or `public` (no seed data, control token)"
    )]
    BeyondLoopback {
        /// The listen address.
        addr: SocketAddr,
    },
    /// There is a mistake in the seed file. Nothing of it was applied.
    #[error("the seed file is not valid: {0}")]
    Seed(#[source] InvalidSeed),
    /// The listen address of a public server was not given.
    #[error("a public server needs a listen address")]
    NoAddress,
    /// An address is already in use, or does not belong to this machine.
    #[error("cannot listen on {addr} for {what}")]
    Listen {
        /// The listen address.
        addr: SocketAddr,
        /// The protocol: `http`, `dns` or `smtp`.
        what: &'static str,
        /// The underlying error.
        source: std::io::Error,
    },
}

fn at(running: Option<&RunningServer>) -> String {
    running
        .map(|running| format!(" at {}", running.base_url()))
        .unwrap_or_default()
}
