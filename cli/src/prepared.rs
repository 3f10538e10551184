//! A command's plan: everything resolved once, then shown or done.
//!
//! This is the only place that knows of `--dry-run`, of the question before a deletion, and of the plans
//! of `svc mcp`. What a command does only after [`Prepared::decide`] has given the value back, it does
//! with exactly that value.

use svc_sdk::Call;

use crate::context::Context;
use crate::deliver::Delivery;
use crate::dry_run;
use crate::failure::{Failure, Kind};

/// A plan that can be shown instead of being done.
pub trait Preview {
    /// Prints it as `--dry-run` does.
    async fn show(&self, context: &Context) -> Result<(), Failure>;
}

/// A command's plan, with everything that was noted on the way.
pub struct Prepared<P> {
    what: P,
    question: Option<String>,
}

impl<P: Preview> Prepared<P> {
    /// Something with its names, times, files and recipients settled.
    pub fn new(what: P) -> Self {
        Self {
            what,
            question: None,
        }
    }

    /// Asks a person before it is done, if there is a question.
    pub fn asking(self, question: impl Into<Option<String>>) -> Self {
        Self {
            question: question.into(),
            ..self
        }
    }

    /// Gives back what is to be done now. A run that only shows it ends here, with [`Kind::Shown`].
    pub async fn decide(self, context: &Context) -> Result<P, Failure> {
        let Self { what, question } = self;
        decided(context, question, what.show(context)).await?;
        Ok(what)
    }
}

impl Context {
    /// Shows or sends a request, with the options of this command: [`Prepared::decide`].
    pub async fn call<T: 'static>(&self, call: Call<T>, what: &str) -> Result<T, Failure> {
        let call = Prepared::new(self.caller.with_options(call));
        let call = call.decide(self).await?;
        self.caller.send(call, what).await
    }
}

/// Returns if what `show` shows is to be done now. A run that only shows it ends here, with
/// [`Kind::Shown`].
pub async fn decided(
    context: &Context,
    question: Option<String>,
    show: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let shown = || Failure::new(Kind::Shown, "shown");
    if context.settings.dry_run {
        context.note_guard()?;
        show.await?;
        context.out.hint("dry run: nothing was sent");
        return Err(shown());
    }
    if let Some(approval) = context.approval.take() {
        context.note_guard()?;
        show.await?;
        return if approval.wait().await {
            Ok(())
        } else {
            Err(shown())
        };
    }

    if let Some(question) = question {
        confirm(context, &question).await?;
    }
    Ok(())
}

impl<T: 'static> Preview for Call<T> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        dry_run::show(&context.out, &self.to_request()?)
    }
}

impl<T: 'static> Preview for Vec<Call<T>> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        dry_run::show_all(&context.out, self.iter().map(Call::to_request))
    }
}

impl Preview for Delivery {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        context.out.value(&self.to_json())
    }
}

impl Preview for Vec<Delivery> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        let shown = self.iter().map(Delivery::to_json);
        context.out.value(&shown.collect::<Vec<_>>())
    }
}

/// Asks `question`. Without a terminal and without `--yes`, the command fails instead of waiting.
pub async fn confirm(context: &Context, question: &str) -> Result<(), Failure> {
    if context.settings.yes || context.settings.dry_run {
        return Ok(());
    }
    if !context.out.can_ask() {
        return Err(Failure::usage(format!(
            "--yes is required to confirm without a terminal: {question}"
        ))
        .hint("add --yes to confirm"));
    }
    if is_yes(context, question).await? {
        Ok(())
    } else {
        Err(Failure::usage("not confirmed; nothing was changed"))
    }
}

/// Asks `question` until the answer is yes or no. Without an answer, it is no.
pub async fn is_yes(context: &Context, question: &str) -> Result<bool, Failure> {
    let read = |answer: &str| match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err(Failure::usage(format!(
            "`{answer}` is not an answer: type y or n"
        ))),
    };
    let answer = context
        .out
        .ask_until(&format!("{question} [y/N] "), read)
        .await?;
    Ok(answer.unwrap_or(false))
}
