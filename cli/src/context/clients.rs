//! The clients of a run, made from its settings: base URL, key, dialect, certificates, proxy,
//! recipient guard. With `--sandbox`, only the sandbox is reached, with its seeded key, or with one
//! of the environment that it has issued. A key of the profile is not sent to another base URL than
//! that it was stored for. Every key is hidden from standard error before the first request.
//! `caller.rs` sends the requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use svc_sdk::{
    Attempt, Dialect, EmailClient, EmailClientBuilder, Error, ExtractionClient,
    ExtractionClientBuilder, Point, Secret, Service,
};
use tokio::sync::OnceCell;

use super::{Run, trace};
use crate::command_line;
use crate::failure::{Failure, Kind};
use crate::sandbox::Sandbox;
use crate::settings::{Key, Source, key_variables, url_setting_names};
use crate::urls::{is_local, is_loopback, with_scheme, without_password};

/// The keys that a new sandbox accepts (`docs/sandbox.md#seeds`).
const SANDBOX_EMAIL_KEY: &str = "mk_test_sandbox";
const SANDBOX_EXTRACTION_KEY: &str = "sk_test_sandbox";

const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// Applies the settings that both clients have.
macro_rules! with_settings {
    ($clients:ident, $builder:expr, $url:expr) => {{
        let settings = &$clients.run.settings;
        let mut builder = $builder
            .timeout(settings.timeout.value)
            .retries(settings.retries.value)
            .dialect($clients.dialect().clone())
            .user_agent(USER_AGENT);
        if let Some(pem) = $clients.ca_bundle()? {
            builder = builder.ca_bundle(&pem);
        }
        builder = match settings.proxies.of($url) {
            Some(proxy) => builder.proxy(proxy).proxy_except(&settings.proxies.except),
            None => builder.no_proxy(),
        };
        builder.on_attempt($clients.observer())
    }};
}

/// The clients of a run, and the sandbox that they reach.
pub struct Clients {
    pub(super) run: Rc<Run>,
    pub sandbox: Arc<OnceCell<Sandbox>>,
    /// The ID of the last request that a service has answered.
    pub request_id: Arc<Mutex<Option<String>>>,
    /// Whether a person knows which service is used, see `which_service.rs`.
    pub(super) told_service: Cell<bool>,
}

impl Clients {
    pub(super) fn new(run: Rc<Run>) -> Self {
        Self {
            run,
            sandbox: Arc::default(),
            request_id: Arc::default(),
            told_service: Cell::default(),
        }
    }

