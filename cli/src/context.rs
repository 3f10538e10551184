//! What a command works with: settings, output, clients, the sandbox.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use svc_sdk::email::BatchShape;
use svc_sdk::{
    Attempt, Call, EmailClient, ErrorKind, ExtractionClient, Operation, RawResponse, Response,
    Secret, Service,
};
use tokio::sync::OnceCell;

use crate::changes::Changes;
use crate::command_spec::{CommandSpec, Effect};
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::input::content::Inputs;
use crate::output::{Printer, Tracer, View};
use crate::sandbox::Sandbox;
use crate::settings::{Key, Settings, Source};
use crate::typed;

/// The keys that the sandbox is seeded with (`docs/control-interface.md#seeds`).
const SANDBOX_EMAIL_KEY: &str = "mk_test_sandbox";
const SANDBOX_EXTRACTION_KEY: &str = "sk_test_sandbox";

const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// Where a dry run with the sandbox pretends to send: the address that
/// `svc sandbox serve` has when none is given.
const SANDBOX_DRY_RUN_URL: &str = "http://127.0.0.1:4080";

/// What a command works with.
pub struct Context {
    pub settings: Settings,
    pub out: Printer,
    pub inputs: Inputs,
    pub leaf: &'static CommandSpec,
    /// The arguments of this run, to suggest a command that is the user's own.
    typed: Vec<OsString>,
    sandbox: OnceCell<Sandbox>,
    pub changes: Changes,
}

impl Context {
    /// A context for one command.
    pub fn new(
        settings: Settings,
        out: Printer,
        leaf: &'static CommandSpec,
        typed: &[OsString],
    ) -> Self {
        let (inputs, sandbox, typed) = (Inputs::default(), OnceCell::new(), typed.to_vec());
        Self { settings, out, inputs, leaf, typed, sandbox, changes: Changes::default() }
    }

    /// The client of the email service.
    pub async fn email_client(&self) -> Result<EmailClient, Failure> {
        let (url, key) = self.address(Service::Email).await?;
        self.email_client_at(&url, &key)
    }

    /// A client of the email service at an address, with a key.
    pub fn email_client_at(&self, url: &str, key: &Key) -> Result<EmailClient, Failure> {
        let wire = &self.settings.wire;
        let mut builder = EmailClient::builder(url, Secret::new(key.expose()))
            .timeout(self.settings.timeout.value)
            .retries(self.settings.retries.value);
        if let Some(header) = &wire.key_header {
            // A header of the service's own mostly carries the bare key.
            builder = builder.key_header(header).key_prefix("");
        }
        if let Some(prefix) = &wire.key_prefix {
            builder = builder.key_prefix(prefix);
        }
        if let Some(batch_key) = &wire.batch_key {
            builder = builder.batch_shape(BatchShape::Object(batch_key.clone()));
        }
        if let Some(first_page) = wire.first_page {
            builder = builder.first_page(u64::from(first_page));
        }
        if wire.insecure_webhooks {
            builder = builder.insecure_webhook_urls(true);
        }
        if wire.local_checks_off {
            builder = builder.local_checks(false);
        }
        if wire.honours_idempotency_key {
            builder = builder.service_honours_idempotency_key(true);
        }
        if let Some(pem) = self.ca_bundle()? {
            builder = builder.ca_bundle(&pem);
        }
        if let Some(proxies) = &self.settings.proxies {
            builder = match proxies.of(url) {
                Some(proxy) => builder.proxy(proxy).proxy_except(&proxies.except),
                None => builder.no_proxy(),
            };
        }
        if let Some(tracer) = self.out.tracer() {
            builder = builder.on_attempt(move |attempt| trace(tracer, attempt));
        }
        built(builder.user_agent(USER_AGENT).build(), url)
    }

    /// A client of the local server's control interface.
    pub async fn control_client(&self) -> Result<EmailClient, Failure> {
        let url = self.sandbox_url().await?;
        let mut builder = EmailClient::builder(url, Secret::new(SANDBOX_EMAIL_KEY));
        if let Some(tracer) = self.out.tracer() {
            builder = builder.on_attempt(move |attempt| trace(tracer, attempt));
        }
        Ok(builder.no_proxy().user_agent(USER_AGENT).build()?)
    }

    async fn sandbox_url(&self) -> Result<String, Failure> {
        if self.settings.dry_run {
            return Ok(Sandbox::running(&self.settings.sandbox_dir)
                .unwrap_or_else(|| SANDBOX_DRY_RUN_URL.to_owned()));
        }
        Ok(self.sandbox().await?.url().to_owned())
    }

