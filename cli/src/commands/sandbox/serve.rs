//! `svc sandbox serve`: runs the server in the foreground until a signal, or until standard input
//! is closed. Each option has an environment variable (`with_variables`); both become calls of the
//! server's `Builder`. Signals are handled before the server starts, because the first process of a
//! container gets no signal without a handler. A relay URL with a password is only accepted from
//! the environment. Over 500 lines, many of them options with their help.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Local};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_reference_server::client::{LoggedRequest, RecordedBody, RequestHandled};
use svc_reference_server::{Builder, InvalidSeed, Network, Server, StartError};
use svc_sdk::{Dialect, Secret};

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::{Failure, with_causes};
use crate::input::{address, choice, duration, switch};
use crate::output::Stdin;
use crate::output_schema::of;
use crate::sandbox::{PORT, cannot_start, in_memory_dir, seeded};
use crate::settings::dialect::from_file;
use crate::settings::{Settings, Source, Sourced};

/// Run the sandbox in the foreground
///
/// Prints its addresses when it is ready, as one line of JSON unless standard output is a terminal, and
/// logs to standard error: on a terminal one line for each request, otherwise log entries. The seeded
/// keys are mk_test_sandbox (email service) and sk_test_sandbox (extraction service). Ctrl-C or SIGTERM stops the server; the data is
/// kept.
///
/// Each option has an environment variable, which --env-file may set: SVC_SANDBOX_ADDR for --addr, and
/// so on. Those of --data and of switches are SVC_SANDBOX_DIR and, for example,
/// SVC_SANDBOX_IN_MEMORY=true; SVC_SANDBOX_SET takes several settings, separated by commas.
/// SVC_SANDBOX_EMAIL_KEY and SVC_SANDBOX_EXTRACTION_KEY replace the seeded keys, and
/// SVC_SANDBOX_CONTROL_TOKEN sets the token of the control interface. RUST_LOG selects what is logged.
#[derive(Args, Debug)]
#[command(add = local(of::<Ready>).of_sandbox().until_interrupted().multi_threaded())]
#[command(after_long_help = "\
  svc sandbox serve
  svc sandbox serve --addr 127.0.0.1:0 --in-memory --set create-status=200
  svc sandbox serve --network trusted
  svc --sandbox emails send --from hello@sandbox.test --to ada@example.test \\
      --subject Hi --text Hi")]
