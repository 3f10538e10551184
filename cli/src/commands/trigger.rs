//! `svc trigger`: sends a signed test event to an application. With `--sandbox`, the event also
//! happens there (`Happening`), so that webhooks get it and the delivery has the ID of a real
//! email. The delivery is made before it is shown or sent, and again after the event, when that ID
//! is known. A response other than 2xx is a failed check. `crate::deliver` posts it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Service, email, extraction};
use webhook_verify::Secret;

use crate::command_spec::changes;
use crate::commands::sandbox::simulate::Happening;
use crate::complete::at_file;
use crate::context::Context;
use crate::deliver::{Deliverer, Delivery, RESPONSE_TIMEOUT};
use crate::events;
use crate::failure::Failure;
use crate::input::{json_or_text, read_json};
use crate::output::{Column, View, to_value};
use crate::output_schema::of;
use crate::prepared::{Prepared, Preview};
use crate::resource::{Names, Resource};
use crate::signing::given_or_profile_secret;
use crate::urls::check_url;

const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EVENT", "/event"),
    Column::id("EMAIL ID", "/email_id"),
    Column::text("TO", "/to"),
    Column::http_status("STATUS", "/status"),
    Column::number("DURATION MS", "/duration_ms"),
]);

/// Send a signed test event to an application
///
/// Works without a service. Without --secret-file, the delivery is signed with the secret that `svc
/// listen --print-secret` prints. The exit code is 10 if the response is not 2xx.
///
/// With --sandbox, the event happens there: an email is sent, or arrives, and webhooks get its events. The
/// delivery sent to --to carries that email's ID; --set changes its sender, recipient and subject, too.
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Triggered>).with_scope("none (sends to the application only)"))]
#[command(after_long_help = "\
  svc trigger email.bounced --to http://localhost:3000/hooks \\
      --secret-file secret.txt
  svc trigger extraction.completed --to http://localhost:3000/hooks \\
      --set /data/total=99
  svc --sandbox trigger email.bounced
  svc trigger email.sent --to http://localhost:3000/hooks --payload @body.json

Events: email.sent, email.delivered, email.bounced, email.opened, email.clicked,
email.complained, email.failed, email.received, extraction.completed, extraction.failed")]
pub struct Trigger {
    /// Event to send
    #[arg(value_parser = PossibleValuesParser::new(events::names()))]
    event: String,
    /// URL of the application
    ///
    /// Required, except with --sandbox.
    #[arg(long, aliases = ["url", "forward-to"], value_name = "URL")]
    to: Option<String>,
    /// File with the signing secret
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Set a body value by JSON pointer; repeatable
    ///
    /// The value is JSON, or text if it is not valid JSON.
    #[arg(long, value_name = "/POINTER=VALUE")]
    set: Vec<String>,
    /// Whole body: JSON, @file or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", requires = "to", add = at_file())]
    payload: Option<OsString>,
}

impl Trigger {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match &self.to {
            Some(to) => check_url("--to", to)?,
            None if context.settings.sandbox => {}
            None => {
                return Err(
                    Failure::usage("--to is missing: the URL of the application")
                        .hint("or add --sandbox: the event happens there, and its webhooks get it"),
                );
            }
        }

        let service = events::service_of(&self.event);
        let mut body = match &self.payload {
            Some(payload) => read_json(&context.text("--payload", payload)?)
                .map_err(|problem| Failure::input(format!("--payload: {problem}")))?,
            None => events::sample(&self.event),
        };
        for change in &self.set {
            set(&mut body, change)?;
        }

        let happening = if context.settings.sandbox && self.payload.is_none() {
            Some(Happening::new(context, &self.event, &body).await?)
        } else {
            None
        };
        let signed = match &self.to {
            Some(to) => {
                let secret = given_or_profile_secret(context, self.secret_file.as_deref())?;
                let mut signed = Signed::new(to, service, &body, secret);
                signed.delivery.check_guard(context)?;
                Some(signed)
            }
            None => None,
        };
        let triggering = Triggering { happening, signed };
        let triggering = Prepared::new(triggering).decide(context).await?;
        if self.to.is_none() {
            match service {
                Service::Email => warn_if_unheard::<email::Webhook>(context, &self.event).await,
                _ => warn_if_unheard::<extraction::Webhook>(context, &self.event).await,
            }
        }

