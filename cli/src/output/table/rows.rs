//! Formats a list as rows, and fits them into the width of the terminal.

use serde_json::Value;
use tabled::Table;
use tabled::builder::Builder;
use tabled::grid::config::Position;
use tabled::grid::records::{PeekableRecords as _, Records as _};
use tabled::grid::util::string::{count_lines, get_text_width};
use tabled::settings::object::{Cell, Columns, Rows};
use tabled::settings::peaker::Peaker;
use tabled::settings::{Alignment, Color, Format, Padding, Style, Width};

use super::{
    Canvas, Column, GAP, NOTHING, Show, View, blocks, localized, meaning, present, show, trimmed,
};

/// A formatted list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) text: String,
    /// How many columns with values were left out because the terminal is too narrow.
    pub(crate) hidden: usize,
}

/// Formats a list as a table. Columns without a value in any row are omitted.
///
/// If the table is too wide, times and then texts get shorter, and then the last droppable columns
/// are left out. If that is not enough, every item becomes a block.
pub(crate) fn list(items: &[Value], view: View, canvas: Canvas) -> List {
    let items = &items.iter().map(|item| localized(item, view, canvas.zone)).collect::<Vec<_>>();
    let filled = view
        .0
        .iter()
        .filter(|column| items.iter().any(|item| present(item, column).is_some()))
        .collect::<Vec<_>>();
    let (below, mut columns) =
        filled.iter().partition::<Vec<&Column>, _>(|column| column.show == Show::BelowRow);
    let all = columns.clone();
    loop {
        let rows = Cells::of(items, &columns);
        let table = match canvas.width {
            None => Some(rows.table(&columns)),
            Some(width) => fit(&rows, &columns, width),
        };
        if let Some(mut table) = table {
            decorate(&mut table, &rows, &columns, canvas);
            let text = trimmed(&table.to_string());
            let text = match below.is_empty() {
                true => text,
                false => with_lines_below(&text, &table, items, &below),
            };
            return List { text, hidden: all.len() - columns.len() };
        }
        match columns.iter().rposition(|column| column.droppable) {
            Some(last) => columns.remove(last),
            None => break,
        };
    }
    let columns = all.into_iter().chain(below).collect::<Vec<_>>();
    let cells = Cells::of(items, &columns);
    List { text: blocks::of_list(&columns, &cells.0, canvas), hidden: 0 }
}

/// The cells of a list, by column.
struct Cells(Vec<Vec<String>>);

impl Cells {
    fn of(items: &[Value], columns: &[&Column]) -> Self {
        Self(columns.iter().map(|column| cells_of(items, column)).collect())
    }

    /// The same cells with times without seconds and zone.
    fn with_short_times(&self, columns: &[&Column]) -> Self {
        let shorter = |(column, cells): (&&Column, &Vec<String>)| match column.show {
            Show::Time => cells
                .iter()
                .map(|cell| {
                    cell.get(..SHORT_TIME)
                        .filter(|_| cell[SHORT_TIME..].starts_with(':'))
                        .unwrap_or(cell)
                        .to_owned()
                })
                .collect(),
            _ => cells.clone(),
        };
        Self(columns.iter().zip(&self.0).map(shorter).collect())
    }

    /// Width of the longest word of a column, among those of at most `limit`.
    fn longest_word(&self, column: usize, limit: usize) -> usize {
        let words = self.0[column].iter().flat_map(|cell| cell.split(' ')).map(get_text_width);
        words.filter(|width| *width <= limit).max().unwrap_or(0)
    }

    /// The table of these cells, with a header and without borders.
    fn table(&self, columns: &[&Column]) -> Table {
        let mut builder = Builder::default();
        builder.push_record(columns.iter().map(|column| column.title));
        for row in 0..self.0.first().map_or(0, Vec::len) {
            builder.push_record(self.0.iter().map(|column| column[row].as_str()));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::zero());
        for index in 0..columns.len().saturating_sub(1) {
            table.modify(Columns::one(index), Padding::new(0, GAP, 0, 0));
        }
        table
    }
}

/// Minimum width to which a column of text is shortened.
const SHORTEST_TEXT: usize = 12;
/// Minimum width to which a column of sentences is wrapped, if there are texts to shorten.
const COMFORTABLE_PROSE: usize = 28;
/// Minimum width to which a column of sentences is wrapped.
const NARROWEST_PROSE: usize = 16;

