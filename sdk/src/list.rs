//! Lists and pages of resources, in any common JSON shape.

use std::ops::Deref;

use http::HeaderMap;
use http::header::LINK;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::decode::{DecodeError, Extra, Resource, read_object};
use crate::dialect::{Dialect, Point};
use crate::fields::{Fields, find_in, flag, is_nothing, objects, plain, whole_number};
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

/// What a list says about the items that follow.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(crate) struct More {
    /// Whether there are any, if the list says so in as many words.
    pub(crate) said: Option<bool>,
    /// A URL, absolute or relative.
    pub(crate) link: Option<String>,
    pub(crate) cursor: Option<Cursor>,
    /// The number of the next page.
    pub(crate) page: Option<u64>,
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
        self.said.unwrap_or(self.leads_on())
    }

    /// Whether the list says how to go on.
    fn leads_on(&self) -> bool {
        self.link.is_some() || self.cursor.is_some() || self.page.is_some()
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

/// As [`read_list`], with a reader of the items.
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
    let objects = objects(&beside, DEPTH);
    let number = |names: &[&str]| {
        let mut named = names.iter();
        named.find_map(|name| whole_number(find_in(&objects, &[name])?))
    };
    let header = |name| number_in_header(headers, name);
    let total = number(&WORDS.total);
    // Some mean the items of this page.
    let counted = || number(&["count"]).filter(|total| *total > count);
    Ok(List {
        page: number(&WORDS.page),
        page_size: number(&WORDS.page_size),
        total: total
            .or_else(counted)
            .or_else(|| header("x-total-count"))
            .or_else(|| header("x-total")),
        total_pages: number(&WORDS.total_pages).or_else(|| header("x-total-pages")),
        more: read_more(&objects, headers, dialect),
        items: items.into_iter().map(read).collect(),
        extra: Extra(beside),
    })
}

/// How deep the paging fields may be inside the fields beside the items.
const DEPTH: u32 = 3;

fn read_more(objects: &[&Fields], headers: &HeaderMap, dialect: &Dialect) -> More {
    let is_last = || find_in(objects, &WORDS.is_last)?.as_bool();
    let mut more = More {
        said: find_in(objects, &WORDS.more_follows)
            .and_then(flag)
            .or_else(|| is_last().map(|last| !last)),
        link: link_header(headers),
        ..More::default()
    };
    let mut names_no_next = false;
    for (name, value) in objects.iter().copied().flatten() {
        let plain = plain(name);
        match value {
            Value::Array(links) if plain == "links" => {
                let is_next = |link: &&Value| link["rel"] == "next";
                let next = links.iter().find(is_next);
                more.link = more.link.or_else(|| text_of(next?.get("href")?));
            }
            _ if !WORDS.next.contains(&plain.as_str()) => {}
            _ if is_nothing(value) => names_no_next = true,
            Value::String(text) if is_url(text) => {
                more.link.get_or_insert_with(|| text.clone());
            }
            Value::Object(link) => more.link = more.link.or_else(|| text_of(link.get("href")?)),
            Value::Number(page) if plain == "nextpage" => more.page = page.as_u64(),
            value => {
                let pinned = dialect.pinned(Point::CursorParam);
                let parameter = || pinned.map_or_else(|| cursor_parameter(name), str::to_owned);
                more.cursor = more.cursor.or_else(|| {
                    Some(Cursor {
                        value: text_of(value)?,
                        parameter: parameter(),
                    })
                });
            }
        }
    }
    more.page = more
        .page
        .or_else(|| number_in_header(headers, "x-next-page"));
    // `"next": null` ends a list.
    if more.said.is_none() && !more.leads_on() && names_no_next {
        more.said = Some(false);
    }
    more
}

