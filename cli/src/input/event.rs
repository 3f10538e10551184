//! Parses the names of events.

use crate::events::names;
use crate::suggest::nearest;

/// Reads an event, as clap's `value_parser`. The service may have undocumented events, so only a name
/// without its prefix, or a misspelled one, is refused.
pub fn parse(text: &str) -> Result<String, String> {
    let text = text.trim();
    if names().any(|event| event == text) || text.ends_with('*') {
        return Ok(text.to_owned());
    }

    let meant = names()
        .find(|event| event.split_once('.').is_some_and(|(_, name)| name == text))
        .or_else(|| {
            if text.contains('.') {
                None
            } else {
                nearest(text, names())
            }
        });
    match meant {
        Some(meant) => Err(format!("`{text}` is not an event: use {meant}")),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_an_event_is_needed() {
        assert_eq!(
            parse("delivered"),
            Err("`delivered` is not an event: use email.delivered".into())
        );
        assert!(parse("completed").is_err_and(|error| error.ends_with("extraction.completed")));
        for accepted in [
            "email.delivered",
            "email.deferred",
            "email.*",
            "webhook.test",
        ] {
            assert_eq!(parse(&format!(" {accepted} ")).as_deref(), Ok(accepted));
            assert_eq!(parse(accepted).as_deref(), Ok(accepted));
        }
    }
}
