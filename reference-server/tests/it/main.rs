//! Integration tests over raw HTTP. The expected JSON is written by hand from the
//! services' reference, not generated from the server's types.

mod attacks;
mod audiences;
mod auth;
mod batch;
mod client;
mod clock;
mod contacts;
mod control;
mod crash;
mod deliveries;
mod description;
mod descriptors;
mod dialect;
mod dns;
mod domains;
mod due;
mod durable;
mod emails;
mod endpoints;
mod extraction;
mod faults;
mod full;
mod harness;
mod idempotency;
mod inbound;
mod limits;
mod logs;
mod messages;
mod migrations;
mod misbehaving_clients;
mod network;
mod notifications;
mod openapi;
mod page;
mod promises;
mod raw;
mod receiver;
mod relay;
mod replay;
mod requests;
mod search;
mod seed_file;
mod smtp;
mod stop;
mod story;
mod templates;
mod tracking;
mod webhooks;

/// As in `svc`, for the tests of what memory the server takes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
