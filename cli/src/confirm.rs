//! Confirmation prompts for commands that cannot be undone.

use crate::context::Context;
use crate::failure::Failure;

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
    match is_yes(context, question).await? {
        true => Ok(()),
        false => Err(Failure::usage("not confirmed; nothing was changed")),
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
