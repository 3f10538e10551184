//! The layout for terminals too narrow for a table: each name above its value. Values are not
//! wrapped, so that they can be copied.

use super::{Canvas, Column, NOTHING, Show, fields_of_one, meaning, sentence, trimmed};

/// Formats each item of a list as a block.
pub(super) fn of_list(columns: &[&Column], cells: &[Vec<String>], canvas: Canvas) -> String {
    let rows = cells.first().map_or(0, Vec::len);
    let blocks = (0..rows).map(|row| {
        let fields = columns.iter().zip(cells).filter(|(_, cells)| cells[row] != NOTHING);
        let lines =
            fields.map(|(column, cells)| (sentence(column.title), cells[row].clone(), column.show));
        fields_of_one(&lines.collect::<Vec<_>>(), canvas)
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Formats one object as a block.
pub(super) fn of_one(lines: &[(String, String, Show)], canvas: Canvas) -> String {
    let mut text = String::new();
    for (name, value, how) in lines {
        let value = match meaning(*how, value).filter(|_| canvas.color) {
            Some(color) => color.colorize(value),
            None => value.replace('\n', "\n  "),
        };
        text.push_str(&format!("{name}\n  {value}\n"));
    }
    trimmed(&text)
}
