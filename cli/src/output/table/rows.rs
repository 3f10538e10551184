//! Formats a list as a table, and fits it into the width of the terminal. `list` tries in order:
//! everything whole; shorter times, wrapped sentences and shortened texts; short IDs; without the
//! last droppable columns. If that does not fit either, in a terminal narrower than
//! `NARROWEST_TABLE`, it prints a block for each item. `List` says how many columns are hidden, so
//! that `output.rs` can tell.

use serde_json::Value;
use tabled::builder::Builder;
use tabled::grid::util::string::get_text_width;
use tabled::settings::object::{Cell, Columns, Rows};
use tabled::settings::{Alignment, Color, Padding, Style};

use super::label::sentence;
use super::wrap::{LONGEST_WORD, between_words, short_id, shortened};
use super::{
    Canvas, Column, GAP, NOTHING, Show, block, localized, meaning, present, show, trimmed,
};

/// A formatted list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) text: String,
    /// How many columns with values were left out because the terminal is too narrow.
    pub(crate) hidden: usize,
    /// Whether ids were shortened for the same reason.
    pub(crate) has_short_ids: bool,
}

/// Formats a list as a table. Columns without a value in any row are omitted.
///
/// If the table is too wide, times, sentences and texts get shorter, then ids, and then the last
/// droppable columns are left out. A terminal of 60 columns always gets a table, with as many columns
/// as fit; in a narrower one, every item becomes a block of names and values.
pub(crate) fn list(items: &[Value], columns: &[Column<'_>], canvas: Canvas) -> List {
    let items = &items
        .iter()
        .map(|item| localized(item, columns, canvas.zone))
        .collect::<Vec<_>>();
    let is_filled = |column: &&Column<'_>| items.iter().any(|item| present(item, column).is_some());
    let filled = columns.iter().filter(is_filled).collect::<Vec<_>>();
    let (below, mut columns) = filled
        .iter()
        .partition::<Vec<&Column<'_>>, _>(|column| column.show == Show::BelowRow);
    let all = columns.len();
    let stays_table = canvas.width.is_none_or(|width| width >= NARROWEST_TABLE);
    loop {
        for ids in [Ids::Whole, Ids::Short] {
            let Some(cells) = fitting(items, &columns, canvas.width, ids) else {
                continue;
            };
            let text = rendered(&cells, &columns, canvas);
            let text = with_lines_below(&text, (&cells, &columns), items, &below);
            return List {
                text,
                hidden: all - columns.len(),
                has_short_ids: ids == Ids::Short,
            };
        }
        let last = match columns.iter().rposition(|column| column.droppable) {
            // The first two say what a row is about.
            None if stays_table && columns.len() > 2 => {
                columns.iter().rposition(|column| !column.is_key)
            }
            last => last,
        };
        match last {
            Some(last) => columns.remove(last),
            None => break,
        };
    }

    let text = |item| {
        let field = |column: &&Column<'_>| {
            Some((sentence(column.title), present(item, column)?, column.show))
        };
        block(&filled.iter().filter_map(field).collect::<Vec<_>>(), canvas)
    };

    List {
        text: items.iter().map(text).collect::<Vec<_>>().join("\n"),
        hidden: 0,
        has_short_ids: false,
    }
}

/// Width of a terminal from which on a list is always a table.
const NARROWEST_TABLE: usize = 60;

/// How ids are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    Whole,
    Short,
}

/// Minimum width to which a column of text is shortened.
const SHORTEST_TEXT: usize = 12;
/// Width up to which the column that people look for stays whole.
const WHOLE_TEXT: usize = 40;
/// Minimum width to which a column of sentences is wrapped.
const NARROWEST_PROSE: usize = 16;
/// Length of a time without seconds and zone, such as `2026-12-01 09:00`.
const SHORT_TIME: usize = 16;

