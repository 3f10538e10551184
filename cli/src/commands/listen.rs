//! `svc listen`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Local};
use clap::{Args, ValueHint};
use serde_json::json;
use svc_sdk::Service;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::check::Check;
use self::receive::{Receiver, Route, Seen};
use super::trigger::EVENTS;
use super::verify::{ServiceName, read_secret, usable};
use crate::complete::Values;
use crate::context::Context;
use crate::deliver::{Deliverer, RESPONSE_TIMEOUT, check_url};
use crate::failure::{Failure, Kind};
use crate::recorded::{Records, session_secret, write_private};
use crate::stop::{Stop, StopSignal};

mod check;
mod receive;
mod session;

/// How long the end may take: removing the session's webhook.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Receive webhooks on this machine, verify them, and pass them on to an application
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc --sandbox listen --forward-to http://localhost:3000/hooks
  svc listen --secret-file secret.txt --port 4242 --forward-to http://localhost:3000/hooks
  svc listen --public-url https://me.tunnel.example --route 'email.bounced=http://localhost:3000/b'

It binds to this machine alone: a tunnel of your choice brings deliveries from outside. With
--sandbox or --public-url a webhook is registered for the session and removed at its end.
A delivery whose signature is wrong is answered 401. The others are recorded for `svc replay`
(kept for 30 days) and passed on with their exact bytes and headers; the application's answer
goes back, or 502 or 504 where there is none, so that the service tries again.
Ctrl-C ends it with the exit code 130, SIGTERM with 0.

Scope: none; with --public-url webhooks:manage (email) or full (extraction)")]
pub struct Listen {
    /// The application that gets every delivery
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
    /// The application that gets an event, or events such as email.*, repeatable
    #[arg(long, value_name = "EVENT=URL", value_parser = receive::parse_route, add = Values::Route.candidates())]
    route: Vec<Route>,
    /// Whose deliveries they are
    #[arg(
        long,
        value_name = "email|extraction",
        hide_possible_values = true,
        default_value = "email"
    )]
    service: ServiceName,
    /// A file with the signing secret
    #[arg(long, value_name = "PATH", conflicts_with = "public_url", value_hint = ValueHint::FilePath)]
    secret_file: Option<PathBuf>,
    /// Where the service reaches this machine: a webhook is registered there for the session
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Take deliveries whose signature nobody checks
    #[arg(long, conflicts_with_all = ["secret_file", "public_url"])]
    insecure: bool,
    /// The port; a free one without it
    #[arg(long, value_name = "N", default_value = "0")]
    port: u16,
}