/// Words of sentences up to this width are not broken. All ids are shorter.
const LONGEST_WORD: usize = 48;
/// Length of a time without seconds and zone, such as `2026-12-01 09:00`.
const SHORT_TIME: usize = 16;

/// The table in at most `width` columns: as it is, or else with short times, wrapped sentences and
/// shortened texts. `None` if that is not enough. Ids, numbers and words such as a status keep
/// their width.
fn fit(cells: &Cells, columns: &[&Column], width: usize) -> Option<Table> {
    let table = cells.table(columns);
    if table.total_width() <= width {
        return Some(table);
    }
    let floors = |text: Option<usize>, prose: Option<usize>| {
        let floor = |index: usize| match columns[index].show {
            Show::Text | Show::Truncated => text,
            Show::Prose => prose.map(|floor| floor.max(cells.longest_word(index, LONGEST_WORD))),
            _ => None,
        };
        let last = columns.len() - 1;
        let padded = columns.iter().enumerate().map(|(index, column)| {
            let gap = if index < last { GAP } else { 0 };
            floor(index).map_or(usize::MAX, |floor| floor.max(get_text_width(column.title)) + gap)
        });
        Shrink(padded.collect())
    };
    let wrap = |floor| Width::wrap(width).keep_words(true).priority(floors(None, Some(floor)));
    let truncate =
        || Width::truncate(width).suffix("…").priority(floors(Some(SHORTEST_TEXT), None));
    let mut table = cells.with_short_times(columns).table(columns);
    table.with(wrap(COMFORTABLE_PROSE));
    table.with(truncate());
    if table.total_width() > width {
        // From the start, because wrapping what is wrapped leaves single words on lines.
        table = cells.with_short_times(columns).table(columns);
        table.with(truncate());
        table.with(wrap(NARROWEST_PROSE));
    }
    if table.total_width() > width {
        return None;
    }
    for index in (0..columns.len()).filter(|index| columns[*index].show == Show::Prose) {
        // tabled keeps the space between two words at the start of the next line, or on a line of
        // its own.
        let aligned = |text: &str| {
            let lines = text.split('\n').map(str::trim).filter(|line| !line.is_empty());
            lines.collect::<Vec<_>>().join("\n")
        };
        table.modify(Columns::one(index), Format::content(aligned));
    }
    Some(table)
}

/// Shrinks the widest of the columns that are wider than their minimum.
struct Shrink(Vec<usize>);

impl Peaker for Shrink {
    fn peak(&mut self, _: &[usize], widths: &[usize]) -> Option<usize> {
        let wide = |column: &usize| widths[*column] > self.0[*column];
        (0..widths.len()).rev().filter(wide).max_by_key(|column| widths[*column])
    }
}

/// Aligns numbers and colors words of a meaning.
fn decorate(table: &mut Table, cells: &Cells, columns: &[&Column], canvas: Canvas) {
    for (index, column) in columns.iter().enumerate() {
        if matches!(column.show, Show::Number | Show::Cents | Show::HttpStatus) {
            table.modify(Columns::one(index), Alignment::right());
        }
        for (row, cell) in cells.0[index].iter().enumerate() {
            if let Some(color) = meaning(column.show, cell).filter(|_| canvas.color) {
                table.modify(Cell::new(row + 1, index), color);
            }
        }
    }
    if canvas.color {
        table.modify(Rows::first(), Color::BOLD);
    }
}

/// Inserts the [`Show::BelowRow`] values below each row, indented to the second column.
fn with_lines_below(text: &str, table: &Table, items: &[Value], below: &[&Column]) -> String {
    let records = table.get_records();
    let cell = |row, column| records.get_text(Position::new(row, column));
    let tallest =
        |row| (0..records.count_columns()).map(|column| count_lines(cell(row, column))).max();
    let first = (0..=items.len()).map(|row| get_text_width(cell(row, 0))).max();
    let indent = " ".repeat(first.unwrap_or(0) + GAP);
    let mut lines = text.split_inclusive('\n');
    let mut text = lines.by_ref().take(tallest(0).unwrap_or(1)).collect::<String>();
    for (row, item) in items.iter().enumerate() {
        text.extend(lines.by_ref().take(tallest(row + 1).unwrap_or(1)));
        for value in below.iter().filter_map(|column| present(item, column)) {
            text.push_str(&format!("{indent}→ {}\n", show(value, Show::BelowRow)));
        }
    }
    text
}

