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
    /// Whether it uses only the local server.
    pub is_local_server: bool,
    /// Whether it handles Ctrl-C itself: as the regular way to end it, or to report what was done.
    pub handles_interrupt: bool,
    /// Whether it creates a profile, or reports that there is none.
    pub allows_new_profile: bool,
    /// Whether it may call any operation.
    pub calls_any_operation: bool,
    /// What the id on its command line names.
    pub id_of: IdOf,
    /// Of a list, whose items it lists.
    of: Option<&'static str>,
}

/// What the id on a command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOf {
    /// What the commands of the same group are about.
    Group,
    Audience,
    Domain,
    Email,
}

impl CommandSpec {
    /// Whether the command sends requests that `--dry-run` can show.
    pub fn has_dry_run(&self) -> bool {
        self.effect != Effect::Local
    }

    /// The list of the group that the command belongs to: the command line, and whether it lists
    /// the items of something, page by page.
    pub fn list(&self) -> Option<(String, bool)> {
        let (group, _) = self.path.rsplit_once(' ')?;
        let list = find(&format!("{group} list"))?;
        Some(match list.of {
            Some(of) => (format!("{} {of}", list.path), true),
            None => (list.path.to_owned(), false),
        })
    }

    /// The last word of the path.
    pub fn verb(&self) -> &'static str {
        self.path.rsplit(' ').next().unwrap_or_default()
    }

    const fn with_id_of(self, id_of: IdOf) -> Self {
        Self { id_of, ..self }
    }

    const fn of(self, of: &'static str) -> Self {
        Self { of: Some(of), ..self }
    }

    const fn with_any_operation(self) -> Self {
        Self { calls_any_operation: true, ..self }
    }

    const fn until_interrupted(self) -> Self {
        Self { handles_interrupt: true, ..self }
    }

    const fn of_new_profile(self) -> Self {
        Self { allows_new_profile: true, ..self }
    }
}

