//! `svc listen`: receives webhook deliveries on this machine and forwards them to an application.
//! The command binds a port, creates a webhook for the session if that is needed
//! (`listen/session.rs`), and prints each `Report` until a signal, `--count` or `--until` ends it.
//! Signals are handled before the webhook is created, and it is deleted at the end, also after an
//! error. Two secrets are in play: the service's verifies, the application's signs again.
//! `listen/receive.rs` handles each delivery.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;

use chrono::{DateTime, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Operation::{
    ExtractionWebhooksCreate, ExtractionWebhooksDelete, ExtractionWebhooksList, WebhooksCreate,
    WebhooksDelete, WebhooksList,
};
use svc_sdk::{Service, email, extraction};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use webhook_verify::Secret;

pub use self::receive::Report;
use self::receive::{Receiver, Route};
use self::session::{NewSession, Session};
use super::webhooks::ServiceWebhook;
use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, check_guarded_url};
use crate::diagnose::Check;
use crate::events::{self, service_of};
use crate::failure::{Failure, Kind};
use crate::input::choice;
use crate::output_schema::{any_of, of};
use crate::prepared::{Prepared, Preview};
use crate::recorded_deliveries::RecordedDeliveries;
use crate::settings::Source;
use crate::signing::{profile_secret, read_secret, usable};
use crate::stop::{Stop, StopSignal};
use crate::suggest::nearest;
use crate::urls::{check_url, is_loopback, parse_url, without_password};

mod receive;
mod session;

/// Events that the email service reports only if it rewrites the links and adds a picture to the
/// emails.
const TRACKING: [&str; 2] = ["email.opened", "email.clicked"];

/// Receive webhooks locally, verify and forward them
///
/// Listens on the loopback interface; use a tunnel to receive deliveries from outside. With
/// --sandbox or --public-url, a webhook is created for the session and deleted at its end; one that a
/// killed session left behind is deleted by the next session at the same service. Its deliveries are
/// signed again for the application, with a secret that stays the same: --print-secret prints it.
///
/// A delivery with an invalid signature gets the response 401. Any other delivery is recorded for
/// `svc replay` (kept for 30 days) and forwarded with its exact bytes. The application's response is
/// returned to the service within the 10 seconds that a service waits. If the application is not
/// listening, for example while it restarts, the response is 502; if it does not respond within 9
/// seconds, 504. The service then retries.
///
/// Ctrl-C ends the command with exit code 130, SIGTERM with 0.
#[derive(Args, Debug)]
#[command(add = changes(&[WebhooksList, WebhooksCreate, WebhooksDelete, ExtractionWebhooksList, ExtractionWebhooksCreate, ExtractionWebhooksDelete], || any_of(&[of::<Listening>, of::<Report>, of::<PrintedSecret>])).until_interrupted().with_scope("none; with --public-url, webhooks:manage (email) or full (extraction)"))]
#[command(after_long_help = "\
  svc --sandbox listen --forward-to http://localhost:3000/hooks
  svc --sandbox listen --until email.delivered --timeout 30s
  svc listen --secret-file secret.txt --port 4242 \\
      --forward-to http://localhost:3000/hooks
  svc listen --public-url https://me.tunnel.example \\
      --route 'email.bounced=http://localhost:3000/b'")]
pub struct Listen {
    /// Forward every delivery to this URL
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
    /// Forward matching events to a URL; repeatable
    ///
    /// EVENT is an event or a prefix such as email.*. The first route that matches is used; other
    /// events go to --forward-to.
    #[arg(long, value_name = "EVENT=URL", value_parser = receive::parse_route, add = Values::Route.candidates())]
    route: Vec<Route>,
    /// Service that sends: email or extraction
    #[arg(
        long,
        value_name = "SERVICE",
        value_parser = choice::service(),
        hide_possible_values = true,
        default_value = "email"
    )]
    service: Service,
    /// Events to subscribe to; repeatable
    ///
    /// Events for this session's webhook (default: all except email.opened and email.clicked, for which
    /// the service rewrites the links in emails, and those only if a --route names them).
    #[arg(long, alias = "event", value_name = "EVENT", value_delimiter = ',', value_parser = crate::input::event::parse, add = Values::Event.candidates())]
    events: Vec<String>,
    /// File with the application's signing secret
    ///
    /// Without --sandbox and --public-url, it also verifies the deliveries.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Accept any certificate of an application on this machine
    ///
    /// For https URLs whose host is a loopback address. Other certificates: --ca-bundle.
    #[arg(long)]
    skip_verify: bool,
    /// Stop after N valid deliveries
    ///
    /// The exit code is then 0; it is 10 if they have not arrived within --timeout, if that is given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after a valid delivery of this event
    ///
    /// EVENT may be a prefix such as email.*. With --count, after N of them.
    #[arg(long, value_name = "EVENT", value_parser = crate::input::event::parse, add = Values::Event.candidates())]
    until: Option<String>,
    /// Print the application's secret, and exit
    #[arg(long, conflicts_with_all = ["secret_file", "public_url"])]
    print_secret: bool,
    /// Public URL of this machine
    ///
    /// A webhook with this URL and /svc-listen is created for the session. For a sandbox on another
    /// machine or in a container, svc listens on all addresses of this one.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Largest body to accept, in MiB
    #[arg(long, hide_short_help = true, value_name = "MIB", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_body: u16,
    /// Listen port; 0 picks a free one
    #[arg(long, value_name = "N", default_value = "0")]
    port: u16,
}

