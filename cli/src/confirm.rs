//! Asking before something goes that does not come back.

use crate::context::Context;
use crate::failure::Failure;

/// Asks `question`; without a terminal, and without `--yes`, it is refused.
pub async fn confirm(context: &Context, question: &str) -> Result<(), Failure> {
    if context.settings.yes || context.settings.dry_run {
        return Ok(());
    }
    if !context.out.can_ask() {
        return Err(Failure::usage(format!(
            "this needs a confirmation, and there is no terminal to ask on: {question}"
        ))
        .hint("add --yes if you mean it"));
    }
    let answer = context.out.ask(&format!("{question} [y/N] ")).await?;
    if answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")) {
        return Ok(());
    }
    Err(Failure::usage("not confirmed; nothing was done"))
}
