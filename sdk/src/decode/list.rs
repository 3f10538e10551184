//! Decodes lists and pages in any common JSON shape
//! (`docs/undocumented/both-services.md#list-shape`,
//! `docs/undocumented/email-service.md#contact-pages`).

use std::ops::Deref;

use bytes::Bytes;

use super::cursor::{JsonCursor, parse_lenient};
use super::record::{DecodeError, Record, next_object};
use super::{Extra, Field};

/// A list of resources, with paging information if the response contains any.
///
/// Dereferences to a slice and iterates over its items.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct List<T> {
    /// The resources, in the response's order.
    pub items: Vec<T>,
    /// The number of this page, if known.
    pub page: Option<u64>,
    /// The maximum number of items per page, if known.
    pub page_size: Option<u64>,
    /// The number of resources on all pages, if known.
    pub total: Option<u64>,
    /// The number of pages, if known.
    pub total_pages: Option<u64>,
    /// The response's fields next to the items; empty if the response is a bare array.
    pub extra: Extra,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            page: None,
            page_size: None,
            total: None,
            total_pages: None,
            extra: Extra::default(),
        }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// Creates a list without paging information, for example for a test.
impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, ..Self::default() }
    }
}

/// Serializes as an array of the items.
impl<T: serde::Serialize> serde::Serialize for List<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

/// Decodes a bare array or an object that contains one. An empty body is an empty list.
pub(crate) fn read_list<T: Record>(body: &Bytes) -> Result<List<T>, DecodeError> {
    parse_lenient(body, |text| {
        let mut list = List::default();
        if text.trim_ascii().is_empty() {
            return Ok(list);
        }
        let found = find_array(text, Vec::new(), &next_object)?;
        list.items = found.items;
        if let Some(beside) = found.beside {
            list.note_pages(beside);
        }
        Ok(list)
    })
}

impl<T> List<T> {
    fn note_pages(&mut self, beside: Bytes) {
        self.extra = Extra::new(beside, &WELL_KNOWN);
        self.page = self.number(&["page", "currentPage", "current_page", "pageNumber"]);
        self.page_size = self.number(&["pageSize", "page_size", "perPage", "per_page", "limit"]);
        self.total = self.number(&["total", "totalCount", "total_count", "totalItems"]);
        self.total_pages =
            self.number(&["totalPages", "total_pages", "pageCount", "lastPage", "last_page"]);
    }

    /// Returns a paging field, next to the items or in an object next to them.
    fn number(&self, names: &[&str]) -> Option<u64> {
        let all = self.extra.all();
        let holders = std::iter::once(all).chain(all.values().filter_map(|v| v.as_object()));
        holders.flat_map(|holder| names.iter().filter_map(|name| holder.get(*name))).find_map(
            |value| match value {
                serde_json::Value::Number(number) => number.as_u64(),
                serde_json::Value::String(text) => Option::<u64>::text(text).flatten(),
                _ => None,
            },
        )
    }
}

pub(crate) struct FoundArray<T> {
    pub(crate) items: Vec<T>,
    /// The JSON object around the array, without the array. `None` if there is none.
    beside: Option<Bytes>,
}

