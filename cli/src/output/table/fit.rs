//! Fits the columns of a list into the width of the terminal.

use tabled::grid::util::string::get_text_width;

use super::{Column, wrap};

/// Spaces between two columns.
pub(super) const GAP: usize = 2;
/// Minimum width to which a column is shrunk.
pub(super) const NARROWEST: usize = 10;

/// Words longer than this may be broken. All ids are shorter.
const LONGEST_WORD: usize = 48;

/// The width of each column whose text must be wrapped. The widest columns shrink first. Words are
/// broken only as a last resort, preferably after punctuation; the `id` column is never shrunk,
/// because a broken id cannot be copied. `None` if the columns still do not fit.
pub(super) fn fitted(
    columns: &[&Column],
    cells: &[Vec<String>],
    width: usize,
) -> Option<Vec<Option<usize>>> {
    let natural = natural_widths(columns, cells);
    let mut widths = natural.clone();
    let gaps = GAP * columns.len().saturating_sub(1);
    let narrowest = |wide: fn(&str) -> usize| {
        let cells = columns.iter().zip(cells);
        let cells = cells.map(|(column, cells)| longest_word(cells, wide).max(title(column)));
        cells.map(|width| width.max(NARROWEST)).collect::<Vec<_>>()
    };
    let tiers: [fn(&str) -> usize; 3] = [get_text_width, wrap::longest_part, wrap::longest_run];
    for narrowest in tiers.map(narrowest) {
        while widths.iter().sum::<usize>() + gaps > width {
            let widest = (0..widths.len())
                .filter(|index| columns[*index].pointer != "/id")
                .filter(|index| widths[*index] > narrowest[*index])
                .max_by_key(|index| widths[*index]);
            match widest {
                Some(widest) => widths[widest] -= 1,
                None => break,
            }
        }
    }
    let fits = widths.iter().sum::<usize>() + gaps <= width;
    let pairs = widths.iter().zip(&natural);
    fits.then(|| pairs.map(|(now, before)| (now < before).then_some(*now)).collect())
}

fn longest_word(cells: &[String], wide: fn(&str) -> usize) -> usize {
    let words = cells.iter().flat_map(|cell| cell.split_whitespace()).map(wide);
    words.filter(|word| *word <= LONGEST_WORD).max().unwrap_or(0)
}

fn title(column: &Column) -> usize {
    column.title.split(' ').map(str::len).max().unwrap_or(0)
}

pub(super) fn drop_columns(columns: &mut Vec<&Column>, cells: &mut Vec<Vec<String>>, width: usize) {
    loop {
        let widths = natural_widths(columns, cells);
        let needed = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let last = columns.iter().rposition(|column| column.droppable);
        match last {
            Some(last) if needed > width => {
                columns.remove(last);
                cells.remove(last);
            }
            Some(_) | None => return,
        }
    }
}

fn natural_widths(columns: &[&Column], cells: &[Vec<String>]) -> Vec<usize> {
    let pairs = columns.iter().zip(cells);
    pairs
        .map(|(column, cells)| {
            let widest = cells.iter().map(|cell| get_text_width(cell)).max().unwrap_or(0);
            widest.max(column.title.len())
        })
        .collect()
}
