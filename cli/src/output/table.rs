//! Formats JSON for people: `list` (in `table/rows.rs`) as rows, `single` as lines of name and
//! value, with the `View` of a resource and then whatever else there is. Values come from services:
//! `one_line` and `printable` remove control characters, so that none moves the cursor or looks
//! like a line of ours. Color only repeats what a word says. What `Show::Id` marks is never
//! wrapped, because people copy it. Widths are fitted in `rows.rs`, words wrapped in `wrap.rs`.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use tabled::builder::Builder;
use tabled::grid::util::string::get_text_width;
use tabled::settings::object::{Cell, Columns};
use tabled::settings::{Color, Padding, Style};

use self::label::{label, sentence};
use super::text::{one_line, printable};
use crate::zone::Zone;

pub(crate) use self::rows::list;
pub(crate) use self::wrap::between_words;
pub(super) use self::wrap::shortened;

mod label;
mod rows;
mod wrap;

/// How to format the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    /// Text, which is shortened in a narrow terminal.
    Text,
    /// Sentences, which are wrapped in a narrow terminal.
    Prose,
    /// Text that people copy: never shortened or wrapped.
    Id,
    /// Text, in the color of the status word's meaning.
    Status,
    /// Local time with the zone's offset.
    Time,
    /// `yes` or `no`.
    Flag,
    /// A number, right-aligned.
    Number,
    /// An amount of money, from cents.
    Cents,
    /// An HTTP status code, in the color of its meaning.
    HttpStatus,
    /// Text on a separate line below the row, which is never wrapped.
    BelowRow,
}

/// A column of a list, or a line of a single object.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    title: &'a str,
    pointer: &'a str,
    show: Show,
    droppable: bool,
    is_key: bool,
}

impl<'a> Column<'a> {
    /// The pointers to the value, of which the first one that leads to something counts.
    fn places(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.pointer.split('|')
    }

    /// A column of text found at a JSON pointer.
    pub const fn text(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Text)
    }

    /// A column of ids: never shortened.
    pub const fn id(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Id)
    }

    /// A column of sentences: wrapped, not shortened.
    pub const fn prose(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Prose)
    }

    /// A column of local times.
    pub const fn time(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Time)
    }

    /// A column of status words.
    pub const fn status(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Status)
    }

    /// A column of `yes` and `no`.
    pub const fn flag(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Flag)
    }

    /// A column of numbers.
    pub const fn number(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Number)
    }

    /// A column of amounts of money.
    pub const fn cents(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::Cents)
    }

    /// A column of HTTP status codes.
    pub const fn http_status(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::HttpStatus)
    }

    /// A column whose texts stand below their rows, so that they can be copied.
    pub const fn below_row(title: &'a str, pointer: &'a str) -> Self {
        Self::new(title, pointer, Show::BelowRow)
    }

    const fn new(title: &'a str, pointer: &'a str, show: Show) -> Self {
        Self {
            title,
            pointer,
            show,
            droppable: false,
            is_key: false,
        }
    }

    /// Keeps a column of text whole in lists, because people look for its values.
    #[must_use]
    pub const fn key(mut self) -> Self {
        self.is_key = true;
        self
    }

    /// Omits the column from lists if the terminal is too narrow for the others.
    #[must_use]
    pub const fn droppable(mut self) -> Self {
        self.droppable = true;
        self
    }
}

/// The columns of a resource, most important first.
#[derive(Clone, Copy, Debug)]
pub struct View(pub &'static [Column<'static>]);

/// Spaces between two columns.
const GAP: usize = 2;
/// The width available, in columns (`None`: unlimited), and whether to use colors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) width: Option<usize>,
    pub(crate) color: bool,
    /// The zone of shown times.
    pub(crate) zone: Zone,
}

/// Formats one object as lines of name and value: first the view's columns, then all other
/// fields.
pub(crate) fn single(item: &Value, view: View, canvas: Canvas) -> String {
    let item = &localized(item, view.0, canvas.zone);
    let mut fields = Vec::new();
    for column in view.0 {
        if let Some(value) = present(item, column) {
            fields.push((sentence(column.title), value, column.show));
        }
    }

    if let Value::Object(map) = item {
        let named = |key: &str| {
            view.0
                .iter()
                .flat_map(Column::places)
                .any(|place| place.split('/').nth(1) == Some(key))
        };
        for (key, value) in map
            .iter()
            .filter(|(key, value)| !named(key) && !is_empty(value))
        {
            let name = label(key);
            // The items of an array replace a column that shows only their number.
            if value.is_array() {
                fields.retain(|(known, _, how)| *known != name || *how != Show::Number);
            }
            fields.push((name, value, Show::Prose));
        }
    }
    block(&fields, canvas)
}

