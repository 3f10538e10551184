//! `svc login` and `svc logout`: check a key with a request that reads (`Probe`), and store it in
//! the profile or delete it. A key belongs to the base URL that it is stored with; before another
//! URL replaces that one, a person confirms. Unless `--store-only` is given, nothing is stored if
//! the service rejects the key, or if it is of another organization than the profile. A key never
//! comes from the command line. `svc whoami` uses `Probe`, too.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::email::Audience;
use svc_sdk::extraction::Me;
use svc_sdk::{Call, Error, List, Operation, RequestPreview, Service};

use crate::command_line::filled;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::hints::how_the_key_was_sent;
use crate::input::choice;
use crate::output_schema::of;
use crate::prepared::confirm;
use crate::settings::{Key, Settings, Source, key_command_entry, url_entry, url_setting_names};
use crate::urls::with_scheme;

/// Check an API key and store it in the profile
///
/// The key is read from a hidden prompt, standard input or --key-file and checked with a read-only
/// request. It is stored in credentials.toml, readable only by you.
///
/// With --store-only, the key is stored without a request. To keep a key in a password manager, set
/// email_key_command in place of a login: svc config set --help.
///
/// A key belongs to the base URL that it was stored for. svc asks before it replaces the base URL of
/// the profile and its key; without a terminal, add --yes.
#[derive(Args, Debug)]
#[command(add = local(of::<LoggedIn>).calling(&[Operation::Me, Operation::AudiencesList]).of_new_profile().with_key_to_check())]
#[command(after_long_help = "\
  svc login --email-url https://mail.example.com
  svc login --service extraction --extraction-url https://extract.example.com \\
      < key.txt
  svc login --profile staging --email-url https://mail.staging.example.com
  svc login --store-only --key-file key.txt \\
      --email-url https://mail.example.com")]
pub struct Login {
    /// Service of the key [default: that of the URL, or email]
    #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
    service: Option<Service>,
    /// Store the key without checking it; no request is sent
    #[arg(long)]
    store_only: bool,
}

impl Login {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let service = self.service(settings)?;
        if settings.sandbox {
            return Err(Failure::usage(
                "the sandbox has its own keys and needs no login",
            ));
        }

        let url = match settings.url(service) {
            Some(url) => url.value.clone(),
            None if context.out.can_ask() => {
                let question = format!("Base URL of the {service} service: ");
                let read = |typed: &str| {
                    let url = with_scheme(typed).unwrap_or_else(|| typed.to_owned());
                    check_base_url(context, service, &url).map(|()| url)
                };
                let url = context.out.ask_until(&question, read).await?;
                url.ok_or_else(|| no_base_url(service))?
            }
            None => {
                return Err(no_base_url(service));
            }
        };
        check_base_url(context, service, &url)?;
        let profile = &settings.profile.value;
        if settings.key_command(service).is_some() {
            let entry = key_command_entry(service);
            let problem = format!("profile `{profile}` has {entry}, which prints its key");
            let unset = format!("config unset {entry} --profile {{}}");
            return Err(Failure::usage(problem).code("two_keys").hint(format!(
                "to store a key instead: svc {}",
                filled(&unset, &[profile])
            )));
        }

        confirm_replacement(context, service, &url).await?;
        let key = read_key(context, service).await?;
        let me = if self.store_only {
            None
        } else {
            probe(context, service, &url, &key)
                .await
                .map_err(|failure| next_step(context, failure, service, &url))?
        };
        let organization = me.map(|me| me.organization);

        let _lock = settings.lock()?;
        let mut profiles = settings.profiles()?;
        let expected = profiles.text(profile, "organization");
        if let (Some(expected), Some(found)) = (expected, &organization)
            && *expected != found.id
        {
            return Err(Failure::check(format!(
                "profile `{profile}` belongs to organization {expected}, but the key to {}",
                found.id
            ))
            .code("wrong_organization")
            .hint("use another profile: svc login --profile NAME"));
        }

        profiles.set(profile, url_entry(service), url.as_str());
        if let Some(found) = &organization {
            profiles.set(profile, "organization", found.id.as_str());
        }
        if profiles.active().is_none() {
            profiles.set_active(Some(profile));
        }
        let mut credentials = settings.credentials()?;
        credentials.set_key(profile, service, &url, &key);
        credentials.save()?;
        profiles.save()?;

