//! The tools: each is a name for commands of `svc`, and for the arguments of them that a client may
//! set. Descriptions and schemas follow from the commands (`describe.rs`).

use clap::ValueEnum;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// Read; always allowed
    Look,
    /// Send and cancel emails
    Send,
    /// Create and change audiences and contacts
    Contacts,
    /// Create and verify domains
    Domains,
    /// Create, change and test webhooks
    Webhooks,
    /// Delete
    Delete,
    /// Control the sandbox
    Sandbox,
}

/// A tool.
pub struct Tool {
    pub name: &'static str,
    pub group: Group,
    pub kind: Kind,
    /// The first sentence of the description of a tool that is more than its commands.
    pub about: &'static str,
    /// Of several actions, the argument `action` selects one.
    pub actions: &'static [Action],
}

/// How a call is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs the command.
    Run,
    /// Runs it with `--dry-run` and keeps the plan.
    Plan,
    /// Runs a plan.
    SendPlanned,
}

/// A command, and the arguments that a client may set.
pub struct Action {
    pub name: &'static str,
    pub command: &'static str,
    pub arguments: &'static [Argument],
}

/// An argument of a command, by its name in clap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A value or a flag. It is never read as the name of a file.
    Value(&'static str),
    /// The name of a file below the directory of `svc mcp`.
    File(&'static str),
    /// A text, which the command reads from standard input.
    Stdin(&'static str),
    /// Rows, which the command reads from standard input: the argument `rows`, or a file.
    Rows(&'static str),
    /// All arguments: the fields of an email, which the command reads from standard input.
    Email,
}

use Argument::{Email, File, Rows, Stdin, Value};

const fn action(
    name: &'static str,
    command: &'static str,
    arguments: &'static [Argument],
) -> Action {
    Action { name, command, arguments }
}

const fn tool(name: &'static str, group: Group, actions: &'static [Action]) -> Tool {
    Tool { name, group, kind: Kind::Run, about: "", actions }
}

/// A field of an email, and the option of `emails send` that describes it.
pub const EMAIL_FIELDS: [(&str, &str, &str); 13] = [
    ("from", "from", "string"),
    ("to", "to", "array"),
    ("cc", "cc", "array"),
    ("bcc", "bcc", "array"),
    ("replyTo", "reply_to", "array"),
    ("subject", "subject", "string"),
    ("text", "", "string"),
    ("html", "", "string"),
    ("templateId", "template", "string"),
    ("variables", "vars", "object"),
    ("headers", "", "object"),
    ("tags", "", "object"),
    ("scheduledAt", "", "string"),
];

/// The argument that selects an action.
pub const ACTION: &str = "action";
/// The argument of rows.
pub const ROWS: &str = "rows";

pub static TOOLS: [Tool; 23] = [
    tool("whoami", Group::Look, &[action("", "whoami", &[])]),
    tool("doctor", Group::Look, &[action("", "doctor", &[])]),
    tool(
        "list",
        Group::Look,
        &[
            action("audiences", "audiences list", &[]),
            action("contacts", "contacts list", &[Value("audience"), Value("page")]),
            action("domains", "domains list", &[]),
            action("webhooks", "webhooks list", &[]),
            action("extraction_webhooks", "extraction webhooks list", &[]),
            action("bulk_jobs", "bulk list", &[]),
        ],
    ),
    tool(
        "get",
        Group::Look,
        &[
            action("email", "emails get", &[Value("id"), Value("wait")]),
            action("audience", "audiences get", &[Value("id")]),
            action("contact", "contacts get", &[Value("id"), Value("audience")]),
            action("domain", "domains get", &[Value("id")]),
            action("domain_records", "domains records", &[Value("id")]),
            action("webhook", "webhooks get", &[Value("id")]),
            action("extraction_webhook", "extraction webhooks get", &[Value("id")]),
            action("bulk_job", "bulk status", &[Value("job")]),
            action("bulk_report", "bulk report", &[Value("job")]),
        ],
    ),
    tool(
        "diagnose_signature",
        Group::Look,
        &[action(
            "",
            "verify",
            &[Value("service"), File("secret_file"), Value("signature"), Stdin("body")],
        )],
    ),
    Tool {
        name: "plan_email",
        group: Group::Send,
        kind: Kind::Plan,
        about: "Show the exact request and its recipients, and send nothing. The token goes to send_planned",
        actions: &[action("", "emails send", &[Email])],
    },
    Tool {
        name: "plan_bulk",
        group: Group::Send,
        kind: Kind::Plan,
        about: "Show how many emails would be sent and the first three, and send nothing. The token goes to send_planned",
        actions: &[action(
            "",
            "bulk send",
            &[
                Rows("file"),
                Value("from"),
                Value("subject"),
                Value("text"),
                Value("html"),
                Value("template"),
                Value("unsubscribe"),
                Value("only_to"),
                Value("limit"),
            ],
        )],
    },
    Tool {
        name: "send_planned",
        group: Group::Send,
        kind: Kind::SendPlanned,
        about: "Send what plan_email or plan_bulk has shown: once, within ten minutes",
        actions: &[],
    },
    tool(
        "cancel",
        Group::Send,
        &[
            action("emails", "emails cancel", &[Value("ids")]),
            action("bulk_job", "bulk cancel", &[Value("job")]),
        ],
    ),
    tool(
        "save_contacts",
        Group::Contacts,
        &[
            action("create_audience", "audiences create", &[Value("name")]),
            action(
                "create",
                "contacts create",
                &[Value("audience"), Value("email"), Value("name"), Value("meta"), Value("topic")],
            ),
            action(
                "update",
                "contacts update",
                &[
                    Value("id"),
                    Value("audience"),
                    Value("name"),
                    Value("meta"),
                    Value("topic"),
                    Value("subscribed"),
                ],
            ),
            action(
                "import",
                "contacts import",
                &[Value("audience"), Rows("file"), Value("existing")],
            ),
        ],
    ),
    tool(
        "save_domain",
        Group::Domains,
        &[
            action("create", "domains create", &[Value("name")]),
            action("verify", "domains verify", &[Value("domain"), Value("wait")]),
        ],
    ),
    tool(
        "save_webhook",
        Group::Webhooks,
        &[
            action("create", "webhooks create", &[Value("url"), Value("event")]),
            action(
                "update",
                "webhooks update",
                &[Value("id"), Value("url"), Value("event"), Value("active")],
            ),
            action("test", "webhooks test", &[Value("id")]),
            action(
                "create_extraction",
                "extraction webhooks create",
                &[Value("url"), Value("event")],
            ),
        ],
    ),
    tool(
        "delete",
        Group::Delete,
        &[
            action("audience", "audiences delete", &[Value("id")]),
            action("contact", "contacts delete", &[Value("id"), Value("audience")]),
            action("domain", "domains delete", &[Value("id")]),
            action("webhook", "webhooks delete", &[Value("id")]),
            action("extraction_webhook", "extraction webhooks delete", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_messages",
        Group::Sandbox,
        &[
            action(
                "list",
                "sandbox messages list",
                &[Value("to"), Value("from"), Value("subject"), Value("after"), Value("limit")],
            ),
            action(
                "wait",
                "sandbox messages wait",
                &[Value("to"), Value("from"), Value("subject"), Value("after")],
            ),
            action("get", "sandbox messages get", &[Value("id"), Value("links")]),
        ],
    ),
    tool(
        "sandbox_emails",
        Group::Sandbox,
        &[
            action(
                "list",
                "sandbox emails list",
                &[Value("status"), Value("address"), Value("subject"), Value("limit")],
            ),
            action("story", "sandbox emails story", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_deliveries",
        Group::Sandbox,
        &[
            action(
                "list",
                "sandbox deliveries list",
                &[Value("webhook"), Value("event"), Value("state"), Value("limit")],
            ),
            action("get", "sandbox deliveries get", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_requests",
        Group::Sandbox,
        &[
            action(
                "list",
                "sandbox requests list",
                &[Value("operation"), Value("status"), Value("limit")],
            ),
            action("get", "sandbox requests get", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_clock",
        Group::Sandbox,
        &[
            action("show", "sandbox clock show", &[]),
            action("advance", "sandbox clock advance", &[Value("duration")]),
            action("freeze", "sandbox clock freeze", &[]),
            action("resume", "sandbox clock resume", &[]),
            action("settle", "sandbox settle", &[]),
        ],
    ),
    tool(
        "sandbox_faults",
        Group::Sandbox,
        &[
            action("list", "sandbox faults list", &[]),
            action(
                "add",
                "sandbox faults add",
                &[
                    Value("operation"),
                    Value("times"),
                    Value("skip"),
                    Value("status"),
                    Value("latency"),
                    Value("drop"),
                ],
            ),
            action("remove", "sandbox faults remove", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_simulate",
        Group::Sandbox,
        &[
            action(
                "event",
                "sandbox event",
                &[Value("id"), Value("event"), Value("recipient"), Value("detail")],
            ),
            action(
                "inbound",
                "sandbox inbound",
                &[Value("from"), Value("to"), Value("subject"), Value("text")],
            ),
            action("extraction", "sandbox extraction", &[Value("outcome")]),
            action("replay_delivery", "sandbox deliveries replay", &[Value("id")]),
        ],
    ),
    tool(
        "sandbox_templates",
        Group::Sandbox,
        &[
            action("list", "sandbox templates list", &[]),
            action("get", "sandbox templates get", &[Value("id")]),
            action("render", "sandbox templates render", &[Value("id"), Value("var")]),
            action(
                "put",
                "sandbox templates put",
                &[Value("id"), Value("subject"), Value("text"), Value("html")],
            ),
        ],
    ),
    tool(
        "sandbox_dns",
        Group::Sandbox,
        &[
            action("publish", "sandbox dns publish", &[Value("domain"), Value("record")]),
            action("withdraw", "sandbox dns withdraw", &[Value("domain"), Value("record")]),
        ],
    ),
    tool("sandbox_status", Group::Sandbox, &[action("", "sandbox status", &[])]),
];
