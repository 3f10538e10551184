//! How a command sends a request: `Context::call` shows it (`--dry-run`) or sends it, `run` sends
//! it with the options of this command, `send` as it is, and `send_raw` one that is not an
//! operation of the SDK. All go through `traced`, which tells `changes.rs` about a request that
//! changes something, so that Ctrl-C can say whether it may have been processed. Errors become a
//! `Failure` here. The module also writes the command lines of hints (`svc`, `list_of_group`).

use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Call, Error, ErrorKind, List, ListStream, Operation, RawResponse};

use super::Context;
use crate::command_line;
use crate::command_spec::Effect;
use crate::failure::Failure;
use crate::prepared::Prepared;
use crate::settings::Source;
use crate::stop::StopSignal;

/// Of a request by method and path: whether it may be repeated, and what is done with an error.
type Raw<'a> = (bool, &'a dyn Fn(&Error));

impl Context {
    /// Shows or sends a request, with the options of this command: [`Prepared::decide`].
    pub async fn call<T: 'static>(&self, call: Call<T>, what: &str) -> Result<Option<T>, Failure> {
        self.call_prepared(Prepared::new(self.with_options(call)), what)
            .await
    }

    /// Shows or sends a request that is ready.
    pub async fn call_prepared<T: 'static>(
        &self,
        call: Prepared<Call<T>>,
        what: &str,
    ) -> Result<Option<T>, Failure> {
        let Some(call) = call.decide(self).await? else {
            return Ok(None);
        };
        self.send(call, what).await.map(Some)
    }

    /// Sends a request as it is.
    pub async fn send<T: 'static>(&self, call: Call<T>, what: &str) -> Result<T, Failure> {
        let _progress = self.out.progress(what);
        self.traced(call, None).await
    }

    /// As [`send`](Self::send), for a request that is not one of the SDK's operations. `retry_safe` says
    /// whether sending it twice does no more than sending it once. `failed` gets the error, which has the
    /// response.
    pub async fn send_raw(
        &self,
        call: Call<RawResponse>,
        retry_safe: bool,
        what: &str,
        failed: &dyn Fn(&Error),
    ) -> Result<RawResponse, Failure> {
        let _progress = self.out.progress(what);
        self.traced(call.idempotent(retry_safe), Some((retry_safe, failed)))
            .await
    }

    /// Runs a call with the options of this command.
    pub async fn run<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        self.traced(self.with_options(call), None).await
    }

    /// Reads a whole list, or the part of it that the service says how to get.
    pub async fn read_all<T: Serialize + Send + 'static>(
        &self,
        list: ListStream<T>,
    ) -> Result<List<T>, Failure> {
        let read = async { list.into_list().await.map_err(|error| self.failure(error)) };
        self.within_timeout(read).await
    }

    /// A call with the options of this command.
    pub fn with_options<T>(&self, call: Call<T>) -> Call<T> {
        let call = call
            .timeout(self.settings.timeout.value)
            .retries(self.settings.retries.value);
        match &self.idempotency_key {
            Some(key) => call.idempotency_key(key.as_str()),
            None => call,
        }
    }

    async fn traced<T: 'static>(&self, call: Call<T>, raw: Option<Raw<'_>>) -> Result<T, Failure> {
        let operation = call.operation();
        let changes = !raw
            .map(|(retry_safe, _)| retry_safe)
            .or(operation.map(Operation::is_idempotent))
            .unwrap_or(self.command.effect == Effect::Reads);
        let response = call.into_future();
        let result = match changes {
            true => self.changes.track(operation, response).await,
            false => response.await,
        };
        result.map_err(|error| match raw {
            Some((retry_safe, failed)) => {
                failed(&error);
                Failure::from_sdk(&error, retry_safe)
            }
            None => self.failure(error),
        })
    }

    /// Converts the error of a call. The response without an id is shown: it may tell the reader what
    /// svc does not understand.
    pub fn failure(&self, error: Error) -> Failure {
        if matches!(error.kind(), ErrorKind::MissingId)
            && let Ok(value) = serde_json::from_slice::<Value>(error.body())
        {
            // The failure matters more than a closed standard output.
            let _ = self.out.value(&value);
        }
        error.into()
    }

    /// The result of reading, unless a signal ends the command before.
    pub async fn unless_stopped<T>(
        &self,
        stop: &mut StopSignal,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            read = read => read,
            _ = stop.recv() => Err(self.changes.interruption()),
        }
    }

    /// Says which recipients are allowed, beside what a command that may send is about to do.
    pub fn note_guard(&self) -> Result<(), Failure> {
        let sends = [Operation::EmailsSend, Operation::EmailsSendBatch];
        let operations = self.command.operations.iter();
        let may_send = self.command.calls_any_operation
            || operations.into_iter().any(|each| sends.contains(each));
        if let Some(guard) = self.settings.guard.for_run()?.filter(|_| may_send) {
            self.out.note(&format!("recipient guard: {guard}"));
        }
        Ok(())
    }

    /// A command line for a hint, with `--sandbox` if this run uses the sandbox, and with the profile of
    /// an option.
    pub fn svc(&self, command: &str, values: &[&str]) -> String {
        let rest = command_line::filled(command, values);
        let profile = &self.settings.profile;
        match &profile.source {
            // `svc sandbox …` always addresses the sandbox.
            _ if rest.starts_with("sandbox ") => format!("svc {rest}"),
            _ if self.settings.sandbox => format!("svc --sandbox {rest}"),
            Source::Option(_) => {
                format!(
                    "svc --profile {} {rest}",
                    command_line::shell_quoted(&profile.value)
                )
            }
            _ => format!("svc {rest}"),
        }
    }

    /// The list of the group that the command belongs to, as a command line.
    pub fn list_of_group(&self) -> Option<String> {
        let (group, _) = self.command.path.rsplit_once(' ')?;
        let tree = (self.tree)();
        let mut words = group.split(' ').chain(["list"]);
        let list = words.try_fold(&tree, |level, word| level.find_subcommand(word))?;
        let of = list
            .get_positionals()
            .filter_map(|it| it.get_value_names()?.first());
        Some(of.fold(format!("{group} list"), |line, of| format!("{line} {of}")))
    }
}