/// Formats names beside their values, which are wrapped between words.
fn block(fields: &[(String, &Value, Show)], canvas: Canvas) -> String {
    if fields.is_empty() {
        return String::new();
    }

    let names = fields
        .iter()
        .map(|(name, ..)| get_text_width(name))
        .max()
        .unwrap_or(0);
    let width = canvas.width.map(|width| width.saturating_sub(names + GAP));
    let inside = Canvas {
        width,
        color: false,
        ..canvas
    };
    let mut builder = Builder::default();
    let mut colors = Vec::new();
    for (row, (name, value, how)) in fields.iter().enumerate() {
        let value = show_whole(value, *how, inside);
        colors.extend(meaning(*how, &value).map(|color| (row, color)));
        // What people copy is one line, such as the value of a DNS record.
        let wraps = *how != Show::Id || !wrap::has_long_word(&value);
        let wrapped = width
            .filter(|_| wraps)
            .map(|width| between_words(&value, width));
        builder.push_record([name, wrapped.as_ref().unwrap_or(&value)]);
    }

    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::zero());
    table.modify(Columns::first(), Padding::new(0, GAP, 0, 0));
    if canvas.color {
        table.modify(Columns::first(), Color::BOLD);
        for (row, color) in colors {
            table.modify(Cell::new(row, 1), color);
        }
    }

    trimmed(&table.to_string())
}

/// The color of a value's meaning, if it has one.
fn meaning(how: Show, value: &str) -> Option<Color> {
    match how {
        Show::Status | Show::Flag | Show::HttpStatus => status_color(value),
        _ => None,
    }
}

/// The color of an HTTP status or of a status word. Color only repeats the meaning.
pub(crate) fn status_color(status: &str) -> Option<Color> {
    Some(match status {
        code if code.parse::<u16>().is_ok() => {
            if code.starts_with('2') {
                Color::FG_GREEN
            } else {
                Color::FG_RED
            }
        }
        "delivered" | "active" | "ok" | "verified" | "yes" | "matches" | "enabled" | "settled"
        | "passed" => Color::FG_GREEN,
        "queued" | "sending" | "sent" | "pending" | "warning" | "unknown" | "scheduled"
        | "cancelled" | "dropped" | "advice" => Color::FG_YELLOW,
        "bounced" | "failed" | "complained" | "no" | "differs" | "missing" | "refused"
        | "problem" | "inactive" | "disabled" => Color::FG_RED,
        _ => return None,
    })
}

/// The item with its times in a zone: those of the columns of times, and of fields named as such.
fn localized(item: &Value, columns: &[Column<'_>], zone: Zone) -> Value {
    let is_time = |name: &str| {
        let shown =
            |it: &Column<'_>| it.show == Show::Time && it.pointer.strip_prefix('/') == Some(name);
        name.ends_with("At") || name.ends_with("_at") || columns.iter().any(shown)
    };

    let mut item = item.clone();
    for (_, value) in item
        .as_object_mut()
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_time(name))
    {
        if let Value::String(text) = value {
            *text = local_time(text, zone);
        }
    }
    item
}

/// Converts an RFC 3339 time to a zone, and adds its offset. Other text is returned unchanged.
pub(super) fn local_time(text: &str, zone: Zone) -> String {
    DateTime::parse_from_rfc3339(text).map_or_else(
        |_| one_line(text).into_owned(),
        |time| zone.at(&time).format("%Y-%m-%d %H:%M:%S %:z").to_string(),
    )
}

/// A time in JSON, always with milliseconds, so that times are as long as each other.
pub(crate) fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn present<'a>(item: &'a Value, column: &Column<'_>) -> Option<&'a Value> {
    let mut values = column.places().filter_map(|place| item.pointer(place));
    values.find(|value| !is_empty(value))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The placeholder for an absent value.
const NOTHING: &str = "-";

/// Formats a value that may take several lines: sentences keep their lines, and objects are listed
/// below each other. An id or a subject with line feeds must not look like several lines of ours.
fn show_whole(value: &Value, how: Show, canvas: Canvas) -> String {
    match value {
        Value::String(text) if how == Show::Prose && text.contains('\n') => {
            let text = text.trim_end().replace("\r\n", "\n").replace('\t', "    ");
            printable(&text).into_owned()
        }
        Value::Array(items) if items.iter().all(Value::is_object) => nested_objects(items, canvas),
        Value::Object(map) => {
            let line = show(value, how);
            match canvas.width {
                Some(width) if get_text_width(&line) > width => pairs(map).join("\n"),
                _ => line,
            }
        }
        _ => show(value, how),
    }
}

/// The entries of a map, each as `key=value`.
fn pairs(map: &serde_json::Map<String, Value>) -> Vec<String> {
    map.iter()
        .filter(|(_, value)| !is_empty(value))
        .map(
            |(key, value)| match (one_line(key), show(value, Show::Text)) {
                (key, inside) if value.is_object() => format!("{key}=({inside})"),
                (key, value) => format!("{key}={value}"),
            },
        )
        .collect()
}

/// Formats objects as a table inside a cell.
fn nested_objects(items: &[Value], canvas: Canvas) -> String {
    let mut keys = Vec::new();
    for key in items
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|item| item.keys())
    {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }

    let pointer = |key: &str| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let named = keys
        .iter()
        .map(|key| (one_line(key), pointer(key)))
        .collect::<Vec<_>>();
    let columns = named
        .iter()
        .map(|(title, pointer)| Column::id(title, pointer));
    let list = list(items, &columns.collect::<Vec<_>>(), canvas);
    list.text.trim_end().to_owned()
}

