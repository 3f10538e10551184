//! Lists and pages, in whichever shape they come (`open-points.md` B2, E16).

use std::ops::Deref;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::record::{Record, Unreadable, fields, read_object};
use super::{Extra, Field};

/// A list of resources, with what the service said about its pages.
///
/// It derefs to a slice and iterates over its items.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct List<T> {
    /// The resources, in the answer's order.
    pub items: Vec<T>,
    /// The number of this page, where the answer names it.
    pub page: Option<u64>,
    /// The size of a page, where the answer names it.
    pub page_size: Option<u64>,
    /// How many resources there are on all pages, where the answer names it.
    pub total: Option<u64>,
    /// How many pages there are, where the answer names it.
    pub total_pages: Option<u64>,
    /// What the answer holds beside its items; empty for a bare array.
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
pub(crate) fn read_list<T: Record>(raw: &Bytes) -> Result<List<T>, Unreadable> {
    let mut list = List::default();
    if raw.trim_ascii().is_empty() {
        return Ok(list);
    }
    let found = find_array(raw)?;
    list.items.reserve_exact(found.items.len());
    for item in found.items {
        list.items.push(read_object(&raw.slice_ref(item.get().as_bytes()))?);
    }
    if let Some(beside) = found.beside {
        list.note_pages(beside);
    }
    Ok(list)
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

pub(crate) struct FoundArray<'a> {
    pub(crate) items: Vec<&'a RawValue>,
    /// The object that holds the array.
    pub(crate) beside: Option<Bytes>,
}

/// The array of an answer: the answer itself, the only array in an object, or,
/// among several, the one of a well-known name; else the same inside the only
/// object in the object.
pub(crate) fn find_array(raw: &Bytes) -> Result<FoundArray<'_>, Unreadable> {
    let text = raw.trim_ascii();
    if text.first() == Some(&b'[') {
        return Ok(FoundArray { items: serde_json::from_slice(text)?, beside: None });
    }
    if text.first() != Some(&b'{') {
        serde_json::from_slice::<serde::de::IgnoredAny>(text)?;
        return Err(Unreadable("no list in it".to_owned()));
    }
    let mut place: &[u8] = text;
    // Two levels are enough for `{"data": {"items": […]}}`.
    for _ in 0..2 {
        let fields = fields(place)?;
        let mut arrays = fields.iter().filter(|(_, value)| value.get().starts_with('['));
        let array = match (arrays.next(), arrays.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => Some(
                fields
                    .iter()
                    .filter(|(_, value)| value.get().starts_with('['))
                    .find(|(name, _)| WELL_KNOWN.contains(&name.as_str()))
                    .ok_or_else(|| Unreadable("several lists in it".to_owned()))?,
            ),
            (None, _) => None,
        };
        if let Some((_, array)) = array {
            return Ok(FoundArray {
                items: serde_json::from_str(array.get())?,
                beside: Some(raw.slice_ref(text)),
            });
        }
        let mut objects = fields.iter().filter(|(_, value)| value.get().starts_with('{'));
        match (objects.next(), objects.next()) {
            (Some((_, only)), None) => place = only.get().as_bytes(),
            _ => break,
        }
    }
    Err(Unreadable("no list in it".to_owned()))
}

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