/// The cells of each column: as they are, or in at most `width` columns, with short times, wrapped
/// sentences and shortened texts, the widest first. `None` if that is not enough. Ids, numbers and
/// words such as a status keep their width.
fn fitting(
    items: &[Value],
    columns: &[&Column<'_>],
    width: Option<usize>,
    ids: Ids,
) -> Option<Vec<Vec<String>>> {
    let cells = |column: &&Column<'_>| {
        let cell = |item| {
            let text = show(present(item, column)?, column.show);
            Some(match (column.show, ids) {
                (Show::Id, Ids::Short) => short_id(&text),
                _ => text,
            })
        };
        let cells = items
            .iter()
            .map(|item| cell(item).unwrap_or_else(|| NOTHING.to_owned()));
        cells.collect::<Vec<_>>()
    };

    let mut cells = columns.iter().map(cells).collect::<Vec<_>>();
    let available = width.map_or(usize::MAX, |width| {
        width.saturating_sub(GAP * columns.len().saturating_sub(1))
    });
    if widths(&cells, columns).iter().sum::<usize>() <= available {
        return Some(cells);
    }

    let times = columns
        .iter()
        .zip(&mut cells)
        .filter(|(column, _)| column.show == Show::Time);
    for cell in times.flat_map(|(_, cells)| cells) {
        if cell
            .get(SHORT_TIME..)
            .is_some_and(|rest| rest.starts_with(':'))
        {
            cell.truncate(SHORT_TIME);
        }
    }

    let minimum = |(column, cells): (&&Column<'_>, &Vec<String>)| {
        let words = cells
            .iter()
            .flat_map(|cell| cell.split(' '))
            .map(get_text_width);
        let minimum = match column.show {
            Show::Text if column.is_key => {
                let whole = cells.iter().map(|cell| get_text_width(cell)).max();
                whole.unwrap_or(0).clamp(SHORTEST_TEXT, WHOLE_TEXT)
            }
            Show::Text => SHORTEST_TEXT,
            Show::Prose => words
                .filter(|word| *word <= LONGEST_WORD)
                .max()
                .unwrap_or(0)
                .max(NARROWEST_PROSE),
            _ => return None,
        };
        Some(minimum.max(get_text_width(column.title)))
    };

    let minimums = columns.iter().zip(&cells).map(minimum).collect::<Vec<_>>();
    let mut widths = widths(&cells, columns);
    while widths.iter().sum::<usize>() > available {
        let is_wider = |at: &usize| minimums[*at].is_some_and(|minimum| widths[*at] > minimum);
        let widest = (0..widths.len())
            .rev()
            .filter(is_wider)
            .max_by_key(|at| widths[*at])?;
        widths[widest] -= 1;
    }

    for ((column, cells), width) in columns.iter().zip(&mut cells).zip(widths) {
        for cell in cells {
            *cell = match column.show {
                Show::Text => shortened(cell, width),
                Show::Prose => between_words(cell, width),
                _ => continue,
            };
        }
    }

    Some(cells)
}

/// The width of each column.
fn widths(cells: &[Vec<String>], columns: &[&Column<'_>]) -> Vec<usize> {
    let width = |(column, cells): (&&Column<'_>, &Vec<String>)| {
        let cells = cells
            .iter()
            .map(|cell| get_text_width(cell))
            .max()
            .unwrap_or(0);
        cells.max(get_text_width(column.title))
    };
    columns.iter().zip(cells).map(width).collect()
}

/// The table of these cells, with a header and without borders.
fn rendered(cells: &[Vec<String>], columns: &[&Column<'_>], canvas: Canvas) -> String {
    let mut builder = Builder::default();
    builder.push_record(columns.iter().map(|column| column.title));
    for row in 0..cells.first().map_or(0, Vec::len) {
        builder.push_record(cells.iter().map(|column| column[row].as_str()));
    }

    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, GAP, 0, 0));
    for (index, column) in columns.iter().enumerate() {
        if matches!(column.show, Show::Number | Show::Cents | Show::HttpStatus) {
            table.modify(Columns::one(index), Alignment::right());
        }
        for (row, cell) in cells[index].iter().enumerate() {
            if let Some(color) = meaning(column.show, cell).filter(|_| canvas.color) {
                table.modify(Cell::new(row + 1, index), color);
            }
        }
    }

    if canvas.color {
        table.modify(Rows::first(), Color::BOLD);
    }
    trimmed(&table.to_string())
}

