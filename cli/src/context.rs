//! The context of a command: settings, output, SDK clients, the sandbox.

mod page_limit;
mod trace;
mod which_service;

pub use trace::masked_message;

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::{
    Attempt, Call, Dialect, EmailClient, EmailClientBuilder, Error, ExtractionClient,
    ExtractionClientBuilder, List, ListStream, Operation, RawResponse, Secret, Service,
};
use tokio::sync::OnceCell;

use crate::changes::Changes;
use crate::command_line;
use crate::command_spec::{CommandSpec, Effect};
use crate::dry_run::Requests;
use crate::exit;
use crate::failure::{Failure, Kind};
use crate::input::content::Inputs;
use crate::input::file_name;
use crate::output::{Format, Printer, View};
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::settings::{Key, Settings, Source, key_variables, url_setting_names};
use crate::stop::{self, StopSignal};
use crate::urls::{is_local, is_loopback, with_scheme, without_password};

/// The keys that a new sandbox accepts (`docs/sandbox.md#seeds`).
pub const SANDBOX_EMAIL_KEY: &str = "mk_test_sandbox";
const SANDBOX_EXTRACTION_KEY: &str = "sk_test_sandbox";

const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// The base URL that a dry run with the sandbox shows when no server is running: the default
/// of `svc sandbox serve`.
const SANDBOX_DRY_RUN_URL: &str = "http://127.0.0.1:4080";

/// Runs another command inside this process. Returns its exit code and the ID of its last request.
pub type RunInside = fn(&[OsString], Process) -> (u8, Option<String>);

/// The context of one command.
pub struct Context {
    pub settings: Arc<Settings>,
    pub out: Printer,
    pub inputs: Inputs,
    pub command: CommandSpec,
    /// The organization of the sandbox that the command is about, if it is given.
    pub organization: Option<String>,
    /// The tree of all commands.
    pub tree: fn() -> clap::Command,
    pub run_inside: RunInside,
    /// The command line of this run, for hints that repeat it with other options.
    typed: Vec<OsString>,
    pub sandbox: Arc<OnceCell<Sandbox>>,
    pub changes: Changes,
    /// Those of a dry run.
    pub requests: Requests,
    /// The exit code, if the command does not fail.
    pub exit_code: Cell<u8>,
    /// The ID of the last request that a service has answered.
    pub request_id: Arc<Mutex<Option<String>>>,
    /// What a lookup by name has not found, so that it is sent as an id.
    pub not_found: RefCell<Option<String>>,
    /// Whether a person knows which service is used, see `which_service.rs`.
    pub told_service: Cell<bool>,
}

/// Applies the settings that both clients have.
macro_rules! with_settings {
    ($context:ident, $builder:expr, $url:expr) => {{
        let settings = &$context.settings;
        let mut builder = $builder
            .timeout(settings.timeout.value)
            .retries(settings.retries.value)
            .dialect($context.dialect().clone())
            .user_agent(USER_AGENT);
        if let Some(pem) = $context.ca_bundle()? {
            builder = builder.ca_bundle(&pem);
        }
        builder = match settings.proxies.of($url) {
            Some(proxy) => builder.proxy(proxy).proxy_except(&settings.proxies.except),
            None => builder.no_proxy(),
        };
        builder.on_attempt($context.observer())
    }};
}

/// Of a request by method and path: whether it may be repeated, and what is done with an error.
type Raw<'a> = (bool, &'a dyn Fn(&Error));

impl Context {
    /// Whether an option selects a format for programs.
    pub fn selects_json(&self) -> bool {
        let is_json = self.settings.format.as_ref().is_some_and(|format| {
            matches!(format.source, Source::Option(_)) && format.value != Format::Table
        });
        is_json || self.out.has_filter()
    }

    /// A context for one command.
    pub fn new(
        settings: Settings,
        out: Printer,
        command: CommandSpec,
        organization: Option<String>,
        typed: &[OsString],
        tree: fn() -> clap::Command,
        run_inside: RunInside,
    ) -> Self {
        Self {
            inputs: Inputs::new(settings.env.cwd.clone()),
            settings: Arc::new(settings),
            out,
            command,
            organization,
            tree,
            run_inside,
            typed: typed.to_vec(),
            sandbox: Arc::default(),
            changes: Changes::default(),
            requests: Requests::default(),
            exit_code: Cell::new(exit::DONE),
            request_id: Arc::default(),
            not_found: RefCell::default(),
            told_service: Cell::default(),
        }
    }