fn cells_of(items: &[Value], column: &Column) -> Vec<String> {
    let cell = |item| present(item, column).map(|value| show(value, column.show));
    items.iter().map(|item| cell(item).unwrap_or_else(|| NOTHING.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Local};
    use serde_json::json;

    use super::*;
    use crate::zone::Zone;

    const EMAILS: View = View(&[
        Column::id("ID", "/id"),
        Column::new("STATUS", "/status", Show::Status),
        Column::text("NOTE", "/note").droppable(),
    ]);

    #[test]
    fn narrow_terminals_drop_columns_and_count_them() {
        let items = [json!({"id": "a", "status": "sent", "note": "a long remark"})];
        let narrow = Canvas { width: Some(16), color: false, zone: Zone::Local };
        let short = list(&items, EMAILS, narrow);
        assert_eq!((short.text.as_str(), short.hidden), ("ID  STATUS\na   sent\n", 1));
        assert_eq!(
            list(&items, EMAILS, Canvas { width: Some(24), color: false, zone: Zone::Local })
                .hidden,
            0
        );
    }

    #[test]
    fn times_and_texts_get_shorter_before_a_column_is_dropped() {
        const CONTACTS: View = View(&[
            Column::id("ID", "/id"),
            Column::text("NOTE", "/note"),
            Column::new("CREATED", "/at", Show::Time).droppable(),
            Column::new("WHY", "/why", Show::Prose).droppable(),
        ]);
        let id = "eml_01a1fd75-b965-7772-a397-95b85f868b54";
        let item = json!({"id": id, "note": "a remark that is long", "at": "2026-12-01T09:00:00Z",
            "why": "one of two sentences"});
        let shown = |width| {
            list(
                std::slice::from_ref(&item),
                CONTACTS,
                Canvas { width: Some(width), color: false, zone: Zone::Local },
            )
        };
        let local = "2026-12-01T09:00:00Z".parse::<DateTime<Local>>().expect("a time");
        let time = |format: &str| local.format(format).to_string();
        let complete = time("%Y-%m-%d %H:%M:%S %:z");
        assert!(shown(115).text.contains(&complete), "{}", shown(115).text);
        let fitting = shown(104);
        assert!(fitting.text.contains("a remark that is long"), "{}", fitting.text);
        let short = time("%Y-%m-%d %H:%M  one of two");
        assert!(fitting.text.contains(&short), "{}", fitting.text);
        let shorter = shown(96);
        assert!(shorter.text.contains("a remark that…"), "{}", shorter.text);
        let wrapped = shown(91);
        assert!(wrapped.text.contains("one of two\n"), "sentences are wrapped: {}", wrapped.text);
        for width in 60..104 {
            let list = shown(width);
            assert!(list.text.contains(id), "{}", list.text);
            assert!(list.text.lines().all(|line| get_text_width(line) <= width), "{}", list.text);
            let titles = list.text.lines().next().expect("titles").split_whitespace().count();
            assert_eq!(titles + list.hidden, 4, "{}", list.text);
        }
        assert_eq!((shown(60).hidden, shown(74).hidden), (2, 1));
        assert_eq!(
            list(
                std::slice::from_ref(&item),
                CONTACTS,
                Canvas { width: None, color: false, zone: Zone::Local }
            )
            .hidden,
            0
        );
    }

    #[test]
    fn long_words_of_sentences_stay_whole() {
        const WHY: View = View(&[Column::id("ID", "/id"), Column::new("WHY", "/why", Show::Prose)]);
        let id = "con_01a1fd75-b965-7772-a397-95b85f868b54";
        let items = [json!({"id": "a", "why": format!("created as {id}, but not updated")})];
        let text =
            list(&items, WHY, Canvas { width: Some(50), color: false, zone: Zone::Local }).text;
        assert!(text.contains(id), "{text}");
    }

    #[test]
    fn narrow_sentences_are_wrapped_once() {
        const CHECKS: View = View(&[
            Column::id("ID", "/id"),
            Column::prose("SENT", "/sent"),
            Column::prose("EXPECTED", "/expected"),
        ]);
        let item = json!({
            "id": "a-check",
            "sent": "a correctly signed body that is not UTF-8",
            "expected": "a response that does not contain the correct signature",
        });
        let narrow = Canvas { width: Some(47), color: false, zone: Zone::Local };
        let expected = "\
ID       SENT              EXPECTED
a-check  a correctly       a response that
         signed body that  does not contain
         is not UTF-8      the correct
                           signature
";
        assert_eq!(list(&[item], CHECKS, narrow).text, expected);
    }
}
