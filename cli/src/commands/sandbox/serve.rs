//! `svc sandbox serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::context::Context;
use crate::failure::Failure;

/// Run the local server until it is stopped
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox serve
  svc sandbox serve --addr 127.0.0.1:0 --in-memory --set create-status=200
  svc --sandbox emails send --from hello@sandbox.test --to ada@example.test --subject Hi --text Hi

When it is ready it prints one line of JSON with its addresses. Keys: mk_test_sandbox for the
email service, sk_test_sandbox for the extraction service. Ctrl-C or SIGTERM ends it.

Scope: none; the local server alone")]
pub struct Serve {
    /// Where both services answer; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4080")]
    addr: SocketAddr,
    /// Where the data is; default: the sandbox's directory [env: SVC_SANDBOX_DIR]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep everything in memory
    #[arg(long, conflicts_with = "data")]
    in_memory: bool,
    /// No organization, no keys and no domain at the start
    #[arg(long)]
    no_seed: bool,
    /// Where the built-in DNS server answers
    #[arg(long, value_name = "ADDR")]
    dns: Option<SocketAddr>,
    /// The DNS server to ask for other names, instead of the system's
    #[arg(long, value_name = "ADDR")]
    resolver: Option<SocketAddr>,
    /// Take mail for verified domains over SMTP at this address; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    smtp: Option<SocketAddr>,
    /// The certificate, with its chain, that STARTTLS encrypts with, in PEM form; the server makes
    /// one that it signs itself without it
    #[arg(long, value_name = "PATH", requires_all = ["smtp", "smtp_key_file"], value_hint = ValueHint::FilePath)]
    smtp_cert_file: Option<PathBuf>,
    /// The key to it, in PEM form
    #[arg(long, value_name = "PATH", requires = "smtp_cert_file", value_hint = ValueHint::FilePath)]
    smtp_key_file: Option<PathBuf>,
    /// Send mail out to this SMTP server, smtp://HOST:PORT or smtps://HOST; with a user and a
    /// password in the environment only [env: SVC_RELAY]
    #[arg(long, value_name = "URL")]
    relay: Option<String>,
    /// Be open to other machines: no seeds, and no webhook to a private address
    #[arg(long)]
    public: bool,
    /// Answer 429 to more requests a second than this, for each key
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate_limit: Option<u32>,
    /// Choose otherwise where the documents leave it open, such as create-status=200, repeatable
    #[arg(long, value_name = "POINT=CHOICE")]
    set: Vec<String>,
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<u32>() {
        Ok(rate) if rate > 0 => Ok(rate),
        _ => Err(format!("`{text}` is no rate: write 10/s")),
    }
}

impl Serve {
    #[cfg(not(feature = "sandbox"))]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        crate::sandbox::Sandbox::attach(&context.settings.sandbox_dir).await.map(drop)
    }

    #[cfg(feature = "sandbox")]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        use serde_json::json;
        use svc_reference_server::{Server, StartError};

        use crate::failure::with_causes;

        context.out.show_log();
        let dir = self.data.clone().unwrap_or_else(|| context.settings.sandbox_dir.clone());
        let mut builder = Server::builder().addr(self.addr).seed(!self.no_seed).public(self.public);
        builder = if self.in_memory { builder.in_memory() } else { builder.data_dir(&dir) };
        if let Some(dns) = self.dns {
            builder = builder.dns(dns);
        }
        if let Some(resolver) = self.resolver {
            builder = builder.resolver(resolver);
        }
        if let Some(smtp) = self.smtp {
            builder = builder.smtp(smtp);
        }
        if let (Some(chain), Some(key)) = (&self.smtp_cert_file, &self.smtp_key_file) {
            let read =
                |option: &str, path: &PathBuf| context.inputs.bytes(&context.out, option, path);
            let (chain, key) = (read("--smtp-cert-file", chain)?, read("--smtp-key-file", key)?);
            builder = builder
                .smtp_certificate(&chain, &key)
                .map_err(|error| Failure::usage(format!("--smtp-cert-file: {error}")))?;
        }
        if let Some(relay) = self.relay()? {
            builder = builder
                .relay(&relay)
                .map_err(|error| Failure::usage(format!("--relay: {error}")))?;
        }
        if let Some(rate) = self.rate_limit {
            builder = builder.rate_limit(rate);
        }
        for choice in &self.set {
            builder = builder
                .compatibility(choice)
                .map_err(|error| Failure::usage(format!("--set {choice}: {error}")))?;
        }
        let server = builder.start().await.map_err(|error| match &error {
            StartError::InUse { .. } => Failure::other(error.to_string())
                .code("data_directory_in_use")
                .hint("use that one, stop it with `svc sandbox stop`, or give another --data"),
            _ => Failure::other(format!("the server cannot start: {}", with_causes(&error))),
        })?;
        let addresses = server.addresses();
        let mut line = json!({
            "http": server.base_url(),
            "dns": addresses.dns.to_string(),
            "smtp": addresses.smtp.map(|smtp| smtp.to_string()),
            "data": if self.in_memory { None } else { Some(dir) },
        });
        if let Some(token) = server.control_token() {
            line["control_token"] = token.into();
        }
        // Heard from here on: whoever reads the line may stop the server at once.
        let mut stop = crate::stop::StopSignal::listen()?;
        // Nobody reads it: no reason to end a server that others use.
        let _ = context.out.ready(&line);
        context.out.hint(
            "Ctrl-C stops it; in another terminal: svc --sandbox emails send \\\n  \
             --from hello@sandbox.test --to ada@example.test --subject Hi --text Hello",
        );
        stop.recv().await;
        server.stop().await;
        Ok(())
    }

    /// The relay of the option, or else of the environment.
    #[cfg(feature = "sandbox")]
    fn relay(&self) -> Result<Option<String>, Failure> {
        match &self.relay {
            // Everybody on the machine can read it there.
            Some(url) if url.contains('@') => Err(Failure::usage(
                "--relay: options show up in process lists; \
                 give an address with credentials in SVC_RELAY",
            )),
            Some(url) => Ok(Some(url.clone())),
            None => Ok(std::env::var("SVC_RELAY").ok().filter(|url| !url.is_empty())),
        }
    }
}
