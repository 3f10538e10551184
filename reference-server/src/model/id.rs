//! Ids: UUIDv7 with a type prefix, so that they sort by creation and new rows go to the
//! end of every index (`docs/undocumented/README.md#identifiers`).

use std::sync::Mutex;

use uuid::{ContextV7, Timestamp, Uuid};

/// State of the id generator.
static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// Returns a new id such as `eml_0193…`.
pub(crate) fn new(prefix: &str) -> String {
    let mut buffer = Uuid::encode_buffer();
    let uuid = Uuid::new_v7(Timestamp::now(&CONTEXT))
        .hyphenated()
        .encode_lower(&mut buffer)
        .to_owned();
    [prefix, &uuid].concat()
}

/// Makes all further ids sort after this one, even if the system clock was set back.
pub(crate) fn advance_past(id: &str) {
    let uuid = id
        .rsplit('_')
        .next()
        .and_then(|text| Uuid::parse_str(text).ok());
    if let Some((seconds, nanos)) = uuid.and_then(|uuid| Some(uuid.get_timestamp()?.to_unix())) {
        // Continue with the next millisecond: the order within the same one is unknown.
        let (seconds, nanos) = match nanos + 1_000_000 {
            nanos @ 1_000_000_000.. => (seconds + 1, nanos - 1_000_000_000),
            nanos => (seconds, nanos),
        };
        Timestamp::from_unix(&CONTEXT, seconds, nanos);
    }
}

// The type prefixes of ids.
pub(crate) const ORGANIZATION: &str = "org_";
pub(crate) const KEY: &str = "key_";
pub(crate) const AUDIENCE: &str = "aud_";
pub(crate) const CONTACT: &str = "con_";
pub(crate) const DOMAIN: &str = "dom_";
pub(crate) const EMAIL: &str = "eml_";
pub(crate) const WEBHOOK: &str = "whk_";
pub(crate) const MESSAGE: &str = "msg_";
pub(crate) const REQUEST: &str = "req_";
pub(crate) const FAULT: &str = "flt_";
/// Deliveries have a plain UUID, as documented.
pub(crate) const DELIVERY: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation() {
        let ids: Vec<String> = (0..1000).map(|_| new(EMAIL)).collect();
        let mut sorted = ids.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(ids, sorted);
        assert!(
            ids.iter()
                .all(|id| id.starts_with("eml_") && id.len() == 40),
            "{ids:?}"
        );
    }

    #[test]
    fn ids_sort_after_those_of_a_clock_that_was_ahead() {
        // One minute ahead, in the last millisecond of a second, so that the seconds
        // carry.
        let ahead = Timestamp::now(ContextV7::new()).to_unix().0 + 60;
        let ahead = Uuid::new_v7(Timestamp::from_unix(ContextV7::new(), ahead, 999_000_000));
        for id in [format!("msg_{ahead}"), ahead.to_string()] {
            advance_past(&id);
            assert!(new(MESSAGE) > format!("msg_{ahead}"));
        }

        advance_past("not an id");
    }
}