        let name = organization
            .as_ref()
            .map(|it| format!(", organization {}", it.name));
        let live = if key.mode() == Some("live") {
            " (a live key)"
        } else {
            ""
        };
        let sentence = format!(
            "profile `{profile}` now uses the {service} service at {url}{live}{}",
            name.unwrap_or_default()
        );
        let path = credentials.path().display().to_string();
        let output = LoggedIn {
            profile,
            service: service.as_str(),
            url: &url,
            key: key.to_string(),
            mode: key.mode(),
            organization: organization.map(|it| it.id),
            credentials: &path,
        };
        context.out.done(&sentence, &output)?;
        context.out.hint(&format!("stored the key in {path}"));
        Ok(())
    }

    /// The service that is named, or whose URL is given. The key must not reach the other one.
    fn service(&self, settings: &Settings) -> Result<Service, Failure> {
        let mut service = self.service;
        for of_url in Service::ALL {
            let url = settings.url(*of_url);
            if !url.is_some_and(|url| matches!(url.source, Source::Option(_))) {
                continue;
            }
            if *service.get_or_insert(*of_url) != *of_url {
                return Err(
                    Failure::usage("a login stores the key of one service").hint(
                        "give --email-url or --extraction-url alone, or the --service of the URL",
                    ),
                );
            }
        }
        Ok(service.unwrap_or(Service::Email))
    }
}

#[derive(Serialize, JsonSchema)]
pub struct LoggedIn<'a> {
    profile: &'a str,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: &'static str,
    url: &'a str,
    /// The documented prefix; the rest is masked.
    key: String,
    #[schemars(extend("enum" = ["live", "test", null]))]
    mode: Option<&'static str>,
    organization: Option<String>,
    /// The file with the key.
    credentials: &'a str,
}

/// Asks before another base URL replaces that of the profile, and with it the key that belongs to
/// it.
async fn confirm_replacement(
    context: &Context,
    service: Service,
    url: &str,
) -> Result<(), Failure> {
    let settings = &context.settings;
    let Some(stored) = settings.replaced_url(service, url)? else {
        return Ok(());
    };

    let profile = &settings.profile.value;
    let credentials = settings.credentials()?;
    let has_key = credentials.key(profile, service)?.is_some();
    let and_key = if has_key { " and its key" } else { "" };
    let replaced = format!(
        "profile `{profile}` uses the {service} service at {stored}; this login replaces that \
         base URL{and_key}"
    );
    if context.out.can_ask() || settings.yes {
        return confirm(context, &format!("{replaced}. Replace?")).await;
    }

    Err(Failure::usage(replaced)
        .code("profile_in_use")
        .hint(format!(
            "keep it, and store this login in another profile: --profile NAME\n\
         or replace it: {} --yes",
            context.typed_after("svc")
        )))
}

fn no_base_url(service: Service) -> Failure {
    Failure::usage(format!("the base URL of the {service} service is missing"))
        .hint(format!("give it with {}", url_setting_names(service)))
}

/// Reports an invalid base URL before the key is asked for.
fn check_base_url(context: &Context, service: Service, url: &str) -> Result<(), Failure> {
    let placeholder = Key::parse("none", "placeholder")?;
    match service {
        Service::Email => context.clients.email_client_at(url, &placeholder).map(drop),
        _ => context
            .clients
            .extraction_client_at(url, &placeholder)
            .map(drop),
    }
}

async fn read_key(context: &Context, service: Service) -> Result<Key, Failure> {
    if let Some(key) = context.clients.key_of_file()? {
        return Ok(key);
    }
    if context.out.stdin_is_terminal() {
        let question = format!("Key for the {service} service (hidden): ");
        loop {
            let typed = context.out.ask_hidden(&question).await?;
            if typed.trim().is_empty() {
                return Err(Failure::input("no key was entered; nothing was changed"));
            }
            match Key::parse(&typed, "the prompt") {
                Ok(key) => return Ok(key),
                Err(problem) => context.out.failure(&problem),
            }
        }
    }

    let bytes = context.stdin("login")?;
    Key::parse(&String::from_utf8_lossy(&bytes), "standard input")
}

