//! The tables `message_indexed` and `message_words`: finds messages by sender and subject without
//! reading a whole mailbox.

use std::cell::Cell;

use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::store::word_index::{self, MESSAGES as INDEX};
use crate::store::{Reader, Tx};

use super::{JOINS, MessageSummary, PRESENT, Range, SUMMARY, summary};

/// What a search looks for in the sender and the subject.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The complete address of the sender; case-insensitive.
    pub(crate) from: Option<String>,
    /// A part of the subject, in lower case.
    pub(crate) subject: Option<String>,
}

impl Wanted {
    /// Whether every message matches.
    pub(crate) fn is_anything(&self) -> bool {
        self.from.is_none() && self.subject.is_none()
    }

    pub(crate) fn matches(&self, message: &MessageSummary) -> bool {
        let subject = |part: &String| message.subject.to_lowercase().contains(part);
        self.from.as_ref().is_none_or(|from| sender(message).eq_ignore_ascii_case(from))
            && self.subject.as_ref().is_none_or(subject)
    }

    /// The query for the index. `None` if the wanted texts are too short for it.
    fn query(&self, organization: i64) -> Option<String> {
        let from = self.from.as_ref().map(|from| from.to_ascii_lowercase());
        let texts: Vec<String> = from.into_iter().chain(self.subject.clone()).collect();
        word_index::query(organization, &texts)
    }
}

/// What the index has of a message.
fn words(message: &MessageSummary) -> String {
    format!("{}\n{}", sender(message).to_ascii_lowercase(), message.subject.to_lowercase())
}

/// The address of the sender, or the whole text if it is not an address.
fn sender(message: &MessageSummary) -> String {
    match Mailbox::parse(&message.from) {
        Ok(mailbox) => mailbox.address.as_str().to_owned(),
        Err(_) => message.from.clone(),
    }
}

/// Reads the messages that match, newest first, until `take` returns `false`. Returns how many
/// messages it had to read only because they are not in the index.
pub(crate) fn each_matching(
    reader: Reader<'_>,
    organization: i64,
    range: &Range<'_>,
    recipient: Option<&str>,
    wanted: &Wanted,
    mut take: impl FnMut(MessageSummary) -> Result<bool, ApiError>,
) -> Result<usize, ApiError> {
    let (mut read, is_done) = (0, Cell::new(false));
    let mut take_matching = |message: MessageSummary| {
        is_done.set(wanted.matches(&message) && !take(message)?);
        Ok::<_, ApiError>(!is_done.get())
    };
    // The messages of one recipient have an index of their own.
    let query = wanted.query(organization).filter(|_| recipient.is_none());
    let newest = query.as_ref().map(|_| INDEX.newest(reader, organization)).transpose()?.flatten();
    let after = range.after.max(newest.as_deref().unwrap_or_default());
    let rest = Range { after, before: range.before };
    super::each(reader, organization, &rest, recipient, |message| {
        read += 1;
        take_matching(message)
    })?;
    let Some(query) = query else { return Ok(0) };
    if let Some(newest) = newest.filter(|_| !is_done.get()) {
        // The index may have grown in the meantime.
        let last = INDEX.number(reader, organization, newest.as_str().min(range.before))?;
        let first = INDEX.number(reader, organization, range.after)?;
        let sql = format!(
            "SELECT {SUMMARY} FROM message_words w CROSS JOIN message_indexed i ON i.number = w.rowid
             CROSS JOIN message m ON m.organization = i.organization AND m.id = i.message {JOINS}
             WHERE w.message_words MATCH ?1 AND w.rowid > ?2 AND w.rowid <= ?3
               AND i.organization = ?4 AND m.id < ?5 AND {PRESENT}
             ORDER BY w.rowid DESC"
        );
        let mut statement = reader.statement(&sql)?;
        let mut rows = statement.query((query, first, last, organization, range.before))?;
        while let Some(row) = rows.next()? {
            if !take_matching(summary(row)?)? {
                break;
            }
        }
    }
    Ok(read)
}

