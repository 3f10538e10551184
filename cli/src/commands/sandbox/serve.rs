//! The `svc sandbox serve` command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Local};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, FromArgMatches as _, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_reference_server::client::RequestHandled;
use svc_reference_server::{Builder, InvalidSeed, Network, Server, StartError};
use svc_sdk::Dialect;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::{Failure, with_causes};
use crate::input::{address, duration, switch};
use crate::output::Stdin;
use crate::output_schema::of;
use crate::sandbox::{PORT, cannot_start, in_memory_dir, seeded};
use crate::settings::dialect::from_file;
use crate::settings::{GlobalFlags, Source, Sourced, table};

/// Run the sandbox in the foreground
///
/// Prints one line of JSON with its addresses when it is ready, and logs to standard error: on a
/// terminal a line for each request, else a log entry. The seeded keys are mk_test_sandbox (email
/// service) and sk_test_sandbox (extraction service). Ctrl-C or SIGTERM stops the server; the data is
/// kept.
///
/// Each option has an environment variable, which --env-file may set: SVC_SANDBOX_ADDR for --addr, and
/// so on. Those of --data and of switches are SVC_SANDBOX_DIR and, for example,
/// SVC_SANDBOX_IN_MEMORY=true; SVC_SANDBOX_SET takes several settings, separated by commas.
/// SVC_SANDBOX_EMAIL_KEY and SVC_SANDBOX_EXTRACTION_KEY replace the seeded keys, and
/// SVC_SANDBOX_CONTROL_TOKEN sets the token of the control interface. RUST_LOG selects what is logged.
#[derive(Args, Debug)]
#[command(add = local(of::<Ready>).of_sandbox().until_interrupted())]
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
    #[arg(long, value_name = "NETWORK", value_parser = networks(), hide_possible_values = true)]
    #[arg(default_value = "loopback", hide_default_value = true)]
    network: Network,
    /// HTTP listen address [default: 127.0.0.1:4080]
    ///
    /// Both services and the control interface share this address. Port 0 picks a free port, and
    /// :4080 stands for all IPv4 addresses. The default with --network trusted is 0.0.0.0:4080.
    #[arg(long, value_name = "ADDR", value_parser = address::parse_listen)]
    addr: Option<SocketAddr>,
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
    /// SMTP listen address [default: no SMTP]
    ///
    /// Takes mail to any address. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR", value_parser = address::parse_listen)]
    smtp: Option<SocketAddr>,
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
    /// Of each organization, and as many received messages beside them. For servers that run for weeks.
    /// What is still due stays. Default: all.
    #[arg(long, value_name = "N", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// How long emails, messages and deliveries are kept
    ///
    /// By the server's clock, such as 7d or 12h. What is still due stays. Default: for ever.
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
    /// create-status=200. A wrong name or choice is answered with the valid ones.
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

