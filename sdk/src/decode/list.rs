//! Lists and pages, in whichever shape they come (`docs/undocumented/both-services.md#list-shape`, `docs/undocumented/email-service.md#contact-pages`).

use std::ops::Deref;

use bytes::Bytes;

use super::cursor::{JsonCursor, parse_lenient};
use super::record::{DecodeError, Record, next_object};
use super::{Extra, Field};

/// A list of resources, with what the service said about its pages.
///
/// It derefs to a slice and iterates over its items.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct List<T> {
    /// The resources, in the response's order.
    pub items: Vec<T>,
    /// The number of this page, where the response names it.
    pub page: Option<u64>,
    /// The size of a page, where the response names it.
    pub page_size: Option<u64>,
    /// How many resources there are on all pages, where the response names it.
    pub total: Option<u64>,
    /// How many pages there are, where the response names it.
    pub total_pages: Option<u64>,
    /// What the response holds beside its items; empty for a bare array.
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

/// Writes the items as an array.
impl<T: serde::Serialize> serde::Serialize for List<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

/// Reads a bare array, or an object that holds one. An empty body is an empty
/// list.
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

    /// A paging field, beside the items or in an object beside them.
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
    /// Whether it stands in an object.
    pub(crate) is_wrapped: bool,
}

/// Reads the items of a response's array: the response itself, the only array in
/// an object, or, among several, the one of a well-known name; else the same
/// inside the only object in the object.
///
/// `buffer` is where the items go.
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
    let mut place = text.clone();
    // Two levels are enough for `{"data": {"items": […]}}`.
    for _ in 0..2 {
        let mut cursor = JsonCursor::new(&place)?;
        if cursor.peek() != Some(b'{') {
            cursor.skip()?;
            break;
        }
        let mut arrays: Vec<(String, ArrayContent<T>)> = Vec::new();
        let mut objects = Vec::new();
        cursor.object(|name, cursor| {
            match cursor.peek() {
                // The first one mostly is the one, so it is read on the way.
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
                let place = known.ok_or_else(|| DecodeError("several lists in it".to_owned()))?;
                Some(arrays.swap_remove(place))
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
            Some(only) if objects.is_empty() => place = only,
            _ => break,
        }
    }
    Err(DecodeError("no list in it".to_owned()))
}

/// An array of an object: what it holds, or where it is.
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
            return Err(DecodeError(format!("a list of more than {MAX_ITEMS} items")));
        }
        items.push(item(cursor)?);
        Ok(())
    })?;
    Ok(items)
}

/// An item takes some hundred bytes of memory, even one that is `{}` on the
/// wire. With items as small as real ones are, a response of 16 MiB has no more.
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