/// Adds the next messages of an organization to the index. Returns whether it has all of them.
pub(crate) fn extend(tx: &mut Tx<'_>, organization: i64) -> Result<bool, ApiError> {
    let sql = format!(
        "SELECT {SUMMARY} FROM message m {JOINS} WHERE m.organization = ?1 AND m.id > ?2
         ORDER BY m.id"
    );
    INDEX.extend(tx, organization, &sql, |row| {
        let message = summary(row)?;
        let words = words(&message);
        Ok((message.id, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bodies::{self, NewBody};
    use crate::store::messages::{self, NewIncoming, PAST_EVERY_ID};
    use crate::store::word_index::MAX_TEXT;
    use crate::store::{Location, Store};

    const SENDERS: [&str; 4] =
        ["ada@x.test", "Ada <ADA@x.test>", "\"b, c\" <bob+1@x.test>", "not an address \0 at all"];
    const SUBJECTS: [&str; 8] = [
        "Your order 123",
        "",
        "GRÜSSE aus Köln",
        "say \"hi\" AND* NOT (this)",
        "\u{1f600}\u{1f601}\u{1f602} smile",
        "İstanbul ΣΑΣ",
        "before\0after",
        "ab",
    ];

    /// Stores a message with one of the texts above, by its number.
    fn store(tx: &mut Tx<'_>, organization: i64, number: usize) -> Result<(), ApiError> {
        let id = format!("msg_{number:06}");
        let mut subject = SUBJECTS[number % SUBJECTS.len()].to_owned();
        if number == 40 {
            subject = format!("long {}", "x".repeat(2 * MAX_TEXT));
        }
        let new = NewIncoming {
            id: &id,
            recipient: "to@x.test",
            domain: "dom_1",
            sender: SENDERS[number % SENDERS.len()],
            subject: &subject,
            authentication: "{}",
            source: bodies::put(tx, &NewBody::new(b"x".to_vec()))?,
        };
        messages::insert_incoming(tx, organization, &new)
    }

    fn find(
        reader: Reader<'_>,
        organization: i64,
        wanted: &Wanted,
        range: &Range<'_>,
        limit: usize,
    ) -> (Vec<String>, usize) {
        let mut found = Vec::new();
        let read = each_matching(reader, organization, range, None, wanted, |message| {
            found.push(message.id);
            Ok(found.len() < limit)
        });
        (found, read.unwrap())
    }

    /// What each search finds, with the search as text.
    fn results(reader: Reader<'_>) -> Result<Vec<(String, Vec<String>)>, ApiError> {
        let subjects = [
            "order",
            "your order 123",
            "grüsse",
            "köln",
            "say \"hi\" and*",
            "\u{1f601}",
            "istan",
            "i\u{307}stanbul",
            "σας",
            "σασ",
            "re\0af",
            "ab",
            "x",
            "long xxx",
            "nothing like it",
            "",
        ];
        let senders = [None, Some("ada@X.test"), Some("bob+1@x.test"), Some("eve@x.test")];
        let all = Range { after: "", before: PAST_EVERY_ID };
        let part = Range { after: "msg_000007", before: "msg_000033" };
        let mut results = Vec::new();
        for subject in subjects.map(Some).into_iter().chain([None]) {
            for from in senders {
                let [subject, from] = [subject, from].map(|text| text.map(str::to_owned));
                let wanted = Wanted { from, subject };
                for (range, limit) in [(all, 100), (all, 2), (part, 100)] {
                    for organization in [1, 2] {
                        let (found, _) = find(reader, organization, &wanted, &range, limit);
                        results.push((format!("{organization} {wanted:?} {limit}"), found));
                    }
                }
            }
        }
        Ok(results)
    }

    /// Every search finds the same messages, in the same order, before and after they are in the
    /// index, and when some of them were deleted.
    #[tokio::test]
    async fn the_index_finds_what_reading_all_messages_finds() {
        let (database, _) = Store::open(&Location::Memory, None).unwrap();
        let fill = |tx: &mut Tx<'_>| {
            (0..48).try_for_each(|number| store(tx, 1, number))?;
            (50..60).try_for_each(|number| store(tx, 2, number))
        };
        database.write(fill).await.unwrap();
        let before = database.read(results).await.unwrap();
        assert!(before.iter().filter(|(_, found)| !found.is_empty()).count() > 100);

        let extend_all = |tx: &mut Tx<'_>| Ok(extend(tx, 1)? && extend(tx, 2)?);
        assert!(database.write(extend_all).await.unwrap());
        assert_eq!(database.read(results).await.unwrap(), before);
        let read = database.read(|reader| {
            let range = Range { after: "", before: PAST_EVERY_ID };
            let wanted = Wanted { from: None, subject: Some("order".to_owned()) };
            Ok(find(reader, 1, &wanted, &range, 100).1)
        });
        assert_eq!(read.await.unwrap(), 0, "messages were read one by one");

        // Newer messages are found, although the index does not have them yet.
        let newer = |tx: &mut Tx<'_>| (60..70).try_for_each(|number| store(tx, 1, number));
        database.write(newer).await.unwrap();
        let mixed = database.read(results).await.unwrap();
        assert_ne!(mixed, before);
        database.write(|tx| extend(tx, 1)).await.unwrap();
        assert_eq!(database.read(results).await.unwrap(), mixed);

        let delete = |tx: &mut Tx<'_>| {
            for number in [2, 8, 40, 69] {
                messages::delete(tx, 1, &format!("msg_{number:06}"))?;
            }
            Ok(())
        };
        database.write(delete).await.unwrap();
        let without = database.read(results).await.unwrap();
        assert_ne!(without, mixed);
        let indexed = |reader: Reader<'_>| {
            let sql = "SELECT COUNT(*) FROM message_indexed WHERE organization = 1";
            Ok(reader.find(sql, [], |row| row.get::<_, i64>(0))?)
        };
        assert_eq!(database.read(indexed).await.unwrap(), Some(54));
        // What the index says is what reading all messages says.
        let empty = |tx: &mut Tx<'_>| {
            tx.execute("DELETE FROM message_indexed WHERE organization > 0", [])?;
            Ok(())
        };
        database.write(empty).await.unwrap();
        assert_eq!(database.read(results).await.unwrap(), without);
    }
}