    /// The client of the extraction service.
    pub async fn extraction_client(&self) -> Result<ExtractionClient, Failure> {
        let (url, key) = self.address(Service::Extraction).await?;
        let client = self.extraction_client_at(&url, &key)?;
        self.refuse_another_organization(&client).await?;
        Ok(client)
    }

    /// A profile is of one organization. Its own key was checked by `svc login`,
    /// one that comes from elsewhere is checked here.
    async fn refuse_another_organization(&self, client: &ExtractionClient) -> Result<(), Failure> {
        let Some(organization) = &self.settings.organization else { return Ok(()) };
        if self.settings.dry_run || !self.settings.is_key_from_elsewhere(Service::Extraction) {
            return Ok(());
        }
        let checked = self.run(client.verify_organization(organization)).await;
        checked.map(drop).map_err(|failure| match failure.kind() {
            Kind::CheckFailed => failure
                .code("wrong_organization")
                .hint("use a profile of that organization's: --profile NAME"),
            _ => failure,
        })
    }

    /// A client of the extraction service at an address, with a key.
    pub fn extraction_client_at(&self, url: &str, key: &Key) -> Result<ExtractionClient, Failure> {
        let mut builder = ExtractionClient::builder(url, Secret::new(key.expose()))
            .timeout(self.settings.timeout.value)
            .retries(self.settings.retries.value);
        if self.settings.wire.honours_idempotency_key {
            builder = builder.service_honours_idempotency_key(true);
        }
        if let Some(pem) = self.ca_bundle()? {
            builder = builder.ca_bundle(&pem);
        }
        if let Some(proxies) = &self.settings.proxies {
            builder = match proxies.of(url) {
                Some(proxy) => builder.proxy(proxy).proxy_except(&proxies.except),
                None => builder.no_proxy(),
            };
        }
        if let Some(tracer) = self.out.tracer() {
            builder = builder.on_attempt(move |attempt| trace(tracer, attempt));
        }
        built(builder.user_agent(USER_AGENT).build(), url)
    }

    /// Runs a call with the options of this command, or shows it: `None` after
    /// a dry run.
    pub async fn call<T>(&self, call: Call<T>, what: &str) -> Result<Option<T>, Failure>
    where
        Call<Response<T>>: IntoFuture<Output = Result<Response<T>, svc_sdk::Error>>,
    {
        if self.settings.dry_run {
            dry_run::show(self, &self.with_options(call).to_request()?)?;
            return Ok(None);
        }
        let progress = self.out.progress(what);
        let answer = self.run(call).await;
        drop(progress);
        answer.map(Some)
    }

    /// As [`call`](Self::call), for a request that the documents do not show.
    pub async fn call_raw(
        &self,
        call: Call<RawResponse>,
        harmless: bool,
        what: &str,
    ) -> Result<Option<RawResponse>, Failure> {
        let call = self.with_options(call.idempotent(harmless));
        if self.settings.dry_run {
            dry_run::show(self, &call.to_request()?)?;
            return Ok(None);
        }
        let progress = self.out.progress(what);
        let answer = self.traced(call, Some(harmless)).await;
        drop(progress);
        answer.map(Some)
    }

    /// As [`call`](Self::call), with a deadline of its own.
    pub async fn call_within<T>(
        &self,
        call: Call<T>,
        deadline: Duration,
        what: &str,
    ) -> Result<Option<T>, Failure>
    where
        Call<Response<T>>: IntoFuture<Output = Result<Response<T>, svc_sdk::Error>>,
    {
        if self.settings.dry_run {
            dry_run::show(self, &call.to_request()?)?;
            return Ok(None);
        }
        let progress = self.out.progress(what);
        let answer = self.traced(call.timeout(deadline).retries(0), None).await;
        drop(progress);
        answer.map(Some)
    }

    /// As [`call`](Self::call), for calls that a dry run has no part in.
    pub async fn call_always<T>(&self, call: Call<T>, what: &str) -> Result<T, Failure>
    where
        Call<Response<T>>: IntoFuture<Output = Result<Response<T>, svc_sdk::Error>>,
    {
        let progress = self.out.progress(what);
        let answer = self.run(call).await;
        drop(progress);
        answer
    }

    /// Whether this run has both an address and a key for a service.
    pub fn is_set_up(&self, service: Service) -> Result<bool, Failure> {
        if self.settings.sandbox {
            return Ok(true);
        }
        let has_key = self.settings.key_file.is_some()
            || self.settings.is_in_keyring(service)?
            || self.settings.stored_key(service)?.is_some();
        Ok(has_key && self.settings.url(service).is_some())
    }

