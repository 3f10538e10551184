//! What rendering may take beyond the steps of the engine, which counts a filter as one step,
//! however large the value is.

use std::cell::Cell;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

/// Maximum number of bytes that all filters read in one part.
pub(super) const MAX_FILTERED: usize = 64 << 20;
/// Maximum number of bytes that the filters `join` and `replace` make in one part.
const MAX_GROWTH: usize = 8 << 20;

pub(super) const EXCEEDED: &str = "the template takes too much";

thread_local! {
    /// Bytes that `join` and `replace` have made in this rendering.
    static GROWTH: Cell<usize> = const { Cell::new(0) };
    /// Bytes that filters have read.
    static FILTERED: Cell<usize> = const { Cell::new(0) };
    /// Maximum size of a value that a filter makes.
    static MAX_MADE: Cell<usize> = const { Cell::new(0) };
}

/// Begins the rendering of one part on this thread, with variables of at most this size. The
/// steps are limited for values of this size, so filters make none that are much larger.
pub(super) fn begin(largest: usize) {
    const SMALL: usize = 8 * 1024;
    GROWTH.set(0);
    MAX_MADE.set(2 * largest.max(SMALL));
    FILTERED.set(0);
}

fn exceeded() -> Error {
    Error::new(ErrorKind::InvalidOperation, EXCEEDED)
}

/// Adds the filters and functions of the engine, each within the budget. Their original forms have names
/// that no template can contain.
pub(super) fn add_filters(environment: &mut Environment<'static>) {
    macro_rules! add {
        ($($name:literal $filter:path,)*) => {$(
            environment.add_filter(concat!(" ", $name), $filter);
            environment.add_filter($name, |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                count(&args)?;
                let made = state.apply_filter(concat!(" ", $name), &args)?;
                // What is escaped is at most six times as large.
                let is_escape = matches!($name, "e" | "escape");
                if is_escape || take(&mut MAX_MADE.get(), &made, 0) { Ok(made) } else { Err(exceeded()) }
            });
        )*};
    }
    environment.add_function("range", range);
    add! {
        "attr" filters::attr, "bool" filters::bool, "capitalize" filters::capitalize,
        "count" filters::length, "dictsort" filters::dictsort, "e" filters::escape,
        "escape" filters::escape, "first" filters::first, "float" filters::float,
        "int" filters::int, "items" filters::items, "join" join, "last" filters::last,
        "length" filters::length, "lines" filters::lines, "list" filters::list,
        "lower" filters::lower, "map" filters::map, "max" filters::max, "min" filters::min,
        "reject" filters::reject, "rejectattr" filters::rejectattr, "replace" replace,
        "reverse" filters::reverse, "select" filters::select, "selectattr" filters::selectattr,
        "sort" filters::sort, "split" filters::split, "string" filters::string,
        "sum" filters::sum, "title" filters::title, "trim" filters::trim,
        "unique" filters::unique, "upper" filters::upper,
    }
}

/// Like the function of the engine, with fewer items.
fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Vec<i64>, Error> {
    const MAX_RANGE: usize = 1_000;
    let (start, end) = end.map_or((0, first), |end| (first, end));
    let positive = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0);
    let Some(step) = positive else {
        return Err(Error::new(ErrorKind::InvalidOperation, "a range needs a positive step"));
    };
    let items: Vec<i64> = (start..end).step_by(step).take(MAX_RANGE + 1).collect();
    if items.len() > MAX_RANGE { Err(exceeded()) } else { Ok(items) }
}

/// Counts what a filter is about to read.
fn count(values: &[Value]) -> Result<(), Error> {
    let mut left = MAX_FILTERED.saturating_sub(FILTERED.get());
    let within = values.iter().all(|value| take(&mut left, value, 0));
    FILTERED.set(MAX_FILTERED - left);
    if within { Ok(()) } else { Err(exceeded()) }
}

/// Takes the size of a value from what is left. Returns `false` if it is too large.
fn take(left: &mut usize, value: &Value, depth: usize) -> bool {
    let size = 12 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(size) else {
        *left = 0;
        return false;
    };
    *left = rest;
    if depth > 64 || !matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
    {
        return true;
    }
    let is_map = value.kind() == ValueKind::Map;
    let Ok(mut items) = value.try_iter() else { return true };
    items.all(|item| {
        take(left, &item, depth + 1)
            && (!is_map || value.get_item(&item).is_ok_and(|value| take(left, &value, depth + 1)))
    })
}

/// Counts bytes that a filter is about to make.
fn grow(bytes: usize) -> Result<(), Error> {
    let total = GROWTH.get().saturating_add(bytes);
    GROWTH.set(total);
    if total > MAX_GROWTH { Err(exceeded()) } else { Ok(()) }
}

/// Like the filter of the engine, within `MAX_GROWTH`.
fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let made = text.matches(from).count().saturating_mul(to.len());
    grow(text.len().saturating_add(made))?;
    Ok(text.replace(from, to))
}

/// Like the filter of the engine, within `MAX_GROWTH`.
fn join(list: &Value, between: Option<&str>) -> Result<String, Error> {
    let mut joined = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        let item = item.to_string();
        let between = between.filter(|_| index > 0).unwrap_or_default();
        grow(between.len() + item.len() + 1)?;
        joined.push_str(between);
        joined.push_str(&item);
    }
    Ok(joined)
}