pub struct Serve {
    /// Who can reach it [default: loopback]
    ///
    /// loopback: this machine; requests for another host name are refused. trusted: containers, CI
    /// services or a team; listens on all addresses, with the seeded keys, and accepts host names
    /// without dots or below .test, .internal and .local. public: nothing is seeded, the control
    /// interface needs a token, webhooks to private addresses are refused, and --addr is required.
    #[arg(long, value_name = "NETWORK", value_parser = choice::one_of::<Network>(Network::ALL.map(Network::as_str)), hide_possible_values = true)]
    network: Option<Network>,
    /// HTTP listen address [default: 127.0.0.1:4080]
    ///
    /// Both services and the control interface share this address. Port 0 picks a free port, and
    /// :4080 stands for all IPv4 addresses. The default with --network trusted is 0.0.0.0:4080.
    #[arg(long, value_name = "ADDR", value_parser = address::parse_listen)]
    addr: Option<SocketAddr>,
    /// HTTP port, with the address of the network
    #[arg(long, value_name = "PORT", conflicts_with = "addr", hide = true)]
    port: Option<u16>,
    /// Base URL for clients elsewhere [default: the address]
    ///
    /// Tracking links and the first line carry it. Without it, tracking links carry the host that the
    /// email was sent to.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Host name that requests may have; repeatable
    ///
    /// In addition to what --network accepts. A web page could make any other name of the public DNS
    /// resolve to the server, and drive it through a browser.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        hide_short_help = true
    )]
    allow_host: Vec<String>,
    /// Data directory [env: SVC_SANDBOX_DIR]
    ///
    /// The default is the `sandbox` path that `svc config path` prints.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep all data in memory
    #[arg(long, conflicts_with = "data")]
    in_memory: bool,
    /// Skip the seeded organization, keys and domain
    #[arg(long)]
    no_seed: bool,
    /// TOML file of what to create
    ///
    /// Organizations with keys, domains, templates, audiences with contacts, and webhooks with their
    /// secrets. It is applied at each start: what exists is changed to what the file says, and the rest
    /// stays. A mistake in it is reported with line and field, and nothing is applied.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    seed: Option<PathBuf>,
    /// DNS listen address [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR", value_parser = address::parse_listen)]
    dns: Option<SocketAddr>,
    /// DNS server for other names [default: system's]
    ///
    /// The built-in zone answers for names under .test, .example, .invalid and .localhost.
    /// The hosts of webhooks are looked up in the hosts file, and then on this server.
    #[arg(long, value_name = "ADDR", value_parser = address::parse, hide_short_help = true)]
    resolver: Option<SocketAddr>,
    /// SMTP address, or off [default: 127.0.0.1:1025]
    ///
    /// Accepts mail to any address. Port 0 picks a free port, as the default does if another program
    /// uses 1025. With --network public, the default is off.
    #[arg(long, value_name = "ADDR|off", value_parser = Smtp::parse)]
    smtp: Option<Smtp>,
    /// STARTTLS certificate, PEM [default: no STARTTLS]
    ///
    /// The file holds the certificate and its chain.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, hide_short_help = true)]
    smtp_cert_file: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, hide_short_help = true)]
    smtp_key_file: Option<PathBuf>,
    /// SMTP server for outgoing mail
    ///
    /// smtp://HOST:PORT, smtp+starttls://HOST or smtps://HOST. A URL with user and password is
    /// accepted only from the environment variable SVC_SANDBOX_RELAY. It gets only mail that
    /// --relay-to allows, and messages that are released.
    #[arg(long, value_name = "URL")]
    relay: Option<String>,
    /// Who may get relayed mail: an address, a domain, or `*`
    ///
    /// Repeatable, or separated by commas. Mail to all others stays in the local mailbox.
    #[arg(
        long,
        value_name = "ADDRESS|DOMAIN",
        value_delimiter = ',',
        hide_short_help = true
    )]
    relay_to: Vec<String>,
    /// Number of emails to keep; the oldest go first
    ///
    /// Per organization, and as many received messages. For servers that run for weeks. What is still
    /// due is kept. Default: all.
    #[arg(long, value_name = "N", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// How long emails, messages and deliveries are kept
    ///
    /// By the server's clock, such as 7d or 12h. What is still due is kept. Default: forever.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, hide_short_help = true)]
    keep_for: Option<Duration>,
    /// Maximum requests per second for each API key
    ///
    /// Requests above the limit get the response 429. Default: no limit.
    #[arg(long, value_name = "N/s", value_parser = rate, hide_short_help = true)]
    rate_limit: Option<u32>,
    /// Point of the dialect; repeatable
    ///
    /// Changes behavior that the services leave undocumented, such as list-items=data or
    /// create-status=200. An unknown name or choice is refused with a list of the valid ones.
    #[arg(long, value_name = "POINT=CHOICE", value_delimiter = ',')]
    set: Vec<String>,
    /// File with the dialect of a live service, as svc conform saves it
    ///
    /// The server then behaves like that service. --set changes single points of it.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    like: Option<PathBuf>,
    /// Stop when standard input is closed
    ///
    /// The server ends with the program that has started it, however that ends.
    #[arg(long, hide_short_help = true)]
    until_stdin_closes: bool,
    /// Format of the log: text or json [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    #[arg(hide_short_help = true)]
    log_format: Option<String>,
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<u32>() {
        Ok(rate) if rate > 0 => Ok(rate),
        _ => Err(format!("`{text}` is not a rate: use N/s, such as 10/s")),
    }
}

/// Where mail is accepted over SMTP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Smtp {
    Off,
    At(SocketAddr),
}

impl Smtp {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => address::parse_listen(text).map(Self::At),
        }
    }
}

/// The line that is printed when the server is ready.
#[derive(Serialize, JsonSchema)]
pub struct Ready<'a> {
    http: String,
    dns: String,
    smtp: Option<String>,
    data: Option<String>,
    /// The token that the control interface needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    control_token: Option<&'a str>,
}