/// Every leaf command, in the order of the help.
pub const COMMANDS: &[CommandSpec] = &[
    spec("emails send", &[EmailsSend, EmailsGet], Effect::Creates).with_id_of(IdOf::Email),
    spec("emails batch", &[EmailsSendBatch], Effect::Creates).with_id_of(IdOf::Email),
    spec("emails get", &[EmailsGet], Effect::Reads).with_id_of(IdOf::Email),
    spec("emails cancel", &[EmailsCancel], Effect::Changes).with_id_of(IdOf::Email),
    spec("bulk send", &[EmailsSendBatch, ContactsList, EmailsGet], Effect::Changes)
        .with_id_of(IdOf::Audience)
        .until_interrupted(),
    spec("bulk plan", &[EmailsSendBatch, ContactsList], Effect::Changes),
    spec("bulk work", &[EmailsSendBatch, ContactsList], Effect::Changes).until_interrupted(),
    spec("bulk list", &[], Effect::Local),
    spec("bulk status", &[], Effect::Local),
    spec("bulk resume", &[EmailsSendBatch, ContactsList, EmailsGet], Effect::Changes)
        .until_interrupted(),
    spec("bulk report", &[], Effect::Local),
    spec("audiences create", &[AudiencesCreate], Effect::Creates),
    spec("audiences list", &[AudiencesList], Effect::Reads),
    spec("audiences get", &[AudiencesGet], Effect::Reads),
    spec("audiences delete", &[AudiencesDelete], Effect::Dangerous),
    spec("contacts create", &[ContactsCreate], Effect::Creates).with_id_of(IdOf::Audience),
    spec("contacts list", &[ContactsList], Effect::Reads).with_id_of(IdOf::Audience).of("AUDIENCE"),
    spec("contacts update", &[ContactsUpdate], Effect::Changes),
    spec("contacts delete", &[ContactsDelete], Effect::Dangerous),
    spec("contacts import", &[ContactsCreate, ContactsUpdate, ContactsList], Effect::Changes)
        .with_id_of(IdOf::Audience)
        .until_interrupted(),
    spec("contacts export", &[ContactsList], Effect::Reads).with_id_of(IdOf::Audience),
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
    spec("login", &[Me, AudiencesList], Effect::Local).of_new_profile(),
    spec("logout", &[], Effect::Local),
    spec("profiles list", &[], Effect::Local),
    spec("profiles use", &[], Effect::Local),
    spec("profiles remove", &[], Effect::Local),
    spec("whoami", &[Me, AudiencesList], Effect::Reads).of_new_profile(),
    spec("doctor", &[Me, AudiencesList, EmailsGet, DomainsList, WebhooksList], Effect::Local)
        .of_new_profile(),
    spec("config show", &[], Effect::Local),
    spec("config path", &[], Effect::Local),
    sandbox("watch", Effect::Local).until_interrupted(),
    spec(
        "listen",
        &[WebhooksCreate, WebhooksDelete, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Changes,
    )
    .until_interrupted(),
    spec("replay", &[], Effect::Changes),
    spec("trigger", &[], Effect::Changes),
    spec("certify", &[], Effect::Changes),
    spec("verify", &[], Effect::Local),
    spec("sign", &[], Effect::Local),
    spec("api", &[], Effect::Creates).with_any_operation(),
    sandbox("sandbox serve", Effect::Local).until_interrupted(),
    sandbox("sandbox status", Effect::Reads),
    sandbox("sandbox open", Effect::Local),
    sandbox("sandbox stop", Effect::Local),
    sandbox("sandbox reset", Effect::Dangerous),
    sandbox("sandbox organizations create", Effect::Changes),
    sandbox("sandbox organizations list", Effect::Reads),
    sandbox("sandbox keys create", Effect::Changes),
    sandbox("sandbox keys list", Effect::Reads),
    sandbox("sandbox keys delete", Effect::Dangerous),
    sandbox("sandbox templates put", Effect::Changes),
    sandbox("sandbox templates list", Effect::Reads),
    sandbox("sandbox templates get", Effect::Reads),
    sandbox("sandbox templates render", Effect::Reads),
    sandbox("sandbox templates delete", Effect::Dangerous),
    sandbox("sandbox dns publish", Effect::Changes).with_id_of(IdOf::Domain),
    sandbox("sandbox dns withdraw", Effect::Changes).with_id_of(IdOf::Domain),
    sandbox("sandbox requests list", Effect::Reads),
    sandbox("sandbox requests tail", Effect::Local).until_interrupted(),
    sandbox("sandbox requests get", Effect::Reads),
    sandbox("sandbox emails list", Effect::Reads),
    sandbox("sandbox emails story", Effect::Reads),
    sandbox("sandbox messages list", Effect::Reads),
    sandbox("sandbox messages wait", Effect::Reads),
    sandbox("sandbox messages get", Effect::Reads),
    sandbox("sandbox messages open", Effect::Local),
    sandbox("sandbox event", Effect::Changes).with_id_of(IdOf::Email),
    sandbox("sandbox inbound", Effect::Changes),
    sandbox("sandbox extraction", Effect::Changes),
    sandbox("sandbox deliveries list", Effect::Reads),
    sandbox("sandbox deliveries get", Effect::Reads),
    sandbox("sandbox deliveries replay", Effect::Changes),
    sandbox("sandbox clock show", Effect::Reads),
    sandbox("sandbox clock freeze", Effect::Changes),
    sandbox("sandbox clock advance", Effect::Changes),
    sandbox("sandbox clock resume", Effect::Changes),
    sandbox("sandbox faults add", Effect::Changes),
    sandbox("sandbox faults list", Effect::Reads),
    sandbox("sandbox faults get", Effect::Reads),
    sandbox("sandbox faults remove", Effect::Changes),
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

/// Refuses options that have no effect on this command, and a profile that does not exist.
pub(crate) fn check(
    spec: &CommandSpec,
    flags: &GlobalFlags,
    settings: &Settings,
) -> Result<(), Failure> {
    check_flags(spec, flags)?;
    // The sandbox uses the recipient guard of the profile, and other commands its output format.
    let is_named = settings.profile.source != Source::Profile;
    let may_be_new = spec.allows_new_profile && !settings.sandbox;
    match is_named && !may_be_new {
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
    if spec.is_local_server && (base_urls || flags.key_file.is_some()) {
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
    CommandSpec {
        path,
        operations,
        effect,
        is_local_server: false,
        handles_interrupt: false,
        allows_new_profile: false,
        calls_any_operation: false,
        id_of: IdOf::Group,
        of: None,
    }
}

/// A command that uses only the local server.
const fn sandbox(path: &'static str, effect: Effect) -> CommandSpec {
    CommandSpec { is_local_server: true, ..spec(path, &[], effect) }
}
