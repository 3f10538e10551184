//! The server over raw HTTP: what stands on the wire, typed by hand from the
//! documents.

mod audiences;
mod auth;
mod batch;
mod clock;
mod contacts;
mod control;
mod deliveries;
mod dns;
mod domains;
mod durable;
mod emails;
mod extraction;
mod faults;
mod harness;
mod inbound;
mod limits;
mod messages;
mod once;
mod raw;
mod receiver;
mod replay;
mod requests;
mod switches;
mod templates;
mod webhooks;
