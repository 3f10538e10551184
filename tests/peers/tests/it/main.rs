//! The reference server against other people's mail software.

mod dig;
mod dkim;
mod sandbox;
mod smtp;
