//! The table of all leaf commands: the operations that each calls and its effect. `--dry-run`,
//! `svc schema`, the command reference and the tests are based on it.

use svc_sdk::Operation::{self, *};

use crate::failure::Failure;
use crate::settings::{GlobalFlags, Settings, Source};

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads from a service.
    Reads,
    /// Creates something, so `--idempotency-key` applies.
    Creates,
    /// Changes something at a service or the local server.
    Changes,
    /// Deletes something irrecoverably and asks for confirmation.
    Dangerous,
    /// Works on this machine only and sends no request that `--dry-run` could show.
    Local,
}

/// A leaf command: one without subcommands.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The words after `svc`, such as `emails send`.
    pub path: &'static str,
    /// The documented operations that it may call.
    pub operations: &'static [Operation],
    /// Its effect.
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
    spec("emails send", &[EmailsSend, EmailsGet], Effect::Creates),
    spec("emails batch", &[EmailsSendBatch], Effect::Creates),
    spec("emails get", &[EmailsGet], Effect::Reads),
    spec("emails cancel", &[EmailsCancel], Effect::Changes),
    spec("bulk send", &[EmailsSendBatch, ContactsList, EmailsGet], Effect::Changes),
    spec("bulk plan", &[EmailsSendBatch, ContactsList], Effect::Changes),
    spec("bulk work", &[EmailsSendBatch, ContactsList], Effect::Changes),
    spec("bulk list", &[], Effect::Local),
    spec("bulk status", &[], Effect::Local),
    spec("bulk resume", &[EmailsSendBatch, ContactsList, EmailsGet], Effect::Changes),
    spec("bulk report", &[], Effect::Local),
    spec("audiences create", &[AudiencesCreate], Effect::Creates),
    spec("audiences list", &[AudiencesList], Effect::Reads),
    spec("audiences get", &[AudiencesGet], Effect::Reads),
    spec("audiences delete", &[AudiencesDelete], Effect::Dangerous),
    spec("contacts create", &[ContactsCreate], Effect::Creates),
    spec("contacts list", &[ContactsList], Effect::Reads),
    spec("contacts update", &[ContactsUpdate], Effect::Changes),
    spec("contacts delete", &[ContactsDelete], Effect::Dangerous),
    spec("contacts import", &[ContactsCreate, ContactsUpdate, ContactsList], Effect::Changes),
    spec("contacts export", &[ContactsList], Effect::Reads),
    spec("domains create", &[DomainsCreate], Effect::Creates),
    spec("domains list", &[DomainsList], Effect::Reads),
    spec("domains verify", &[DomainsVerify], Effect::Changes),
    spec("domains records", &[DomainsList], Effect::Reads),
    spec("domains delete", &[DomainsDelete], Effect::Dangerous),
    spec("webhooks create", &[WebhooksCreate], Effect::Creates),
    spec("webhooks list", &[WebhooksList], Effect::Reads),
    spec("webhooks update", &[WebhooksUpdate], Effect::Changes),
    spec(
        "webhooks rotate",
        &[WebhooksList, WebhooksCreate, WebhooksUpdate, WebhooksDelete],
        Effect::Dangerous,
    ),
    spec("webhooks delete", &[WebhooksDelete], Effect::Dangerous),
    spec("webhooks test", &[WebhooksTest], Effect::Changes),
    spec("extraction me", &[Me], Effect::Reads),
    spec("extraction webhooks create", &[ExtractionWebhooksCreate], Effect::Creates),
    spec("extraction webhooks list", &[ExtractionWebhooksList], Effect::Reads),
    spec(
        "extraction webhooks rotate",
        &[ExtractionWebhooksList, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Dangerous,
    ),
    spec("extraction webhooks delete", &[ExtractionWebhooksDelete], Effect::Dangerous),
    spec("login", &[Me, AudiencesList], Effect::Local),
    spec("logout", &[], Effect::Local),
    spec("profiles list", &[], Effect::Local),
    spec("profiles use", &[], Effect::Local),
    spec("profiles remove", &[], Effect::Local),
    spec("whoami", &[Me, AudiencesList], Effect::Reads),
    spec("doctor", &[Me, AudiencesList, EmailsGet, DomainsList, WebhooksList], Effect::Local),
    spec("config show", &[], Effect::Local),
    spec("config path", &[], Effect::Local),
    spec("watch", &[], Effect::Local),
    spec(
        "listen",
        &[WebhooksCreate, WebhooksDelete, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Changes,
    ),
    spec("replay", &[], Effect::Changes),
    spec("trigger", &[], Effect::Changes),
    spec("certify", &[], Effect::Changes),
    spec("verify", &[], Effect::Local),
    spec("sign", &[], Effect::Local),
    spec("api", &[], Effect::Creates),
    spec("sandbox serve", &[], Effect::Local),
    spec("sandbox status", &[], Effect::Reads),
    spec("sandbox open", &[], Effect::Local),
    spec("sandbox stop", &[], Effect::Local),
    spec("sandbox reset", &[], Effect::Dangerous),
    spec("sandbox organizations create", &[], Effect::Changes),
    spec("sandbox organizations list", &[], Effect::Reads),
    spec("sandbox keys create", &[], Effect::Changes),
    spec("sandbox keys list", &[], Effect::Reads),
    spec("sandbox keys delete", &[], Effect::Dangerous),
    spec("sandbox templates put", &[], Effect::Changes),
    spec("sandbox templates list", &[], Effect::Reads),
    spec("sandbox templates get", &[], Effect::Reads),
    spec("sandbox templates render", &[], Effect::Reads),
    spec("sandbox templates delete", &[], Effect::Dangerous),
    spec("sandbox dns publish", &[], Effect::Changes),
    spec("sandbox dns withdraw", &[], Effect::Changes),
    spec("sandbox requests list", &[], Effect::Reads),
    spec("sandbox requests tail", &[], Effect::Local),
    spec("sandbox requests get", &[], Effect::Reads),
    spec("sandbox emails list", &[], Effect::Reads),
    spec("sandbox emails story", &[], Effect::Reads),
    spec("sandbox messages list", &[], Effect::Reads),
    spec("sandbox messages wait", &[], Effect::Reads),
    spec("sandbox messages get", &[], Effect::Reads),
    spec("sandbox messages open", &[], Effect::Local),
    spec("sandbox event", &[], Effect::Changes),
    spec("sandbox inbound", &[], Effect::Changes),
    spec("sandbox extraction", &[], Effect::Changes),
    spec("sandbox deliveries list", &[], Effect::Reads),
    spec("sandbox deliveries get", &[], Effect::Reads),
    spec("sandbox deliveries replay", &[], Effect::Changes),
    spec("sandbox clock show", &[], Effect::Reads),
    spec("sandbox clock freeze", &[], Effect::Changes),
    spec("sandbox clock advance", &[], Effect::Changes),
    spec("sandbox clock resume", &[], Effect::Changes),
    spec("sandbox faults add", &[], Effect::Changes),
    spec("sandbox faults list", &[], Effect::Reads),
    spec("sandbox faults get", &[], Effect::Reads),
    spec("sandbox faults remove", &[], Effect::Changes),
    spec("completions", &[], Effect::Local),
    spec("man", &[], Effect::Local),
    spec("schema", &[], Effect::Local),
    spec("help", &[], Effect::Local),
    spec("version", &[], Effect::Local),
];

/// Placeholder for a command without a row. The tests make sure that there is none.
pub(crate) const UNKNOWN: CommandSpec = spec("", &[], Effect::Reads);

/// The command at a path such as `emails send`.
pub(crate) fn find(path: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.path == path)
}