        let happened = triggering.happening.is_some();
        if let Some(happening) = triggering.happening {
            happening.run(context, &mut body).await?;
        }
        let mut triggered = Triggered {
            id: None,
            // `--set` may have set these to anything.
            event: body.get("event"),
            email_id: body.pointer("/data/emailId"),
            to: self.to.as_deref(),
            status: None,
            duration_ms: None,
        };
        let Some(Signed {
            mut delivery,
            secret,
        }) = triggering.signed
        else {
            context.out.one(&triggered, VIEW)?;
            let list = context.svc("sandbox deliveries list --event {}", &[&self.event]);
            context.out.hint(&format!("its deliveries: {list}"));
            return Ok(());
        };

        // The id of the email is known only now.
        if happened {
            delivery = Signed::new(&delivery.url, service, &body, secret).delivery;
        }
        let id = body.get("id").cloned().unwrap_or_default();
        if self.secret_file.is_none() {
            context
                .out
                .note("signed with the secret of `svc listen --print-secret`");
        }

        let progress = context.out.progress("delivering");
        let deliverer = Deliverer::to(context, [delivery.url.as_str()])?;
        let response = deliverer
            .post(&delivery, RESPONSE_TIMEOUT)
            .await
            .map_err(|none| {
                // The id helps to find out whether the delivery arrived.
                let mut failure = Failure::from(none);
                let id = id.as_str().unwrap_or_default();
                failure.message.insert_str(0, &format!("event {id}: "));
                failure
            })?;
        drop(progress);
        triggered.id = Some(&id);
        triggered.status = Some(response.status);
        triggered.duration_ms = Some(response.duration.as_millis() as u64);
        context.out.one(&triggered, VIEW)?;
        response.verdict()
    }
}

/// A delivery, and the secret that has signed it.
struct Signed {
    delivery: Delivery,
    secret: Secret,
}

impl Signed {
    fn new(to: &str, service: Service, body: &Value, secret: Secret) -> Self {
        let headers = events::headers(service, body);
        let mut delivery = Delivery::new(to, headers, body.to_string());
        delivery.sign(service, &secret);
        Self { delivery, secret }
    }
}

/// An event that is about to happen in the sandbox, and its delivery.
struct Triggering {
    happening: Option<Happening>,
    signed: Option<Signed>,
}

impl Preview for Triggering {
    /// The delivery, which the application gets; without one, the request that makes the event happen.
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        match (&self.signed, &self.happening) {
            (Some(signed), _) => signed.delivery.show(context).await,
            (None, Some(happening)) => happening.show(context).await,
            (None, None) => Ok(()),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Triggered<'a> {
    id: Option<&'a Value>,
    event: Option<&'a Value>,
    /// With --sandbox, that of an email in the sandbox.
    email_id: Option<&'a Value>,
    to: Option<&'a str>,
    status: Option<u16>,
    duration_ms: Option<u64>,
}

/// Says that no webhook gets an event, if the key may list them.
async fn warn_if_unheard<W: Resource>(context: &Context, event: &str) {
    let Ok(client) = W::client(context).await else {
        return;
    };
    let Ok(webhooks) = W::search(&Names::new(context, &client), None).await else {
        return;
    };

    let mut webhooks = webhooks
        .iter()
        .filter_map(|found| to_value(&found.item).ok());
    let gets = |events: &Vec<Value>| events.iter().any(|subscribed| subscribed == event);
    if !webhooks.any(|it| it["active"] != false && it["events"].as_array().is_some_and(gets)) {
        let create = context.svc(&format!("{} create URL --event {{}}", W::GROUP), &[event]);
        context.out.note(&format!(
            "no webhook is subscribed to {event}; create one: {create}"
        ));
    }
}

/// Sets one value. A pointer that matches nothing is an error.
fn set(body: &mut Value, change: &str) -> Result<(), Failure> {
    let (pointer, value) = change
        .split_once('=')
        .filter(|(pointer, _)| pointer.starts_with('/'))
        .ok_or_else(|| Failure::usage(format!("--set {change}: use /POINTER=VALUE")))?;
    let value = json_or_text(value.to_owned());
    match body.pointer_mut(pointer) {
        Some(target) => {
            *target = value;
            Ok(())
        }
        None => Err(
            Failure::usage(format!("--set {pointer}: the body has no such value"))
                .hint("show the body: --dry-run"),
        ),
    }
}
