//! Tests of the reference server against third-party mail and DNS software.

mod dig;
mod dkim;
mod sandbox;
mod smtp;
