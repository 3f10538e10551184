//! `List<T>`, and how it is read from a response: `find_array` finds the items, `read_list_by` the
//! paging fields beside them, and `read_more` whether and how the list goes on (`More`). Known
//! names of fields are searched in any common shape; the dialect can pin the field of the items and
//! the parameter of a cursor. If a response has several arrays and none has a usual name, that is
//! an error: the items are not guessed. `pages.rs` requests the next page.

use std::ops::Deref;

use http::HeaderMap;
use http::header::{CONTENT_RANGE, LINK};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::decode::{DecodeError, Extra, Resource, read_object};
use crate::dialect::{Dialect, Point};
use crate::fields::{Fields, find_within, flag, is_nothing, is_of_failures, plain, whole_number};
use crate::words::WORDS;

/// A list of resources, with paging information if the response contains any.
///
/// Dereferences to a slice and iterates over its items. It may be a part of a longer list, see
/// [`is_complete`](Self::is_complete).
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
    pub(crate) more: More,
}

/// The statements of a list about the items that follow.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct More {
    /// Whether there are any, if the list says so in as many words.
    pub(crate) said: Option<bool>,
    /// A URL, absolute or relative.
    pub(crate) link: Option<String>,
    pub(crate) cursor: Option<Cursor>,
    /// The number of the next page.
    pub(crate) page: Option<u64>,
    /// The number of the items up to here, if the list counts them.
    pub(crate) offset: Option<Cursor>,
}

/// Where a list goes on, and the query parameter that takes it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Cursor {
    pub(crate) parameter: String,
    pub(crate) value: String,
}

impl<T> List<T> {
    /// Whether the response says that there are items after these.
    pub fn has_more(&self) -> bool {
        self.more.is_said()
    }

    /// Whether these are all items, as far as the response tells: it says nothing of more items,
    /// nor of a higher total.
    pub fn is_complete(&self) -> bool {
        let is_short = self
            .total
            .is_some_and(|total| total > self.items.len() as u64);
        let is_one_of_many = self.total.is_none() && self.total_pages.is_some_and(|all| all > 1);
        !self.has_more() && !is_short && !is_one_of_many
    }
}