/// Inserts the [`Show::BelowRow`] values below each row, indented to the second column.
fn with_lines_below(
    text: &str,
    (cells, columns): (&[Vec<String>], &[&Column<'_>]),
    items: &[Value],
    below: &[&Column<'_>],
) -> String {
    let indent = " ".repeat(widths(cells, columns).first().unwrap_or(&0) + GAP);
    let mut lines = text.split_inclusive('\n');
    let mut text = lines.next().unwrap_or_default().to_owned();
    for (row, item) in items.iter().enumerate() {
        let height = cells
            .iter()
            .map(|column| column[row].split('\n').count())
            .max();
        text.extend(lines.by_ref().take(height.unwrap_or(1)));
        for value in below.iter().filter_map(|column| present(item, column)) {
            text.push_str(&format!("{indent}→ {}\n", show(value, Show::BelowRow)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Local};
    use serde_json::json;

    use super::super::View;
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
        let narrow = Canvas {
            width: Some(16),
            color: false,
            zone: Zone::Local,
        };
        let short = list(&items, EMAILS.0, narrow);
        assert_eq!(
            (short.text.as_str(), short.hidden),
            ("ID  STATUS\na   sent\n", 1)
        );
        assert_eq!(
            list(
                &items,
                EMAILS.0,
                Canvas {
                    width: Some(24),
                    color: false,
                    zone: Zone::Local
                }
            )
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
                CONTACTS.0,
                Canvas {
                    width: Some(width),
                    color: false,
                    zone: Zone::Local,
                },
            )
        };

        let local = "2026-12-01T09:00:00Z"
            .parse::<DateTime<Local>>()
            .expect("a time");
        let time = |format: &str| local.format(format).to_string();
        let complete = time("%Y-%m-%d %H:%M:%S %:z");
        assert!(shown(115).text.contains(&complete), "{}", shown(115).text);
        let fitting = shown(104);
        assert!(
            fitting.text.contains("a remark that is long"),
            "{}",
            fitting.text
        );
        let short = time("%Y-%m-%d %H:%M  one of two");
        assert!(fitting.text.contains(&short), "{}", fitting.text);
        let shorter = shown(96);
        assert!(
            shorter.text.contains("a remark that is…"),
            "{}",
            shorter.text
        );
        let wrapped = shown(91);
        assert!(
            wrapped.text.contains("one of two\n"),
            "sentences are wrapped: {}",
            wrapped.text
        );
        let narrow = shown(80);
        assert!(
            narrow.has_short_ids && narrow.text.contains("a remark that is long"),
            "ids are shortened before a column is left out: {}",
            narrow.text
        );
        for width in 40..104 {
            let list = shown(width);
            let end = if list.has_short_ids {
                "eml_01a1…8b54"
            } else {
                id
            };
            assert!(list.text.contains(end), "{}", list.text);
            assert!(
                list.text.lines().all(|line| get_text_width(line) <= width),
                "{}",
                list.text
            );
            let titles = list
                .text
                .lines()
                .next()
                .expect("titles")
                .split_whitespace()
                .count();
            assert_eq!(titles + list.hidden, 4, "{}", list.text);
        }

        assert_eq!((shown(50).hidden, shown(80).hidden), (1, 0));
        assert_eq!(
            list(
                std::slice::from_ref(&item),
                CONTACTS.0,
                Canvas {
                    width: None,
                    color: false,
                    zone: Zone::Local
                }
            )
            .hidden,
            0
        );
    }

    #[test]
    fn long_words_of_sentences_stay_whole() {
        const WHY: View = View(&[
            Column::id("ID", "/id"),
            Column::new("WHY", "/why", Show::Prose),
        ]);

        let id = "con_01a1fd75-b965-7772-a397-95b85f868b54";
        let items = [json!({"id": "a", "why": format!("created as {id}, but not updated")})];
        let text = list(
            &items,
            WHY.0,
            Canvas {
                width: Some(50),
                color: false,
                zone: Zone::Local,
            },
        )
        .text;
        assert!(text.contains(id), "{text}");
    }

    #[test]
    fn a_column_of_long_words_only_still_fits_the_others() {
        const WHY: View = View(&[
            Column::text("NOTE", "/note"),
            Column::new("WHY", "/why", Show::Prose),
        ]);

        let item = json!({"note": "a remark that is long", "why": "x".repeat(LONGEST_WORD + 2)});
        let narrow = Canvas {
            width: Some(50),
            color: false,
            zone: Zone::Local,
        };
        assert!(list(&[item], WHY.0, narrow).text.starts_with("NOTE"));
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
        let narrow = Canvas {
            width: Some(47),
            color: false,
            zone: Zone::Local,
        };
        let expected = "\
ID       SENT                EXPECTED
a-check  a correctly signed  a response that
         body that is not    does not contain
         UTF-8               the correct
                             signature
";
        assert_eq!(list(&[item], CHECKS.0, narrow).text, expected);
    }
}
