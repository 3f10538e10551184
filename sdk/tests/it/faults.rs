//! Faulty servers that fail at every stage of a call, on real sockets.
//!
//! The tests check that the client reports the right outcome, and that no send reaches the
//! server twice unless the first attempt was certainly not processed.

mod connections;
mod faulty_server;
mod matrix;
mod redirects;
mod responses;
mod timeouts;
