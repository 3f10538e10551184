//! Pagination with `page` and `pageSize` (`docs/undocumented/services.md#contact-pages`).

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use svc_sdk::{Dialect, Point};

use crate::api::framework::{Call, Reply};
use crate::model::error::{ApiError, Problems};

const DEFAULT_SIZE: i64 = 20;
const MAX_SIZE: i64 = 100;
const LAST_PAGE: i64 = i32::MAX as i64;

/// The requested page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// In the numbering of the client.
    number: i64,
    /// The number of the first page.
    first: i64,
    pub(super) size: i64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}Page")]
pub(crate) struct Paged<T> {
    data: Vec<T>,
    page: i64,
    page_size: i64,
    total: i64,
    total_pages: i64,
}

impl Page {
    pub(super) fn from_query(
        query: &HashMap<String, String>,
        dialect: &Dialect,
    ) -> Result<Self, ApiError> {
        let first = first(dialect);
        let mut problems = Problems::default();
        let mut number = |name: &str, min: i64, max: i64, default: i64| match query.get(name) {
            None => default,
            Some(text) => match text
                .parse()
                .ok()
                .filter(|number| (min..=max).contains(number))
            {
                Some(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => number,
                _ => {
                    problems.add(name, format!("must be an integer from {min} to {max}"));
                    default
                }
            },
        };
        let page = Self {
            number: number("page", first, LAST_PAGE, first),
            size: number("pageSize", 1, MAX_SIZE, DEFAULT_SIZE),
            first,
        };
        problems.check()?;
        Ok(page)
    }

    /// The two query parameters, for the OpenAPI description.
    pub(crate) fn parameters(dialect: &Dialect) -> Vec<Value> {
        let first = first(dialect);
        let parameter = |name, description, min, max, default| {
            json!({
                "name": name,
                "in": "query",
                "description": description,
                "schema":
                    {"type": "integer", "minimum": min, "maximum": max, "default": default},
            })
        };
        vec![
            parameter("page", "The number of the page.", first, LAST_PAGE, first),
            parameter("pageSize", "Contacts per page.", 1, MAX_SIZE, DEFAULT_SIZE),
        ]
    }

    /// The number of items before the page.
    pub(super) const fn offset(self) -> i64 {
        (self.number - self.first) * self.size
    }

    pub(super) fn reply<T: Serialize>(
        self,
        call: &Call,
        data: Vec<T>,
        total: i64,
    ) -> Result<Reply<Paged<T>>, ApiError> {
        let total_pages = (total + self.size - 1) / self.size;
        call.reply(Paged {
            data,
            page: self.number,
            page_size: self.size,
            total,
            total_pages,
        })
    }
}

/// The number of the first page (`docs/undocumented/services.md#contact-pages`).
fn first(dialect: &Dialect) -> i64 {
    i64::from(dialect.is(Point::FirstPage, "1"))
}