impl Listen {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let service = Service::from(self.service);
        self.look_over_routes(context)?;
        if context.settings.dry_run {
            return self.show_registration(context, service).await;
        }
        let records = Records::in_dir(&context.settings.data_dir);
        records.remove_expired()?;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .await
            .map_err(|error| {
                Failure::other(format!("cannot listen on port {}: {error}", self.port))
                    .code("cannot_listen")
                    .hint("take another: --port N, or leave it out for a free one")
            })?;
        let address = format!("http://{}", listener.local_addr()?);
        // Heard from here on: what is registered now is removed again.
        let mut stop = StopSignal::listen_with_hangup()?;
        let session = match self.session_url(context, &address) {
            Some(url) => {
                Some(session::register(context, service, &url, &self.events(service)).await?)
            }
            None => None,
        };
        let ended = self.serve(context, listener, &address, session.as_ref(), records, &mut stop);
        let ended = ended.await;
        let left = match &session {
            Some(session) => {
                let farewell =
                    tokio::time::timeout(SHUTDOWN_TIMEOUT, session::remove(context, session));
                tokio::select! {
                    removed = farewell => removed
                        .unwrap_or_else(|_| Err(session.left_behind(context, "no answer in time"))),
                    _ = stop.recv() => Err(session.left_behind(context, "interrupted")),
                }
            }
            None => Ok(()),
        };
        match (ended?, left) {
            (Stop::Terminate, left) => left,
            (Stop::Interrupt, Ok(())) => Err(Failure::new(
                Kind::Interrupted,
                match session {
                    Some(_) => "interrupted; the session's webhook is removed",
                    None => "interrupted",
                },
            )),
            (Stop::Interrupt, Err(mut left)) => {
                left.details_mut().kind = Kind::Interrupted;
                Err(left)
            }
        }
    }

    fn look_over_routes(&self, context: &Context) -> Result<(), Failure> {
        if let Some(url) = &self.forward_to {
            check_url("--forward-to", url)?;
        }
        for route in &self.route {
            check_url("--route", &route.url)?;
            // A service may have more events than its document: no mistake, but odd.
            if !EVENTS.iter().chain(&["webhook.test"]).any(|event| route.takes(event)) {
                context.out.warning(&format!("no documented event is called {}", route.event));
            }
        }
        Ok(())
    }

    /// The events to subscribe to: those that somebody here waits for.
    fn events(&self, service: Service) -> Vec<String> {
        let everything = self.forward_to.is_some() || self.route.is_empty();
        let of_service = EVENTS.iter().filter(|event| {
            (service == Service::Extraction) == event.starts_with("extraction.")
                && (everything || self.route.iter().any(|route| route.takes(event)))
        });
        of_service.map(|event| (*event).to_owned()).collect()
    }

    async fn show_registration(&self, context: &Context, service: Service) -> Result<(), Failure> {
        let address = format!("http://127.0.0.1:{}", self.port);
        match self.session_url(context, &address) {
            Some(url) => session::show(context, service, &url, &self.events(service)).await,
            None => Err(Failure::usage(
                "without --public-url nothing is registered, so there is no request to show",
            )),
        }
    }

    /// Where the service would reach this session.
    fn session_url(&self, context: &Context, address: &str) -> Option<String> {
        let on_its_own = self.secret_file.is_none() && !self.insecure;
        let here = (context.settings.sandbox && on_its_own).then(|| address.to_owned());
        self.public_url.clone().or(here)
    }

    /// Receives until it is told to stop.
    async fn serve(
        &self,
        context: &Context,
        listener: TcpListener,
        address: &str,
        session: Option<&session::Session>,
        records: Records,
        stop: &mut StopSignal,
    ) -> Result<Stop, Failure> {
        let service = Service::from(self.service);
        let (check, secret_file) = self.check(context, service, session)?;
        let (seen, mut arrivals) = mpsc::unbounded_channel();
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
            seen,
            busy: Arc::clone(&busy),
        };
        self.announce(context, address, session, secret_file.as_ref())?;
        let accept = tokio::spawn(receive::accept(listener, Arc::new(receiver)));
        let told = loop {
            tokio::select! {
                biased;
                told = stop.recv() => break told,
                Some(seen) = arrivals.recv() => self.show(context, &seen)?,
            }
        };
        accept.abort();
        // What is under way gets its answer, unless somebody is in a hurry.
        let idle = tokio::time::timeout(RESPONSE_TIMEOUT, busy.write());
        tokio::pin!(idle);
        loop {
            tokio::select! {
                biased;
                _ = stop.recv() => break,
                Some(seen) = arrivals.recv() => self.show(context, &seen)?,
                _ = &mut idle => break,
            }
        }
        while let Ok(seen) = arrivals.try_recv() {
            self.show(context, &seen)?;
        }
        Ok(told)
    }

    fn check(
        &self,
        context: &Context,
        service: Service,
        session: Option<&session::Session>,
    ) -> Result<(Check, Option<PathBuf>), Failure> {
        if self.insecure {
            return Ok((Check::Nothing, None));
        }
        if let Some(session) = session {
            let secret = session.secret.as_ref().ok_or_else(|| {
                Failure::other("the answer to the registration holds no signing secret")
            })?;
            let secret = secret.expose().as_bytes();
            let path = session_secret(&context.settings.data_dir, service.as_str());
            write_private(&path, secret)?;
            return Ok((Check::new(service, usable(secret)?, secret), Some(path)));
        }
        let Some(path) = &self.secret_file else {
            return Err(Failure::usage("deliveries cannot be verified without a secret").hint(
                "give --secret-file, or --public-url to register a webhook for the session\n\
                 or --insecure to take whatever comes",
            ));
        };
        let secret = read_secret(context, path)?;
        let absolute = std::path::absolute(path).ok();
        // Remembered for `svc replay`, in a file of text.
        let absolute = absolute.filter(|full| path.as_os_str() != "-" && full.to_str().is_some());
        Ok((Check::new(service, usable(&secret)?, &secret), absolute))
    }

    fn announce(
        &self,
        context: &Context,
        address: &str,
        session: Option<&session::Session>,
        secret_file: Option<&PathBuf>,
    ) -> Result<(), Failure> {
        let value = json!({
            "listening": address,
            "service": Service::from(self.service).as_str(),
            "forward_to": self.forward_to,
            "webhook": session.map(|session| &session.id),
            "secret_file": secret_file.map(|path| path.display().to_string()),
        });
        let mut line = match self.forward_to.as_deref() {
            Some(url) => format!("listening on {address}, passing on to {url}"),
            None if !self.route.is_empty() => {
                format!("listening on {address}, passing on by event")
            }
            None => {
                format!("listening on {address}, recording what comes (--forward-to passes it on)")
            }
        };
        if self.insecure {
            line.push_str(" (signatures are not checked)");
        }
        context.out.event(&line, &value)?;
        if let (Some(session), Some(path)) = (session, secret_file) {
            context.out.hint(&format!(
                "webhook {} is registered for the session; its signing secret is in {}",
                session.id,
                path.display()
            ));
        }
        let zone = Local::now().format("%Y-%m-%d %:z");
        context.out.hint(&format!("times are local ({zone}); Ctrl-C ends it"));
        Ok(())
    }

    /// One delivery as it comes, on a line that fits 80 columns. Where all go
    /// is said at the beginning.
    fn show(&self, context: &Context, seen: &Seen) -> Result<(), Failure> {
        let event = seen.event.as_deref().unwrap_or("(no event)");
        let time = DateTime::parse_from_rfc3339(&seen.at).map_or_else(
            |_| seen.at.clone(),
            |time| time.with_timezone(&Local).format("%H:%M:%S").to_string(),
        );
        let from = seen.forwarded_to.as_deref().filter(|_| !self.route.is_empty());
        let outcome = match (&seen.problem, from) {
            (Some(problem), _) => format!(" {problem}"),
            (None, Some(url)) => format!(" in {} ms from {url}", seen.duration_ms),
            (None, None) if seen.forwarded_to.is_some() => format!(" in {} ms", seen.duration_ms),
            (None, None) => " recorded".to_owned(),
        };
        let id = seen.id.as_deref().unwrap_or("-");
        let before = format!("{time}  {event:<16}  {id}  ");
        context.out.http_event(&before, seen.status, &outcome, &seen.to_json())
    }
}
