//! Tests of the reference server against third-party mail and DNS software, and of
//! `svc certify` with receivers made with other projects' libraries.

mod dig;
mod dkim;
mod reading;
mod receivers;
mod sandbox;
mod signed;
mod smtp;
