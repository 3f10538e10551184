//! Words of other programs, as data: for each, what it probably means here.
//!
//! The first column of [`OPTIONS`] and [`COMMANDS`] is where the row applies: at a command or in the
//! group, and everywhere below. The first row that fits decides, so special rows come first.

/// Everywhere.
const ANY: &str = "svc";

/// Options: where, what was typed, and candidates, of which the first that the command has is
/// suggested. A candidate is an option (`--to`), an argument (`<URL>`), several options
/// (`--to|--text`), or a sentence. In a sentence, `{path}` stands for the command.
///
/// Capitals and underscores do not matter: `--sendAt` and `--send_at` are `--send-at`.
pub(super) const OPTIONS: &[(&str, &[&str], &[&str])] = &[
    // Delivering recorded events again.
    (
        "svc replay",
        &["--last", "--latest", "--all", "-a"],
        &[
            "give ids of deliveries, or a time: svc replay --since 10m; list them: svc replay --list",
        ],
    ),
    ("svc replay", &["--id", "--event-id"], &["<ID>"]),
    // Webhooks.
    (
        "svc webhooks list",
        &["--event", "--events"],
        &["the list contains the events of each webhook; all events: svc trigger --help"],
    ),
    (
        "svc listen",
        &["--event", "--events"],
        &["some events are forwarded with --route <EVENT=URL>; all events: svc trigger --help"],
    ),
    ("svc listen", &["--skip-verify", "--no-verify", "-k"], &["--insecure"]),
    (
        "svc listen",
        &["--print-secret"],
        &["svc listen keeps the secret of a webhook that it creates, and svc replay uses it"],
    ),
    (
        "svc webhooks update",
        &["--disable", "--disabled", "--enable", "--enabled", "--status", "--state"],
        &["--active"],
    ),
    ("svc trigger", &["--override", "--add", "--edit", "--data", "-d"], &["--set"]),
    ("svc trigger", &["--list"], &["the events are listed by svc trigger --help"]),
    // Contacts.
    (
        "svc contacts create",
        &["--subscribed", "--unsubscribed", "--unsubscribe", "--opt-out"],
        &["a new contact is subscribed; afterwards: svc contacts update EMAIL --subscribed false"],
    ),
    (ANY, &["--unsubscribed", "--unsubscribe", "--opt-out"], &["--subscribed"]),
    (ANY, &["--first-name", "--last-name", "--full-name"], &["--name"]),
    (ANY, &["--audience-id", "--list", "--list-id"], &["--audience", "<AUDIENCE>"]),
    (ANY, &["--cursor", "--after-id", "--starting-after", "--offset"], &["--page"]),
    (ANY, &["--limit", "--per-page", "--max-items", "--max-results"], &["--page-size"]),
    (ANY, &["--metadata", "-m"], &["--meta", "--text"]),
    // Emails.
    (ANY, &["--sender", "--from-address", "--from-email"], &["--from"]),
    (ANY, &["--email", "--address"], &["<EMAIL>", "--to"]),
    (ANY, &["--recipient", "--recipients", "--to-address", "--destination"], &["--to"]),
    (ANY, &["-t"], &["--to|--text"]),
    (ANY, &["-s"], &["--subject", "--service"]),
    (ANY, &["-c"], &["--cc"]),
    (ANY, &["-a"], &["--attach", "--all"]),
    (ANY, &["--title"], &["--subject"]),
    (
        ANY,
        &["--message", "--content", "--plain", "--plain-text", "--text-body"],
        &["--text", "--data"],
    ),
    (ANY, &["--html-body", "--html-file"], &["--html"]),
    (ANY, &["--attachment", "--attachments", "--attach-file"], &["--attach"]),
    (
        ANY,
        &[
            "--schedule",
            "--scheduled",
            "--scheduled-at",
            "--scheduled-for",
            "--send-at",
            "--delay",
            "--when",
        ],
        &["--at"],
    ),
    (ANY, &["--template-id"], &["--template"]),
    (ANY, &["--variable", "--variables", "--template-vars", "--template-data"], &["--var"]),
    // Requests of the API.
    ("svc api", &["-X", "--method", "--request"], &["<METHOD>"]),
    ("svc api", &["--raw-field", "-F"], &["--field"]),
    ("svc api", &["--input", "--body"], &["--data"]),
    // The local server.
    (
        "svc sandbox serve",
        &["-d", "--detach", "--daemon", "--background"],
        &["it runs until Ctrl-C or svc sandbox stop; in the background: svc sandbox serve &"],
    ),
    ("svc sandbox clock", &["--by", "--duration", "--for"], &["<DURATION>"]),
    (ANY, &["--bind", "--listen", "--address"], &["--addr"]),
    (ANY, &["--host"], &["--addr", "--forward-to"]),
    (ANY, &["--port"], &["--addr"]),
    (ANY, &["--addr"], &["--port"]),
    // Keys.
    (ANY, &["--secret", "--signing-secret", "--webhook-secret"], &["--secret-file"]),
    (
        ANY,
        &["--key", "--api-key", "--apikey", "--token", "--password", "--with-token"],
        &["--key-file"],
    ),
    // URLs.
    (
        ANY,
        &["--url", "--endpoint", "--endpoint-url", "--webhook-url", "--target"],
        &["<URL>", "--url", "--forward-to", "--to", "--email-url"],
    ),
    (ANY, &["--forward", "--forward-to", "-u"], &["--forward-to", "--to", "<URL>"]),
    (ANY, &["--to"], &["--forward-to"]),
    (ANY, &["--base-url", "--api-url", "--server"], &["--email-url"]),
    // Files.
    (
        ANY,
        &["--file", "--filename", "--input"],
        &["<FILE>", "--attach", "--body", "--data", "<BODY>"],
    ),
    (ANY, &["-f"], &["--from", "--forward-to", "<FILE>", "--format"]),
    (ANY, &["--payload"], &["<BODY>", "--data", "--body"]),
    (
        ANY,
        &["--out", "--out-file", "--outfile", "--output-file", "--save", "--save-to", "-O"],
        &["to write to a file, redirect the output: {path} … > FILE"],
    ),
    // Output.
    (ANY, &["--csv"], &["--format", "filter the list: --jq '.[] | [.id, .name] | @csv'"]),
    (ANY, &["--format"], &["--output"]),
    (ANY, &["--yaml", "--yml"], &["did you mean --output yaml?"]),
    (ANY, &["--ndjson", "--jsonl"], &["did you mean --output ndjson?"]),
    (ANY, &["--table"], &["did you mean --output table?"]),
    (ANY, &["--query", "--filter", "--select", "--jsonpath", "--template"], &["--jq"]),
    (ANY, &["--no-color", "--no-colors", "--no-colour"], &["did you mean --color never?"]),
    (ANY, &["--debug", "--trace", "--log-level", "--loglevel"], &["--verbose"]),
    (ANY, &["--silent"], &["--quiet"]),
    // Settings.
    ("svc login", &["--name", "--as"], &["--profile"]),
    (
        ANY,
        &[
            "--env",
            "--environment",
            "--stage",
            "--context",
            "--account",
            "--project",
            "--project-name",
            "--region",
        ],
        &["--profile"],
    ),
    (ANY, &["-p"], &["--addr", "--port", "--profile"]),
    (
        ANY,
        &["--config", "--config-file"],
        &["svc config path names the files; to choose a profile: --profile <NAME>"],
    ),
    (ANY, &["--local", "--test-mode"], &["--sandbox"]),
    (ANY, &["--test"], &["--dry-run|--sandbox"]),
    (ANY, &["--preview", "--simulate"], &["--dry-run"]),
    (ANY, &["--cacert", "--ca-cert", "--cafile", "--ca-file", "--ca"], &["--ca-bundle"]),
    (
        ANY,
        &["-k", "--no-verify", "--no-verify-ssl", "--skip-tls-verify", "--insecure"],
        &["certificates are always checked; to trust others: --ca-bundle <PATH>"],
    ),
    (ANY, &["--retry", "--max-retries", "--attempts"], &["--retries"]),
    (
        ANY,
        &["--deadline", "--max-time", "--wait-timeout", "--request-timeout", "--connect-timeout"],
        &["--timeout"],
    ),
    (ANY, &["--follow", "--watch", "-w"], &["--wait"]),
    (
        ANY,
        &[
            "--force",
            "--confirm",
            "--assume-yes",
            "--no-confirm",
            "--no-input",
            "--no-prompt",
            "--non-interactive",
        ],
        &["--yes"],
    ),
    // Arguments.
    (ANY, &["--id"], &["<ID>", "<JOB>", "<AUDIENCE>"]),
    (ANY, &["--name", "--domain"], &["<NAME>", "<DOMAIN>", "<ID>"]),
    (ANY, &["--events", "--enabled-events", "--event-type", "--type"], &["--event", "<EVENT>"]),
];