fn networks() -> impl TypedValueParser<Value = Network> {
    let names = Network::ALL.map(Network::as_str);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Network>())
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<u32>() {
        Ok(rate) if rate > 0 => Ok(rate),
        _ => Err(format!("`{text}` is not a rate: use N/s, such as 10/s")),
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

    /// Adds the variables: that of `--addr` is SVC_SANDBOX_ADDR, and so on. An option replaces its
    /// variable.
    fn with_variables(context: &Context) -> Result<Self, Failure> {
        // Every option after the command; those before it are global.
        let typed = context
            .typed()
            .iter()
            .skip_while(|word| *word != "sandbox")
            .skip(1);
        let typed = typed
            .skip_while(|word| *word != "serve")
            .skip(1)
            .cloned()
            .collect::<Vec<_>>();
        let mut words = vec!["svc".into()];
        let command = Self::augment_args(clap::Command::new("svc"));
        for argument in command.get_arguments() {
            let Some(name) = argument.get_long() else {
                continue;
            };
            let option = format!("--{name}");
            let variable = format!("SVC_SANDBOX_{}", name.to_uppercase().replace('-', "_"));
            let variable = table::variables().find(|known| *known == variable);
            let Some(variable) = variable else { continue };
            let is_typed = |word: &OsString| {
                let rest = word.to_str().and_then(|word| word.strip_prefix(&option));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            };
            let Some(Sourced { value, source }) = context.settings.variable(variable)? else {
                continue;
            };
            if typed.iter().any(is_typed) {
                continue;
            }
            if argument.get_action().takes_values() {
                words.push(format!("{option}={value}").into());
            } else if switch::parse(&value).ok_or_else(|| {
                Failure::usage(format!("{source}: `{value}` is not true or false"))
            })? {
                words.push(option.into());
            }
        }
        words.extend(typed);
        let command = GlobalFlags::augment_args(command);
        let matches = command.try_get_matches_from(words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| {
                // What was typed has been parsed before, so that it is a variable.
                let text = error.to_string();
                let problem = text
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .trim_start_matches("error: ");
                let option = problem
                    .split(['\'', ' '])
                    .find_map(|word| word.strip_prefix("--"));
                let variable = option.unwrap_or("…").to_uppercase().replace('-', "_");
                let failure = Failure::usage(format!("SVC_SANDBOX_{variable}: {problem}"));
                match text
                    .lines()
                    .find(|line| line.trim().starts_with("[possible values"))
                {
                    Some(values) => failure.hint(values.trim()),
                    None => failure,
                }
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
        if self.relay.is_some_and(|url| url.contains('@')) {
            return Err(Failure::usage(
                "--relay: options are visible in process lists; \
                 give a URL with credentials in SVC_SANDBOX_RELAY",
            ));
        }
        Self::with_variables(context)?.serve(context).await
    }

    async fn serve(self, context: &Context) -> Result<(), Failure> {
        context
            .out
            .show_log(self.log_format.as_deref() == Some("json"));
        let settings = &context.settings;
        let dir = self.data.as_ref();
        let dir = dir.map_or_else(|| settings.sandbox_dir.clone(), |dir| settings.path(dir));
        let mut builder = Server::builder().network(self.network).seed(!self.no_seed);
        builder = builder.addr(self.addr()?);
        builder = match self.in_memory {
            // That of a test belongs to what has started it.
            true if self.until_stdin_closes => builder.in_memory(),
            true => builder.in_memory().announce_in(in_memory_dir(&dir)),
            false => builder.data_dir(&dir),
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
        builder = given(builder, self.smtp, Builder::smtp);
        builder = given(builder, self.keep, Builder::keep);
        builder = given(builder, self.keep_for, Builder::keep_for);
        builder = given(builder, self.rate_limit, Builder::rate_limit);
        match (&self.smtp_cert_file, &self.smtp_key_file, self.smtp) {
            (None, None, _) => {}
            (Some(chain), Some(key), Some(_)) => {
                let chain = context
                    .inputs
                    .bytes(&context.out, "--smtp-cert-file", chain)?;
                let key = context
                    .inputs
                    .private(&context.out, "--smtp-key-file", key)?;
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
        let _ = context.out.ready(&ready);
        context.out.hint(
            "press Ctrl-C to stop; try in another terminal: svc --sandbox emails send \
             --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello",
        );
        match self.until_stdin_closes {
            true => tokio::select! {
                _ = stop.recv() => {}
                () = stdin_closed(context.out.streams().stdin()) => {}
            },
            false => drop(stop.recv().await),
        }
        // The last write to a slow disk may take longer: the next start recovers the database.
        let _ = tokio::time::timeout(STOP_TIMEOUT, server.stop()).await;
        Ok(())
    }

    /// The listen address of the option, else of the network.
    fn addr(&self) -> Result<SocketAddr, Failure> {
        let default = || {
            self.network
                .default_ip()
                .map(|ip| SocketAddr::new(ip, PORT))
        };
        self.addr.or_else(default).ok_or_else(|| {
            Failure::usage("--network public needs --addr")
                .hint("name the address to listen on: --addr 0.0.0.0:4080")
        })
    }
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
    let toml = context.inputs.bytes(&context.out, "--seed", path)?;
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
fn log(request: &RequestHandled) {
    let RequestHandled {
        method,
        path,
        operation,
        status,
        duration_ms,
        ..
    } = request;
    tracing::info!(operation, status, duration_ms, "{method} {path}");
}

/// The line of a request to a documented operation, on a terminal.
fn line(request: &RequestHandled) -> String {
    let status = request
        .status
        .map_or_else(|| "---".to_owned(), |status| status.to_string());
    let RequestHandled {
        method,
        path,
        duration_ms,
        ..
    } = request;
    let at = DateTime::from(request.started_at)
        .with_timezone(&Local)
        .format("%H:%M:%S");
    format!("{at}  {status}  {method} {path} in {duration_ms} ms")
}

/// How long a stop may take. The server itself needs less, unless the disk is slow.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_millis(1900);