impl Ready<'_> {
    /// The same for people.
    fn greeting(&self, keys: Option<(&Secret, &Secret)>) -> String {
        let keys = match keys {
            Some((email, extraction)) => {
                format!(
                    "{} (email), {} (extraction)",
                    email.expose(),
                    extraction.expose()
                )
            }
            None => "none; create one: svc sandbox keys create".to_owned(),
        };
        let data = match &self.data {
            Some(dir) => dir.clone(),
            None => "in memory, gone at the end".to_owned(),
        };
        let mut lines = vec![
            ("Page", format!("{}/", self.http)),
            ("API", format!("{} (both services)", self.http)),
            (
                "SMTP",
                self.smtp.clone().unwrap_or_else(|| "off".to_owned()),
            ),
            ("Keys", keys),
            ("Data", data),
        ];
        if let Some(token) = self.control_token {
            lines.push(("Token", format!("{token} (control interface)")));
        }
        let lines = lines
            .iter()
            .map(|(name, value)| format!("  {name:<7}{value}\n"));
        format!(
            "The sandbox is running.\n\n{}\nTry it in another terminal:\n  {TRY}\n\n",
            lines.collect::<String>()
        )
    }
}

/// A command line that fits 80 columns.
const TRY: &str = "svc --sandbox emails send --from hello@sandbox.test \\\n      \
    --to ada@example.test --subject Hi --text Hello";

/// The usual port of SMTP servers for tests.
const SMTP_PORT: u16 = 1025;

impl Serve {
    /// The dialect of --like, with the points of --set.
    fn dialect(&self, context: &Context) -> Result<Dialect, Failure> {
        let mut dialect = match &self.like {
            None => Dialect::new(),
            Some(file) => {
                let shown = file.display();
                let text = std::fs::read_to_string(context.settings.path(file))
                    .map_err(|error| Failure::usage(format!("--like {shown}: {error}")))?;
                from_file(&text)
                    .map_err(|problem| Failure::input(format!("--like {shown}: {problem}")))?
            }
        };
        for setting in &self.set {
            dialect
                .set(setting)
                .map_err(|problem| Failure::usage(format!("--set {setting}: {problem}")))?;
        }
        Ok(dialect)
    }

