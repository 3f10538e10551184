//! The reference server against other people's mail software.

mod dkim;
mod sandbox;
mod smtp;
