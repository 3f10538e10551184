//! Formats a list as rows.

use serde_json::Value;
use tabled::builder::Builder;
use tabled::grid::util::string::get_text_width;
use tabled::settings::object::{Cell, Columns, Rows};
use tabled::settings::{Alignment, Color, Padding, Style};

use super::fit::{GAP, drop_columns, fitted};
use super::{Canvas, Column, NOTHING, Show, View, blocks, meaning, present, show, trimmed, wrap};

/// Formats a list as a table. Columns without a value in any row are omitted.
pub(crate) fn list(items: &[Value], view: View, canvas: Canvas) -> String {
    let filled = view
        .0
        .iter()
        .filter(|column| items.iter().any(|item| present(item, column).is_some()))
        .collect::<Vec<_>>();
    let (below, mut columns) =
        filled.iter().partition::<Vec<&Column>, _>(|column| column.show == Show::BelowRow);
    let mut cells = columns.iter().map(|column| cells_of(items, column)).collect::<Vec<_>>();
    let mut widths = Vec::new();
    if let Some(width) = canvas.width {
        drop_columns(&mut columns, &mut cells, width);
        let Some(fitted) = fitted(&columns, &cells, width) else {
            cells.extend(below.iter().map(|column| cells_of(items, column)));
            columns.extend(below);
            return blocks::of_list(&columns, &cells, canvas);
        };
        widths = fitted;
    }
    let mut titles = columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>();
    for (index, room) in widths.into_iter().enumerate() {
        let Some(room) = room else { continue };
        for cell in cells[index].iter_mut().chain([&mut titles[index]]) {
            *cell = wrap::inside_words(cell, room);
        }
    }
    let mut builder = Builder::default();
    builder.push_record(titles.iter().map(String::as_str));
    for row in 0..items.len() {
        builder.push_record(cells.iter().map(|column| column[row].as_str()));
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::zero());
    for (index, column) in columns.iter().enumerate() {
        if index + 1 < columns.len() {
            table.modify(Columns::one(index), Padding::new(0, GAP, 0, 0));
        }
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
    let text = trimmed(&table.to_string());
    if below.is_empty() { text } else { with_lines_below(&text, &titles, &cells, items, &below) }
}

/// Inserts the [`Show::BelowRow`] values below each row, indented to the second column.
fn with_lines_below(
    table: &str,
    titles: &[String],
    cells: &[Vec<String>],
    items: &[Value],
    below: &[&Column],
) -> String {
    let first = cells.first().into_iter().flatten().chain(titles.first());
    let indent = " ".repeat(first.map(|cell| width(cell)).max().unwrap_or(0) + GAP);
    let mut lines = table.split_inclusive('\n');
    let mut text = lines.by_ref().take(tallest(titles.iter())).collect::<String>();
    for (row, item) in items.iter().enumerate() {
        text.extend(lines.by_ref().take(tallest(cells.iter().map(|column| &column[row]))));
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

fn tallest<'a>(cells: impl Iterator<Item = &'a String>) -> usize {
    cells.map(|cell| cell.split('\n').count()).max().unwrap_or(1)
}

fn width(text: &str) -> usize {
    text.split('\n').map(get_text_width).max().unwrap_or(0)
}
