//! Peers that fail at every stage of a call, on real sockets: what the client
//! says became of the request is right, and no send reaches the peer twice
//! unless its first try certainly was not processed.

mod answers;
mod connections;
mod peer;
mod redirects;
mod table;
mod time;