    /// Runs a call with the options of this command.
    pub async fn run<T>(&self, call: Call<T>) -> Result<T, Failure>
    where
        Call<Response<T>>: IntoFuture<Output = Result<Response<T>, svc_sdk::Error>>,
    {
        self.traced(self.with_options(call), None).await
    }

    async fn traced<T>(&self, call: Call<T>, harmless: Option<bool>) -> Result<T, Failure>
    where
        Call<Response<T>>: IntoFuture<Output = Result<Response<T>, svc_sdk::Error>>,
    {
        let operation = call.operation();
        let changes = !harmless
            .or(operation.map(Operation::is_idempotent))
            .unwrap_or(self.leaf.effect == Effect::Reads);
        let answer = call.with_response().into_future();
        let answered = match changes {
            true => self.changes.watch(operation, answer).await,
            false => answer.await,
        };
        let response = answered.map_err(|error| {
            if matches!(error.kind(), ErrorKind::InvalidResponse { .. }) {
                self.show_page(error.body());
            }
            match harmless {
                Some(harmless) => Failure::from_sdk(&error, harmless),
                None => error.into(),
            }
        })?;
        Ok(response.value)
    }

    /// Shows with `--verbose` what answered in a service's place, a portal say.
    /// What begins as JSON is the service's own, and may hold a secret.
    fn show_page(&self, body: &[u8]) {
        let said = String::from_utf8_lossy(body);
        if said.trim_start().starts_with(['{', '[', '"']) {
            return;
        }
        said.lines().take(LINES_SHOWN).for_each(|line| self.out.trace(&format!("< {line}")));
    }

    /// The sandbox of this run, attached to or started when it is first needed.
    pub async fn sandbox(&self) -> Result<&Sandbox, Failure> {
        self.sandbox.get_or_try_init(|| Sandbox::attach(&self.settings.sandbox_dir)).await
    }

    /// Whether there is a sandbox to look at; see [`Sandbox::glance`].
    pub async fn glance(&self) -> bool {
        let Some(sandbox) = Sandbox::glance(&self.settings.sandbox_dir).await else { return false };
        self.sandbox.set(sandbox).is_ok()
    }

    /// Returns when somebody pressed Ctrl-C.
    pub async fn interrupted(&self) {
        // Where signals cannot be heard, the default action ends the program.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the command: a sandbox of our own ends when nothing is due any more.
    pub async fn finish(&self) -> Result<(), Failure> {
        match self.sandbox.get() {
            Some(sandbox) => {
                let progress = self.out.progress("the sandbox finishes what is due");
                let finished = sandbox.finish().await;
                drop(progress);
                finished
            }
            None => Ok(()),
        }
    }

    /// A command line to suggest, with `--sandbox` where this run has it.
    pub fn svc(&self, rest: &str) -> String {
        if self.settings.sandbox {
            // The local server's own commands are about the sandbox anyway.
            let option = if rest.starts_with("sandbox ") { "" } else { "--sandbox " };
            format!("svc {option}{rest}")
        } else {
            format!("svc {rest}")
        }
    }

    /// Reports a deletion.
    pub fn deleted(&self, noun: &str, id: &str) -> Result<(), Failure> {
        self.out.done(&format!("deleted {noun} {id}"), &json!({"id": id, "deleted": true}))
    }

    /// The address and the key of a service.
    pub async fn address(&self, service: Service) -> Result<(String, Key), Failure> {
        if self.settings.sandbox {
            let key = match service {
                Service::Email => SANDBOX_EMAIL_KEY,
                Service::Extraction => SANDBOX_EXTRACTION_KEY,
            };
            let url = self.sandbox_url().await?;
            return Ok((url, Key::parse(key, "the sandbox")?));
        }
        self.settings.refuse_unknown_profile()?;
        let url = self.settings.url(service);
        let key = self.key(service)?;
        match (url, key) {
            (Some(url), Some(key)) => {
                if is_open_to_all(&url.value) {
                    self.out.warning(&format!(
                        "the key goes to {} over plain http, where others can read it",
                        url.value
                    ));
                }
                Ok((url.value.clone(), key))
            }
            (None, None) => Err(self.not_set_up(service)),
            (None, Some(_)) => {
                let option = url_names(service);
                Err(Failure::usage(format!(
                    "there is a key for the {service} service, but no address"
                ))
                .hint(format!("give it with {option}, or keep it with `svc login`")))
            }
            (Some(url), None) => Err(Failure::new(
                Kind::Unauthenticated,
                format!("there is no key for the {service} service at {}", url.value),
            )
            .code("no_key")
            .hint(format!(
                "keep one: {}\nor give one: --key-file PATH, or {}",
                self.login(service),
                key_name(service)
            ))),
        }
    }

    /// The key of a service: `--key-file`, the environment, the profile.
    fn key(&self, service: Service) -> Result<Option<Key>, Failure> {
        match &self.settings.key_file {
            Some(path) => {
                let bytes = self.inputs.bytes(&self.out, "--key-file", path)?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| Failure::input("--key-file holds no text"))?;
                Key::parse(&text, "--key-file").map(Some)
            }
            None => Ok(self.settings.stored_key(service)?.map(|key| key.value)),
        }
    }

