//! Outgoing connections that are not mail: webhook attempts; and for all, TLS and the name
//! servers.

pub(crate) mod certificate;
pub(crate) mod name_servers;
pub(crate) mod outbound;
pub(crate) mod target;
pub(crate) mod tls;

/// Whether the process or the machine has no free file descriptor (`EMFILE`, `ENFILE`).
pub(crate) fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// How long to wait for a free file descriptor before the next try.
pub(crate) const DESCRIPTOR_WAIT: std::time::Duration = std::time::Duration::from_millis(500);
