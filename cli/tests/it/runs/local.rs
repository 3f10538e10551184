//! `svc completions`, `man` and `schema`: documents, of which the beginning is shown.

use super::row::{Row, Situation};

pub fn rows() -> Vec<Row> {
    vec![
        Row::here("completions", "completions bash")
            .head(3)
            .wrong("completions tcsh")
            .never(Situation::NotFound, "it names nothing"),
        Row::here("man", "man")
            .head(5)
            .wrong("man pages here")
            .never(Situation::NotFound, "it names nothing")
            .also("into a directory", 0, "man pages --jq '.pages | length > 60'")
            .also("into what is a file", 2, "man notes.txt"),
        Row::here("schema", "schema audiences get")
            .head(20)
            .wrong("schema audiences lost")
            .never(Situation::NotFound, "a command that does not exist is wrong usage"),
    ]
}