    /// The observer of each attempt of each request, also those of a list's pages.
    fn observer(&self) -> impl Fn(&Attempt<'_>) + Send + Sync + 'static {
        let tracer = self.run.out.tracer();
        let last_id = Arc::clone(&self.request_id);
        move |attempt| {
            if let (Some(id), Ok(mut last)) = (attempt.request_id, last_id.lock()) {
                *last = Some(id.to_owned());
            }
            if let Some(tracer) = &tracer {
                trace::attempt(tracer, attempt);
            }
        }
    }

    /// The dialect of the service: that of the sandbox, or of the profile.
    pub fn dialect(&self) -> &Dialect {
        match self.sandbox.get() {
            Some(sandbox) if self.run.settings.sandbox => sandbox.dialect(),
            _ => &self.run.settings.dialect,
        }
    }

    /// Whether svc checks the documented limits itself. The sandbox says it, once it is found or started.
    pub async fn checks_limits(&self) -> Result<bool, Failure> {
        if self.run.settings.sandbox {
            self.sandbox().await?;
        }
        Ok(!self.dialect().is(Point::Limits, "other"))
    }

    /// A client of the email service.
    pub async fn email_client(&self) -> Result<EmailClient, Failure> {
        let (url, key) = self.endpoint(Service::Email).await?;
        self.email_client_at(&url, &key)
    }

    /// A client of the email service with this base URL and key.
    pub fn email_client_at(&self, url: &str, key: &Key) -> Result<EmailClient, Failure> {
        built(self.email_builder_at(url, key)?.build(), url)
    }

    /// Like [`email_client_at`](Self::email_client_at), for more options.
    pub fn email_builder_at(&self, url: &str, key: &Key) -> Result<EmailClientBuilder, Failure> {
        self.run.out.hide(key.expose(), &key.to_string());
        let builder = EmailClient::builder(url, Secret::new(key.expose()));
        let mut builder = builder.insecure_webhook_urls(self.run.settings.sandbox || is_local(url));
        if let Some(guard) = self.run.settings.guard.for_run()? {
            builder = builder.recipient_guard(guard);
        }
        Ok(with_settings!(self, builder, url))
    }

    /// A client for the sandbox's control interface.
    pub async fn control_client(&self) -> Result<EmailClient, Failure> {
        let sandbox = self.sandbox().await?;
        let token = sandbox.control_token().cloned();
        let key = token.unwrap_or_else(|| Secret::new(SANDBOX_EMAIL_KEY));
        let builder = EmailClient::builder(sandbox.url(), key).on_attempt(self.observer());
        Ok(builder.no_proxy().user_agent(USER_AGENT).build()?)
    }

    /// A client of the extraction service.
    pub async fn extraction_client(&self) -> Result<ExtractionClient, Failure> {
        let (url, key) = self.endpoint(Service::Extraction).await?;
        let client = self.extraction_client_at(&url, &key)?;
        self.refuse_another_organization(&client).await?;
        Ok(client)
    }

    /// A profile belongs to one organization. `svc login` has checked the stored key; a key
    /// from an option or the environment is checked here.
    async fn refuse_another_organization(&self, client: &ExtractionClient) -> Result<(), Failure> {
        let Some(organization) = &self.run.settings.organization else {
            return Ok(());
        };
        if !self.run.settings.is_key_overridden(Service::Extraction) {
            return Ok(());
        }

        let checked = client.verify_organization(organization).await;
        checked.map(drop).map_err(|error| {
            let failure = Failure::from(error);
            match failure.kind() {
                Kind::CheckFailed => failure
                    .code("wrong_organization")
                    .hint("use a profile of that organization: --profile NAME"),
                _ => failure,
            }
        })
    }

    /// A client of the extraction service with this base URL and key.
    pub fn extraction_client_at(&self, url: &str, key: &Key) -> Result<ExtractionClient, Failure> {
        built(self.extraction_builder_at(url, key)?.build(), url)
    }

    /// Like [`extraction_client_at`](Self::extraction_client_at), for more options.
    pub fn extraction_builder_at(
        &self,
        url: &str,
        key: &Key,
    ) -> Result<ExtractionClientBuilder, Failure> {
        self.run.out.hide(key.expose(), &key.to_string());
        let mut builder = ExtractionClient::builder(url, Secret::new(key.expose()));
        if let Some(guard) = self.run.settings.guard.for_run()? {
            builder = builder.recipient_guard(guard);
        }
        Ok(with_settings!(self, builder, url))
    }

    /// Whether this run has both a base URL and a key for a service.
    pub fn is_configured(&self, service: Service) -> Result<bool, Failure> {
        if self.run.settings.sandbox {
            return Ok(true);
        }
        Ok(self.run.settings.has_key(service)? && self.run.settings.url(service).is_some())
    }

    /// The sandbox of this run, found or started on first use.
    pub async fn sandbox(&self) -> Result<&Sandbox, Failure> {
        self.sandbox
            .get_or_try_init(|| Sandbox::attach(&self.run.settings))
            .await
    }

    /// Ends the run: a sandbox inside this process first finishes the work that is due.
    pub async fn finish(&self) {
        if let Some(sandbox) = self.sandbox.get() {
            let _progress = self.run.out.progress("waiting for the sandbox to finish");
            sandbox.finish().await;
        }
    }

    /// The note to a person if no sandbox was running, so that this command has started its own.
    pub async fn own_sandbox(&self) -> Option<String> {
        let sandbox = self.sandbox.get()?;
        let dir = self.run.settings.sandbox_dir.display();
        let sentence = format!("no server was running on {dir}; this command started its own");
        sandbox.is_own().await.then_some(sentence)
    }

    /// The base URL and the key of a service.
    pub async fn endpoint(&self, service: Service) -> Result<(String, Key), Failure> {
        if self.run.settings.sandbox {
            let url = self.sandbox().await?.url().to_owned();
            let (key, given) = self.sandbox_key(service).await?;
            given
                .iter()
                .for_each(|sentence| self.run.out.trace(sentence));
            return Ok((url, key));
        }

        self.run.settings.refuse_unknown_profile()?;
        let url = self.run.settings.url(service);
        let key = self.key(service)?;
        match (url, key) {
            (Some(url), Some(key)) => {
                self.tell_service(service, url)?;
                if is_cleartext_url(&url.value) {
                    self.run.out.warning(&format!(
                        "sending the key to {} over plain http; others on the network can read it",
                        url.value
                    ));
                }
                Ok((url.value.clone(), key))
            }
            (None, None) => Err(self.not_configured(service)),
            (None, Some(_)) => {
                let option = url_setting_names(service);
                Err(
                    Failure::usage(format!("no base URL is set for the {service} service")).hint(
                        format!("set it with {option}, or store it with `svc login`"),
                    ),
                )
            }
            (Some(url), None) => Err(Failure::new(
                Kind::Unauthenticated,
                format!("no key is set for the {service} service at {}", url.value),
            )
            .code("no_key")
            .hint(format!(
                "store one: {}\nor pass one with --key-file PATH or {}",
                self.login(service),
                key_variables(service)[0]
            ))),
        }
    }

    /// The key of a service of the sandbox: that of the environment if the sandbox has issued it, else
    /// the seeded one; and what became of that of the environment.
    pub async fn sandbox_key(&self, service: Service) -> Result<(Key, Option<String>), Failure> {
        let seeded = match service {
            Service::Email => SANDBOX_EMAIL_KEY,
            _ => SANDBOX_EXTRACTION_KEY,
        };
        // A dry run starts no server.
        let sandbox = self.sandbox.get();
        let seeded = sandbox
            .and_then(|it| it.key(service))
            .map_or(seeded, Secret::expose);
        let seeded = Key::parse(seeded, "the sandbox")?;
        let given = if self.run.settings.is_key_overridden(service) {
            self.run.settings.stored_key(service).ok().flatten()
        } else {
            None
        };
        let (Some(given), Some(sandbox)) = (given.filter(|it| it.value != seeded), sandbox) else {
            return Ok((seeded, None));
        };

        let is_issued = sandbox.has_issued(given.value.expose()).await?;
        let (key, what) = if is_issued {
            (given.value, "issued by this sandbox, so it is used")
        } else {
            (
                seeded,
                "not a key of this sandbox, so it is not sent; the seeded key is used",
            )
        };
        Ok((key, Some(format!("{}: {what}", given.source))))
    }

    /// The key of a service: `--key-file`, the environment, the profile.
    fn key(&self, service: Service) -> Result<Option<Key>, Failure> {
        if let Some(key) = self.key_of_file()? {
            return Ok(Some(key));
        }

        let key = self.run.settings.stored_key(service)?;
        if key
            .as_ref()
            .is_some_and(|key| key.source == Source::Profile)
        {
            self.run.settings.check_destination_of_stored_key(service)?;
        }
        Ok(key.map(|key| key.value))
    }

    /// The key of `--key-file`.
    pub fn key_of_file(&self) -> Result<Option<Key>, Failure> {
        let Some(path) = &self.run.settings.key_file else {
            return Ok(None);
        };
        let bytes = self.run.private_bytes("--key-file", path)?;
        Key::parse(&String::from_utf8_lossy(&bytes), "--key-file").map(Some)
    }

    fn not_configured(&self, service: Service) -> Failure {
        let login = format!("set it up: {}", self.login(service));
        Failure::new(
            Kind::Unauthenticated,
            format!("the {service} service is not set up: no base URL and no key"),
        )
        .code("not_set_up")
        .hint(
            if self.run.typed().iter().any(command_line::is_not_in_sandbox) {
                login
            } else {
                let again = self.run.typed_after("svc --sandbox");
                format!("try it on this machine: {again}\n{login}")
            },
        )
    }

    /// The command line that stores a key for a service in this run's profile.
    fn login(&self, service: Service) -> String {
        self.run.svc("login --service {}", &[&service.to_string()])
    }

    /// The PEM file of `--ca-bundle` or of the profile.
    pub fn ca_bundle(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(bundle) = &self.run.settings.ca_bundle else {
            return Ok(None);
        };
        if matches!(bundle.source, Source::Environment(_)) {
            // The platform's certificate verifier reads `SSL_CERT_FILE` itself.
            return Ok(None);
        }

        let path = &bundle.value;
        std::fs::read(self.run.settings.path(path))
            .map(Some)
            .map_err(|error| {
                Failure::input(format!("{}: {}: {error}", bundle.source, path.display()))
            })
    }
}

/// Converts the builder's error; for a base URL without a scheme, suggests one.
fn built<T>(client: Result<T, Error>, url: &str) -> Result<T, Failure> {
    client.map_err(|error| {
        let failure = Failure::from(error);
        match with_scheme(url) {
            Some(meant) => failure.hint(format!("did you mean {}?", without_password(&meant))),
            None => failure,
        }
    })
}

/// Whether requests to a URL cross the network in cleartext: plain http, and not this machine.
pub fn is_cleartext_url(url: &str) -> bool {
    url::Url::parse(url)
        .is_ok_and(|url| url.scheme() == "http" && url.has_host() && !is_loopback(&url))
}