impl More {
    pub(crate) fn is_said(&self) -> bool {
        let is_told = self.link.is_some() || self.cursor.is_some() || self.page.is_some();
        self.said.unwrap_or(is_told)
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
        let extra = Extra::default();
        Self {
            items,
            page: None,
            page_size: None,
            total: None,
            total_pages: None,
            extra,
            more: More::default(),
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
pub(crate) fn read_list<T: Resource>(
    value: Value,
    headers: &HeaderMap,
    dialect: &Dialect,
) -> Result<List<T>, DecodeError> {
    read_list_by(value, headers, dialect, |item| read_object(item, dialect))
}

/// Like [`read_list`], with a reader of the items.
pub(crate) fn read_list_by<T>(
    value: Value,
    headers: &HeaderMap,
    dialect: &Dialect,
    read: impl Fn(Value) -> T,
) -> Result<List<T>, DecodeError> {
    let (items, beside) = find_array(value, dialect.pinned(Point::ListItems))?;
    if items.len() > MAX_ITEMS {
        return Err(DecodeError(format!(
            "the list has more than {MAX_ITEMS} items"
        )));
    }

    let count = items.len() as u64;
    let number = |names: &[&str]| {
        let mut named = names.iter();
        named.find_map(|name| whole_number(find_within(&beside, &[name], DEPTH)?))
    };

    let header = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let total = number(&WORDS.totals);
    // Some mean the items of this page.
    let counted = || number(&["count"]).filter(|total| *total > count);
    Ok(List {
        page: number(&WORDS.page_numbers),
        page_size: number(&WORDS.page_sizes),
        total: total
            .or_else(counted)
            .or_else(|| header("x-total-count"))
            .or_else(|| header("x-total"))
            .or_else(|| total_of_range(headers)),
        total_pages: number(&WORDS.page_counts).or_else(|| header("x-total-pages")),
        more: read_more(&beside, count, headers, dialect),
        items: items.into_iter().map(read).collect(),
        extra: Extra(beside),
    })
}

/// Where a list goes on that says where its part begins: `{"offset": 0, "limit": 10, "total": 17}`.
fn next_offset(beside: &Fields, count: u64) -> Option<Cursor> {
    let named = fields_named(beside, &WORDS.offsets, DEPTH);
    named.into_iter().find_map(|(name, value)| {
        let next = whole_number(value)?.checked_add(count)?;
        Some(Cursor {
            parameter: name.clone(),
            value: next.to_string(),
        })
    })
}

/// The total of `Content-Range: items 0-9/17` (RFC 9110).
fn total_of_range(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.rsplit_once('/')?.1.trim().parse().ok()
}

/// How deep the paging fields may be inside the fields beside the items.
const DEPTH: u32 = 3;

fn read_more(beside: &Fields, count: u64, headers: &HeaderMap, dialect: &Dialect) -> More {
    let is_last = || find_within(beside, &WORDS.last_flags, DEPTH)?.as_bool();
    // Deeper, it may be what is left of a rate limit.
    let remaining = || find_within(beside, &["remaining"], 0).and_then(whole_number);
    let mut more = More {
        said: find_within(beside, &WORDS.more_flags, DEPTH)
            .and_then(flag)
            .or_else(|| is_last().map(|last| !last))
            .or_else(|| remaining().map(|count| count > 0)),
        link: link_header(headers),
        offset: next_offset(beside, count),
        ..More::default()
    };
    let next = fields_named(beside, &WORDS.next_fields, DEPTH);
    for (name, value) in &next {
        match value {
            Value::String(text) if is_url(text) => {
                more.link.get_or_insert_with(|| text.clone());
            }
            Value::Object(link) => more.link = more.link.or_else(|| text_of(link.get("href")?)),
            Value::Number(page) if plain(name) == "nextpage" => more.page = page.as_u64(),
            value => {
                let value = text_of(value).filter(|_| more.cursor.is_none());
                more.cursor = value.map_or(more.cursor, |value| {
                    Some(Cursor {
                        parameter: dialect
                            .pinned(Point::CursorParam)
                            .map_or_else(|| cursor_parameter(name), str::to_owned),
                        value,
                    })
                });
            }
        }
    }

    let page = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
    more.page = more.page.or_else(|| page("x-next-page"));
    match dialect.pinned(Point::ListPages) {
        Some("whole") => return More::default(),
        Some("page" | "has-more") => (more.link, more.cursor) = (None, None),
        Some("cursor") => more.link = None,
        Some("link") => more.cursor = None,
        Some("link-header") => (more.link, more.cursor) = (link_header(headers), None),
        _ => {}
    }

    let is_told = more.link.is_some() || more.cursor.is_some() || more.page.is_some();
    // `"next": null` ends a list.
    if more.said.is_none() && !is_told && names_no_next(beside, DEPTH) {
        more.said = Some(false);
    }
    more
}

/// The fields with these plain names that have a value, and links of the relation `next`.
fn fields_named<'a>(
    fields: &'a Fields,
    names: &[&str],
    levels: u32,
) -> Vec<(&'a String, &'a Value)> {
    let mut found = Vec::new();
    for (name, value) in fields {
        if names.contains(&plain(name).as_str()) && !is_nothing(value) {
            found.push((name, value));
        } else if let Value::Object(inner) = value
            && levels > 0
        {
            found.extend(fields_named(inner, names, levels - 1));
        } else if let Value::Array(links) = value
            && plain(name) == "links"
        {
            let is_next = |link: &&Value| link.get("rel").and_then(Value::as_str) == Some("next");
            found.extend(links.iter().find(is_next).map(|link| (name, link)));
        }
    }
    found
}

fn names_no_next(fields: &Fields, levels: u32) -> bool {
    fields.iter().any(|(name, value)| match value {
        Value::Object(inner) => levels > 0 && names_no_next(inner, levels - 1),
        value => is_nothing(value) && WORDS.next_fields.contains(&plain(name).as_str()),
    })
}

fn is_url(text: &str) -> bool {
    text.starts_with('/') || text.starts_with('?') || text.contains("://")
}

/// A text, or a number as one.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The query parameter that usually takes the value of this field.
fn cursor_parameter(field: &str) -> String {
    let is_snake = field.contains('_');
    let is_pascal = field.starts_with(char::is_uppercase);
    let page_token = match (is_snake, is_pascal) {
        (true, _) => "page_token",
        (_, true) => "PageToken",
        _ => "pageToken",
    };
    match plain(field).as_str() {
        "nextpagetoken" => page_token,
        "endcursor" | "after" => "after",
        "nextoffset" => "offset",
        // Amazon and Azure take it by the name that they gave it.
        "nexttoken" | "continuationtoken" => field,
        _ => "cursor",
    }
    .to_owned()
}

/// The target of `Link: <…>; rel="next"` (RFC 8288).
fn link_header(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter();
    let mut links = links.filter_map(|value| value.to_str().ok());
    links.find_map(|value| {
        value.split(",").find_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let mut parameters = parameters
                .split(';')
                .map(|each| each.trim().to_ascii_lowercase());
            let is_next =
                parameters.any(|each| matches!(each.as_str(), "rel=next" | "rel=\"next\""));
            is_next.then(|| target.to_owned())
        })
    })
}

/// Whether there is an array in the place of a list, perhaps an empty one.
pub(crate) fn has_array(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_array),
        _ => false,
    }
}

/// Bounds the memory of a list: an item takes a few hundred bytes even if its JSON is `{}`.
const MAX_ITEMS: usize = 1 << 18;

/// The items of a response, and the fields beside them.
pub(crate) type Found = (Vec<Value>, Map<String, Value>);

