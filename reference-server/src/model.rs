//! The domain model: addresses, statuses, events, ids, times and errors. No I/O.

#[macro_use]
mod names;

pub(crate) mod address;
pub(crate) mod dns;
pub(crate) mod event;
pub(crate) mod integer;
pub(crate) mod one_or_many;
pub(crate) mod schema;
pub(crate) mod scope;
pub(crate) mod status;
pub(crate) mod time;
pub(crate) mod timestamp;

#[cfg(feature = "server")]
pub(crate) mod addresses;
#[cfg(feature = "server")]
pub(crate) mod error;
#[cfg(feature = "server")]
pub(crate) mod id;
#[cfg(feature = "server")]
pub(crate) mod key;
#[cfg(feature = "server")]
pub(crate) mod nearest;
#[cfg(feature = "server")]
pub(crate) mod network;
#[cfg(feature = "server")]
pub(crate) mod redact;
#[cfg(feature = "server")]
pub(crate) mod terms;
#[cfg(feature = "server")]
pub(crate) mod typed;

pub(crate) use dns::{Record, RecordKind};
pub(crate) use status::{Change, RecipientState, Status};
pub(crate) use timestamp::Timestamp;

#[cfg(feature = "server")]
pub(crate) use {
    address::{Address, DomainName, Mailbox},
    addresses::Addresses,
    error::{Code, ErrorObject, Failure, Problems, Result},
    event::Event,
    network::Network,
    terms::{MAX_SEARCHED, Terms},
    time::Millis,
};
