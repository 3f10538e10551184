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
use crate::failure::{Failure, Kind};
use crate::prepared::Prepared;
use crate::settings::Source;
use crate::stop::StopSignal;

impl Context {
    /// Shows or sends a request, with the options of this command: [`Prepared::decide`].
    pub async fn call<T: 'static>(&self, call: Call<T>, what: &str) -> Result<T, Failure> {
        let call = Prepared::new(self.with_options(call)).decide(self).await?;
        self.send(call, what).await
    }

    /// Sends a request as it is.
    pub async fn send<T: 'static>(&self, call: Call<T>, what: &str) -> Result<T, Failure> {
        let _progress = self.out.progress(what);
        self.sent(call).await
    }

    /// As [`send`](Self::send), for a request that is not one of the SDK's operations. `retry_safe` says
    /// whether sending it twice does no more than sending it once.
    pub async fn send_raw(
        &self,
        call: Call<RawResponse>,
        retry_safe: bool,
        what: &str,
    ) -> Result<RawResponse, Error> {
        let _progress = self.out.progress(what);
        self.tracked(call.idempotent(retry_safe), retry_safe).await
    }

    /// Runs a call with the options of this command.
    pub async fn run<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        self.sent(self.with_options(call)).await
    }

    /// Reads a whole list, or the part of it that the service says how to get.
    pub async fn read_all<T: Serialize + Send + 'static>(
        &self,
        list: ListStream<T>,
    ) -> Result<List<T>, Failure> {
        let read = async { list.into_list().await.map_err(|error| self.failure(error)) };
        self.within_timeout(read).await
    }

    /// Reads all pages within `--timeout`: a service could go on with new pages for ever.
    pub async fn within_timeout<T>(
        &self,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let limit = self.settings.timeout.value;
        let read = tokio::time::timeout(limit, reading).await;
        read.unwrap_or_else(|_| {
            let limit = limit.as_secs_f64();
            let problem = format!("the list did not end within {limit} s, over all of its pages");
            Err(Failure::new(Kind::Unavailable, problem)
                .code("timeout")
                .hint("allow more time: --timeout 5m"))
        })
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

    async fn sent<T: 'static>(&self, call: Call<T>) -> Result<T, Failure> {
        let retry_safe = call.operation().map(Operation::is_idempotent);
        let retry_safe = retry_safe.unwrap_or(self.command.effect == Effect::Reads);
        let sent = self.tracked(call, retry_safe).await;
        sent.map_err(|error| self.failure(error))
    }

    async fn tracked<T: 'static>(&self, call: Call<T>, retry_safe: bool) -> Result<T, Error> {
        let operation = call.operation();
        let response = call.into_future();
        match retry_safe {
            true => response.await,
            false => self.changes.track(operation, response).await,
        }
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