/// Whether the command handles Ctrl-C itself: as the regular way to end it, or to report what was
/// done.
pub(crate) fn ends_by_interrupt(spec: &CommandSpec) -> bool {
    matches!(
        spec.path,
        "sandbox serve"
            | "sandbox requests tail"
            | "watch"
            | "listen"
            | "contacts import"
            | "bulk send"
            | "bulk resume"
            | "bulk work"
    )
}

/// Whether the command uses only the local server.
pub(crate) fn is_sandbox(spec: &CommandSpec) -> bool {
    spec.path.starts_with("sandbox ") || spec.path == "watch"
}

/// Refuses options that have no effect on this command, and a profile that does not exist.
pub(crate) fn check(
    spec: &CommandSpec,
    flags: &GlobalFlags,
    settings: &Settings,
) -> Result<(), Failure> {
    check_flags(spec, flags)?;
    // The sandbox uses the recipient guard of the profile, and other commands its output format.
    let is_named = settings.profile.source != Source::Profile;
    let creates = spec.path == "login";
    let reports = !settings.sandbox && ["doctor", "whoami"].contains(&spec.path);
    match is_named && !creates && !reports {
        true => settings.refuse_unknown_profile(),
        false => Ok(()),
    }
}

fn check_flags(spec: &CommandSpec, flags: &GlobalFlags) -> Result<(), Failure> {
    if flags.idempotency_key.is_some() && spec.effect != Effect::Creates {
        return Err(Failure::usage(format!(
            "--idempotency-key has no effect: `svc {}` creates nothing",
            spec.path
        )));
    }
    let base_urls = flags.email_url.is_some() || flags.extraction_url.is_some();
    if is_sandbox(spec) && (base_urls || flags.key_file.is_some()) {
        return Err(Failure::usage(
            "the sandbox has its own base URLs and keys: remove --email-url, --extraction-url and --key-file",
        ));
    }
    if flags.dry_run && !spec.has_dry_run() {
        return Err(Failure::usage(format!(
            "--dry-run has no effect: `svc {}` sends no request to show",
            spec.path
        )));
    }
    Ok(())
}

const fn spec(path: &'static str, operations: &'static [Operation], effect: Effect) -> CommandSpec {
    CommandSpec { path, operations, effect }
}
