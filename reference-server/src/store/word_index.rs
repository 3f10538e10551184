//! [`WordIndex`]: finds messages and emails by parts of their texts without reading all of an
//! organization.
//!
//! An index has the items of an organization up to one, oldest first. A search reads the newer
//! ones itself. If they are many, they are added to the index afterwards, in the background. So an
//! index costs nothing while items are stored, and nothing at all without searches.
//!
//! It finds items that may match: those whose texts contain every group of three characters of the
//! wanted ones. Whether they do is checked as for any other item.

use rusqlite::Row;

use crate::model::error::ApiError;
use crate::store::{Reader, Tx};

/// The index of the items of one kind.
pub(super) struct WordIndex {
    /// The table of the items in the index, with the columns `number`, `organization` and `item`.
    pub(super) indexed: &'static str,
    /// The table of their texts.
    pub(super) words: &'static str,
    /// The column of the item's ID.
    pub(super) item: &'static str,
}

/// The index of emails.
pub(super) const EMAILS: WordIndex =
    WordIndex { indexed: "email_indexed", words: "email_words", item: "email" };

/// The index of messages.
pub(super) const MESSAGES: WordIndex =
    WordIndex { indexed: "message_indexed", words: "message_words", item: "message" };

/// Number of items that one transaction adds to an index.
const SLICE: usize = 1000;

impl WordIndex {
    /// The newest item of an organization that the index has.
    pub(super) fn newest(
        &self,
        reader: Reader<'_>,
        organization: i64,
    ) -> Result<Option<String>, ApiError> {
        let Self { indexed, item, .. } = self;
        let sql = format!(
            "SELECT {item} FROM {indexed} WHERE organization = ?1 ORDER BY {item} DESC LIMIT 1"
        );
        Ok(reader.find(&sql, [organization], |row| row.get(0))?)
    }

    /// The number of the newest item in the index up to this ID.
    pub(super) fn number(
        &self,
        reader: Reader<'_>,
        organization: i64,
        id: &str,
    ) -> Result<i64, ApiError> {
        let Self { indexed, item, .. } = self;
        let sql = format!(
            "SELECT number FROM {indexed} WHERE organization = ?1 AND {item} <= ?2
             ORDER BY {item} DESC LIMIT 1"
        );
        Ok(reader.find(&sql, (organization, id), |row| row.get(0))?.unwrap_or(0))
    }

    /// Adds the next items of an organization, which `sql` lists after the newest one in the index,
    /// oldest first. `read` returns the ID of an item and what the index has of it. Returns whether
    /// the index has all items.
    pub(super) fn extend(
        &self,
        tx: &Tx<'_>,
        organization: i64,
        sql: &str,
        read: impl Fn(&Row<'_>) -> Result<(String, String), ApiError>,
    ) -> Result<bool, ApiError> {
        let newest = self.newest(tx.reader(), organization)?.unwrap_or_default();
        let mut statement = tx.statement(sql)?;
        let mut rows = statement.query((organization, newest))?;
        let mut added = 0;
        while let Some(row) = rows.next()? {
            if added == SLICE || tx.is_enough(added) {
                return Ok(false);
            }
            let (id, text) = read(row)?;
            self.add(tx, organization, &id, &text)?;
            added += 1;
        }
        Ok(true)
    }

    fn add(&self, tx: &Tx<'_>, organization: i64, id: &str, text: &str) -> Result<(), ApiError> {
        let Self { indexed, words, item } = self;
        let sql = format!("INSERT INTO {indexed} (organization, {item}) VALUES (?1, ?2)");
        tx.execute(&sql, (organization, id))?;
        let sql = format!("INSERT INTO {words} (rowid, words) VALUES (?1, ?2)");
        tx.execute(&sql, (tx.last_row(), marked(organization, text)))?;
        Ok(())
    }

    /// Removes an item, if the index has it.
    pub(super) fn remove(&self, tx: &Tx<'_>, organization: i64, id: &str) -> Result<(), ApiError> {
        let Self { indexed, words, item } = self;
        let sql = format!(
            "DELETE FROM {indexed} WHERE organization = ?1 AND {item} = ?2 RETURNING number"
        );
        let number: Option<i64> = tx.find(&sql, (organization, id), |row| row.get(0))?;
        if let Some(number) = number {
            tx.execute(&format!("DELETE FROM {words} WHERE rowid = ?1"), [number])?;
        }
        Ok(())
    }
}

/// The query for an index: it finds at least the items that contain each of the texts. `None` if
/// the texts are too short for it.
pub(super) fn query(organization: i64, texts: &[String]) -> Option<String> {
    let mut groups = Vec::new();
    for text in texts {
        let text: Vec<char> = without_nul(text).chars().collect();
        groups.extend(text.windows(GROUP).take(MAX_GROUPS).map(String::from_iter));
    }
    if groups.is_empty() {
        return None;
    }
    groups.sort_unstable();
    groups.dedup();
    groups.push(mark(organization, SHORT));
    let quoted = |group: &String| format!("\"{}\"", group.replace('"', "\"\""));
    let all: Vec<String> = groups.iter().map(quoted).collect();
    // A long text may contain anything.
    Some(format!("({}) OR {}", all.join(" AND "), quoted(&mark(organization, LONG))))
}

/// The number of characters in a group, which the tokenizer determines.
const GROUP: usize = 3;
/// Maximum number of groups of a wanted text in a query.
const MAX_GROUPS: usize = 32;
/// Maximum size of the texts of an item in an index, in bytes. The header of a received message
/// may be as large as the message.
pub(super) const MAX_TEXT: usize = 8 << 10;

/// Planes for private use, in which [`mark`] puts its characters.
const SHORT: u32 = 0xf_0000;
const LONG: u32 = 0x10_0000;

/// A group that only the items of an organization have: its number in three characters.
fn mark(organization: i64, plane: u32) -> String {
    let digit = |position: i64| {
        let digit = (organization >> (12 * position)) & 0xfff;
        char::from_u32(plane + digit as u32).unwrap_or_default()
    };
    (0..GROUP as i64).map(digit).collect()
}

/// What an index has of an item.
fn marked(organization: i64, text: &str) -> String {
    if text.len() > MAX_TEXT {
        return mark(organization, LONG);
    }
    format!("{}\n{}", mark(organization, SHORT), without_nul(text))
}

/// The tokenizer stops at a null character.
fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}