    /// What sees each attempt of each request, also those of a list's pages.
    fn observer(&self) -> impl Fn(&Attempt<'_>) + Send + Sync + 'static {
        let tracer = self.out.tracer();
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
            Some(sandbox) if self.settings.sandbox => sandbox.dialect(),
            _ => &self.settings.dialect,
        }
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

    /// As [`email_client_at`](Self::email_client_at), for more options.
    pub fn email_builder_at(&self, url: &str, key: &Key) -> Result<EmailClientBuilder, Failure> {
        self.out.hide(key.expose(), &key.to_string());
        let builder = EmailClient::builder(url, Secret::new(key.expose()));
        let mut builder = builder.insecure_webhook_urls(self.settings.sandbox || is_local(url));
        if let Some(guard) = self.settings.guard.for_run()? {
            let sends = [Operation::EmailsSend, Operation::EmailsSendBatch];
            let may_send = self.command.calls_any_operation
                || self
                    .command
                    .operations
                    .iter()
                    .any(|each| sends.contains(each));
            if self.settings.dry_run && may_send {
                self.out.note(&format!("recipient guard: {guard}"));
            }
            builder = builder.recipient_guard(guard);
        }
        Ok(with_settings!(self, builder, url))
    }

    /// A client for the sandbox's control interface.
    pub async fn control_client(&self) -> Result<EmailClient, Failure> {
        let url = self.sandbox_url().await?;
        // A dry run starts no server, and shows no token.
        let token = match self.settings.dry_run {
            true => None,
            false => self.sandbox().await?.control_token().cloned(),
        };
        self.control_client_at(url, token)
    }

    /// As [`control_client`](Self::control_client), for requests that a dry run sends: those that
    /// only read.
    pub async fn reading_client(&self) -> Result<EmailClient, Failure> {
        let sandbox = self.sandbox().await?;
        self.control_client_at(sandbox.url().to_owned(), sandbox.control_token().cloned())
    }

    fn control_client_at(
        &self,
        url: String,
        token: Option<Secret>,
    ) -> Result<EmailClient, Failure> {
        let key = token.unwrap_or_else(|| Secret::new(SANDBOX_EMAIL_KEY));
        let builder = EmailClient::builder(url, key).on_attempt(self.observer());
        Ok(builder.no_proxy().user_agent(USER_AGENT).build()?)
    }

    async fn sandbox_url(&self) -> Result<String, Failure> {
        if self.settings.dry_run {
            let url = Sandbox::running_url(&self.settings).await?;
            return Ok(url.unwrap_or_else(|| SANDBOX_DRY_RUN_URL.to_owned()));
        }
        Ok(self.sandbox().await?.url().to_owned())
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
        let Some(organization) = &self.settings.organization else {
            return Ok(());
        };
        if self.settings.dry_run || !self.settings.is_key_overridden(Service::Extraction) {
            return Ok(());
        }
        let checked = self.run(client.verify_organization(organization)).await;
        checked.map(drop).map_err(|failure| match failure.kind() {
            Kind::CheckFailed => failure
                .code("wrong_organization")
                .hint("use a profile of that organization: --profile NAME"),
            _ => failure,
        })
    }

    /// A client of the extraction service with this base URL and key.
    pub fn extraction_client_at(&self, url: &str, key: &Key) -> Result<ExtractionClient, Failure> {
        built(self.extraction_builder_at(url, key)?.build(), url)
    }

    /// As [`extraction_client_at`](Self::extraction_client_at), for more options.
    pub fn extraction_builder_at(
        &self,
        url: &str,
        key: &Key,
    ) -> Result<ExtractionClientBuilder, Failure> {
        self.out.hide(key.expose(), &key.to_string());
        let mut builder = ExtractionClient::builder(url, Secret::new(key.expose()));
        if let Some(guard) = self.settings.guard.for_run()? {
            builder = builder.recipient_guard(guard);
        }
        Ok(with_settings!(self, builder, url))
    }

    /// Runs a call with the options of this command. With `--dry-run` it prints the request
    /// instead and returns `None`.
    pub async fn call<T: 'static>(&self, call: Call<T>, what: &str) -> Result<Option<T>, Failure> {
        self.send(self.with_options(call), None, what).await
    }

    /// As [`call`](Self::call), for a request that is not one of the SDK's operations.
    /// `retry_safe` says whether sending it twice does no more than sending it once. `failed` gets the
    /// error, which has the response.
    pub async fn call_raw(
        &self,
        call: Call<RawResponse>,
        retry_safe: bool,
        what: &str,
        failed: &dyn Fn(&Error),
    ) -> Result<Option<RawResponse>, Failure> {
        let call = self.with_options(call.idempotent(retry_safe));
        self.send(call, Some((retry_safe, failed)), what).await
    }