fn show(value: &Value, how: Show) -> String {
    match (value, how) {
        (Value::String(text), _) => one_line(text).into_owned(),
        (Value::Bool(flag), _) => if *flag { "yes" } else { "no" }.to_owned(),
        (Value::Number(cents), Show::Cents) => cents.as_i64().map_or_else(
            || cents.to_string(),
            |cents| {
                let sign = if cents < 0 { "-" } else { "" };
                format!(
                    "{sign}{}.{:02}",
                    cents.unsigned_abs() / 100,
                    cents.unsigned_abs() % 100
                )
            },
        ),
        (Value::Object(map), _) => pairs(map).join(", "),
        (Value::Array(items), _) => {
            let separator = if items.iter().any(Value::is_object) {
                "; "
            } else {
                ", "
            };
            items
                .iter()
                .map(|item| show(item, how))
                .collect::<Vec<_>>()
                .join(separator)
        }
        _ => one_line(&value.to_string()).into_owned(),
    }
}

fn trimmed(table: &str) -> String {
    let mut text = String::with_capacity(table.len());
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::new("STATUS", "/status", Show::Status),
        Column::new("COUNT", "/count", Show::Number),
        Column::text("NOTE", "/note").droppable(),
        Column::text("NEVER", "/never"),
    ]);
    const WIDE: Canvas = Canvas {
        width: None,
        color: false,
        zone: Zone::Local,
    };

    #[test]
    fn lists_align_and_omit_empty_columns() {
        let items = [
            json!({"id": "a", "status": "delivered", "count": 7, "note": "x\u{1b}[0m"}),
            json!({"id": "bcd", "status": "queued", "count": 1234, "note": ""}),
        ];
        assert_eq!(
            list(&items, VIEW.0, WIDE).text,
            "ID   STATUS     COUNT  NOTE\n\
             a    delivered      7  x\\u{1b}[0m\n\
             bcd  queued      1234  -\n"
        );
    }

    #[test]
    fn single_objects_show_fields_outside_the_view() {
        let item = json!({"id": "a", "status": "new-one", "tags": {"k": "v"}, "to": ["x", "y"]});
        assert_eq!(
            single(&item, VIEW, WIDE),
            "ID      a\nStatus  new-one\nTags    k=v\nTo      x, y\n"
        );
    }

    #[test]
    fn nested_objects_are_a_nested_table() {
        let item = json!({"id": "a", "recipients": [
            {"address": "ada@b.test", "status": "delivered", "detail": null},
            {"address": "bob@b.test", "status": "bounced", "detail": "mailbox full"},
        ], "attachments": [{"filename": "r.csv", "size": 7, "type": null}]});
        assert_eq!(
            single(&item, VIEW, WIDE),
            "ID           a\n\
             Recipients   address     status     detail\n\
             \x20            ada@b.test  delivered  -\n\
             \x20            bob@b.test  bounced    mailbox full\n\
             Attachments  filename  size\n\
             \x20            r.csv     7\n"
        );
    }

    #[test]
    fn very_narrow_terminals_get_blocks_with_whole_ids() {
        let id = "eml_01a1fd75-b965-7772-a397-95b85f868b54";
        let item = json!({"id": id, "status": "sent", "count": 7});
        let narrow = Canvas {
            width: Some(20),
            color: false,
            zone: Zone::Local,
        };
        let shown = format!("ID      {id}\nStatus  sent\nCount   7\n");
        let items = [item.clone(), item.clone()];
        assert_eq!(
            list(&items, VIEW.0, narrow).text,
            format!("{shown}\n{shown}")
        );
        assert_eq!(single(&item, VIEW, narrow), shown);
    }

    #[test]
    fn wide_maps_have_one_line_per_entry() {
        let item = json!({"id": "a", "headers": {"From": "<a@b.test>", "Subject": "Hello you"}});
        let shown = |width| {
            single(
                &item,
                VIEW,
                Canvas {
                    width: Some(width),
                    color: false,
                    zone: Zone::Local,
                },
            )
        };

        assert_eq!(
            shown(60),
            "ID       a\nHeaders  From=<a@b.test>, Subject=Hello you\n"
        );
        assert_eq!(
            shown(40),
            "ID       a\nHeaders  From=<a@b.test>\n         Subject=Hello you\n"
        );
    }

    #[test]
    fn only_times_are_converted() {
        const EMAIL: View = View(&[
            Column::text("SUBJECT", "/subject"),
            Column::new("NOW", "/now", Show::Time),
        ]);

        let time = "2026-12-01T09:00:00+01:00";
        let item = json!({"subject": time, "now": time, "name": time, "sentAt": time});
        let local = local_time(time, Zone::Local);
        assert_ne!(local, time);
        let shown =
            format!("Subject  {time}\nNow      {local}\nName     {time}\nSent     {local}\n");
        assert_eq!(single(&item, EMAIL, WIDE), shown);
        let rows = format!("{time}  {local}\n");
        assert!(list(&[item], EMAIL.0, WIDE).text.ends_with(&rows));
    }

    #[test]
    fn array_items_replace_their_count() {
        let item = json!({"id": "a", "count": 1, "counts": [], "Count": [{"n": 1}]});
        assert_eq!(single(&item, VIEW, WIDE), "ID     a\nCount  n\n       1\n");
    }

    #[test]
    fn secrets_are_never_wrapped() {
        const HOOK: View = View(&[Column::text("ID", "/id"), Column::text("SECRET", "/secret")]);

        let secret = format!("whsec_{}", "a".repeat(64));
        let item = json!({"id": "whk_1", "secret": secret, "url": "http://localhost/a/b/c"});
        let text = single(
            &item,
            HOOK,
            Canvas {
                width: Some(40),
                color: false,
                zone: Zone::Local,
            },
        );
        assert!(text.contains(&format!("Secret  {secret}\n")), "{text}");
    }

    #[test]
    fn next_steps_appear_below_their_rows_unwrapped() {
        const FINDINGS: View = View(&[
            Column::new("STATUS", "/status", Show::Status),
            Column::new("FINDING", "/finding", Show::Prose),
            Column::new("NEXT STEP", "/next", Show::BelowRow),
        ]);

        let next = "svc --sandbox domains verify dom_01a1fd75-b965-7772-a397-95b85f868b54";
        let items = [
            json!({"status": "ok", "finding": "all is well", "next": null}),
            json!({"status": "problem", "finding": "a long text that is broken", "next": next}),
            json!({"status": "ok", "finding": "all is well", "next": null}),
        ];
        assert_eq!(
            list(
                &items,
                FINDINGS.0,
                Canvas {
                    width: Some(28),
                    color: false,
                    zone: Zone::Local
                }
            )
            .text,
            format!(
                "STATUS   FINDING\nok       all is well\nproblem  a long text that is\n         broken\n\
                 \x20        → {next}\nok       all is well\n"
            )
        );
    }

    #[test]
    fn multiline_text_is_indented_and_cannot_imitate_a_field() {
        let item = json!({"id": "a", "text": "one\r\nStatus  sent\u{1b}[2J\n"});
        assert_eq!(
            single(&item, VIEW, WIDE),
            "ID    a\nText  one\n      Status  sent\\u{1b}[2J\n"
        );
    }

    #[test]
    fn status_words_are_colored() {
        let items = [json!({"id": "a", "status": "bounced"})];
        let text = list(
            &items,
            VIEW.0,
            Canvas {
                width: Some(80),
                color: true,
                zone: Zone::Local,
            },
        )
        .text;
        assert!(text.contains("\u{1b}[31mbounced"), "{text:?}");
    }

    #[test]
    fn cents_are_shown_as_whole_units() {
        assert_eq!(show(&json!(-1205), Show::Cents), "-12.05");
        assert_eq!(show(&json!(7), Show::Cents), "0.07");
    }

    #[test]
    fn times_in_json_have_milliseconds_at_a_whole_second_too() {
        let at = |text: &str| timestamp(text.parse().expect("a time"));
        assert_eq!(at("2026-01-05T09:00:00Z"), "2026-01-05T09:00:00.000Z");
        assert_eq!(
            at("2026-01-05T09:00:00.123456Z"),
            "2026-01-05T09:00:00.123Z"
        );
    }
}
