//! What every leaf command is: the operations that it calls, and what it does
//! to the world. Help, `--dry-run`, `svc schema` and the tests follow this table.

use svc_sdk::Operation::{self, *};

use crate::failure::Failure;
use crate::settings::GlobalFlags;

/// What a command does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads from a service.
    Reads,
    /// It creates something: an idempotency key makes sense.
    Creates,
    /// It changes something at a service or at the local server.
    Changes,
    /// It removes something that does not come back: it asks first.
    Dangerous,
    /// It works on this machine alone and sends no request that could be shown.
    Local,
}

/// A leaf of the command tree.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The words after `svc`.
    pub path: &'static str,
    /// The documented operations that it calls.
    pub operations: &'static [Operation],
    /// What it does to the world.
    pub effect: Effect,
}

impl CommandSpec {
    /// Whether the command sends requests that `--dry-run` can show.
    pub fn has_dry_run(&self) -> bool {
        self.effect != Effect::Local
    }
}

/// Every leaf command, in the order of the help.
pub const COMMANDS: &[CommandSpec] = &[
    leaf("emails send", &[EmailsSend, EmailsGet], Effect::Creates),
    leaf("emails batch", &[EmailsSendBatch], Effect::Creates),
    leaf("emails get", &[EmailsGet], Effect::Reads),
    leaf("emails cancel", &[EmailsCancel], Effect::Changes),
    leaf("audiences create", &[AudiencesCreate], Effect::Creates),
    leaf("audiences list", &[AudiencesList], Effect::Reads),
    leaf("audiences get", &[AudiencesGet], Effect::Reads),
    leaf("audiences delete", &[AudiencesDelete], Effect::Dangerous),
    leaf("contacts create", &[ContactsCreate], Effect::Creates),
    leaf("contacts list", &[ContactsList], Effect::Reads),
    leaf("contacts update", &[ContactsUpdate], Effect::Changes),
    leaf("contacts delete", &[ContactsDelete], Effect::Dangerous),
    leaf("contacts import", &[ContactsCreate, ContactsUpdate, ContactsList], Effect::Changes),
    leaf("contacts export", &[ContactsList], Effect::Reads),
    leaf("domains create", &[DomainsCreate], Effect::Creates),
    leaf("domains list", &[DomainsList], Effect::Reads),
    leaf("domains verify", &[DomainsVerify], Effect::Changes),
    leaf("domains records", &[DomainsList], Effect::Reads),
    leaf("domains delete", &[DomainsDelete], Effect::Dangerous),
    leaf("webhooks create", &[WebhooksCreate], Effect::Creates),
    leaf("webhooks list", &[WebhooksList], Effect::Reads),
    leaf("webhooks update", &[WebhooksUpdate], Effect::Changes),
    leaf("webhooks delete", &[WebhooksDelete], Effect::Dangerous),
    leaf("webhooks test", &[WebhooksTest], Effect::Changes),
    leaf("extraction me", &[Me], Effect::Reads),
    leaf("extraction webhooks create", &[ExtractionWebhooksCreate], Effect::Creates),
    leaf("extraction webhooks list", &[ExtractionWebhooksList], Effect::Reads),
    leaf("extraction webhooks delete", &[ExtractionWebhooksDelete], Effect::Dangerous),
    leaf("login", &[Me, AudiencesList], Effect::Local),
    leaf("logout", &[], Effect::Local),
    leaf("profiles list", &[], Effect::Local),
    leaf("profiles use", &[], Effect::Local),
    leaf("profiles remove", &[], Effect::Local),
    leaf("whoami", &[Me, AudiencesList], Effect::Reads),
    leaf("doctor", &[Me, AudiencesList, EmailsGet, DomainsList, WebhooksList], Effect::Local),
    leaf("config show", &[], Effect::Local),
    leaf("config path", &[], Effect::Local),
    leaf(
        "listen",
        &[WebhooksCreate, WebhooksDelete, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Changes,
    ),
    leaf("replay", &[], Effect::Changes),
    leaf("trigger", &[], Effect::Changes),
    leaf("verify", &[], Effect::Local),
    leaf("sign", &[], Effect::Local),
    leaf("api", &[], Effect::Creates),
    leaf("sandbox serve", &[], Effect::Local),
    leaf("sandbox status", &[], Effect::Reads),
    leaf("sandbox stop", &[], Effect::Local),
    leaf("sandbox reset", &[], Effect::Dangerous),
    leaf("sandbox organizations create", &[], Effect::Changes),
    leaf("sandbox organizations list", &[], Effect::Reads),
    leaf("sandbox keys create", &[], Effect::Changes),
    leaf("sandbox keys list", &[], Effect::Reads),
    leaf("sandbox keys delete", &[], Effect::Dangerous),
    leaf("sandbox templates put", &[], Effect::Changes),
    leaf("sandbox templates get", &[], Effect::Reads),
    leaf("sandbox templates delete", &[], Effect::Dangerous),
    leaf("sandbox dns publish", &[], Effect::Changes),
    leaf("sandbox dns withdraw", &[], Effect::Changes),
    leaf("sandbox messages list", &[], Effect::Reads),
    leaf("sandbox messages wait", &[], Effect::Reads),
    leaf("sandbox messages get", &[], Effect::Reads),
    leaf("sandbox event", &[], Effect::Changes),
    leaf("sandbox inbound", &[], Effect::Changes),
    leaf("sandbox extraction", &[], Effect::Changes),
    leaf("sandbox deliveries list", &[], Effect::Reads),
    leaf("sandbox deliveries get", &[], Effect::Reads),
    leaf("sandbox deliveries replay", &[], Effect::Changes),
    leaf("sandbox clock show", &[], Effect::Reads),
    leaf("sandbox clock freeze", &[], Effect::Changes),
    leaf("sandbox clock advance", &[], Effect::Changes),
    leaf("sandbox clock resume", &[], Effect::Changes),
    leaf("sandbox faults add", &[], Effect::Changes),
    leaf("sandbox faults list", &[], Effect::Reads),
    leaf("sandbox faults get", &[], Effect::Reads),
    leaf("sandbox faults remove", &[], Effect::Changes),
    leaf("completions", &[], Effect::Local),
    leaf("man", &[], Effect::Local),
    leaf("schema", &[], Effect::Local),
];

/// Stands in for a command without a row, which the tests do not let pass.
pub(crate) const UNKNOWN: CommandSpec = leaf("", &[], Effect::Reads);

/// The leaf at a path such as `emails send`.
pub(crate) fn find(path: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|leaf| leaf.path == path)
}

