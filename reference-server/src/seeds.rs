//! The content of a server at its start, which a reset restores (`docs/sandbox.md#seeds`).

pub(crate) mod seed_api;
pub(crate) mod seed_file;
pub(crate) mod seed_rules;
