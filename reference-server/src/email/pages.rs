//! `page` and `pageSize` (`docs/undocumented/email-service.md#contact-pages`).

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{ApiError, Problems};
use crate::switches::{ContactPages, Switches};
use crate::web::Answer;

const DEFAULT_SIZE: i64 = 20;
const LARGEST_SIZE: i64 = 100;
const LAST_PAGE: i64 = i32::MAX as i64;

/// Which page is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// As the client counts them.
    number: i64,
    first: i64,
    pub(super) size: i64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}Page")]
pub(crate) struct Paged<'a, T> {
    data: &'a [T],
    page: i64,
    page_size: i64,
    total: i64,
    total_pages: i64,
}

impl Page {
    pub(super) fn of(
        query: &HashMap<String, String>,
        switches: &Switches,
    ) -> Result<Self, ApiError> {
        let first = first(switches);
        let mut problems = Problems::default();
        let mut number = |name: &str, least: i64, most: i64, default: i64| match query.get(name) {
            None => default,
            Some(text) => {
                match text.parse().ok().filter(|number| (least..=most).contains(number)) {
                    Some(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => number,
                    _ => {
                        problems.add(name, format!("must be an integer from {least} to {most}"));
                        default
                    }
                }
            }
        };
        let page = Self {
            number: number("page", first, LAST_PAGE, first),
            size: number("pageSize", 1, LARGEST_SIZE, DEFAULT_SIZE),
            first,
        };
        problems.check()?;
        Ok(page)
    }

    /// The two parameters, for the description.
    pub(crate) fn parameters(switches: &Switches) -> [Value; 2] {
        let first = first(switches);
        let parameter = |name, about, least, most, default| {
            json!({
                "name": name,
                "in": "query",
                "description": about,
                "schema":
                    {"type": "integer", "minimum": least, "maximum": most, "default": default},
            })
        };
        [
            parameter("page", "Which page.", first, LAST_PAGE, first),
            parameter("pageSize", "Contacts on a page.", 1, LARGEST_SIZE, DEFAULT_SIZE),
        ]
    }

    /// How many items come before it.
    pub(super) const fn offset(self) -> i64 {
        (self.number - self.first) * self.size
    }

    pub(super) fn answer<T: Serialize>(
        self,
        switches: &Switches,
        data: &[T],
        total: i64,
    ) -> Result<Answer, ApiError> {
        if switches.contact_pages == ContactPages::Array {
            return Answer::json(http::StatusCode::OK, &data);
        }
        let total_pages = (total + self.size - 1) / self.size;
        let paged = Paged { data, page: self.number, page_size: self.size, total, total_pages };
        Answer::json(http::StatusCode::OK, &paged)
    }
}

/// The number of the first page (`docs/undocumented/email-service.md#contact-pages`).
fn first(switches: &Switches) -> i64 {
    i64::from(switches.contact_pages != ContactPages::ZeroBased)
}