/// Whether Ctrl-C is the way to end the command, which tidies up by itself.
pub(crate) fn ends_by_interrupt(leaf: &CommandSpec) -> bool {
    matches!(leaf.path, "sandbox serve" | "listen")
}

/// Whether the command speaks to the local server alone.
pub(crate) fn is_sandbox(leaf: &CommandSpec) -> bool {
    leaf.path.starts_with("sandbox ")
}

/// Refuses options that would do nothing with this command.
pub(crate) fn check(leaf: &CommandSpec, flags: &GlobalFlags) -> Result<(), Failure> {
    if flags.idempotency_key.is_some() && leaf.effect != Effect::Creates {
        return Err(Failure::usage(format!(
            "`svc {}` creates nothing, so --idempotency-key means nothing to it",
            leaf.path
        )));
    }
    let addresses = flags.email_url.is_some() || flags.extraction_url.is_some();
    if is_sandbox(leaf) && (addresses || flags.key_file.is_some()) {
        return Err(Failure::usage(
            "the sandbox has its own address and keys: leave out --email-url, --extraction-url and --key-file",
        ));
    }
    if flags.dry_run && !leaf.has_dry_run() {
        return Err(Failure::usage(format!(
            "`svc {}` sends no request that --dry-run could show",
            leaf.path
        )));
    }
    Ok(())
}

const fn leaf(path: &'static str, operations: &'static [Operation], effect: Effect) -> CommandSpec {
    CommandSpec { path, operations, effect }
}
