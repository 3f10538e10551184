//! `svc listen`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::Service;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use self::receive::{Check, Receiver, Route, Seen};
use super::verify::{ServiceName, read_secret, usable};
use crate::context::Context;
use crate::deliver::{Deliverer, check_url};
use crate::failure::{Failure, with_causes};
use crate::output::local_time;
use crate::recorded::{Records, session_secret, write_private};

mod receive;
mod session;

/// How long the end may take: removing the session's webhook.
const FAREWELL: Duration = Duration::from_secs(10);

/// Receive webhooks on this machine, verify them, and pass them on to an application
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc --sandbox listen --forward-to http://localhost:3000/hooks
  svc listen --secret-file secret.txt --port 4242 --forward-to http://localhost:3000/hooks
  svc listen --public-url https://me.tunnel.example --route 'email.bounced=http://localhost:3000/b'

It binds to this machine alone. With --sandbox or --public-url a webhook is registered for the
session and removed at its end. Ctrl-C ends it. Deliveries are recorded for `svc replay`.

Scope: none; webhooks:manage or full with --public-url")]
pub struct Listen {
    /// The application that gets every delivery
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
    /// The application that gets an event, or events such as email.*, repeatable
    #[arg(long, value_name = "EVENT=URL", value_parser = receive::parse_route)]
    route: Vec<Route>,
    /// Whose deliveries they are
    #[arg(long, value_name = "SERVICE", default_value = "email")]
    service: ServiceName,
    /// A file with the signing secret
    #[arg(long, value_name = "PATH", conflicts_with = "public_url")]
    secret_file: Option<String>,
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
        for url in self.forward_to.iter().chain(self.route.iter().map(|route| &route.url)) {
            check_url("--forward-to", url)?;
        }
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .await
            .map_err(|error| Failure::other(format!("port {}: {error}", self.port)))?;
        let address = format!("http://{}", listener.local_addr()?);
        let stop = crate::stop::StopSignal::listen()?;

        let service = Service::from(self.service);
        let session = match self.session_url(context, &address) {
            Some(url) => Some(session::register(context, service, &url).await?),
            None => None,
        };
        let served = self.serve(context, listener, &address, session.as_ref(), stop).await;
        if let Some(session) = session {
            let farewell = tokio::time::timeout(FAREWELL, session::remove(context, &session)).await;
            if !matches!(farewell, Ok(Ok(()))) {
                let left = Failure::other(format!("webhook {} is still registered", session.id))
                    .hint(format!("remove it: {}", session.removal(context)));
                return Err(served.err().unwrap_or(left));
            }
        }
        served
    }

    /// Where the service would reach this session.
    fn session_url(&self, context: &Context, address: &str) -> Option<String> {
        let on_its_own = self.secret_file.is_none() && !self.insecure;
        let here = (context.settings.sandbox && on_its_own).then(|| address.to_owned());
        self.public_url.clone().or(here)
    }

    async fn serve(
        &self,
        context: &Context,
        listener: TcpListener,
        address: &str,
        session: Option<&session::Session>,
        stop: crate::stop::StopSignal,
    ) -> Result<(), Failure> {
        let service = Service::from(self.service);
        let (check, secret_file) = self.check(context, service, session)?;
        let (seen, mut arrivals) = mpsc::unbounded_channel();
        let receiver = Receiver {
            service,
            check,
            event_header: context.settings.wire.event_header.clone(),
            forward_to: self.forward_to.clone(),
            routes: self.route.clone(),
            deliverer: Deliverer::new()?,
            records: Records::in_dir(&context.settings.data_dir),
            secret_file: secret_file.clone(),
            seen,
        };
        self.announce(context, address, session, secret_file.as_ref())?;
        let accept = tokio::spawn(receive::accept(listener, Arc::new(receiver)));
        let ended = tokio::select! {
            () = stop.heard() => Ok(()),
            ended = async {
                while let Some(seen) = arrivals.recv().await {
                    show(context, &seen)?;
                }
                Err(Failure::other("the listener ended"))
            } => ended,
        };
        accept.abort();
        ended
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
            let path = session_secret(&context.settings.data_dir, service.as_str());
            write_private(&path, session.secret.expose().as_bytes())?;
            let secret = usable(session.secret.expose().as_bytes())?;
            return Ok((Check::new(service, secret), Some(path)));
        }
        let Some(path) = &self.secret_file else {
            return Err(Failure::usage("deliveries cannot be verified without a secret").hint(
                "give --secret-file, or --public-url to register a webhook for the session\n\
                 or --insecure to take whatever comes",
            ));
        };
        let secret = usable(&read_secret(context, path)?)?;
        let absolute = std::path::absolute(path).ok().filter(|_| path != "-");
        Ok((Check::new(service, secret), absolute))
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
            "secret_file": secret_file,
        });
        let target = self.forward_to.as_deref().unwrap_or("nobody but the records");
        let mut line = format!("listening on {address}, passing on to {target}");
        if self.insecure {
            line.push_str(" (signatures are not checked)");
        }
        context.out.event(&line, &value)?;
        if let (Some(_), Some(path)) = (session, secret_file) {
            context.out.hint(&format!("the session's signing secret is in {}", path.display()));
        }
        Ok(())
    }
}

/// One delivery as it comes.
fn show(context: &Context, seen: &Seen) -> Result<(), Failure> {
    let value: Value = seen.to_json();
    let event = seen.event.as_deref().unwrap_or("(no event)");
    let time = local_time(&seen.at);
    let outcome = match (&seen.problem, seen.forwarded_to.as_deref()) {
        (Some(problem), _) => format!("{} {problem}", seen.status),
        (None, Some(url)) => format!("{} from {url} in {} ms", seen.status, seen.duration_ms),
        (None, None) => format!("{} recorded", seen.status),
    };
    let id = seen.id.as_deref().unwrap_or("-");
    context.out.event(&format!("{time}  {event}  {id}  {outcome}"), &value)
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self::other(with_causes(&error))
    }
}