    /// As [`call`](Self::call), with a separate deadline and without retries.
    pub async fn call_within<T: 'static>(
        &self,
        call: Call<T>,
        deadline: std::time::Duration,
        what: &str,
    ) -> Result<Option<T>, Failure> {
        self.send(call.timeout(deadline).retries(0), None, what)
            .await
    }

    /// Sends a request, or prints it with `--dry-run`.
    async fn send<T: 'static>(
        &self,
        call: Call<T>,
        raw: Option<Raw<'_>>,
        what: &str,
    ) -> Result<Option<T>, Failure> {
        if self.settings.dry_run {
            self.requests.show(&self.out, &call.to_request()?)?;
            return Ok(None);
        }
        let progress = self.out.progress(what);
        let response = self.traced(call, raw).await;
        drop(progress);
        response.map(Some)
    }

    /// Whether this run has both a base URL and a key for a service.
    pub fn is_configured(&self, service: Service) -> Result<bool, Failure> {
        if self.settings.sandbox {
            return Ok(true);
        }
        Ok(self.settings.has_key(service)? && self.settings.url(service).is_some())
    }

    /// Runs a call with the options of this command.
    pub async fn run<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        self.traced(self.with_options(call), None).await
    }

    /// Reads a whole list, or the part of it that the service says how to get.
    pub async fn read_all<T: Serialize + Send + 'static>(
        &self,
        list: ListStream<T>,
    ) -> Result<List<T>, Failure> {
        let read = async { list.into_list().await.map_err(|error| self.failure(error)) };
        self.within_timeout(read).await
    }

    async fn traced<T: 'static>(&self, call: Call<T>, raw: Option<Raw<'_>>) -> Result<T, Failure> {
        let operation = call.operation();
        let changes = !raw
            .map(|(retry_safe, _)| retry_safe)
            .or(operation.map(Operation::is_idempotent))
            .unwrap_or(self.command.effect == Effect::Reads);
        let response = call.into_future();
        let result = match changes {
            true => self.changes.track(operation, response).await,
            false => response.await,
        };
        result.map_err(|error| match raw {
            Some((retry_safe, failed)) => {
                failed(&error);
                Failure::from_sdk(&error, retry_safe)
            }
            None => self.failure(error),
        })
    }

    /// The sandbox of this run, found or started on first use.
    pub async fn sandbox(&self) -> Result<&Sandbox, Failure> {
        self.sandbox
            .get_or_try_init(|| Sandbox::attach(&self.settings))
            .await
    }

    /// What to tell a person if no sandbox was running, so that this command has started its own.
    pub async fn own_sandbox(&self) -> Option<String> {
        let sandbox = self.sandbox.get()?;
        let dir = self.settings.sandbox_dir.display();
        let sentence = format!("no server was running on {dir}; this command started its own");
        sandbox.is_own().await.then_some(sentence)
    }

    /// The result of reading, unless a signal ends the command before.
    pub async fn unless_stopped<T>(
        &self,
        stop: &mut StopSignal,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            read = read => read,
            _ = stop.recv() => Err(self.changes.interruption()),
        }
    }

    /// Completes on Ctrl-C.
    pub async fn interrupted(&self) {
        stop::interrupted(self.settings.env.signals).await;
    }

    /// Ends the command. A sandbox inside this process first finishes the work that is due.
    pub async fn finish(&self) {
        if let Some(sandbox) = self.sandbox.get() {
            let _progress = self.out.progress("waiting for the sandbox to finish");
            sandbox.finish().await;
        }
    }

    /// A command line for a hint, with `--sandbox` if this run uses the sandbox, and with the profile of
    /// an option.
    pub fn svc(&self, command: &str, values: &[&str]) -> String {
        let rest = command_line::filled(command, values);
        let profile = &self.settings.profile;
        match &profile.source {
            // `svc sandbox …` always addresses the sandbox.
            _ if rest.starts_with("sandbox ") => format!("svc {rest}"),
            _ if self.settings.sandbox => format!("svc --sandbox {rest}"),
            Source::Option(_) => {
                format!(
                    "svc --profile {} {rest}",
                    command_line::shell_quoted(&profile.value)
                )
            }
            _ => format!("svc {rest}"),
        }
    }

    /// The list of the group that the command belongs to, as a command line.
    pub fn list_of_group(&self) -> Option<String> {
        let (group, _) = self.command.path.rsplit_once(' ')?;
        let tree = (self.tree)();
        let mut words = group.split(' ').chain(["list"]);
        let list = words.try_fold(&tree, |level, word| level.find_subcommand(word))?;
        let of = list
            .get_positionals()
            .filter_map(|it| it.get_value_names()?.first());
        Some(of.fold(format!("{group} list"), |line, of| format!("{line} {of}")))
    }

    /// The words after `svc`.
    pub fn typed(&self) -> &[OsString] {
        &self.typed
    }

    /// The command line of this run.
    pub fn typed_again(&self) -> String {
        self.typed_after("svc")
    }

    /// The command line of this run, with more options.
    fn typed_after(&self, program: &str) -> String {
        let tree = (self.tree)();
        let words = self.command.path.split(' ');
        let command = words.fold(&tree, |command, word| {
            command.find_subcommand(word).unwrap_or(command)
        });
        command_line::shown(program, &self.typed, command)
    }

    /// Reports a deletion of what `shown` describes to people.
    pub fn deleted(&self, noun: &str, id: &str, shown: &str) -> Result<(), Failure> {
        self.out.done(
            &format!("deleted {noun} {shown}"),
            &Deleted { id, deleted: true },
        )
    }

    /// The base URL and the key of a service.
    pub async fn endpoint(&self, service: Service) -> Result<(String, Key), Failure> {
        if self.settings.sandbox {
            let url = self.sandbox_url().await?;
            let (key, given) = self.sandbox_key(service).await?;
            given.iter().for_each(|sentence| self.out.trace(sentence));
            return Ok((url, key));
        }
        self.settings.refuse_unknown_profile()?;
        let url = self.settings.url(service);
        let key = self.key(service)?;
        match (url, key) {
            (Some(url), Some(key)) => {
                self.tell_service(service, url)?;
                if is_cleartext_url(&url.value) {
                    self.out.warning(&format!(
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
        let given = match self.settings.is_key_overridden(service) {
            true => self.settings.stored_key(service).ok().flatten(),
            false => None,
        };
        let (Some(given), Some(sandbox)) = (given.filter(|it| it.value != seeded), sandbox) else {
            return Ok((seeded, None));
        };
        let is_issued = sandbox.has_issued(given.value.expose()).await?;
        let (key, what) = match is_issued {
            true => (
                given.value,
                "this sandbox has issued the key, which is used",
            ),
            false => (
                seeded,
                "not a key of this sandbox, and not sent to it: the seeded one is used",
            ),
        };
        Ok((key, Some(format!("{}: {what}", given.source))))
    }

    /// The key of a service: `--key-file`, the environment, the profile.
    fn key(&self, service: Service) -> Result<Option<Key>, Failure> {
        if let Some(key) = self.key_of_file()? {
            return Ok(Some(key));
        }
        let key = self.settings.stored_key(service)?;
        if key
            .as_ref()
            .is_some_and(|key| key.source == Source::Profile)
        {
            self.settings.check_destination_of_stored_key(service)?;
        }
        Ok(key.map(|key| key.value))
    }

    /// The key of `--key-file`.
    pub fn key_of_file(&self) -> Result<Option<Key>, Failure> {
        let Some(path) = &self.settings.key_file else {
            return Ok(None);
        };
        let bytes = self.inputs.private(&self.out, "--key-file", path)?;
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
            match self.typed.iter().any(command_line::is_not_in_sandbox) {
                true => login,
                false => {
                    let again = self.typed_after("svc --sandbox");
                    format!("try it on this machine: {again}\n{login}")
                }
            },
        )
    }

    /// The command line that stores a key for a service in this run's profile.
    fn login(&self, service: Service) -> String {
        self.svc("login --service {}", &[&service.to_string()])
    }

    /// The PEM file of `--ca-bundle` or of the profile.
    pub fn ca_bundle(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(bundle) = &self.settings.ca_bundle else {
            return Ok(None);
        };
        if matches!(bundle.source, Source::Environment(_)) {
            // The platform's certificate verifier reads `SSL_CERT_FILE` itself.
            return Ok(None);
        }
        let path = &bundle.value;
        std::fs::read(self.settings.path(path))
            .map(Some)
            .map_err(|error| {
                Failure::input(format!("{}: {}: {error}", bundle.source, path.display()))
            })
    }

    /// The text of an option's `TEXT|@FILE|-` value. A file name without `@` is refused.
    pub fn text(&self, option: &str, value: &str) -> Result<String, Failure> {
        file_name::refuse(option, value, &self.settings.env.cwd)?;
        self.inputs.text(&self.out, option, value)
    }

    fn with_options<T>(&self, call: Call<T>) -> Call<T> {
        let call = call
            .timeout(self.settings.timeout.value)
            .retries(self.settings.retries.value);
        match &self.settings.idempotency_key {
            Some(key) if self.command.effect == Effect::Creates => {
                call.idempotency_key(key.as_str())
            }
            _ => call,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Deleted<'a> {
    id: &'a str,
    deleted: bool,
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

/// A view that names no columns: every field as the service sent it.
pub const PLAIN: View = View(&[]);