fn number_in_header(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
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

/// Bounds the memory of a list: an item takes a few hundred bytes even if its JSON is `{}`.
const MAX_ITEMS: usize = 1 << 18;

/// The items of a response, and the fields beside them.
pub(crate) type Found = (Vec<Value>, Map<String, Value>);

/// Returns the items of the response's array, and the fields beside it. The array is, in this
/// order: the response itself; the one in the `pinned` field; the only array in the object, or the
/// one with a usual name; the same in an object inside. `null` in its place is an empty list.
pub(crate) fn find_array(value: Value, pinned: Option<&str>) -> Result<Found, DecodeError> {
    let mut beside = match value {
        Value::Array(items) => return Ok((items, Map::new())),
        Value::Null => return Ok((Vec::new(), Map::new())),
        Value::Object(fields) => fields,
        _ => return Err(DecodeError(NO_LIST.to_owned())),
    };
    let pinned = pinned.filter(|field| *field != "array");
    if let Some(Value::Array(items)) =
        take_within(&mut beside, DEPTH, &|fields| name_of_array(fields, pinned))?
    {
        return Ok((items, beside));
    }
    if let Some(item) = take_within(&mut beside, DEPTH, &|fields| Ok(name_of_item(fields)))? {
        return Ok((vec![unwrapped(item)], beside));
    }
    let is_empty = |name: &str, value: &Value| {
        value.is_null() && (is_list_name(name, pinned) || is_list_name(name, None))
    };
    match take_within(&mut beside, DEPTH, &|fields| Ok(name_of(fields, is_empty)))? {
        Some(_) => Ok((Vec::new(), beside)),
        None => Err(DecodeError(NO_LIST.to_owned())),
    }
}

const NO_LIST: &str = "the response contains no list (the point `list-items` of the dialect)";

/// Takes the field that `choose` names, from the first object that has one. What tells about pages
/// is not searched.
fn take_within(
    fields: &mut Fields,
    levels: u32,
    choose: &dyn Fn(&Fields) -> Result<Option<String>, DecodeError>,
) -> Result<Option<Value>, DecodeError> {
    if let Some(name) = choose(fields)? {
        return Ok(fields.remove(&name));
    }
    if levels == 0 {
        return Ok(None);
    }
    for (name, value) in fields {
        let Value::Object(inner) = value else {
            continue;
        };
        if WORDS.about_pages.contains(&plain(name).as_str()) {
            continue;
        }
        if let Some(found) = take_within(inner, levels - 1, choose)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The first field that is so.
fn name_of(fields: &Fields, is_so: impl Fn(&str, &Value) -> bool) -> Option<String> {
    let found = fields.iter().find(|(name, value)| is_so(name, value));
    found.map(|(name, _)| name.clone())
}

/// The field with the only item of a list that is written as an object, as translations from XML do:
/// `{"Webhooks": {"Webhook": {…}}}`. It is called like a list.
fn name_of_item(fields: &Fields) -> Option<String> {
    name_of(fields, |name, value| {
        value.is_object() && plain(name) != "data" && is_list_name(name, None)
    })
}

/// The object inside an object that has nothing else.
fn unwrapped(mut item: Value) -> Value {
    let only = item.as_object_mut().filter(|fields| fields.len() == 1);
    let only = only.and_then(|fields| fields.values_mut().next());
    match only.filter(|only| only.is_object()) {
        Some(only) => only.take(),
        None => item,
    }
}

fn is_list_name(name: &str, pinned: Option<&str>) -> bool {
    match pinned {
        Some(pinned) => name == pinned,
        None => WORDS.items.contains(&plain(name).as_str()),
    }
}

fn name_of_array(fields: &Fields, pinned: Option<&str>) -> Result<Option<String>, DecodeError> {
    let is_list = |(name, value): &(&String, &Value)| match pinned {
        Some(pinned) => name.as_str() == pinned && value.is_array(),
        None => value.is_array() && !WORDS.beside_items.contains(&plain(name).as_str()),
    };
    let names: Vec<&String> = fields
        .iter()
        .filter(is_list)
        .map(|(name, _)| name)
        .collect();
    match names[..] {
        [] => return Ok(None),
        [only] => return Ok(Some(only.clone())),
        _ => {}
    }
    let mut usual = WORDS.items.iter();
    let usual = usual.find_map(|usual| names.iter().find(|name| plain(name) == *usual));
    match usual {
        Some(usual) => Ok(Some((*usual).clone())),
        None => Err(DecodeError(SEVERAL_LISTS.to_owned())),
    }
}

const SEVERAL_LISTS: &str =
    "the response contains several lists (the point `list-items` of the dialect)";
