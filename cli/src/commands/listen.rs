//! The `svc listen` command.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, ValueHint};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Operation::{
    ExtractionWebhooksCreate, ExtractionWebhooksDelete, WebhooksCreate, WebhooksDelete,
};
use svc_sdk::Service;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::check::Check;
pub use self::receive::Report;
use self::receive::{Receiver, Route};
use super::trigger::EVENTS;
use super::verify::{ServiceName, read_secret, usable};
use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, RESPONSE_TIMEOUT};
use crate::failure::{Failure, Kind};
use crate::output::one_line;
use crate::output_schema::{of, one_of};
use crate::recorded::Records;
use crate::recorded::session_secret::{self, SessionSecret};
use crate::stop::{Stop, StopSignal};
use crate::urls::check_url;
use crate::webhook;

mod check;
mod leftover;
mod receive;
mod session;

/// Time limit for deleting the session's webhook at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Receive webhooks locally, verify and forward them
///
/// Listens on the loopback interface; use a tunnel to receive deliveries from outside. With
/// --sandbox or --public-url, a webhook is created for the session and deleted at its end. If a
/// session was killed, the next one offers to delete its webhook; --yes deletes it.
///
/// A delivery with an invalid signature gets the response 401. Any other delivery is recorded for
/// `svc replay` (kept for 30 days) and forwarded with its exact bytes and headers. The application's
/// response is returned to the service. If the application does not listen, as while it restarts, it
/// is tried again for 6 seconds, and then the response is 502; if it does not respond in 10 seconds,
/// 504. The service then retries.
///
/// Ctrl-C ends the command with exit code 130, SIGTERM with 0.
#[derive(Args, Debug)]
#[command(add = changes(&[WebhooksCreate, WebhooksDelete, ExtractionWebhooksCreate, ExtractionWebhooksDelete], || one_of(&[of::<Listening>, of::<Report>])).until_interrupted().with_scope("none; with --public-url, webhooks:manage (email) or full (extraction)"))]
#[command(after_long_help = "\
Examples:
  svc --sandbox listen --forward-to http://localhost:3000/hooks
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
    /// Service that sends the deliveries
    #[arg(
        long,
        value_name = "email|extraction",
        hide_possible_values = true,
        default_value = "email"
    )]
    service: ServiceName,
    /// File with the signing secret
    #[arg(long, value_name = "PATH", conflicts_with = "public_url", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Public URL of this machine
    ///
    /// A webhook with this URL is created for the session.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Do not verify signatures
    #[arg(long, conflicts_with_all = ["secret_file", "public_url"])]
    insecure: bool,
    /// Largest body to accept, in MiB
    #[arg(long, hide_short_help = true, value_name = "MIB", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_body: u16,
    /// Listen port on 127.0.0.1; 0 picks a free port
    #[arg(long, value_name = "N", default_value = "0")]
    port: u16,
}

/// How deliveries are verified, and the file of the secret.
struct Checking {
    /// `None` with `--insecure`.
    check: Option<Check>,
    secret_file: Option<PathBuf>,
    /// The same file, if it is the session's own.
    session_secret: Option<SessionSecret>,
}

