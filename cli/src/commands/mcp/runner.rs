//! `Runner` runs commands of `svc` inside this process, for the tools of `svc mcp`. A run takes a
//! `CommandLine`, starts `app::run` on a thread with captured streams, and returns an `Output`.
//! Profile, keys and environment are those of `svc mcp`; no request can change them. `prepare`
//! stops where the command has shown what it is about to do: `Run::go_on` lets it do that, and a
//! dropped `Run` ends without it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{Cursor, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex_lite::{Captures, Regex};
use serde_json::{Deserializer, Value, json};
use tokio::sync::oneshot::{Receiver, Sender};

use super::arguments::CommandLine;
use super::table::Action;
use crate::context::{Context, RunInside};
use crate::failure::Failure;
use crate::process::{Approval, Approver, Process, Terminals};
use crate::settings::{Env, GlobalFlags};

/// The stack of a run, as that of a main thread.
const STACK: usize = 8 << 20;

/// The state that all runs share. No request changes it.
pub struct Runner {
    run: RunInside,
    /// The start of each command line.
    start: Vec<OsString>,
    env: Env,
}

/// The output of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// An object with its `notes`, its `error` and its `result`, as far as there are any.
    pub fields: Value,
    /// The ID of its last request.
    pub request_id: Option<String>,
}

impl Runner {
    pub fn new(context: &Context, is_live: bool) -> Result<Self, Failure> {
        let mut flags = GlobalFlags::found_in(context.typed());
        let of_profile = [
            ("--email-url", flags.email_url.is_some()),
            ("--extraction-url", flags.extraction_url.is_some()),
            ("--key-file", flags.key_file.is_some()),
        ];
        if let Some((name, _)) = of_profile.iter().find(|(_, given)| *given && !is_live) {
            return Err(
                Failure::usage(format!("{name} has no effect without --profile"))
                    .hint("name the profile that it is for: --profile NAME"),
            );
        }

        flags.sandbox = !is_live;
        flags.profile = is_live.then(|| context.settings.profile.value.clone());
        let mut start = vec!["svc".into(), "--json".into()];
        start.extend(flags.of_service());
        Ok(Self {
            run: context.run_inside,
            start,
            env: context.settings.env.clone(),
        })
    }

    /// Runs a command, to its end even if the future is dropped.
    pub async fn run(&self, line: &CommandLine) -> Result<Output, Failure> {
        self.start(line, None)?.finish().await
    }

    /// Runs a command until it has shown what it is about to do. There it waits, for a limited time.
    /// Without that, it has ended: it failed, or there was nothing to decide.
    pub async fn prepare(&self, line: &CommandLine) -> Result<(Output, Option<Run>), Failure> {
        let (approval, approver) = Approval::new();
        let mut run = self.start(line, Some(approval))?;
        let Approver { shown, decision } = approver;
        if shown.await.is_err() {
            return Ok((run.finish().await?, None));
        }

        let output = Output {
            fields: fields(0, &run.stdout.take(), &run.stderr.take()),
            request_id: None,
        };
        run.decision = Some(decision);
        Ok((output, Some(run)))
    }

    fn start(&self, line: &CommandLine, approval: Option<Approval>) -> Result<Run, Failure> {
        let mut args = self.start.clone();
        args.extend(line.words.iter().map(OsString::from));
        let stdout = Captured::default();
        let stderr = Captured::default();
        let process = Process {
            env: self.env.all(),
            cwd: self.env.cwd.clone(),
            zone: self.env.zone,
            stdin: Box::new(Cursor::new(line.stdin.clone())),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
            terminals: Terminals::default(),
            signals: false,
            approval,
        };
        let run = self.run;
        let (done, ended) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || done.send(run(&args, process)))?;
        Ok(Run {
            stdout,
            stderr,
            ended,
            decision: None,
        })
    }
}

/// A command that runs. One that waits for a decision ends without it if this is dropped.
pub struct Run {
    stdout: Captured,
    stderr: Captured,
    ended: Receiver<(u8, Option<String>)>,
    decision: Option<Sender<()>>,
}

#[cfg(test)]
impl Run {
    /// One that has ended.
    pub fn ended() -> Self {
        Self {
            stdout: Captured::default(),
            stderr: Captured::default(),
            ended: tokio::sync::oneshot::channel().1,
            decision: None,
        }
    }
}

impl Run {
    /// Lets the command do what it has shown.
    pub async fn go_on(mut self) -> Result<Output, Failure> {
        if let Some(decision) = self.decision.take() {
            // If the command has ended, that is reported.
            let _ = decision.send(());
        }
        self.finish().await
    }

    async fn finish(self) -> Result<Output, Failure> {
        let ended = self.ended.await;
        let (code, request_id) =
            ended.map_err(|_| Failure::other("the command has ended unexpectedly"))?;
        Ok(Output {
            fields: fields(code, &self.stdout.take(), &self.stderr.take()),
            request_id,
        })
    }
}

impl Output {
    pub fn is_error(&self) -> bool {
        self.fields["error"].is_object()
    }

    /// Names the arguments of the action where the command names its options.
    pub fn in_words_of(mut self, action: &Action) -> Self {
        let reworded = |text: &mut Value| {
            let replaced = text.as_str().map(|text| {
                OPTION.replace_all(text, |found: &Captures<'_>| {
                    let name = found[1].replace('-', "_");
                    if action.arguments.iter().any(|it| it.name == name) {
                        name
                    } else {
                        found[0].to_owned()
                    }
                })
            });
            if let Some(Cow::Owned(replaced)) = replaced {
                *text = replaced.into();
            }
        };

        let fields = &mut self.fields;
        for place in ["/error/message", "/error/hint"] {
            fields.pointer_mut(place).into_iter().for_each(reworded);
        }

        let notes = fields.get_mut("notes").and_then(Value::as_array_mut);
        notes.into_iter().flatten().for_each(reworded);
        self
    }
}

/// An option in a sentence.
static OPTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("--([a-z][a-z-]*)").expect("a valid pattern"));

fn fields(code: u8, stdout: &str, stderr: &str) -> Value {
    let mut fields = json!({});
    let mut lines = stderr.lines().collect::<Vec<_>>();
    if code != 0 {
        let error = lines
            .pop()
            .and_then(|line| serde_json::from_str::<Value>(line).ok());
        let problem = format!("the command has failed with the exit code {code}");
        fields = error
            .filter(|line| line["error"].is_object())
            .unwrap_or_else(|| Failure::other(problem).to_json());
    }

    if !lines.is_empty() {
        fields["notes"] = lines.into();
    }
    let values = Deserializer::from_str(stdout)
        .into_iter()
        .filter_map(Result::ok);
    let mut values = values.collect::<Vec<Value>>();
    let result = if values.len() > 1 {
        Some(values.into())
    } else {
        values.pop()
    };
    if let Some(result) = result {
        fields["result"] = result;
    }
    fields
}

impl From<Failure> for Output {
    fn from(failure: Failure) -> Self {
        Self {
            fields: failure.to_json(),
            request_id: None,
        }
    }
}

/// The text that a run writes to a stream.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Returns the text written since the last call.
    fn take(&self) -> String {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&std::mem::take(&mut *bytes)).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
