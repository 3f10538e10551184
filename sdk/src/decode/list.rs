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
        if found.is_wrapped {
            list.note_pages(text.clone());
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
    /// Whether the array is inside an object.
    pub(crate) is_wrapped: bool,
}

/// Decodes the items of the response's array. It is, in this order: the response itself;
/// the only array in the object; the array with a well-known name, if there are several;
/// the same inside the only nested object.
///
/// The items are appended to `buffer`.
pub(crate) fn find_array<T>(
    text: &Bytes,
    buffer: Vec<T>,
    item: &dyn Fn(&mut JsonCursor<'_>) -> Result<T, DecodeError>,
) -> Result<FoundArray<T>, DecodeError> {
    let mut cursor = JsonCursor::new(text)?;
    if cursor.peek() == Some(b'[') {
        let items = read_items(&mut cursor, buffer, item)?;
        cursor.end()?;
        return Ok(FoundArray { items, is_wrapped: false });
    }
    let mut buffer = Some(buffer);
    let mut current = text.clone();
    // Two levels cover `{"data": {"items": […]}}`.
    for _ in 0..2 {
        let mut cursor = JsonCursor::new(&current)?;
        if cursor.peek() != Some(b'{') {
            cursor.skip()?;
            break;
        }
        let mut arrays: Vec<(String, ArrayContent<T>)> = Vec::new();
        let mut objects = Vec::new();
        cursor.object(|name, cursor| {
            match cursor.peek() {
                // Usually there is only one array, so decode the first one right away.
                Some(b'[') if arrays.is_empty() => {
                    let buffer = buffer.take().unwrap_or_default();
                    arrays.push((name, ArrayContent::Items(read_items(cursor, buffer, item)?)));
                }
                Some(b'[') => arrays.push((name, ArrayContent::Text(cursor.skip()?))),
                Some(b'{') => objects.push(cursor.skip()?),
                _ => drop(cursor.skip()?),
            }
            Ok(())
        })?;
        cursor.end()?;
        let array = match arrays.len() {
            0 => None,
            1 => arrays.pop(),
            _ => {
                let known = |(name, _): &(String, _)| WELL_KNOWN.contains(&name.as_str());
                let known = arrays.iter().position(known);
                let index = known
                    .ok_or_else(|| DecodeError("the response contains several lists".to_owned()))?;
                Some(arrays.swap_remove(index))
            }
        };
        if let Some((_, found)) = array {
            let items = match found {
                ArrayContent::Items(items) => items,
                ArrayContent::Text(text) => {
                    read_items(&mut JsonCursor::new(&text)?, Vec::new(), item)?
                }
            };
            return Ok(FoundArray { items, is_wrapped: true });
        }
        match objects.pop() {
            Some(only) if objects.is_empty() => current = only,
            _ => break,
        }
    }
    Err(DecodeError("the response contains no list".to_owned()))
}

/// An array inside an object: its decoded items, or its JSON text.
enum ArrayContent<T> {
    Items(Vec<T>),
    Text(Bytes),
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