    /// Adds the variables: that of `--addr` is SVC_SANDBOX_ADDR, and so on. An option comes before its
    /// variable.
    fn with_variables(self, context: &Context) -> Result<Self, Failure> {
        let of = Variables(&context.settings);
        let addr = match self.port {
            Some(_) => None,
            None => of.value(self.addr, "SVC_SANDBOX_ADDR", address::parse_listen)?,
        };
        let in_memory = match self.data {
            Some(_) => false,
            None => of.switch(self.in_memory, "SVC_SANDBOX_IN_MEMORY")?,
        };
        Ok(Self {
            network: of.value(self.network, "SVC_SANDBOX_NETWORK", network)?,
            addr,
            public_url: of.value(self.public_url, "SVC_SANDBOX_PUBLIC_URL", text)?,
            allow_host: of.list(self.allow_host, "SVC_SANDBOX_ALLOW_HOST")?,
            in_memory,
            no_seed: of.switch(self.no_seed, "SVC_SANDBOX_NO_SEED")?,
            seed: of.value(self.seed, "SVC_SANDBOX_SEED", path)?,
            dns: of.value(self.dns, "SVC_SANDBOX_DNS", address::parse_listen)?,
            resolver: of.value(self.resolver, "SVC_SANDBOX_RESOLVER", address::parse)?,
            smtp: of.value(self.smtp, "SVC_SANDBOX_SMTP", Smtp::parse)?,
            smtp_cert_file: of.value(self.smtp_cert_file, "SVC_SANDBOX_SMTP_CERT_FILE", path)?,
            smtp_key_file: of.value(self.smtp_key_file, "SVC_SANDBOX_SMTP_KEY_FILE", path)?,
            relay: of.value(self.relay, "SVC_SANDBOX_RELAY", text)?,
            keep: of.value(self.keep, "SVC_SANDBOX_KEEP", count)?,
            keep_for: of.value(self.keep_for, "SVC_SANDBOX_KEEP_FOR", duration::parse)?,
            rate_limit: of.value(self.rate_limit, "SVC_SANDBOX_RATE_LIMIT", rate)?,
            set: of.list(self.set, "SVC_SANDBOX_SET")?,
            like: of.value(self.like, "SVC_SANDBOX_LIKE", path)?,
            until_stdin_closes: of
                .switch(self.until_stdin_closes, "SVC_SANDBOX_UNTIL_STDIN_CLOSES")?,
            log_format: of.value(self.log_format, "SVC_SANDBOX_LOG_FORMAT", log_format)?,
            ..self
        })
    }

    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(Sourced {
            source: source @ Source::Option(_),
            ..
        }) = &context.settings.ca_bundle
        {
            return Err(
                Failure::usage(format!("{source}: the sandbox does not use it")).hint(
                    "set SSL_CERT_FILE: webhook attempts and the relay trust its certificates",
                ),
            );
        }
        // Every user of the machine can read process lists.
        if self.relay.as_ref().is_some_and(|url| url.contains('@')) {
            return Err(Failure::usage(
                "--relay: options are visible in process lists; \
                 give a URL with credentials in SVC_SANDBOX_RELAY",
            ));
        }
        self.with_variables(context)?.serve(context).await
    }

    async fn serve(self, context: &Context) -> Result<(), Failure> {
        context
            .out
            .show_log(self.log_format.as_deref() == Some("json"));
        let settings = &context.settings;
        let dir = self.data.as_ref();
        let dir = dir.map_or_else(|| settings.sandbox_dir.clone(), |dir| settings.path(dir));
        let network = self.network();
        let mut builder = Server::builder().network(network).seed(!self.no_seed);
        builder = builder.addr(self.addr()?);
        builder = if !self.in_memory {
            builder.data_dir(&dir)
        } else if self.until_stdin_closes {
            // That of a test belongs to what has started it.
            builder.in_memory()
        } else {
            builder.in_memory().announce_in(in_memory_dir(&dir))
        };
        builder = seeded(builder, &context.settings)?;
        if let Some(url) = &self.public_url {
            builder = builder.public_url(url).map_err(refused("--public-url"))?;
        }
        for name in &self.allow_host {
            builder = builder.allow_host(name);
        }

        builder = given(builder, self.dns, Builder::dns);
        builder = given(builder, self.resolver, Builder::resolver);
        builder = match (self.smtp, network.default_ip()) {
            (Some(Smtp::At(addr)), _) => builder.smtp(addr),
            (None, Some(ip)) => builder.smtp_or_free_port(SocketAddr::new(ip, SMTP_PORT)),
            (Some(Smtp::Off), _) | (None, None) => builder,
        };
        builder = given(builder, self.keep, Builder::keep);
        builder = given(builder, self.keep_for, Builder::keep_for);
        builder = given(builder, self.rate_limit, Builder::rate_limit);
        match (&self.smtp_cert_file, &self.smtp_key_file) {
            (None, None) => {}
            (Some(chain), Some(key)) if self.has_smtp() => {
                let chain = context.bytes("--smtp-cert-file", chain)?;
                let key = context.private_bytes("--smtp-key-file", key)?;
                let with_certificate = builder.smtp_certificate(&chain, &key);
                builder = with_certificate.map_err(refused("--smtp-cert-file"))?;
            }
            _ => {
                let message = "STARTTLS needs --smtp, --smtp-cert-file and --smtp-key-file";
                return Err(Failure::usage(message));
            }
        }

        if let Some(relay) = &self.relay {
            builder = builder.relay(relay).map_err(refused("--relay"))?;
        }
        for recipient in &self.relay_to {
            builder = builder.relay_to(recipient).map_err(refused("--relay-to"))?;
        }

        builder = with_seed_file(builder, context, self.seed.as_deref())?;
        builder = builder.dialect(self.dialect(context)?);
        builder = match context.out.lines().filter(|_| self.log_format.is_none()) {
            Some(print) => builder.on_request(move |request| print(line(request))),
            None => builder.on_request(log),
        };
        // Before the start: PID 1 of a container never gets a signal that has no handler yet.
        let mut stop = crate::stop::StopSignal::listen(context.settings.env.signals)?;
        let server = builder.start().await;
        let server = server.map_err(|error| not_started(&error, &dir, self.seed.as_deref()))?;
        let addresses = server.addresses();
        let ready = Ready {
            http: server.public_url(),
            dns: addresses.dns.to_string(),
            smtp: addresses.smtp.map(|smtp| smtp.to_string()),
            data: (!self.in_memory).then(|| dir.display().to_string()),
            control_token: server.control_token(),
        };
        // The server keeps running if standard output is closed.
        let _ = if context.out.is_table() && context.out.stdout_is_terminal() {
            context.out.raw(&ready.greeting(server.seeded_keys()))
        } else {
            context.out.ready(&ready)
        };
        context.out.hint("press Ctrl-C to stop");
        if self.until_stdin_closes {
            tokio::select! {
                _ = stop.recv() => {}
                () = stdin_closed(context.out.streams().stdin()) => {}
            }
        } else {
            stop.recv().await;
        }

        // The last write to a slow disk may take longer: the next start recovers the database.
        let _ = tokio::time::timeout(STOP_TIMEOUT, server.stop()).await;
        Ok(())
    }

    fn network(&self) -> Network {
        self.network.unwrap_or(Network::Loopback)
    }

    fn has_smtp(&self) -> bool {
        match self.smtp {
            Some(smtp) => smtp != Smtp::Off,
            None => self.network().default_ip().is_some(),
        }
    }

    /// The listen address of the option, else of the network.
    fn addr(&self) -> Result<SocketAddr, Failure> {
        let default = || {
            self.network()
                .default_ip()
                .map(|ip| SocketAddr::new(ip, self.port.unwrap_or(PORT)))
        };
        self.addr.or_else(default).ok_or_else(|| {
            Failure::usage("--network public needs --addr")
                .hint("name the address to listen on: --addr 0.0.0.0:4080")
        })
    }
}

