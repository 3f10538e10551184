//! Words of other programs, as data: for each, what it probably means here. Misspellings need no row.
//!
//! The first column is where the row applies: at a command or in the group, and everywhere below. The
//! first row that fits decides, so special rows come first.

/// Everywhere.
const ANY: &str = "svc";

/// Options: where, what was typed, and candidates, of which the first that the command has is
/// suggested. A candidate is an option (`--to`), an argument (`<URL>`), or a sentence, in which
/// `{path}` stands for the command.
///
/// Capitals and underscores do not matter: `--sendAt` and `--send_at` are `--send-at`.
pub(super) const OPTIONS: &[(&str, &[&str], &[&str])] = &[
    (ANY, &["--sender", "--from-address"], &["--from"]),
    (ANY, &["--email", "--recipient"], &["<EMAIL>", "--to"]),
    (ANY, &["--title"], &["--subject"]),
    (ANY, &["--schedule", "--scheduled-at", "--send-at"], &["--at"]),
    (ANY, &["--attachment", "--attachments"], &["--attach"]),
    (ANY, &["--limit", "--per-page"], &["--page-size"]),
    (ANY, &["--port", "--host"], &["--addr", "--forward-to"]),
    (ANY, &["--key", "--api-key", "--token", "--password"], &["--key-file"]),
    (
        ANY,
        &["--url", "--endpoint", "--forward-to"],
        &["<URL>", "--url", "--forward-to", "--to", "--email-url"],
    ),
    (ANY, &["--file", "--input"], &["<FILE>", "--attach", "--body", "--data", "<BODY>"]),
    (
        ANY,
        &["--out", "--output-file", "--save"],
        &["to write to a file, redirect the output: {path} … > FILE"],
    ),
    (ANY, &["--query", "--filter", "--select"], &["--jq"]),
    (ANY, &["--debug", "--trace"], &["--verbose"]),
    (ANY, &["--env", "--environment", "--context", "--region"], &["--profile"]),
    (
        ANY,
        &["-k", "--insecure"],
        &["certificates are always checked; to trust others: --ca-bundle <PATH>"],
    ),
    (ANY, &["--follow", "--watch"], &["--wait"]),
    (ANY, &["--force", "--confirm"], &["--yes"]),
    (ANY, &["--events", "--event-type"], &["--event", "<EVENT>"]),
];

/// Values of `--output`, with what is meant.
pub(super) const FORMATS: &[(&[&str], &str)] = &[
    (&["text", "txt", "plain", "human", "pretty"], "did you mean table?"),
    (&["wide"], "did you mean --wide?"),
];

/// Subcommands: where, what was typed, and the hint.
pub(super) const COMMANDS: &[(&str, &[&str], &str)] = &[
    (
        "svc emails",
        &["list", "ls"],
        "the service does not list emails; one email: svc emails get ID\n\
         those of the local server: svc sandbox emails list",
    ),
    (
        "svc emails",
        &["delete", "remove"],
        "did you mean svc emails cancel? it stops a scheduled email",
    ),
    ("svc profiles", &["add", "create"], "svc login creates a profile: svc login --profile NAME"),
    ("svc", &["status"], "the setup: svc doctor; the local server: svc sandbox status"),
    ("svc", &["logs", "events", "tail"], "webhook deliveries as they arrive: svc listen"),
    ("svc", &["configure", "init", "auth"], "did you mean svc login?"),
    ("svc", &["start", "dev", "server"], "did you mean svc sandbox serve?"),
    ("svc", &["broadcasts", "newsletter"], "did you mean svc bulk send?"),
    (
        "svc",
        &["keys", "api-keys"],
        "create keys in the service's dashboard and store them: svc login",
    ),
    ("svc", &["forward", "tunnel"], "did you mean svc listen?"),
];

/// Subcommands in any group: what was typed, and ours, of which the first that the group has is
/// suggested.
pub(super) const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["add", "new", "create"], &["create", "add"]),
    (&["remove", "destroy", "delete"], &["delete", "remove"]),
    (&["edit", "set"], &["update", "put"]),
    (&["view", "show", "get", "list"], &["get", "show", "status", "list"]),
];
