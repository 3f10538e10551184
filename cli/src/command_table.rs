//! The table of all leaf commands, with the operations that each calls, its effect and its output.
//! `--dry-run`, `svc schema`, the command reference and the tests are based on it.

use serde_json::Value;
#[cfg(feature = "sandbox")]
use svc_reference_server::client;
use svc_sdk::Operation::*;

use crate::command_spec::{CommandSpec, Effect, IdOf, spec};
use crate::commands::bulk::store::JobSummary;
#[cfg(feature = "sandbox")]
use crate::commands::sandbox::{messages::attachments, open, serve, server};
#[cfg(not(feature = "sandbox"))]
use crate::commands::schema::output::absent;
use crate::commands::schema::output::{
    any_of, audience, command, contact, domain, email, extraction_webhook, list, me, of, one_of,
    response, rotated, webhook, webhook_test,
};
#[cfg(feature = "sandbox")]
use crate::commands::schema::output::{described, simulated};
use crate::commands::{
    api, bulk, certify, completions, config, contacts, doctor, emails, help, listen, login, man,
    profiles, replay, sign, trigger, verify, version, whoami,
};
use crate::context::Deleted;
#[cfg(feature = "sandbox")]
use crate::control::{Done, Text};
use crate::dns::compare;

/// A row of a command that uses only the local server. A build without the local server does not
/// have the types of its output.
macro_rules! local {
    ($path:literal, $effect:expr, $output:expr) => {{
        #[cfg(feature = "sandbox")]
        const OUTPUT: fn() -> Value = $output;
        #[cfg(not(feature = "sandbox"))]
        const OUTPUT: fn() -> Value = absent;
        spec($path, &[], $effect, OUTPUT).on_local_server()
    }};
}