/// The variables of the options.
struct Variables<'a>(&'a Settings);

impl Variables<'_> {
    /// The value of an option, else of its variable.
    fn value<T>(
        &self,
        option: Option<T>,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let None = option else { return Ok(option) };
        let Some(Sourced { value, source }) = self.0.variable(variable)? else {
            return Ok(None);
        };
        parse(&value)
            .map(Some)
            .map_err(|problem| Failure::usage(format!("{source}: {problem}")))
    }

    /// The values of an option, else those of its variable, which are separated by commas.
    fn list(&self, option: Vec<String>, variable: &'static str) -> Result<Vec<String>, Failure> {
        let given = (!option.is_empty()).then_some(option);
        let split = |text: &str| Ok(text.split(',').map(str::to_owned).collect());
        self.value(given, variable, split)
            .map(Option::unwrap_or_default)
    }

    fn switch(&self, option: bool, variable: &'static str) -> Result<bool, Failure> {
        let parse = |text: &str| {
            switch::parse(text).ok_or_else(|| format!("`{text}` is not true or false"))
        };
        self.value(option.then_some(true), variable, parse)
            .map(Option::unwrap_or_default)
    }
}

fn network(text: &str) -> Result<Network, String> {
    let names = Network::ALL.map(Network::as_str).join(", ");
    text.parse()
        .map_err(|_| format!("`{text}` is not one of {names}"))
}

fn log_format(text: &str) -> Result<String, String> {
    match text {
        "text" | "json" => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is not one of text, json")),
    }
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("`{text}` is not a number above 0")),
    }
}

fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