    fn not_set_up(&self, service: Service) -> Failure {
        Failure::new(
            Kind::Unauthenticated,
            format!("svc does not know the {service} service yet: no address and no key"),
        )
        .code("not_set_up")
        .hint(format!(
            "try it on this machine: {}\nset it up: {}",
            typed::in_sandbox(&self.typed),
            self.login(service)
        ))
    }

    /// The command line that keeps a key for a service in this run's profile.
    fn login(&self, service: Service) -> String {
        match &self.settings.profile.source {
            Source::Option(_) => {
                let profile = typed::quoted(&self.settings.profile.value);
                format!("svc login --service {service} --profile {profile}")
            }
            _ => format!("svc login --service {service}"),
        }
    }

    /// The certificates of `--ca-bundle`, in PEM.
    pub fn ca_bundle(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(bundle) = &self.settings.ca_bundle else { return Ok(None) };
        if matches!(bundle.source, Source::Environment(_)) {
            // The platform's own verifier reads `SSL_CERT_FILE` when it is needed.
            return Ok(None);
        }
        let path = &bundle.value;
        std::fs::read(path).map(Some).map_err(|error| {
            Failure::input(format!("{}: {}: {error}", bundle.source, path.display()))
        })
    }

    fn with_options<T>(&self, call: Call<T>) -> Call<T> {
        let call = call.timeout(self.settings.timeout.value).retries(self.settings.retries.value);
        match &self.settings.idempotency_key {
            Some(key) if self.leaf.effect == Effect::Creates => call.idempotency_key(key.as_str()),
            _ => call,
        }
    }
}

/// A client, or what is wrong with its address.
fn built<T>(client: Result<T, svc_sdk::Error>, url: &str) -> Result<T, Failure> {
    client.map_err(|error| {
        let failure = Failure::from(error);
        match url.contains("://") {
            true => failure,
            false => failure.hint(format!("did you mean https://{url}?")),
        }
    })
}

/// How many lines `--verbose` shows of an answer that cannot be read.
const LINES_SHOWN: usize = 20;

/// A line of `--verbose` for what was asked, and one for what came of it.
fn trace(tracer: Tracer, attempt: &Attempt<'_>) {
    tracer.trace(&format!("> {} {}", attempt.method, attempt.url));
    let status = match (attempt.status, attempt.failure) {
        (Some(status), _) => status.to_string(),
        (None, Some(kind)) => format!("no answer ({kind})"),
        (None, None) => "no answer".to_owned(),
    };
    let id = attempt.request_id.map(|id| format!(", request id {id}"));
    let again = attempt.retry_in.map(|wait| format!(", again in {} ms", wait.as_millis()));
    tracer.trace(&format!(
        "< {status} in {} ms, attempt {}{}{}",
        attempt.elapsed.as_millis(),
        attempt.number,
        id.unwrap_or_default(),
        again.unwrap_or_default(),
    ));
}

/// Whether what is sent to an address can be read on the way.
pub fn is_open_to_all(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| {
        let on_this_machine = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => true,
        };
        url.scheme() == "http" && !on_this_machine
    })
}

/// The option and the variable that give a service's address.
pub const fn url_names(service: Service) -> &'static str {
    match service {
        Service::Email => "--email-url or SVC_EMAIL_URL",
        Service::Extraction => "--extraction-url or SVC_EXTRACTION_URL",
    }
}

/// The variable that holds a service's key.
pub const fn key_name(service: Service) -> &'static str {
    match service {
        Service::Email => "SVC_EMAIL_KEY",
        Service::Extraction => "SVC_EXTRACTION_KEY",
    }
}

/// Nothing but what the service said.
pub const PLAIN: View = View(&[]);
