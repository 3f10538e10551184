//! Deletes what is beyond `--keep` and `--keep-for`.

pub(crate) mod retention_rows;
pub(crate) mod retention_rules;
