//! Tests of the reference server against third-party mail and DNS software, and of
//! `svc certify` with receivers made with other projects' libraries.