impl Listen {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.print_secret {
            let (_, secret) = profile_secret(context)?;
            return context
                .out
                .document(&format!("{secret}\n"), &PrintedSecret { secret: &secret });
        }
        self.check_urls(context)?;
        match self.service {
            Service::Email => self.listen::<email::Webhook>(context).await,
            _ => self.listen::<extraction::Webhook>(context).await,
        }
    }

    async fn listen<W: ServiceWebhook>(self, context: &Context) -> Result<(), Failure> {
        let service = self.service;
        // A sandbox in a container, for example, does not reach the loopback addresses of this machine.
        let is_far = if context.settings.sandbox {
            parse_url(context.clients.sandbox().await?.url()).is_some_and(|url| !is_loopback(&url))
        } else {
            false
        };
        if is_far && self.public_url.is_none() {
            return Err(
                Failure::usage("the sandbox is on another machine, or in a container")
                    .hint("say how it reaches this one: --public-url http://HOST:PORT --port PORT"),
            );
        }

        let ip = if is_far {
            Ipv4Addr::UNSPECIFIED
        } else {
            Ipv4Addr::LOCALHOST
        };
        let listener = TcpListener::bind(SocketAddr::from((ip, self.port)))
            .await
            .map_err(|error| {
                Failure::other(format!("cannot listen on port {}: {error}", self.port))
                    .code("cannot_listen")
                    .hint("choose another with --port, or leave --port out to use a free one")
            })?;
        let base_url = format!("http://{}", listener.local_addr()?);
        // Signals are handled from here on, so that the webhook is always deleted.
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let url = self.session_url(context, &base_url);
        let new = match &url {
            Some(url) => {
                let events = self.events(service);
                Some(NewSession::<W>::new(context, service, url, events).await?)
            }
            None => None,
        };
        let Start(new) = Prepared::new(Start(new)).decide(context).await?;
        let records = RecordedDeliveries::in_dir(&context.settings.data_dir);
        records.remove_expired()?;
        let session = match new {
            Some(new) => Some(new.start(context).await?),
            None => None,
        };
        let webhook = session.as_ref();
        let serving = self.serve(context, listener, &base_url, webhook, records, &mut stop);
        let ended = serving.await;
        let deleted = match &session {
            Some(session) => session.end::<W>(context, &mut stop).await,
            None => Ok(()),
        };
        match ended? {
            Stop::Terminate => deleted,
            Stop::Interrupt => {
                let mut failure = deleted
                    .err()
                    .unwrap_or_else(|| Failure::other("interrupted"));
                failure.kind = Kind::Interrupted;
                Err(failure)
            }
        }
    }

    fn check_urls(&self, context: &Context) -> Result<(), Failure> {
        if let Some(url) = &self.forward_to {
            check_url("--forward-to", url)?;
        }
        if let Some(url) = &self.public_url {
            check_url("--public-url", url)?;
        }
        let is_far = |url: &&str| !parse_url(url).as_ref().is_some_and(is_loopback);
        if let Some(url) = self.targets().find(is_far)
            && self.skip_verify
        {
            let problem = format!(
                "--skip-verify: {} is not on this machine",
                without_password(url)
            );
            return Err(Failure::usage(problem).hint("trust its certificate: --ca-bundle PATH"));
        }

        for url in self.targets() {
            check_guarded_url(context, url)?;
        }

        for route in &self.route {
            check_url("--route", &route.url)?;
        }

        // The service may have undocumented events.
        let routed = self.route.iter().map(|route| &route.event);
        for meant in routed.chain(&self.until).chain(&self.events) {
            let mut known = events::names().chain(["webhook.test"]);
            if known.any(|event| receive::is_event_of(event, meant)) {
                continue;
            }
            let similar = nearest(meant, events::names());
            let similar = similar.map(|name| format!("; did you mean {name}?"));
            let similar = similar.unwrap_or_default();
            let warning = format!("`{meant}` is not a documented event{similar}");
            context.out.warning(&warning);
        }

        Ok(())
    }

    /// The URLs that deliveries are forwarded to.
    fn targets(&self) -> impl Iterator<Item = &str> {
        let routed = self.route.iter().map(|route| &route.url);
        self.forward_to.iter().chain(routed).map(String::as_str)
    }

    /// The events to subscribe to.
    fn events(&self, service: Service) -> Vec<String> {
        if !self.events.is_empty() {
            return self.events.clone();
        }

        let is_routed = |event: &str| self.route.iter().any(|route| route.event == event);
        let is_default = |event: &&'static str| {
            service_of(event) == service && (!TRACKING.contains(event) || is_routed(event))
        };
        events::names()
            .filter(is_default)
            .map(str::to_owned)
            .collect()
    }

    /// The URL under which the service reaches this session.
    fn session_url(&self, context: &Context, base_url: &str) -> Option<String> {
        let here = context.settings.sandbox.then_some(base_url);
        session::session_url(self.public_url.as_deref().or(here)?)
    }

    /// Receives deliveries until a signal arrives.
    async fn serve(
        &self,
        context: &Context,
        listener: TcpListener,
        base_url: &str,
        session: Option<&Session>,
        records: RecordedDeliveries,
        stop: &mut StopSignal,
    ) -> Result<Stop, Failure> {
        let service = self.service;
        let (check, signer, secret_file) = self.secrets(context, service, session)?;
        let (report, mut deliveries) = mpsc::unbounded_channel();
        let receiver = Receiver {
            service,
            check,
            dialect: context.clients.dialect().clone(),
            forward_to: self.forward_to.clone(),
            routes: self.route.clone(),
            deliverer: if self.skip_verify {
                Deliverer::without_verification()?
            } else {
                Deliverer::to(context, self.targets())?
            },
            is_guarded: context.settings.guard.for_run()?.is_some(),
            records,
            secret_file: secret_file.clone().filter(|_| self.secret_file.is_some()),
            signer,
            report,
            max_body: usize::from(self.max_body) << 20,
        };
        self.announce(context, base_url, session, secret_file.as_ref())?;
        let (stop_serving, stopped) = watch::channel(());
        tokio::spawn(receive::serve(listener, receiver, stopped));
        let mut serving = Some(stop_serving);
        let mut ended_by = Stop::Terminate;
        let mut awaited = self.awaited();
        let mut timed_out = pin!(self.deadline(context));
        loop {
            tokio::select! {
                biased;
                () = &mut timed_out, if serving.is_some() => {
                    let count = awaited.unwrap_or_default();
                    let limit = context.settings.timeout.value.as_secs_f64();
                    let what = if count == 1 { "delivery was" } else { "deliveries were" };
                    let problem = format!("{count} more {what} expected within {limit} s");
                    return Err(Failure::check(problem).code("deliveries_missing"));
                }
                signal = stop.recv() => {
                    // Requests in flight are completed, unless a second signal arrives.
                    if serving.take().is_none() {
                        break;
                    }
                    ended_by = signal;
                }
                report = deliveries.recv() => match report {
                    Some(report) => {
                        self.show(context, &report)?;
                        if self.counts(&report) {
                            awaited = awaited.map(|count| count.saturating_sub(1));
                        }
                        // Its response, and requests in flight, are completed.
                        if awaited == Some(0) {
                            serving = None;
                        }
                    }
                    None => break,
                },
            }
        }

        Ok(ended_by)
    }

    /// How many deliveries to wait for, if the command ends after some.
    fn awaited(&self) -> Option<u64> {
        self.count.or(self.until.is_some().then_some(1))
    }

    fn counts(&self, report: &Report) -> bool {
        let event = report.event.as_deref().unwrap_or_default();
        let is_meant = self
            .until
            .as_deref()
            .is_none_or(|until| receive::is_event_of(event, until));
        report.verified && is_meant
    }

    /// Completes at the end of a `--timeout` that was given, if the command waits for deliveries.
    async fn deadline(&self, context: &Context) {
        let timeout = &context.settings.timeout;
        match (self.awaited(), &timeout.source) {
            (Some(_), Source::Option(_)) => tokio::time::sleep(timeout.value).await,
            _ => std::future::pending().await,
        }
    }

    /// The verifier of deliveries, the secret that signs them for the application, and its file.
    fn secrets(
        &self,
        context: &Context,
        service: Service,
        session: Option<&Session>,
    ) -> Result<(Check, Secret, Option<PathBuf>), Failure> {
        const OPTION: &str = "--secret-file";

        let (secret, file) = match self.secret_file.as_deref() {
            Some(path) => {
                let file = (path.as_os_str() != "-").then(|| context.settings.path(path));
                (read_secret(context, OPTION, path)?, file)
            }
            None if session.is_some() => {
                let (file, secret) = profile_secret(context)?;
                (secret.into_bytes(), Some(file))
            }
            None => {
                let failure = Failure::usage("deliveries cannot be verified without a secret");
                let hint =
                    "give --secret-file, or --public-url to create a webhook for the session";
                return Err(failure.hint(hint));
            }
        };
        let signer = usable(OPTION, &secret)?;
        let of_service = match session.map(|session| session.secret.as_ref()) {
            None => secret,
            Some(Some(secret)) => secret.expose().into(),
            Some(None) => {
                let problem = "the response to the creation of the webhook has no signing secret";
                return Err(Failure::other(problem));
            }
        };
        Ok((Check::new(service, of_service)?, signer, file))
    }

    fn announce(
        &self,
        context: &Context,
        base_url: &str,
        session: Option<&Session>,
        secret_file: Option<&PathBuf>,
    ) -> Result<(), Failure> {
        let listening = Listening {
            listening: base_url,
            service: self.service.as_str(),
            forward_to: self.forward_to.as_deref(),
            webhook: session.map(|session| session.id.as_str()),
            secret_file: secret_file.map(|path| path.display().to_string()),
        };
        let mut line = match self.forward_to.as_deref() {
            Some(url) => format!("listening on {base_url}, forwarding to {url}"),
            None if !self.route.is_empty() => {
                format!("listening on {base_url}, forwarding by event")
            }
            None => {
                format!("listening on {base_url}, recording only (use --forward-to to forward)")
            }
        };
        let is_default = self.events.is_empty() && self.service == Service::Email;
        let is_routed = |event: &str| self.events(Service::Email).iter().any(|it| it == event);
        if session.is_some() && is_default && !TRACKING.into_iter().any(is_routed) {
            line.push_str(&format!(", without {} (--events)", TRACKING.join(" and ")));
        }
        context.out.event(&line, &listening)?;
        if let (Some(session), Some(path)) = (session, secret_file) {
            context.out.hint(&format!(
                "created webhook {} for the session; the secret for the application is in {}",
                session.id,
                path.display()
            ));
        }

        let now = context.settings.env.zone.at(&Utc::now());
        let zone = now.format("%Y-%m-%d %:z");
        context
            .out
            .hint(&format!("times are local ({zone}); press Ctrl-C to stop"));
        Ok(())
    }

    /// Prints a delivery on a line that fits 80 columns. A common target is printed at the start.
    fn show(&self, context: &Context, report: &Report) -> Result<(), Failure> {
        let event = report.event.as_deref().unwrap_or("(no event)");
        let time = DateTime::parse_from_rfc3339(&report.at).map_or_else(
            |_| report.at.clone(),
            |time| {
                context
                    .settings
                    .env
                    .zone
                    .at(&time)
                    .format("%H:%M:%S")
                    .to_string()
            },
        );
        let from = report
            .forwarded_to
            .as_deref()
            .filter(|_| !self.route.is_empty());
        let outcome = match (&report.problem, from) {
            (Some(problem), _) => format!(" {problem}"),
            (None, Some(url)) => format!(" in {} ms from {url}", report.duration_ms),
            (None, None) if report.forwarded_to.is_some() => {
                format!(" in {} ms", report.duration_ms)
            }
            (None, None) => " recorded".to_owned(),
        };
        let id = report.id.as_deref().unwrap_or("-");
        let before = format!("{time}  {event:<16}  {id}  ");
        context
            .out
            .status_event(&before, &report.status.to_string(), &outcome, report)
    }
}

/// The start of a session, with a webhook or without.
struct Start<W>(Option<NewSession<W>>);

impl<W: ServiceWebhook> Preview for Start<W> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        match &self.0 {
            Some(session) => session.show(context).await,
            None => Err(Failure::usage(
                "without --public-url no webhook is created, so there is no request to show",
            )),
        }
    }
}

/// The first line: where the deliveries are received.
#[derive(Serialize, JsonSchema)]
pub struct Listening<'a> {
    /// The base URL.
    listening: &'a str,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: &'static str,
    forward_to: Option<&'a str>,
    /// The id of the webhook of the session.
    webhook: Option<&'a str>,
    secret_file: Option<String>,
}

/// With `--print-secret`.
#[derive(Serialize, JsonSchema)]
pub struct PrintedSecret<'a> {
    secret: &'a str,
}