/// Sets an option that is given.
fn given<V>(builder: Builder, value: Option<V>, set: fn(Builder, V) -> Builder) -> Builder {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Completes at the end of standard input. It is read on a thread that nothing waits for.
async fn stdin_closed(mut stdin: Stdin) {
    let (closed, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut stdin, &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = end.await;
}

/// The failure for the value of an option.
fn refused<E: std::fmt::Display>(option: &str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::usage(format!("{option}: {error}"))
}

/// A server with what the file of `--seed` says.
pub(super) fn with_seed_file(
    builder: Builder,
    context: &Context,
    path: Option<&Path>,
) -> Result<Builder, Failure> {
    let Some(path) = path else { return Ok(builder) };
    let toml = context.bytes("--seed", path)?;
    let toml = String::from_utf8(toml)
        .map_err(|_| Failure::input(format!("{}: is not UTF-8", path.display())))?;
    builder
        .seed_file(&toml)
        .map_err(|mistake| in_seed_file(path, &mistake))
}

/// Why a server with this data directory and seed file has not started.
pub(super) fn not_started(error: &StartError, dir: &Path, seed: Option<&Path>) -> Failure {
    match error {
        StartError::Seed(mistake) => in_seed_file(seed.unwrap_or(Path::new("")), mistake),
        StartError::InUse { .. } => Failure::other(error.to_string())
            .code("data_directory_in_use")
            .hint("use that server, stop it with `svc sandbox stop`, or choose another --data"),
        StartError::BeyondLoopback { .. } => {
            Failure::usage(error.to_string()).hint("add --network trusted or --network public")
        }
        StartError::Listen { what, .. } => {
            let option = if *what == "http" { "addr" } else { what };
            Failure::other(with_causes(error)).hint(format!(
                "choose another address, such as --{option} 127.0.0.1:0, or stop what uses this one"
            ))
        }
        _ => cannot_start(dir, error),
    }
}

fn in_seed_file(path: &Path, mistake: &InvalidSeed) -> Failure {
    let InvalidSeed {
        line,
        field,
        message,
        ..
    } = mistake;
    let field = if field.is_empty() {
        String::new()
    } else {
        format!("{field}: ")
    };
    Failure::input(format!("{}:{line}: {field}{message}", path.display()))
        .code("invalid_seed_file")
        .hint("correct the file; nothing of it was applied")
}

/// The log entry of a request to a documented operation.
fn log(request: &LoggedRequest) {
    let RequestHandled {
        method,
        path,
        operation,
        status,
        duration_ms,
        ..
    } = &request.summary;
    tracing::info!(operation, status, duration_ms, "{method} {path}");
}

/// The line of a request to a documented operation, on a terminal: for whom it was, and why it was
/// refused.
fn line(request: &LoggedRequest) -> String {
    let RequestHandled {
        operation,
        method,
        path,
        status,
        duration_ms,
        started_at,
        ..
    } = &request.summary;
    let at = DateTime::from(*started_at)
        .with_timezone(&Local)
        .format("%H:%M:%S");
    let is_refused = status.is_some_and(|status| status >= 400);
    let whom = whom(request, is_refused).unwrap_or_else(|| format!("{method} {path}"));
    let why = match reason(request).filter(|_| is_refused) {
        Some(why) => format!(": {why}"),
        None => String::new(),
    };
    let status = status.map_or_else(|| "---".to_owned(), |status| status.to_string());
    format!("{at}  {status}  {operation} {whom}{why} ({duration_ms:.0} ms)")
}

/// The recipients of what was sent; of a refused email, its sender.
fn whom(request: &LoggedRequest, is_refused: bool) -> Option<String> {
    let body = json(request.request_body.as_ref()?)?;
    if let Some(emails) = body.as_array().or(body["emails"].as_array()) {
        return Some(format!("{} emails", emails.len()));
    }

    let from = body["from"].as_str();
    match (&body["to"], from) {
        (_, Some(from)) if is_refused => Some(from.to_owned()),
        (Value::String(to), _) => Some(to.clone()),
        (Value::Array(all), _) => {
            let first = all.first()?.as_str()?;
            Some(match all.len() {
                1 => first.to_owned(),
                count => format!("{first} and {} more", count - 1),
            })
        }
        _ => None,
    }
}

/// The problem, in the words of the response.
fn reason(request: &LoggedRequest) -> Option<String> {
    let body = json(request.response_body.as_ref()?)?;
    let error = &body["error"];
    let message = error["message"].as_str().or(error.as_str());
    message.or(body["message"].as_str()).map(str::to_owned)
}

fn json(body: &RecordedBody) -> Option<Value> {
    serde_json::from_str(&body.text).ok()
}

/// How long a stop may take. The server itself needs less, unless the disk is slow.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_millis(1900);
