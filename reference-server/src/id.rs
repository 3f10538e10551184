//! Identifiers: UUIDv7 with a type prefix, so that they sort by creation and
//! new rows go to the end of every index (`docs/undocumented/both-services.md#identifiers`).

use std::sync::Mutex;

use uuid::{ContextV7, Timestamp, Uuid};

/// Where identifiers have come to.
static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// A new identifier such as `eml_0193…`.
pub(crate) fn new(prefix: Prefix) -> String {
    let mut buffer = Uuid::encode_buffer();
    let uuid =
        Uuid::new_v7(Timestamp::now(&CONTEXT)).hyphenated().encode_lower(&mut buffer).to_owned();
    [prefix.as_str(), &uuid].concat()
}

/// From here on identifiers follow this one, even if the system's clock was set
/// back since.
pub(crate) fn follow(id: &str) {
    let uuid = id.rsplit('_').next().and_then(|text| Uuid::parse_str(text).ok());
    if let Some((seconds, nanos)) = uuid.and_then(|uuid| Some(uuid.get_timestamp()?.to_unix())) {
        // The millisecond after it: the order within its own is not known here.
        let (seconds, nanos) = match nanos + 1_000_000 {
            nanos @ 1_000_000_000.. => (seconds + 1, nanos - 1_000_000_000),
            nanos => (seconds, nanos),
        };
        Timestamp::from_unix(&CONTEXT, seconds, nanos);
    }
}

/// What kind of thing an identifier names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Organization,
    Key,
    Audience,
    Contact,
    Domain,
    Email,
    Webhook,
    Message,
    Request,
    Fault,
    /// The bare UUID of a delivery, as documented.
    Delivery,
}

impl Prefix {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Organization => "org_",
            Self::Key => "key_",
            Self::Audience => "aud_",
            Self::Contact => "con_",
            Self::Domain => "dom_",
            Self::Email => "eml_",
            Self::Webhook => "whk_",
            Self::Message => "msg_",
            Self::Request => "req_",
            Self::Fault => "flt_",
            Self::Delivery => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_sort_by_creation() {
        let ids: Vec<String> = (0..1000).map(|_| new(Prefix::Email)).collect();
        let mut sorted = ids.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(ids, sorted);
        assert!(ids.iter().all(|id| id.starts_with("eml_") && id.len() == 40), "{ids:?}");
    }

    #[test]
    fn identifiers_follow_those_of_a_clock_that_was_ahead() {
        // A minute, and to the last millisecond of a second, so that it carries.
        let ahead = Timestamp::now(ContextV7::new()).to_unix().0 + 60;
        let ahead = Uuid::new_v7(Timestamp::from_unix(ContextV7::new(), ahead, 999_000_000));
        for id in [format!("msg_{ahead}"), ahead.to_string()] {
            follow(&id);
            assert!(new(Prefix::Message) > format!("msg_{ahead}"));
        }
        follow("no identifier");
    }
}