/// Decodes the items of the response's array. It is, in this order: the response itself;
/// the only array in the object; the array with a well-known name, if there are several;
/// the same inside the only nested object.
///
/// The items are appended to `buffer`. An array of errors is never the list.
pub(crate) fn find_array<T>(
    text: &Bytes,
    buffer: Vec<T>,
    item: &dyn Fn(&mut JsonCursor<'_>) -> Result<T, DecodeError>,
) -> Result<FoundArray<T>, DecodeError> {
    let mut cursor = JsonCursor::new(text)?;
    if cursor.peek() == Some(b'[') {
        let items = read_items(&mut cursor, buffer, item)?;
        cursor.end()?;
        return Ok(FoundArray { items, beside: None });
    }
    let mut buffer = Some(buffer);
    let mut current = text.clone();
    // The fields around `current`, and its name.
    let mut outer: Option<(Fields, String)> = None;
    // Two levels cover `{"data": {"items": […]}}`.
    for _ in 0..2 {
        let mut cursor = JsonCursor::new(&current)?;
        if cursor.peek() != Some(b'{') {
            cursor.skip()?;
            break;
        }
        let mut arrays: Vec<(String, Bytes, Option<Vec<T>>)> = Vec::new();
        let mut objects = Vec::new();
        let mut fields = Fields::new();
        cursor.object(|name, cursor| {
            match cursor.peek() {
                // Usually there is only one array, so decode the first one right away.
                Some(b'[') if arrays.is_empty() && name != ERRORS => {
                    let (buffer, start) = (buffer.take().unwrap_or_default(), cursor.position());
                    let items = read_items(cursor, buffer, item)?;
                    arrays.push((name, cursor.since(start), Some(items)));
                }
                Some(b'[') if name != ERRORS => arrays.push((name, cursor.skip()?, None)),
                Some(b'{') => objects.push((name, cursor.skip()?)),
                _ => fields.push((name, cursor.skip()?)),
            }
            Ok(())
        })?;
        cursor.end()?;
        let array = match arrays.len() {
            0 => None,
            1 => arrays.pop(),
            _ => {
                let known = |(name, ..): &(String, _, _)| WELL_KNOWN.contains(&name.as_str());
                let known = arrays.iter().position(known);
                let index = known
                    .ok_or_else(|| DecodeError("the response contains several lists".to_owned()))?;
                Some(arrays.swap_remove(index))
            }
        };
        if let Some((_, text, items)) = array {
            let items = match items {
                Some(items) => items,
                None => read_items(&mut JsonCursor::new(&text)?, Vec::new(), item)?,
            };
            fields.extend(arrays.into_iter().map(|(name, text, _)| (name, text)));
            fields.extend(objects);
            let mut beside = object(&fields)?;
            if let Some((mut outer, name)) = outer {
                outer.push((name, beside));
                beside = object(&outer)?;
            }
            return Ok(FoundArray { items, beside: Some(beside) });
        }
        match objects.pop() {
            Some((name, only)) if objects.is_empty() => {
                current = only;
                outer = Some((fields, name));
            }
            _ => break,
        }
    }
    Err(DecodeError("the response contains no list".to_owned()))
}

/// The names of fields and the JSON texts of their values.
type Fields = Vec<(String, Bytes)>;

/// The JSON text of an object with these fields.
fn object(fields: &Fields) -> Result<Bytes, DecodeError> {
    let mut text = Vec::new();
    for (name, value) in fields {
        text.push(if text.is_empty() { b'{' } else { b',' });
        serde_json::to_writer(&mut text, name)?;
        text.push(b':');
        text.extend_from_slice(value);
    }
    if text.is_empty() {
        text.push(b'{');
    }
    text.push(b'}');
    Ok(text.into())
}

fn read_items<T>(
    cursor: &mut JsonCursor<'_>,
    mut items: Vec<T>,
    item: &dyn Fn(&mut JsonCursor<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    cursor.array(|cursor| {
        if items.len() == MAX_ITEMS {
            return Err(DecodeError(format!("the list has more than {MAX_ITEMS} items")));
        }
        items.push(item(cursor)?);
        Ok(())
    })?;
    Ok(items)
}

/// Bounds the memory of a list: an item takes a few hundred bytes even if its JSON is `{}`.
/// A response of 16 MiB with items of realistic size has fewer.
const MAX_ITEMS: usize = 1 << 18;

/// The field of a response that reports errors.
const ERRORS: &str = "errors";

const WELL_KNOWN: [&str; 9] = [
    "data",
    "items",
    "results",
    "records",
    "audiences",
    "contacts",
    "domains",
    "webhooks",
    "emails",
];
