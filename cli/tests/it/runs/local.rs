//! `svc agent`, `completions`, `man`, `schema`, `help`, `mcp` and `version`. Snapshots show the start of
//! long output.

use super::row::{Row, Situation, Stream};

pub fn rows() -> Vec<Row> {
    vec![
        Row::here("agent setup", "agent setup codex")
            .wrong("agent setup claude")
            .never(Situation::NotFound, "an unknown client is a usage error")
            .also("of any client", 0, "agent setup"),
        Row::here("completions", "completions bash")
            .head(3)
            .wrong("completions tcsh")
            .never(Situation::NotFound, "it takes no id"),
        Row::here("man", "man")
            .head(5)
            .only(Stream::Pipe)
            .also("on a terminal", 2, "man")
            .only(Stream::Terminal)
            .wrong("man pages here")
            .never(Situation::NotFound, "it takes no id")
            .also(
                "into a directory",
                0,
                "man pages --jq '.pages | length > 60'",
            )
            .also("into a file", 2, "man notes.txt"),
        Row::here("schema", "schema audiences get")
            .head(20)
            .wrong("schema audiences lost")
            .never(Situation::NotFound, "an unknown command is a usage error"),
        Row::here("help", "help emails get")
            .head(12)
            .wrong("help emails lost")
            .never(Situation::NotFound, "an unknown command is a usage error"),
        Row::here("mcp", "mcp")
            // On a terminal, it waits for messages.
            .only(Stream::Pipe)
            .wrong("mcp --listen everywhere")
            .never(Situation::NotFound, "it takes no id"),
        Row::here("version", "version")
            .wrong("version 2")
            .never(Situation::NotFound, "it takes no id")
            .also("as JSON", 0, "version --json"),
    ]
}
