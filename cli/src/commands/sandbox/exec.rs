//! The `svc sandbox exec` command.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};

use clap::{Args, ValueHint};
use serde_json::json;
use svc_reference_server::Server;
use tokio::task::{JoinHandle, spawn_blocking};

use super::serve::{STOP_TIMEOUT, not_started, with_seed_file};
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::sandbox::seeded;

/// Run a command with a sandbox of its own
///
/// Starts a server in memory on free ports, and stops it when the command ends. The exit code is that
/// of the command, or 128 and the number of the signal that has ended it. Signals are passed on.
///
/// The command gets SANDBOX_URL, EMAIL_URL, EMAIL_KEY, EXTRACTION_URL, EXTRACTION_KEY, SMTP_HOST and
/// SMTP_PORT, and the variables of the SDK and of `svc`, which use this server.
#[derive(Args, Debug)]
#[command(add = local(|| json!({"description": "the output of the command"})).of_sandbox().until_interrupted())]
#[command(after_long_help = "\
Examples:
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
        let signals = Signals::listen(context)?;
        let command = std::process::Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(&context.settings.env.cwd)
            .envs(variables(&server))
            .spawn();
        let ended = match command {
            Ok(child) => signals.pass_on(child).await.map_err(Failure::from),
            Err(error) => {
                let name = self.command[0].to_string_lossy();
                Err(Failure::input(format!("the command `{name}` cannot be run: {error}")))
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
    let mut variables = vec![("SVC_SANDBOX", "1".to_owned())];
    for name in [
        "EMAIL_URL",
        "EXTRACTION_URL",
        "SVC_EMAIL_URL",
        "SVC_EXTRACTION_URL",
        "SANDBOX_URL",
        "SVC_SANDBOX_URL",
    ] {
        variables.push((name, url.clone()));
    }
    if let Some((email, extraction)) = server.seeded_keys() {
        for (key, names) in [
            (email, ["EMAIL_KEY", "SVC_EMAIL_KEY"]),
            (extraction, ["EXTRACTION_KEY", "SVC_EXTRACTION_KEY"]),
        ] {
            variables.extend(names.map(|name| (name, key.expose().to_owned())));
        }
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

fn end_of(mut child: Child) -> JoinHandle<io::Result<ExitStatus>> {
    spawn_blocking(move || child.wait())
}

/// The signals to this process, from the creation on.
#[cfg(unix)]
struct Signals(Vec<(tokio::signal::unix::Signal, rustix::process::Signal)>);

#[cfg(unix)]
impl Signals {
    fn listen(context: &Context) -> Result<Self, Failure> {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
        ];
        let kinds = kinds.into_iter().filter(|_| context.settings.env.signals);
        let listening = kinds.map(|(kind, number)| Ok((signal(kind)?, number)));
        Ok(Self(listening.collect::<io::Result<_>>()?))
    }

    /// Waits for the end of a process, and passes the signals on to it.
    async fn pass_on(mut self, child: Child) -> io::Result<ExitStatus> {
        use rustix::process::{Pid, Signal, kill_process};
        let (pid, mut end) = (Pid::from_child(&child), end_of(child));
        loop {
            tokio::select! {
                biased;
                status = &mut end => return status?,
                signal = self.next() => {
                    let is_of_terminal = [Signal::INT, Signal::QUIT].contains(&signal);
                    // The terminal sends it to both.
                    if !(is_of_terminal && is_in_foreground()) {
                        let _ = kill_process(pid, signal);
                    }
                }
            }
        }
    }

    async fn next(&mut self) -> rustix::process::Signal {
        std::future::poll_fn(|context| {
            let mut received = self.0.iter_mut();
            let received = received.find_map(|(signal, number)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
            received.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
}

/// Whether the terminal sends its signals to this process and those that it has started.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let group = terminal.ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(rustix::process::getpgrp())
}

#[cfg(not(unix))]
struct Signals(bool);

#[cfg(not(unix))]
impl Signals {
    fn listen(context: &Context) -> Result<Self, Failure> {
        Ok(Self(context.settings.env.signals))
    }

    /// Waits for the end of a process. The console sends Ctrl-C to both.
    async fn pass_on(self, child: Child) -> io::Result<ExitStatus> {
        let mut end = end_of(child);
        loop {
            tokio::select! {
                status = &mut end => return status?,
                () = crate::stop::interrupted(self.0) => {}
            }
        }
    }
}
