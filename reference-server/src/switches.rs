//! The points that the documents leave open and that a run of the server can
//! choose otherwise, so that a client's tolerance meets a real peer
//! (`open-points.md`, each *switch*).

use http::HeaderName;

/// One choice for every switchable point; the default is the server's own.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    pub(crate) created_status: CreatedStatus,
    pub(crate) lists: Wrapping,
    pub(crate) errors: ErrorShape,
    pub(crate) idempotency: Idempotency,
    pub(crate) resources: Wrapping,
    pub(crate) failed_error: FailedError,
    pub(crate) key_header: HeaderName,
    pub(crate) contact_pages: ContactPages,
    pub(crate) test_field: String,
}

/// B1: the status of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreatedStatus {
    /// 201, and 202 for an accepted email.
    Created,
    /// 200 for all.
    Ok,
}

/// B2 and B14: what stands alone or inside `{"data": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Bare,
    Wrapped,
}

/// B4: the shape of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorShape {
    /// `{error: {code, message, details}}`
    Nested,
    /// RFC 9457 problem details.
    Problem,
    /// `{code, message, details}`
    Flat,
    /// Plain text.
    Text,
}

/// B9: whether `Idempotency-Key` is honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    Honoured,
    Ignored,
}

/// X3: the type of `data.error` in `extraction.failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedError {
    Object,
    Text,
}

/// E16: the shape and the counting of the contacts' pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactPages {
    Object,
    /// The bare array.
    Array,
    /// The object, its first page numbered 0.
    ZeroBased,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            created_status: CreatedStatus::Created,
            lists: Wrapping::Bare,
            errors: ErrorShape::Nested,
            idempotency: Idempotency::Honoured,
            resources: Wrapping::Bare,
            failed_error: FailedError::Object,
            key_header: http::header::AUTHORIZATION,
            contact_pages: ContactPages::Object,
            test_field: "statusCode".to_owned(),
        }
    }
}

/// A `POINT=CHOICE` that names no switch or no choice of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnknownSwitch(String);

impl Switches {
    /// Takes one `POINT=CHOICE`, such as `B1=200`.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), UnknownSwitch> {
        let Some((point, choice)) = text.split_once('=') else {
            return Err(UnknownSwitch(format!("`{text}` is no POINT=CHOICE, such as B1=200")));
        };
        let no_choice = |choices: &str| {
            Err(UnknownSwitch(format!("`{choice}` is no choice of {point}: {choices}")))
        };
        match (point.to_ascii_uppercase().as_str(), choice) {
            ("B1", "200") => self.created_status = CreatedStatus::Ok,
            ("B1", _) => return no_choice("200"),
            ("B2", "wrapped") => self.lists = Wrapping::Wrapped,
            ("B4", "problem") => self.errors = ErrorShape::Problem,
            ("B4", "flat") => self.errors = ErrorShape::Flat,
            ("B4", "text") => self.errors = ErrorShape::Text,
            ("B4", _) => return no_choice("problem, flat, text"),
            ("B9", "ignored") => self.idempotency = Idempotency::Ignored,
            ("B9", _) => return no_choice("ignored"),
            ("B14", "wrapped") => self.resources = Wrapping::Wrapped,
            ("B2" | "B14", _) => return no_choice("wrapped"),
            ("X3", "string") => self.failed_error = FailedError::Text,
            ("X3", _) => return no_choice("string"),
            ("E1", name) => match HeaderName::try_from(name) {
                Ok(name) => self.key_header = name,
                Err(_) => return no_choice("the name of a header"),
            },
            ("E16", "array") => self.contact_pages = ContactPages::Array,
            ("E16", "zero-based") => self.contact_pages = ContactPages::ZeroBased,
            ("E16", _) => return no_choice("array, zero-based"),
            ("E21", "") => return no_choice("the name of a field"),
            // What the answer holds beside the status.
            ("E21", "durationMs" | "error") => {
                return no_choice("the name of a field that the answer does not have already");
            }
            ("E21", field) => field.clone_into(&mut self.test_field),
            _ => {
                return Err(UnknownSwitch(format!(
                    "`{point}` is no switch: B1, B2, B4, B9, B14, X3, E1, E16, E21"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_taken() {
        let mut switches = Switches::default();
        for text in [
            "B1=200",
            "B2=wrapped",
            "B4=problem",
            "B4=flat",
            "B4=text",
            "B9=ignored",
            "B14=wrapped",
            "X3=string",
            "E1=X-Api-Key",
            "E16=array",
            "E16=zero-based",
            "E21=code",
            "b1=200",
        ] {
            switches.set(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert_eq!(switches.key_header, "x-api-key");
        assert_eq!(switches.test_field, "code");
    }

    #[test]
    fn anything_else_is_refused_with_what_there_is() {
        let mut switches = Switches::default();
        let refused =
            |switches: &mut Switches, text: &str| switches.set(text).expect_err(text).to_string();
        assert_eq!(
            refused(&mut switches, "B4=xml"),
            "`xml` is no choice of B4: problem, flat, text"
        );
        assert_eq!(refused(&mut switches, "B1"), "`B1` is no POINT=CHOICE, such as B1=200");
        assert!(refused(&mut switches, "Z9=1").contains("B1, B2"));
        assert!(refused(&mut switches, "E1=a b").contains("name of a header"));
        for taken in ["E21=durationMs", "E21=error"] {
            assert!(refused(&mut switches, taken).contains("does not have already"), "{taken}");
        }
        assert_eq!(switches.test_field, "statusCode");
    }
}
