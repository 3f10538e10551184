//! Fits a list into the width of the terminal.

use tabled::Table;
use tabled::grid::util::string::get_text_width;
use tabled::settings::object::Columns;
use tabled::settings::peaker::Peaker;
use tabled::settings::{Format, Width};

use super::rows::Cells;
use super::{Column, Show};

/// Spaces between two columns.
pub(super) const GAP: usize = 2;
/// Minimum width of the values beside the names of a single object.
pub(super) const NARROWEST: usize = 10;

/// Minimum width to which a column of text is shortened.
const SHORTEST_TEXT: usize = 12;
/// Minimum width to which a column of sentences is wrapped, if there are texts to shorten.
const COMFORTABLE_PROSE: usize = 28;
/// Minimum width to which a column of sentences is wrapped.
const NARROWEST_PROSE: usize = 16;

/// Words of sentences up to this width are not broken. All ids are shorter.
const LONGEST_WORD: usize = 48;

/// The table in at most `width` columns: as it is, or else with short times, wrapped sentences and
/// shortened texts. `None` if that is not enough. Ids, numbers and words such as a status keep
/// their width.
pub(super) fn fit(cells: &Cells, columns: &[&Column], width: usize) -> Option<Table> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Canvas, View, list};
    use super::Column;
    use crate::zone::Zone;

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
