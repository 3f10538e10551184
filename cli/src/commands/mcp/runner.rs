//! Runs commands of `svc` inside this process, with the settings of `svc mcp`.

use std::ffi::OsString;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::parser::ValueSource;
use serde_json::{Deserializer, Value};

use crate::context::Context;
use crate::failure::Failure;
use crate::process::{Process, Terminals};
use crate::zone::Zone;

/// The stack of a run, as that of a main thread.
const STACK: usize = 8 << 20;

/// The global options that each run gets from the command line of `svc mcp`.
const PASSED_ON: [&str; 7] =
    ["email_url", "extraction_url", "key_file", "env_file", "timeout", "retries", "ca_bundle"];

/// What all runs have in common. No request changes it.
pub struct Runner {
    run: fn(&[OsString], Process) -> u8,
    options: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    zone: Zone,
}

/// What a command has printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its result, if there is one.
    pub result: Option<Value>,
    /// Notes and warnings.
    pub notes: Vec<Value>,
    /// The error object.
    pub error: Option<Value>,
}

impl Runner {
    pub fn new(context: &Context, tree: clap::Command, is_live: bool) -> Self {
        let mut options = Vec::new();
        let matches = tree.try_get_matches_from(context.typed()).ok();
        let matches = matches.as_ref().and_then(|matches| matches.subcommand());
        for name in PASSED_ON {
            let Some((_, matches)) = matches else { continue };
            if matches.value_source(name) != Some(ValueSource::CommandLine) {
                continue;
            }
            for value in matches.get_raw(name).into_iter().flatten() {
                let mut option = OsString::from(format!("--{}=", name.replace('_', "-")));
                option.push(value);
                options.push(option);
            }
        }
        options.push(match is_live {
            true => format!("--profile={}", context.settings.profile.value).into(),
            false => "--sandbox".into(),
        });
        let env = &context.settings.env;
        Self {
            run: context.run_inside,
            options,
            env: env.all(),
            cwd: env.cwd.clone(),
            zone: env.zone,
        }
    }

    /// Runs a command, to its end even if the future is dropped.
    pub async fn run(&self, args: &[String], stdin: &[u8]) -> Result<Output, Failure> {
        self.run_with(&self.options, args, stdin).await
    }

    /// Runs a command with the sandbox.
    pub async fn run_in_sandbox(&self, args: &[String]) -> Result<Output, Failure> {
        self.run_with(&["--sandbox".into()], args, &[]).await
    }

    async fn run_with(
        &self,
        options: &[OsString],
        args: &[String],
        stdin: &[u8],
    ) -> Result<Output, Failure> {
        let program = ["svc", "--json"].map(OsString::from).into_iter();
        let args = program.chain(options.iter().cloned()).chain(args.iter().map(OsString::from));
        let args = args.collect::<Vec<_>>();
        let (stdout, stderr) = (Captured::default(), Captured::default());
        let process = Process {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            zone: self.zone,
            stdin: Box::new(Cursor::new(stdin.to_vec())),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            terminals: Terminals::default(),
            signals: false,
        };
        let (done, ended) = tokio::sync::oneshot::channel();
        let run = self.run;
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || done.send(run(&args, process)))?;
        let code = ended.await.map_err(|_| Failure::other("the command has ended unexpectedly"))?;
        Ok(Output::of(code, &stdout.text(), &stderr.text()))
    }
}

impl Output {
    fn of(code: u8, stdout: &str, stderr: &str) -> Self {
        let mut values = Deserializer::from_str(stdout).into_iter().filter_map(Result::ok);
        let first = values.next();
        let rest = values.collect::<Vec<Value>>();
        let result = match rest.is_empty() {
            true => first,
            false => Some(first.into_iter().chain(rest).collect()),
        };
        let mut lines = stderr.lines().collect::<Vec<_>>();
        let error = (code != 0).then(|| {
            let found = lines.pop().and_then(|line| serde_json::from_str::<Value>(line).ok());
            let found = found.and_then(|mut line| line.get_mut("error").map(Value::take));
            found.unwrap_or_else(|| {
                let message = format!("the command has failed with the exit code {code}");
                Failure::other(message).to_json()["error"].take()
            })
        });
        Self { result, notes: lines.into_iter().map(Value::from).collect(), error }
    }
}

/// What a run writes to a stream.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
