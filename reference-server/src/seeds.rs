//! What a server has from its start, and what a reset restores (`docs/sandbox.md#seeds`).

pub(crate) mod seed_api;
pub(crate) mod seed_file;
pub(crate) mod seed_rules;