/// Surplus words: the command, and an option that takes such a word, or a sentence.
pub(super) const SURPLUS: &[(&str, &str)] = &[
    ("svc listen", "--forward-to"),
    ("svc trigger", "--to"),
    ("svc sandbox serve", "--addr"),
    ("svc login", "--profile|--email-url"),
    (
        "svc man",
        "the help of one command: svc help COMMAND; the pages of all commands: svc man DIR",
    ),
    ("svc contacts delete", "--audience"),
    ("svc contacts update", "--audience"),
];

/// Values of `--output`, with what is meant.
pub(super) const FORMATS: &[(&[&str], &str)] = &[
    (&["text", "txt", "plain", "human", "pretty"], "did you mean table?"),
    (&["jsonl", "json-lines", "jsonlines"], "did you mean ndjson?"),
    (&["wide"], "did you mean --wide?"),
    (
        &["csv", "tsv"],
        "contacts as CSV: svc contacts export\nother lists: --jq '.[] | [.id, .name] | @{word}'",
    ),
    (
        &["name", "jsonpath", "go-template", "custom-columns"],
        "filter the JSON: --jq FILTER, such as --jq '.[].id'",
    ),
];

/// Subcommands: where, what was typed, and the hint, in which `{word}` is what was typed.
pub(super) const COMMANDS: &[(&str, &[&str], &str)] = &[
    (
        "svc emails",
        &["list", "ls", "search", "find"],
        "the service does not list emails; one email: svc emails get ID\n\
         those of the local server: svc sandbox emails list",
    ),
    ("svc emails", &["create", "new", "compose"], "did you mean svc emails send?"),
    ("svc emails", &["schedule"], "did you mean svc emails send --at TIME?"),
    (
        "svc emails",
        &["delete", "remove", "rm", "destroy", "unschedule", "stop"],
        "did you mean svc emails cancel? it stops a scheduled email",
    ),
    (
        "svc emails",
        &["update", "edit", "set", "reschedule"],
        "an accepted email cannot be changed; a scheduled one can be canceled: svc emails cancel ID",
    ),
    ("svc emails", &["wait", "watch", "follow", "track"], "did you mean svc emails get ID --wait?"),
    (
        "svc domains",
        &["get", "show", "view", "describe", "info", "dns"],
        "all domains: svc domains list; the DNS records of one: svc domains records NAME",
    ),
    ("svc domains", &["check"], "did you mean svc domains verify?"),
    (
        "svc contacts",
        &["unsubscribe", "suppress"],
        "did you mean svc contacts update ID --subscribed false?",
    ),
    (
        "svc contacts",
        &["subscribe", "resubscribe"],
        "did you mean svc contacts update ID --subscribed true?",
    ),
    (
        "svc webhooks",
        &["disable", "pause", "deactivate"],
        "did you mean svc webhooks update ID --active false?",
    ),
    (
        "svc webhooks",
        &["enable", "resume", "activate"],
        "did you mean svc webhooks update ID --active true?",
    ),
    ("svc webhooks", &["listen", "forward"], "did you mean svc listen?"),
    ("svc webhooks", &["trigger", "send"], "did you mean svc webhooks test or svc trigger?"),
    ("svc webhooks", &["replay", "resend", "retry"], "did you mean svc replay?"),
    (
        "svc config",
        &["set", "edit", "unset", "add", "init"],
        "edit the file that svc config path names; a URL and a key are stored by svc login",
    ),
    ("svc config", &["use", "use-context", "switch"], "did you mean svc profiles use?"),
    (
        "svc profiles",
        &["add", "create", "new"],
        "svc login creates a profile: svc login --profile NAME",
    ),
    (
        "svc profiles",
        &["switch", "select", "set", "activate", "default"],
        "did you mean svc profiles use?",
    ),
    (
        "svc profiles",
        &["show", "get", "view", "current"],
        "its settings: svc config show --profile NAME; its account: svc whoami --profile NAME",
    ),
    (
        "svc bulk",
        &["stop"],
        "Ctrl-C stops a job where it runs; elsewhere: svc bulk pause or cancel",
    ),
    ("svc bulk", &["plan", "queue"], "did you mean svc bulk send --queue?"),
    ("svc bulk", &["start", "run", "create", "new"], "did you mean svc bulk send?"),
    ("svc bulk", &["retry"], "did you mean svc bulk resume?"),
    (
        "svc sandbox messages",
        &["delete", "remove", "clear", "purge"],
        "svc sandbox reset deletes all data of the local server",
    ),
    (
        "svc sandbox deliveries",
        &["retry", "resend", "redeliver"],
        "did you mean svc sandbox deliveries replay?",
    ),
    (
        "svc sandbox clock",
        &["set", "forward", "skip", "move", "add"],
        "did you mean svc sandbox clock advance DURATION?",
    ),
    ("svc sandbox clock", &["pause", "stop"], "did you mean svc sandbox clock freeze?"),
    (
        "svc sandbox clock",
        &["start", "reset", "unfreeze", "run"],
        "did you mean svc sandbox clock resume?",
    ),
    (
        "svc sandbox faults",
        &["clear", "reset"],
        "did you mean svc sandbox faults remove? without an id, it removes all",
    ),
    (
        "svc sandbox",
        &["emails", "email", "mail", "inbox", "mailbox"],
        "did you mean svc sandbox messages?",
    ),
    (
        "svc sandbox",
        &["logs", "log", "requests"],
        "with -v, svc sandbox serve logs requests to its terminal\n\
         webhook deliveries: svc sandbox deliveries list",
    ),
    ("svc sandbox", &["kill", "quit"], "did you mean svc sandbox stop?"),
    ("svc sandbox", &["restart"], "svc sandbox stop, then svc sandbox serve; the data is kept"),
    ("svc sandbox", &["clear", "clean", "wipe"], "did you mean svc sandbox reset?"),
    (
        "svc",
        &["status"],
        "the setup: svc doctor; the local server: svc sandbox status\nan email: svc emails get ID",
    ),
    (
        "svc",
        &["logs", "log", "events", "event", "tail", "requests"],
        "webhook deliveries as they arrive: svc listen\n\
         deliveries of the local server: svc sandbox deliveries list",
    ),
    ("svc", &["messages", "message", "inbox", "mailbox"], "did you mean svc sandbox messages?"),
    (
        "svc",
        &["resend", "redeliver", "retry"],
        "webhook deliveries again: svc replay ID\nan email: svc emails send",
    ),
    ("svc", &["configure", "init", "setup"], "did you mean svc login?"),
    ("svc", &["auth"], "did you mean svc login, svc logout or svc whoami?"),
    ("svc", &["switch", "context", "contexts", "use-context"], "did you mean svc profiles use?"),
    (
        "svc",
        &["start", "run", "up", "dev", "server", "local", "emulator"],
        "did you mean svc sandbox serve?",
    ),
    ("svc", &["down", "kill"], "did you mean svc sandbox stop?"),
    (
        "svc",
        &["upgrade", "self-update", "selfupdate"],
        "svc is updated in the way in which it was installed; its version: svc --version",
    ),
    ("svc", &["docs", "doc", "open", "web", "dashboard"], "help on a command: svc help COMMAND"),
    (
        "svc",
        &["broadcast", "broadcasts", "campaign", "campaigns", "newsletter", "newsletters"],
        "did you mean svc bulk send?",
    ),
    (
        "svc",
        &["template", "templates"],
        "use a template: svc emails send --template ID\nthose of the local server: svc sandbox templates",
    ),
    (
        "svc",
        &["key", "keys", "api-key", "api-keys", "apikeys", "token", "tokens"],
        "create keys in the service's dashboard and store them: svc login\n\
         those of the local server: svc sandbox keys",
    ),
    (
        "svc",
        &["curl", "request", "call", "post", "put", "patch"],
        "did you mean svc api METHOD PATH?",
    ),
    ("svc", &["ping", "check", "health", "diagnose"], "did you mean svc doctor?"),
    ("svc", &["org", "organization", "account", "user"], "did you mean svc whoami?"),
    ("svc", &["subscribers", "members", "people", "subscriptions"], "did you mean svc contacts?"),
    ("svc", &["segments", "lists"], "did you mean svc audiences?"),
    (
        "svc",
        &["endpoints", "hooks", "webhook-endpoints", "webhook_endpoints"],
        "did you mean svc webhooks?",
    ),
    ("svc", &["mail", "mails"], "did you mean svc emails?"),
    ("svc", &["forward", "tunnel"], "did you mean svc listen?"),
    ("svc", &["clock", "faults", "deliveries", "dns"], "did you mean svc sandbox {word}?"),
];

/// Subcommands in any group: what was typed, and ours, of which the first that the group has is
/// suggested.
pub(super) const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["add", "new", "make"], &["create", "add"]),
    (&["create"], &["add", "put"]),
    (&["remove", "destroy", "del"], &["delete"]),
    (&["delete"], &["remove", "withdraw"]),
    (&["edit", "set", "patch", "modify"], &["update", "put"]),
    (&["view", "retrieve", "describe", "info", "read"], &["get", "show", "list"]),
    (&["get", "show"], &["show", "status", "list"]),
    (&["list", "ls", "all"], &["list", "show"]),
    (&["status", "state"], &["get", "verify", "show"]),
    (&["search", "find"], &["list"]),
    (&["start", "run", "up"], &["serve"]),
    (&["down"], &["stop"]),
];
