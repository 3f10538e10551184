//! Asks about columns that would become metadata, but may say who has opted out.

use crate::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::opt_outs::{is_mostly_harmless, lists_opt_outs};

/// Asks whether to import a file with such columns, of which none is `subscribed`: it would
/// subscribe those who have opted out. With `--yes`, in a dry run, and beside `subscribed`, they
/// are only warned of.
pub(super) async fn confirm(
    context: &Context,
    columns: &[String],
    is_json: bool,
    has_subscribed: bool,
) -> Result<(), Failure> {
    let noun = if is_json { "key" } else { "column" };
    let asks = !(has_subscribed || context.settings.yes || context.settings.dry_run);
    let mut questions = Vec::new();
    for column in columns {
        if asks && !is_mostly_harmless(column) {
            questions.push(column);
            continue;
        }
        context.out.warning(&format!(
            "the {noun} `{column}` is stored as metadata and does not unsubscribe contacts; {}",
            way_out(column, is_json)
        ));
    }
    let Some(first) = questions.first() else { return Ok(()) };
    let named = questions.iter().map(|column| format!("`{column}`")).collect::<Vec<_>>();
    let problem = match named.len() {
        1 => format!(
            "the {noun} {} may say who has opted out, but would be stored as metadata",
            named[0]
        ),
        _ => format!(
            "the {noun}s {} may say who has opted out, but would be stored as metadata",
            named.join(", ")
        ),
    };
    if context.out.can_ask() {
        return confirm::confirm(context, &format!("{problem}. Import it?")).await;
    }
    let keep = match is_json {
        true => "otherwise: --yes".to_owned(),
        false => format!("otherwise: --map '{first}=metadata.{first}', or --yes"),
    };
    Err(Failure::input(problem)
        .code("opt_outs_not_imported")
        .hint(format!("{}\n{keep}", way_out(first, is_json))))
}

/// What to do if the column says who has opted out, or who is subscribed.
fn way_out(column: &str, is_json: bool) -> String {
    let noun = if is_json { "key" } else { "column" };
    if lists_opt_outs(column) {
        return format!(
            "if it says who has opted out, add a {noun} `subscribed` with the opposite values"
        );
    }
    match is_json {
        true => {
            "if it says who is subscribed, rename it to `subscribed`, with true or false".to_owned()
        }
        false => format!("if it says who is subscribed: --map '{column}=subscribed'"),
    }
}