/// Returns the items of the response's array, and the fields beside it. The array is, in this
/// order: the response itself; the one in the `pinned` field; the only array in the object, or the
/// one with a usual name; the same in an object inside. `null` in its place is an empty list.
pub(crate) fn find_array(mut value: Value, pinned: Option<&str>) -> Result<Found, DecodeError> {
    if let Some(items) = pinned.and_then(|path| take_at(&mut value, path)) {
        let beside = value.as_object_mut().map(std::mem::take);
        return Ok((items, beside.unwrap_or_default()));
    }

    let mut beside = match value {
        Value::Array(items) => return Ok((items, Map::new())),
        Value::Null => return Ok((Vec::new(), Map::new())),
        Value::Object(fields) => fields,
        _ => return Err(DecodeError(NO_LIST.to_owned())),
    };
    let pinned = pinned.filter(|field| *field != "array");
    if let Some(items) = take_within(&mut beside, pinned, DEPTH)? {
        return Ok((items, beside));
    }
    if let Some(only) = take_only(&mut beside, DEPTH) {
        return Ok((vec![only], beside));
    }
    if take_null(&mut beside, pinned, DEPTH) {
        return Ok((Vec::new(), beside));
    }

    Err(DecodeError(NO_LIST.to_owned()))
}

/// Takes the array at the end of a way such as `result.rows`.
fn take_at(value: &mut Value, path: &str) -> Option<Vec<Value>> {
    let (outer, name) = path.rsplit_once('.')?;
    let outer = value.pointer_mut(&format!("/{}", outer.replace('.', "/")))?;
    let outer = outer.as_object_mut()?;
    outer.get(name)?.as_array()?;
    match outer.remove(name)? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The only item of a list that is written as an object, as translations from XML do:
/// `{"Webhooks": {"Webhook": {…}}}`. Its wrapper is called like a list.
fn take_only(fields: &mut Fields, levels: u32) -> Option<Value> {
    let is_wrapper = |name: &str, value: &Value| {
        value.is_object() && plain(name) != "data" && is_list_name(name, None)
    };
    let wrapper = fields
        .iter()
        .find(|(name, value)| is_wrapper(name, value))
        .map(|(name, _)| name.clone());
    if let Some(name) = wrapper {
        let mut item = fields.remove(&name)?;
        let inner = item.as_object_mut()?;
        let mut values = inner.values_mut();
        return match (values.next(), values.next()) {
            (Some(only), None) if only.is_object() => Some(only.take()),
            _ => Some(item),
        };
    }
    if levels == 0 {
        return None;
    }

    fields
        .values_mut()
        .filter_map(Value::as_object_mut)
        .find_map(|inner| take_only(inner, levels - 1))
}

/// Whether there is `null` in the place of the items, which it takes away.
fn take_null(fields: &mut Fields, pinned: Option<&str>, levels: u32) -> bool {
    let empty = fields
        .iter()
        .find(|(name, value)| {
            let is_place = is_list_name(name, pinned) || is_list_name(name, None);
            value.is_null() && is_place
        })
        .map(|(name, _)| name.clone());
    if let Some(name) = empty {
        fields.remove(&name);
        return true;
    }
    levels > 0
        && fields
            .values_mut()
            .filter_map(Value::as_object_mut)
            .any(|inner| take_null(inner, pinned, levels - 1))
}

const NO_LIST: &str = "the response contains no list (the point `list-items` of the dialect)";

fn take_within(
    fields: &mut Fields,
    pinned: Option<&str>,
    levels: u32,
) -> Result<Option<Vec<Value>>, DecodeError> {
    if let Some(items) = take_array(fields, pinned)? {
        return Ok(Some(items));
    }
    if levels == 0 {
        return Ok(None);
    }

    let mut found = None;
    for (name, value) in fields.iter_mut() {
        let Value::Object(inner) = value else {
            continue;
        };
        let is_paging = matches!(
            plain(name).as_str(),
            "meta" | "links" | "pagination" | "paging" | "error" | "responsemetadata"
        );
        if is_paging || found.is_some() {
            continue;
        }
        found = take_within(inner, pinned, levels - 1)?;
    }
    Ok(found)
}

fn is_list_name(name: &str, pinned: Option<&str>) -> bool {
    match pinned {
        Some(pinned) => name == pinned,
        None => WORDS.list_names.contains(&plain(name).as_str()),
    }
}

fn take_array(
    fields: &mut Fields,
    pinned: Option<&str>,
) -> Result<Option<Vec<Value>>, DecodeError> {
    let is_list = |(name, value): &(&String, &Value)| match pinned {
        Some(pinned) => name.as_str() == pinned && value.is_array(),
        None => {
            let is_beside =
                WORDS.beside_items.contains(&plain(name).as_str()) || is_of_failures(name);
            value.is_array() && !is_beside
        }
    };

    let names: Vec<&String> = fields
        .iter()
        .filter(is_list)
        .map(|(name, _)| name)
        .collect();
    let name = match names[..] {
        [] => return Ok(None),
        [only] => only,
        _ => WORDS
            .list_names
            .iter()
            .find_map(|usual| names.iter().find(|name| plain(name) == *usual))
            .ok_or_else(|| {
                let problem = "the response contains several lists";
                DecodeError(format!("{problem} (the point `list-items` of the dialect)"))
            })?,
    };
    let name = name.clone();
    match fields.remove(&name) {
        Some(Value::Array(items)) => Ok(Some(items)),
        _ => Ok(None),
    }
}