impl Listen {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let service = Service::from(self.service);
        self.check_routes(context)?;
        if context.settings.dry_run {
            return self.show_registration(context, service).await;
        }
        let records = Records::in_dir(&context.settings.data_dir);
        records.remove_expired()?;
        session_secret::remove_expired(&context.settings.data_dir);
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .await
            .map_err(|error| {
                Failure::other(format!("cannot listen on port {}: {error}", self.port))
                    .code("cannot_listen")
                    .hint("choose another with --port, or leave --port out to use a free one")
            })?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let session_url = self.session_url(context, &base_url);
        if session_url.is_some() {
            leftover::clean_up(context, service).await?;
        }
        // Signals are handled from here on, so that the webhook is always deleted.
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let session = match session_url {
            Some(url) => {
                Some(session::register(context, service, &url, &self.events(service)).await?)
            }
            None => None,
        };
        let ended = self.serve(context, listener, &base_url, session.as_ref(), records, &mut stop);
        let ended = ended.await;
        let left = match &session {
            Some(session) => {
                let removal =
                    tokio::time::timeout(SHUTDOWN_TIMEOUT, session::remove(context, session));
                tokio::select! {
                    removed = removal => removed
                        .unwrap_or_else(|_| Err(session.not_deleted(context, "the service did not respond in time"))),
                    _ = stop.recv() => Err(session.not_deleted(context, "interrupted")),
                }
            }
            None => Ok(()),
        };
        match (ended?, left) {
            (Stop::Terminate, left) => left,
            (Stop::Interrupt, Ok(())) => Err(Failure::new(
                Kind::Interrupted,
                match session {
                    Some(_) => "interrupted; the session's webhook was deleted",
                    None => "interrupted",
                },
            )),
            (Stop::Interrupt, Err(mut left)) => {
                left.details_mut().kind = Kind::Interrupted;
                Err(left)
            }
        }
    }

    fn check_routes(&self, context: &Context) -> Result<(), Failure> {
        if let Some(url) = &self.forward_to {
            check_url("--forward-to", url)?;
        }
        for (index, route) in self.route.iter().enumerate() {
            check_url("--route", &route.url)?;
            if self.route[..index].iter().any(|earlier| earlier.event == route.event) {
                return Err(Failure::usage(format!("--route: `{}` is given twice", route.event))
                    .hint("an event is forwarded to one URL; remove one of the routes"));
            }
            let mut earlier = self.route[..index].iter();
            if let Some(first) = earlier.find(|earlier| earlier.matches(&route.event)) {
                return Err(Failure::usage(format!(
                    "--route: `{}` gets no event, because `{}` before it matches them",
                    route.event, first.event
                ))
                .hint(format!("give --route {}=… first", route.event)));
            }
            // The service may have undocumented events, so this is only a warning.
            if !EVENTS.iter().chain(&["webhook.test"]).any(|event| route.matches(event)) {
                context.out.warning(&format!("`{}` is not a documented event", route.event));
            }
        }
        Ok(())
    }

    /// The events to subscribe to: those with a target.
    fn events(&self, service: Service) -> Vec<String> {
        let everything = self.forward_to.is_some() || self.route.is_empty();
        let of_service = EVENTS.iter().filter(|event| {
            (service == Service::Extraction) == event.starts_with("extraction.")
                && (everything || self.route.iter().any(|route| route.matches(event)))
        });
        of_service.map(|event| (*event).to_owned()).collect()
    }

    async fn show_registration(&self, context: &Context, service: Service) -> Result<(), Failure> {
        let base_url = format!("http://127.0.0.1:{}", self.port);
        match self.session_url(context, &base_url) {
            Some(url) => {
                webhook::show_creation(context, service, &url, &self.events(service)).await
            }
            None => Err(Failure::usage(
                "without --public-url no webhook is created, so there is no request to show",
            )),
        }
    }

    /// The URL under which the service reaches this session.
    fn session_url(&self, context: &Context, base_url: &str) -> Option<String> {
        let on_its_own = self.secret_file.is_none() && !self.insecure;
        let here = (context.settings.sandbox && on_its_own).then(|| base_url.to_owned());
        self.public_url.clone().or(here)
    }

    /// Receives deliveries until a signal arrives.
    async fn serve(
        &self,
        context: &Context,
        listener: TcpListener,
        base_url: &str,
        session: Option<&session::Session>,
        records: Records,
        stop: &mut StopSignal,
    ) -> Result<Stop, Failure> {
        let service = Service::from(self.service);
        let Checking { check, secret_file, session_secret } =
            self.check(context, service, session)?;
        let (report, mut deliveries) = mpsc::unbounded_channel();
        let busy = Arc::default();
        let urls = self.forward_to.iter().chain(self.route.iter().map(|route| &route.url));
        let receiver = Receiver {
            service,
            check,
            event_header: context.settings.compatibility.event_header.clone(),
            forward_to: self.forward_to.clone(),
            routes: self.route.clone(),
            deliverer: Deliverer::to(context, urls.map(String::as_str))?,
            records,
            secret_file: secret_file.clone(),
            session_secret,
            report,
            busy: Arc::clone(&busy),
            max_body: usize::from(self.max_body) << 20,
        };
        self.announce(context, base_url, session, secret_file.as_ref())?;
        let accept = tokio::spawn(receive::accept(listener, Arc::new(receiver)));
        let signal = loop {
            tokio::select! {
                biased;
                signal = stop.recv() => break signal,
                Some(report) = deliveries.recv() => self.show(context, &report)?,
            }
        };
        accept.abort();
        // Requests in flight are completed, unless a second signal arrives.
        let idle = tokio::time::timeout(RESPONSE_TIMEOUT, busy.write());
        tokio::pin!(idle);
        loop {
            tokio::select! {
                biased;
                _ = stop.recv() => break,
                Some(report) = deliveries.recv() => self.show(context, &report)?,
                _ = &mut idle => break,
            }
        }
        while let Ok(report) = deliveries.try_recv() {
            self.show(context, &report)?;
        }
        Ok(signal)
    }

    fn check(
        &self,
        context: &Context,
        service: Service,
        session: Option<&session::Session>,
    ) -> Result<Checking, Failure> {
        if self.insecure {
            let check = None;
            return Ok(Checking { check, secret_file: None, session_secret: None });
        }
        if let Some(session) = session {
            let secret = session.secret.as_ref().ok_or_else(|| {
                Failure::other("the response to the creation of the webhook has no signing secret")
            })?;
            let secret = secret.expose().as_bytes();
            let check = Some(Check::new(service, usable(secret)?, secret));
            let stored =
                SessionSecret::store(&context.settings.data_dir, service.as_str(), secret)?;
            let secret_file = Some(stored.path().to_owned());
            return Ok(Checking { check, secret_file, session_secret: Some(stored) });
        }
        let Some(path) = &self.secret_file else {
            return Err(Failure::usage("deliveries cannot be verified without a secret").hint(
                "give --secret-file, or --public-url to create a webhook for the session\n\
                 or --insecure to skip verification",
            ));
        };
        let secret = read_secret(context, path)?;
        let absolute = std::path::absolute(context.settings.path(path)).ok();
        // Recorded for `svc replay`, which needs a UTF-8 path.
        let secret_file =
            absolute.filter(|full| path.as_os_str() != "-" && full.to_str().is_some());
        let check = Some(Check::new(service, usable(&secret)?, &secret));
        Ok(Checking { check, secret_file, session_secret: None })
    }

    fn announce(
        &self,
        context: &Context,
        base_url: &str,
        session: Option<&session::Session>,
        secret_file: Option<&PathBuf>,
    ) -> Result<(), Failure> {
        let listening = Listening {
            listening: base_url,
            service: self.service,
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
        if self.insecure {
            line.push_str(" (signatures are not verified)");
        }
        context.out.event(&line, &listening)?;
        if let (Some(session), Some(path)) = (session, secret_file) {
            context.out.hint(&format!(
                "created webhook {} for the session; its signing secret is in {}",
                session.id,
                path.display()
            ));
        }
        let now = Utc::now().with_timezone(&context.settings.env.zone);
        let zone = now.format("%Y-%m-%d %:z");
        context.out.hint(&format!("times are local ({zone}); press Ctrl-C to stop"));
        Ok(())
    }

    /// Prints a delivery on a line that fits 80 columns. A common target is printed at the start.
    fn show(&self, context: &Context, report: &Report) -> Result<(), Failure> {
        let event = report.event.as_deref().unwrap_or("(no event)");
        let time = DateTime::parse_from_rfc3339(&report.at).map_or_else(
            |_| report.at.clone(),
            |time| time.with_timezone(&context.settings.env.zone).format("%H:%M:%S").to_string(),
        );
        let from = report.forwarded_to.as_deref().filter(|_| !self.route.is_empty());
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
        let about = report.about().map(|about| format!("\n          {}", one_line(&about)));
        let after = format!("{}{}", one_line(&outcome), about.unwrap_or_default());
        context.out.http_event(&before, report.status, &after, report)
    }
}

/// The first line: where the deliveries are received.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Listening<'a> {
    /// The base URL.
    listening: &'a str,
    service: ServiceName,
    forward_to: Option<&'a str>,
    /// The id of the webhook of the session.
    webhook: Option<&'a str>,
    secret_file: Option<String>,
}