/// Time limit for the check of a key.
const MAX_PROBE: Duration = Duration::from_secs(10);

/// Checks a key: [`Probe`].
pub async fn probe(
    context: &Context,
    service: Service,
    url: &str,
    key: &Key,
) -> Result<Option<Me>, Failure> {
    Probe::new(context, service, url, key)?.send(context).await
}

/// A read-only request that checks a key.
pub enum Probe {
    /// The extraction service returns the key's organization.
    Me(Call<Me>),
    /// The email service responds with 401 to an unknown key.
    Audiences(Call<List<Audience>>),
}

impl Probe {
    pub fn new(context: &Context, service: Service, url: &str, key: &Key) -> Result<Self, Failure> {
        let limit = context.settings.timeout.value.min(MAX_PROBE);
        Ok(match service {
            Service::Extraction => {
                let me = context.clients.extraction_client_at(url, key)?.me();
                Self::Me(me.timeout(limit).retries(0))
            }
            _ => {
                let list = context
                    .clients
                    .email_client_at(url, key)?
                    .audiences()
                    .list();
                Self::Audiences(list.timeout(limit).retries(0))
            }
        })
    }

    pub fn to_request(&self) -> Result<RequestPreview, Error> {
        match self {
            Self::Me(call) => call.to_request(),
            Self::Audiences(call) => call.to_request(),
        }
    }

    /// `None` also if the key is valid, but lacks the scope.
    pub async fn send(self, context: &Context) -> Result<Option<Me>, Failure> {
        const PROGRESS: &str = "checking the key";
        let found = match self {
            Self::Me(call) => context.caller.send(call, PROGRESS).await.map(Some),
            Self::Audiences(call) => context.caller.send(call, PROGRESS).await.map(|_| None),
        };
        match found {
            Err(failure) if failure.status == Some(403) => Ok(None),
            found => found,
        }
    }
}

/// Adds a hint. `svc doctor` is of no use here, because nothing is stored yet.
fn next_step(context: &Context, failure: Failure, service: Service, url: &str) -> Failure {
    match failure.kind() {
        Kind::Unauthenticated => {
            let copy = format!(
                "is it a key of the {service} service? copy it again from the service's dashboard"
            );
            match how_the_key_was_sent(&failure, context) {
                Some(scheme) => {
                    let conform = format!("{scheme} --email-url {url} --key-file PATH");
                    failure.hint(format!("{conform}\n{copy}"))
                }
                None => failure.hint(copy),
            }
        }
        Kind::Unavailable => failure.hint(format!(
            "nothing was stored; check the base URL: {}",
            url_setting_names(service)
        )),
        _ => failure,
    }
}

/// Delete the stored keys of the profile
///
/// The keys stay valid. Revoke them in the service's dashboard.
#[derive(Args, Debug)]
#[command(add = local(of::<LoggedOut>))]
#[command(after_long_help = "\
  svc logout
  svc logout --service extraction --profile staging")]
pub struct Logout {
    /// Delete only the key of this service
    #[arg(long, value_name = "email|extraction", value_parser = choice::service(), hide_possible_values = true)]
    service: Option<Service>,
}

impl Logout {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if context.settings.sandbox {
            return Err(Failure::usage(
                "the sandbox has its own keys; the stored ones are of live services, and stay",
            )
            .hint("leave out --sandbox, or unset SVC_SANDBOX"));
        }

        let profile = &context.settings.profile.value;
        let _lock = context.settings.lock()?;
        let mut credentials = context.settings.credentials()?;
        let services = match self.service {
            Some(service) => vec![service],
            None => Service::ALL.to_vec(),
        };
        let mut deleted = Vec::new();
        for service in services {
            if credentials.forget(profile, service) {
                deleted.push(service.as_str());
            }
        }

        let sentence = if deleted.is_empty() {
            format!("profile `{profile}` has no stored key")
        } else {
            credentials.save()?;
            let names = deleted.join(" and the ");
            format!("deleted the {names} key of profile `{profile}`")
        };
        context.out.done(&sentence, &LoggedOut { profile, deleted })
    }
}

#[derive(Serialize, JsonSchema)]
pub struct LoggedOut<'a> {
    profile: &'a str,
    /// The services whose keys were deleted.
    deleted: Vec<&'static str>,
}
