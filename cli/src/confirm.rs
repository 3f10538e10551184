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
            "confirmation required, but there is no terminal to ask on: {question}"
        ))
        .hint("add --yes to confirm"));
    }
    let answer = context.out.ask(&format!("{question} [y/N] ")).await?;
    if answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")) {
        return Ok(());
    }
    Err(Failure::usage("not confirmed; nothing was changed"))
}
