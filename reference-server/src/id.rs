//! Identifiers: UUIDv7 with a type prefix, so that they sort by creation and
//! new rows go to the end of every index (`open-points.md` B12).

use uuid::Uuid;

/// A new identifier such as `eml_0193…`.
pub(crate) fn new(prefix: Prefix) -> String {
    let mut buffer = Uuid::encode_buffer();
    let uuid = Uuid::now_v7().hyphenated().encode_lower(&mut buffer).to_owned();
    [prefix.as_str(), &uuid].concat()
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
}
