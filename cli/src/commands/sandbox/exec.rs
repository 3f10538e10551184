//! The `svc sandbox exec` command.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};

use clap::{Args, ValueHint};
use serde_json::json;
use svc_reference_server::Server;
use tokio::task::spawn_blocking;

use super::serve::{STOP_TIMEOUT, not_started, with_seed_file};
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::sandbox::seeded;
use crate::settings::table::SANDBOX_RUN;
use crate::stop::{Stop, StopSignal};

/// Run a command with a sandbox of its own
///
/// Starts a server in memory on free ports, and stops it when the command ends. The exit code is that
/// of the command, or 128 plus the number of the signal that ended it. Signals are passed on.
///
/// The command gets SANDBOX_URL, EMAIL_URL, EMAIL_KEY, EMAIL_FROM, EXTRACTION_URL, EXTRACTION_KEY, SMTP_HOST
/// and SMTP_PORT, and the variables of the SDK and of `svc`, which use this server.
#[derive(Args, Debug)]
#[command(add = local(|| json!({"description": "the output of the command"})).of_sandbox().until_interrupted().multi_threaded())]
#[command(after_long_help = "\
  svc sandbox exec -- pytest -q
  svc sandbox exec --seed sandbox.toml -- npm test")]
pub struct Exec {
    /// TOML file of what to create, as for `svc sandbox serve` [env: SVC_SANDBOX_SEED]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    seed: Option<PathBuf>,
    /// Command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl Exec {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let any_port = ([127, 0, 0, 1], 0).into();
        let builder = Server::builder().addr(any_port).smtp(any_port);
        let builder = seeded(builder.in_memory(), &context.settings)?;
        let variable = context.settings.variable("SVC_SANDBOX_SEED")?;
        let seed = self.seed.or(variable.map(|seed| seed.value.into()));
        let builder = with_seed_file(builder, context, seed.as_deref())?;
        let server = builder.start().await;
        let dir = &context.settings.sandbox_dir;
        let server = server.map_err(|error| not_started(&error, dir, seed.as_deref()))?;
        let stop = StopSignal::listen(context.settings.env.signals)?;
        let command = std::process::Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(&context.settings.env.cwd)
            .envs(variables(&server))
            .spawn();
        let ended = match command {
            Ok(child) => pass_on(child, stop).await.map_err(Failure::from),
            Err(error) => {
                let name = self.command[0].to_string_lossy();
                Err(Failure::input(format!(
                    "the command `{name}` cannot be run: {error}"
                )))
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, server.stop()).await;
        context.exit_code.set(exit_code(ended?));
        Ok(())
    }
}

/// The variables by which programs find the server (`docs/guides/testing.md#one-server-for-a-command`).
fn variables(server: &Server) -> Vec<(&'static str, String)> {
    let url = server.base_url();
    let start = chrono::Utc::now().timestamp_millis();
    let run = format!("{start}-{}", std::process::id());
    let mut variables = vec![("SVC_SANDBOX", "1".to_owned()), (SANDBOX_RUN, run)];
    let urls = ["SANDBOX_URL", "EMAIL_URL", "EXTRACTION_URL"];
    let urls_of_svc = ["SVC_SANDBOX_URL", "SVC_EMAIL_URL", "SVC_EXTRACTION_URL"];
    variables.extend(
        urls.into_iter()
            .chain(urls_of_svc)
            .map(|name| (name, url.clone())),
    );
    if let Some((email, extraction)) = server.seeded_keys() {
        let email = email.expose();
        let extraction = extraction.expose();
        variables.extend(["EMAIL_KEY", "SVC_EMAIL_KEY"].map(|name| (name, email.to_owned())));
        variables.push(("EMAIL_FROM", "hello@sandbox.test".to_owned()));
        let names = ["EXTRACTION_KEY", "SVC_EXTRACTION_KEY"];
        variables.extend(names.map(|name| (name, extraction.to_owned())));
    }

    if let Some(smtp) = server.addresses().smtp {
        variables.push(("SMTP_HOST", smtp.ip().to_string()));
        variables.push(("SMTP_PORT", smtp.port().to_string()));
    }
    variables
}

/// The exit code of a command, as a shell gives it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    let code = status.code().or(signal.map(|signal: i32| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Waits for the end of a process, and passes the signals on to it.
async fn pass_on(mut child: Child, mut stop: StopSignal) -> io::Result<ExitStatus> {
    let id = child.id();
    let mut end = spawn_blocking(move || child.wait());
    loop {
        tokio::select! {
            biased;
            status = &mut end => return status?,
            signal = stop.recv() => send(signal, id),
        }
    }
}

#[cfg(unix)]
fn send(signal: Stop, id: u32) {
    use rustix::process::{Pid, Signal, getpgrp, kill_process};

    // The terminal sends Ctrl-C to both.
    let terminal = || rustix::termios::tcgetpgrp(std::fs::File::open("/dev/tty").ok()?).ok();
    let signal = match signal {
        Stop::Interrupt if terminal() == Some(getpgrp()) => return,
        Stop::Interrupt => Signal::INT,
        Stop::Terminate => Signal::TERM,
    };
    if let Some(process) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, signal);
    }
}

/// The console sends Ctrl-C to both.
#[cfg(not(unix))]
fn send(_: Stop, _: u32) {}
