//! The `svc whoami` command.

use clap::Args;
use serde_json::{Map, Value, json};
use svc_sdk::Service;

use super::login::is_accepted;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Show, View, to_value};

const VIEW: View = View(&[
    Column::text("PROFILE", "/profile"),
    Column::text("ORGANIZATION", "/extraction/organization/name"),
    Column::id("ORGANIZATION ID", "/extraction/organization/id"),
    Column::new("BALANCE", "/extraction/organization/balance_cents", Show::Cents),
    Column::text("EXTRACTION URL", "/extraction/url"),
    Column::text("EXTRACTION KEY", "/extraction/key"),
    Column::text("EXTRACTION SCOPE", "/extraction/auth/scope"),
    Column::text("EMAIL URL", "/email/url"),
    Column::text("EMAIL KEY", "/email/key"),
    Column::new("EMAIL KEY ACCEPTED", "/email/accepted", Show::Flag),
]);

/// Show the organization and scope of the current keys
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc whoami
  svc whoami --jq .extraction.organization.id

Scope: any key")]
pub struct Whoami {}

impl Whoami {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut who = Map::new();
        let profile = if context.settings.sandbox {
            "the sandbox's own keys"
        } else {
            context.settings.profile.value.as_str()
        };
        who.insert("profile".into(), profile.into());
        let mut refused = None;
        for service in [Service::Extraction, Service::Email] {
            if !context.is_configured(service)? {
                continue;
            }
            let (url, key) = context.endpoint(service).await?;
            let known = json!({"url": url, "key": key.to_string(), "mode": key.mode()});
            let Value::Object(mut about) = known else { continue };
            match service {
                Service::Extraction => {
                    let client = context.extraction_client_at(&url, &key)?;
                    match context.call(client.me(), "reading").await {
                        Ok(Some(me)) => {
                            if let Value::Object(me) = to_value(&me) {
                                // `url`, `key` and `mode` take precedence over fields of the response.
                                for (name, value) in me {
                                    about.entry(name).or_insert(value);
                                }
                            }
                        }
                        Ok(None) => continue,
                        Err(failure) => refused = refused.or(Some(failure)),
                    }
                }
                _ => {
                    let client = context.email_client_at(&url, &key)?;
                    if context.settings.dry_run {
                        context.call(client.audiences().list(), "reading").await?;
                        continue;
                    }
                    let accepted = match client.audiences().list().await {
                        Ok(_) => Some(true),
                        Err(error) => {
                            let accepted = is_accepted(&error);
                            if accepted != Some(true) {
                                refused = refused.or(Some(error.into()));
                            }
                            accepted
                        }
                    };
                    about.insert("accepted".into(), accepted.into());
                }
            }
            who.insert(service.as_str().into(), about.into());
        }
        if context.settings.dry_run {
            return Ok(());
        }
        if who.len() == 1 {
            context.settings.refuse_unknown_profile()?;
            return Err(Failure::new(Kind::Unauthenticated, "no key is configured")
                .code("not_set_up")
                .hint("try the sandbox: svc --sandbox whoami\nset up a service: svc login --email-url URL"));
        }
        context.out.one(&Value::Object(who), VIEW)?;
        refused.map_or(Ok(()), Err)
    }
}
