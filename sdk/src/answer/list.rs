//! Lists and pages, in whichever shape they come (`docs/undocumented/both-services.md#list-shape`, `docs/undocumented/email-service.md#contact-pages`).

use std::ops::Deref;

use bytes::Bytes;

use super::record::{Record, Unreadable, next_object};
use super::walk::{Walk, read_text};
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
pub(crate) fn read_list<T: Record>(body: &Bytes) -> Result<List<T>, Unreadable> {
    read_text(body, |text| {
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

/// Reads the items of an answer's array: the answer itself, the only array in
/// an object, or, among several, the one of a well-known name; else the same
/// inside the only object in the object.
///
/// `room` is where the items go.
pub(crate) fn find_array<T>(
    text: &Bytes,
    room: Vec<T>,
    item: &dyn Fn(&mut Walk<'_>) -> Result<T, Unreadable>,
) -> Result<FoundArray<T>, Unreadable> {
    let mut walk = Walk::new(text)?;
    if walk.peek() == Some(b'[') {
        let items = read_items(&mut walk, room, item)?;
        walk.end()?;
        return Ok(FoundArray { items, is_wrapped: false });
    }
    let mut room = Some(room);
    let mut place = text.clone();
    // Two levels are enough for `{"data": {"items": […]}}`.
    for _ in 0..2 {
        let mut walk = Walk::new(&place)?;
        if walk.peek() != Some(b'{') {
            walk.skip()?;
            break;
        }
        let mut arrays: Vec<(String, Found<T>)> = Vec::new();
        let mut objects = Vec::new();
        walk.object(|name, walk| {
            match walk.peek() {
                // The first one mostly is the one, so it is read on the way.
                Some(b'[') if arrays.is_empty() => {
                    let room = room.take().unwrap_or_default();
                    arrays.push((name, Found::Items(read_items(walk, room, item)?)));
                }
                Some(b'[') => arrays.push((name, Found::Text(walk.skip()?))),
                Some(b'{') => objects.push(walk.skip()?),
                _ => drop(walk.skip()?),
            }
            Ok(())
        })?;
        walk.end()?;
        let array = match arrays.len() {
            0 => None,
            1 => arrays.pop(),
            _ => {
                let known = |(name, _): &(String, _)| WELL_KNOWN.contains(&name.as_str());
                let known = arrays.iter().position(known);
                let place = known.ok_or_else(|| Unreadable("several lists in it".to_owned()))?;
                Some(arrays.swap_remove(place))
            }
        };
        if let Some((_, found)) = array {
            let items = match found {
                Found::Items(items) => items,
                Found::Text(text) => read_items(&mut Walk::new(&text)?, Vec::new(), item)?,
            };
            return Ok(FoundArray { items, is_wrapped: true });
        }
        match objects.pop() {
            Some(only) if objects.is_empty() => place = only,
            _ => break,
        }
    }
    Err(Unreadable("no list in it".to_owned()))
}

/// An array of an object: what it holds, or where it is.
enum Found<T> {
    Items(Vec<T>),
    Text(Bytes),
}

fn read_items<T>(
    walk: &mut Walk<'_>,
    mut items: Vec<T>,
    item: &dyn Fn(&mut Walk<'_>) -> Result<T, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    walk.array(|walk| {
        if items.len() == LONGEST_LIST {
            return Err(Unreadable(format!("a list of more than {LONGEST_LIST} items")));
        }
        items.push(item(walk)?);
        Ok(())
    })?;
    Ok(items)
}

/// An item takes some hundred bytes of memory, even one that is `{}` on the
/// wire. With items as small as real ones are, an answer of 16 MiB has no more.
const LONGEST_LIST: usize = 1 << 18;

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
