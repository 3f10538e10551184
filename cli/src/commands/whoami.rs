//! `svc whoami`: asks each service that is set up whether it accepts the key of this run, with the
//! `Probe` of `login.rs`, and prints one `Identity`. It is printed in full, also if a key is
//! refused; the first failure is then the failure of the command. Keys are shown masked.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use svc_sdk::Operation::{AudiencesList, Me};
use svc_sdk::Service;

use super::login::Probe;
use crate::command_spec::reads;
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::output::{Column, View, fields_beside};
use crate::output_schema::me_fields;
use crate::output_schema::of;
use crate::prepared::{Prepared, Preview};

const VIEW: View = View(&[
    Column::text("PROFILE", "/profile"),
    Column::text("ORGANIZATION", "/extraction/organization/name"),
    Column::id("ORGANIZATION ID", "/extraction/organization/id"),
    Column::cents("BALANCE", "/extraction/organization/balance_cents"),
    Column::text("EXTRACTION URL", "/extraction/url"),
    Column::text("EXTRACTION KEY", "/extraction/key"),
    Column::text("EXTRACTION SCOPE", "/extraction/auth/scope"),
    Column::text("EMAIL URL", "/email/url"),
    Column::text("EMAIL KEY", "/email/key"),
    Column::flag("EMAIL KEY ACCEPTED", "/email/accepted"),
]);

/// Show the organization and scope of the current keys
#[derive(Args, Debug)]
#[command(add = reads(&[Me, AudiencesList], of::<Identity>).of_new_profile())]
#[command(after_long_help = "\
  svc whoami
  svc whoami --jq .extraction.organization.id")]
pub struct Whoami {}

impl Whoami {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let profile = if context.settings.sandbox {
            "the sandbox's own keys"
        } else {
            context.settings.profile.value.as_str()
        };
        let mut who = Identity {
            profile,
            extraction: None,
            email: None,
        };
        let mut keys = Vec::new();
        let mut given = Vec::new();
        for service in [Service::Extraction, Service::Email] {
            if !context.clients.is_configured(service)? {
                continue;
            }
            let (url, key) = context.clients.endpoint(service).await?;
            if context.settings.sandbox {
                given.extend(context.clients.sandbox_key(service).await?.1);
            }
            keys.push(ProbedKey {
                probe: Probe::new(context, service, &url, &key)?,
                service,
                url,
                mode: key.mode(),
                key: key.to_string(),
            });
        }

        if keys.is_empty() {
            let services = [Service::Email, Service::Extraction];
            let has_url = |service: &Service| context.settings.url(*service).is_some();
            // This fails, and says what is missing.
            context
                .clients
                .endpoint(services.into_iter().find(has_url).unwrap_or(Service::Email))
                .await?;
        }

        let keys = Prepared::new(keys).decide(context).await?;
        let mut refused = None;
        for key in keys {
            let probed = key.probe.send(context).await;
            let url = key.url;
            let mode = key.mode;
            match key.service {
                Service::Extraction => {
                    let me = probed.as_ref().ok().and_then(Option::as_ref);
                    let me = me.map(|me| fields_beside(&["url", "key", "mode"], me));
                    let key = key.key;
                    let me = me.unwrap_or_default();
                    who.extraction = Some(Extraction { url, key, mode, me });
                }
                _ => {
                    let accepted = match &probed {
                        Ok(_) => Some(true),
                        Err(failure) => (failure.kind() == Kind::Unauthenticated).then_some(false),
                    };
                    who.email = Some(Email {
                        url,
                        key: key.key,
                        mode,
                        accepted,
                    });
                }
            }
            refused = refused.or(probed.err());
        }

        context.out.one(&who, VIEW)?;
        given.iter().for_each(|sentence| context.out.note(sentence));
        if let Some(sentence) = context.clients.own_sandbox().await {
            context.out.note(&sentence);
        }
        refused.map_or(Ok(()), Err)
    }
}

/// A key, and the request that checks it.
struct ProbedKey {
    service: Service,
    url: String,
    key: String,
    mode: Option<&'static str>,
    probe: Probe,
}

impl Preview for Vec<ProbedKey> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        let requests = self.iter().map(|key| key.probe.to_request());
        dry_run::show_all(&context.out, requests)
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Identity<'a> {
    profile: &'a str,
    extraction: Option<Extraction>,
    email: Option<Email>,
}

#[derive(Serialize, JsonSchema)]
struct Extraction {
    url: String,
    /// The documented prefix; the rest is masked.
    key: String,
    #[schemars(extend("enum" = ["live", "test", null]))]
    mode: Option<&'static str>,
    #[serde(flatten)]
    #[schemars(schema_with = "me_fields")]
    me: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
struct Email {
    url: String,
    /// The documented prefix; the rest is masked.
    key: String,
    #[schemars(extend("enum" = ["live", "test", null]))]
    mode: Option<&'static str>,
    /// Null if the request failed before the key was checked.
    accepted: Option<bool>,
}