/// Every leaf command, in the order of the help.
pub const COMMANDS: &[CommandSpec] = &[
    spec("emails send", &[EmailsSend, EmailsGet], Effect::Creates, email).with_id_of(IdOf::Email),
    spec("emails batch", &[EmailsSendBatch], Effect::Creates, of::<Vec<emails::batch::Item>>)
        .with_id_of(IdOf::Email),
    spec("emails get", &[EmailsGet], Effect::Reads, email).with_id_of(IdOf::Email),
    spec("emails cancel", &[EmailsCancel], Effect::Changes, email).with_id_of(IdOf::Email),
    spec(
        "bulk send",
        &[EmailsSendBatch, ContactsList, EmailsGet, DomainsList],
        Effect::Changes,
        of::<JobSummary>,
    )
    .with_id_of(IdOf::Audience)
    .until_interrupted(),
    spec("bulk list", &[], Effect::Local, of::<Vec<bulk::manage::ListedJob>>),
    spec("bulk status", &[], Effect::Local, of::<JobSummary>),
    spec(
        "bulk resume",
        &[EmailsSendBatch, ContactsList, EmailsGet],
        Effect::Changes,
        of::<JobSummary>,
    )
    .until_interrupted(),
    spec("bulk pause", &[], Effect::Local, of::<JobSummary>),
    spec("bulk continue", &[], Effect::Local, of::<JobSummary>),
    spec("bulk cancel", &[EmailsCancel], Effect::Changes, of::<JobSummary>),
    spec("bulk settle", &[], Effect::Local, of::<JobSummary>),
    spec("bulk report", &[], Effect::Local, of::<Vec<bulk::outcomes::Outcome>>),
    spec("bulk remove", &[], Effect::Dangerous, of::<bulk::manage::RemovedJob>),
    spec("bulk work", &[EmailsSendBatch, ContactsList], Effect::Changes, of::<JobSummary>)
        .until_interrupted(),
    spec("audiences create", &[AudiencesCreate], Effect::Creates, audience),
    spec("audiences list", &[AudiencesList], Effect::Reads, || list(audience)),
    spec("audiences get", &[AudiencesGet], Effect::Reads, audience),
    spec("audiences delete", &[AudiencesDelete], Effect::Dangerous, of::<Deleted>),
    spec("contacts create", &[ContactsCreate], Effect::Creates, contact).with_id_of(IdOf::Audience),
    spec("contacts list", &[ContactsList], Effect::Reads, || list(contact))
        .with_id_of(IdOf::Audience)
        .of("AUDIENCE"),
    spec("contacts update", &[ContactsUpdate], Effect::Changes, contact),
    spec("contacts delete", &[ContactsDelete], Effect::Dangerous, of::<Deleted>),
    spec(
        "contacts import",
        &[ContactsCreate, ContactsUpdate, ContactsList],
        Effect::Changes,
        of::<Vec<contacts::import::ImportedRow>>,
    )
    .with_id_of(IdOf::Audience)
    .until_interrupted(),
    spec("contacts export", &[ContactsList], Effect::Reads, || list(contact))
        .with_id_of(IdOf::Audience),
    spec("domains create", &[DomainsCreate], Effect::Creates, domain),
    spec("domains list", &[DomainsList], Effect::Reads, || list(domain)),
    spec("domains verify", &[DomainsVerify], Effect::Changes, domain),
    spec("domains records", &[DomainsList], Effect::Reads, || {
        any_of(&[of::<Vec<compare::Row>>, of::<Vec<compare::Record>>])
    }),
    spec("domains delete", &[DomainsDelete], Effect::Dangerous, of::<Deleted>),
    spec("webhooks create", &[WebhooksCreate], Effect::Creates, webhook),
    spec("webhooks list", &[WebhooksList], Effect::Reads, || list(webhook)),
    spec("webhooks update", &[WebhooksUpdate], Effect::Changes, webhook),
    spec(
        "webhooks rotate",
        &[WebhooksList, WebhooksCreate, WebhooksUpdate, WebhooksDelete],
        Effect::Dangerous,
        || rotated(webhook()),
    ),
    spec("webhooks delete", &[WebhooksDelete], Effect::Dangerous, of::<Deleted>),
    spec("webhooks test", &[WebhooksTest], Effect::Changes, webhook_test),
    spec("extraction me", &[Me], Effect::Reads, me),
    spec(
        "extraction webhooks create",
        &[ExtractionWebhooksCreate],
        Effect::Creates,
        extraction_webhook,
    ),
    spec("extraction webhooks list", &[ExtractionWebhooksList], Effect::Reads, || {
        list(extraction_webhook)
    }),
    spec(
        "extraction webhooks rotate",
        &[ExtractionWebhooksList, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Dangerous,
        || rotated(extraction_webhook()),
    ),
    spec(
        "extraction webhooks delete",
        &[ExtractionWebhooksDelete],
        Effect::Dangerous,
        of::<Deleted>,
    ),
    spec("login", &[Me, AudiencesList], Effect::Local, of::<login::LoggedIn>).of_new_profile(),
    spec("logout", &[], Effect::Local, of::<login::LoggedOut>),
    spec("profiles list", &[], Effect::Local, of::<Vec<profiles::Listed>>),
    spec("profiles use", &[], Effect::Local, of::<profiles::Used>),
    spec("profiles remove", &[], Effect::Local, of::<profiles::Removed>),
    spec("whoami", &[Me, AudiencesList], Effect::Reads, of::<whoami::Output>).of_new_profile(),
    spec(
        "doctor",
        &[Me, AudiencesList, EmailsGet, DomainsList, WebhooksList],
        Effect::Local,
        of::<Vec<doctor::Finding>>,
    )
    .of_new_profile(),
    spec("config show", &[], Effect::Local, of::<Vec<config::Row>>),
    spec("config set", &[], Effect::Local, of::<config::Row>),
    spec("config path", &[], Effect::Local, of::<config::Paths>),
    local!("watch", Effect::Local, || described(
        "one line each: `ready`, then whatever changes",
        of::<client::Notification>
    ))
    .until_interrupted(),
    spec(
        "listen",
        &[WebhooksCreate, WebhooksDelete, ExtractionWebhooksCreate, ExtractionWebhooksDelete],
        Effect::Changes,
        || one_of(&[of::<listen::Listening>, of::<listen::Report>]),
    )
    .until_interrupted(),
    spec("replay", &[], Effect::Changes, || {
        any_of(&[of::<Vec<replay::Replayed>>, of::<Vec<replay::Recorded>>])
    }),
    spec("trigger", &[], Effect::Changes, of::<trigger::Triggered>),
    spec("certify", &[], Effect::Changes, || {
        one_of(&[of::<certify::Shown>, of::<Vec<certify::Listed>>])
    }),
    spec("verify", &[], Effect::Local, of::<verify::Output>),
    spec("sign", &[], Effect::Local, of::<sign::Output>),
    spec("api", &[], Effect::Creates, || any_of(&[response, of::<api::NotJson>]))
        .with_any_operation(),
    local!("sandbox serve", Effect::Local, of::<serve::Ready>).until_interrupted(),
    local!("sandbox status", Effect::Reads, || one_of(&[
        of::<server::Running>,
        of::<server::NotRunning>
    ])),
    local!("sandbox open", Effect::Local, of::<open::Output>),
    local!("sandbox stop", Effect::Local, of::<server::Stopped>),
    local!("sandbox reset", Effect::Dangerous, of::<Done>),
    local!("sandbox seed", Effect::Reads, of::<Text>),
    local!("sandbox organizations create", Effect::Changes, of::<client::Organization>),
    local!("sandbox organizations list", Effect::Reads, of::<Vec<client::OrganizationSummary>>),
    local!("sandbox keys create", Effect::Changes, of::<client::Key>),
    local!("sandbox keys list", Effect::Reads, of::<Vec<client::Key>>),
    local!("sandbox keys delete", Effect::Dangerous, of::<Deleted>),
    local!("sandbox templates put", Effect::Changes, of::<client::Template>),
    local!("sandbox templates list", Effect::Reads, of::<Vec<client::TemplateSummary>>),
    local!("sandbox templates get", Effect::Reads, of::<client::Template>),
    local!("sandbox templates render", Effect::Reads, || any_of(&[
        of::<client::RenderedTemplate>,
        of::<Text>
    ])),
    local!("sandbox templates delete", Effect::Dangerous, of::<Deleted>),
    local!("sandbox dns publish", Effect::Changes, of::<client::Published>)
        .with_id_of(IdOf::Domain),
    local!("sandbox dns withdraw", Effect::Changes, of::<Done>).with_id_of(IdOf::Domain),
    local!("sandbox requests list", Effect::Reads, of::<Vec<client::LoggedRequest>>),
    local!("sandbox requests tail", Effect::Local, || described(
        "one line each: `ready`, then every request",
        of::<client::Notification>
    ))
    .until_interrupted(),
    local!("sandbox requests get", Effect::Reads, of::<client::LoggedRequest>),
    local!("sandbox emails list", Effect::Reads, of::<Vec<client::EmailSummary>>),
    local!("sandbox emails story", Effect::Reads, of::<client::EmailStory>),
    local!("sandbox messages list", Effect::Reads, of::<Vec<client::MessageSummary>>),
    local!("sandbox messages wait", Effect::Reads, of::<client::Message>),
    local!("sandbox messages get", Effect::Reads, || any_of(&[
        of::<client::Message>,
        of::<Text>,
        of::<client::MessageLinks>,
        of::<Vec<attachments::Saved>>
    ])),
    local!("sandbox messages open", Effect::Local, of::<open::Output>),
    local!("sandbox event", Effect::Changes, simulated).with_id_of(IdOf::Email),
    local!("sandbox inbound", Effect::Changes, of::<client::Received>),
    local!("sandbox extraction", Effect::Changes, of::<client::Extraction>),
    local!("sandbox deliveries list", Effect::Reads, of::<Vec<client::Delivery>>),
    local!("sandbox deliveries get", Effect::Reads, of::<client::Delivery>),
    local!("sandbox deliveries replay", Effect::Changes, of::<client::Delivery>),
    local!("sandbox clock show", Effect::Reads, of::<client::Clock>),
    local!("sandbox clock freeze", Effect::Changes, of::<client::Clock>),
    local!("sandbox clock advance", Effect::Changes, of::<client::Clock>),
    local!("sandbox clock resume", Effect::Changes, of::<client::Clock>),
    local!("sandbox faults add", Effect::Changes, of::<client::Fault>),
    local!("sandbox faults list", Effect::Reads, of::<Vec<client::Fault>>),
    local!("sandbox faults get", Effect::Reads, of::<client::Fault>),
    local!("sandbox faults remove", Effect::Changes, of::<Done>),
    spec("completions", &[], Effect::Local, of::<completions::Output>),
    spec("man", &[], Effect::Local, || one_of(&[of::<man::Page>, of::<man::Written>])),
    spec("schema", &[], Effect::Local, || one_of(&[|| list(command), command])),
    spec("help", &[], Effect::Local, of::<help::Output>),
    spec("version", &[], Effect::Local, of::<version::Output>),
];
