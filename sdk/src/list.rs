//! Lists and pages of resources, in any common JSON shape.

use std::ops::Deref;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::decode::{DecodeError, Extra, Resource, read_object};

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
        let extra = Extra::default();
        Self {
            items,
            page: None,
            page_size: None,
            total: None,
            total_pages: None,
            extra,
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

/// Serializes as an array of the items.
impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

/// Reads a bare array or an object that contains one, with the paging fields beside it.
pub(crate) fn read_list<T: Resource>(value: Value) -> Result<List<T>, DecodeError> {
    let (items, beside) = find_array(value)?;
    if items.len() > MAX_ITEMS {
        return Err(DecodeError(format!(
            "the list has more than {MAX_ITEMS} items"
        )));
    }
    let number = |names: &[&str]| {
        let nested = beside.values().filter_map(Value::as_object);
        let mut holders = std::iter::once(&beside).chain(nested);
        holders.find_map(|fields| {
            names
                .iter()
                .find_map(|name| whole_number(fields.get(*name)?))
        })
    };
    Ok(List {
        page: number(&["page", "currentPage", "current_page", "pageNumber"]),
        page_size: number(&["pageSize", "page_size", "perPage", "per_page", "limit"]),
        total: number(&["total", "totalCount", "total_count", "totalItems"]),
        total_pages: number(&[
            "totalPages",
            "total_pages",
            "pageCount",
            "lastPage",
            "last_page",
        ]),
        items: items.iter().map(read_object).collect(),
        extra: Extra(beside),
    })
}

/// Bounds the memory of a list: an item takes a few hundred bytes even if its JSON is `{}`.
const MAX_ITEMS: usize = 1 << 18;

/// A number, which may be in a string.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the items of the response's array, and the fields beside it. The array is, in this
/// order: the response itself; the only array in the object, or the one with a usual name; the
/// same inside the only nested object.
pub(crate) fn find_array(value: Value) -> Result<(Vec<Value>, Map<String, Value>), DecodeError> {
    let mut beside = match value {
        Value::Array(items) => return Ok((items, Map::new())),
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    if let Some(items) = take_array(&mut beside)? {
        return Ok((items, beside));
    }
    let mut objects = beside.values_mut().filter_map(Value::as_object_mut);
    if let (Some(only), None) = (objects.next(), objects.next())
        && let Some(items) = take_array(only)?
    {
        return Ok((items, beside));
    }
    Err(DecodeError("the response contains no list".to_owned()))
}

fn take_array(fields: &mut Map<String, Value>) -> Result<Option<Vec<Value>>, DecodeError> {
    const USUAL: [&str; 9] = [
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
    let is_list = |(name, value): &(&String, &Value)| value.is_array() && *name != "errors";
    let names: Vec<&str> = fields
        .iter()
        .filter(is_list)
        .map(|(name, _)| name.as_str())
        .collect();
    let name = match names[..] {
        [] => return Ok(None),
        [only] => only,
        _ => USUAL
            .into_iter()
            .find(|usual| names.contains(usual))
            .ok_or_else(|| DecodeError("the response contains several lists".to_owned()))?,
    };
    let name = name.to_owned();
    match fields.remove(&name) {
        Some(Value::Array(items)) => Ok(Some(items)),
        _ => Ok(None),
    }
}
