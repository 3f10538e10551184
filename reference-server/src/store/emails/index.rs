//! The tables `email_indexed` and `email_words`: finds emails by address, subject and tag without
//! reading all of an organization.

use std::cell::Cell;

use crate::control::emails::EmailSummary;
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::model::status::Status;
use crate::store::word_index::{self, EMAILS as INDEX};
use crate::store::{Reader, Tx};

use super::list::{COLUMNS, Range, each, may_scan, summary};

/// What a search looks for in the texts of an email.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// A complete address, of the sender or of any recipient; case-insensitive.
    pub(crate) address: Option<String>,
    /// A part of the subject, in lower case.
    pub(crate) subject: Option<String>,
    /// `name` or `name=value`.
    pub(crate) tag: Option<String>,
}

impl Wanted {
    /// Whether every email matches.
    pub(crate) fn is_anything(&self) -> bool {
        self.address.is_none() && self.subject.is_none() && self.tag.is_none()
    }

    pub(crate) fn matches(&self, email: &EmailSummary) -> bool {
        let has_address = |wanted: &String| {
            mailboxes(email).any(|mailbox| {
                Mailbox::parse(mailbox)
                    .is_ok_and(|mailbox| mailbox.address.as_str().eq_ignore_ascii_case(wanted))
            })
        };
        let has_tag = |wanted: &String| match wanted.split_once('=') {
            Some((name, value)) => email.tags.get(name).is_some_and(|tag| tag_text(tag) == value),
            None => email.tags.contains_key(wanted),
        };
        self.subject.as_ref().is_none_or(|part| email.subject.to_lowercase().contains(part))
            && self.tag.as_ref().is_none_or(has_tag)
            && self.address.as_ref().is_none_or(has_address)
    }

    /// The query for the index. `None` if the wanted texts are too short for it.
    fn query(&self, organization: i64) -> Option<String> {
        let address = self.address.as_ref().map(|address| address.to_ascii_lowercase());
        let texts = [address, self.subject.clone(), self.tag.clone()];
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        word_index::query(organization, &texts)
    }
}

/// What the index has of an email.
fn words(email: &EmailSummary) -> String {
    let mut text = email.subject.to_lowercase();
    for mailbox in mailboxes(email) {
        text.push('\n');
        text.push_str(&mailbox.to_ascii_lowercase());
    }
    for (name, value) in &email.tags {
        text.push_str(&format!("\n{name}={}", tag_text(value)));
    }
    text
}

fn mailboxes(email: &EmailSummary) -> impl Iterator<Item = &String> {
    [&email.to, &email.cc, &email.bcc].into_iter().flatten().chain([&email.from])
}

/// The value of a tag: a text as it is, anything else as JSON.
fn tag_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads the emails that match, newest first, until `take` returns `false`. Returns how many
/// emails it had to read only because they are not in the index.
pub(crate) fn each_matching(
    reader: Reader<'_>,
    organization: i64,
    range: &Range<'_>,
    status: Option<Status>,
    wanted: &Wanted,
    mut take: impl FnMut(EmailSummary) -> Result<bool, ApiError>,
) -> Result<usize, ApiError> {
    let (mut read, is_done) = (0, Cell::new(false));
    let mut take_matching = |email: EmailSummary| {
        is_done.set(range.ends_before(&email) || wanted.matches(&email) && !take(email)?);
        Ok::<_, ApiError>(!is_done.get())
    };
    // The emails with a rare status have an index of their own.
    let is_common = status.is_none() || may_scan(status);
    let query = wanted.query(organization).filter(|_| is_common);
    let newest = query.as_ref().map(|_| INDEX.newest(reader, organization)).transpose()?.flatten();
    let after = range.after.max(newest.as_deref().unwrap_or_default());
    let rest = Range { after, before: range.before, newer_than: None };
    each(reader, organization, &rest, status, |email| {
        read += 1;
        take_matching(email)
    })?;
    let Some(query) = query else { return Ok(0) };
    if let Some(newest) = newest.filter(|_| !is_done.get()) {
        // The index may have grown in the meantime.
        let last = INDEX.number(reader, organization, newest.as_str().min(range.before))?;
        let first = INDEX.number(reader, organization, range.after)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM email_words w CROSS JOIN email_indexed i ON i.number = w.rowid
             CROSS JOIN email e ON e.id = i.email
             WHERE w.email_words MATCH ?1 AND w.rowid > ?2 AND w.rowid <= ?3
               AND i.organization = ?4 AND e.id < ?5 AND (?6 IS NULL OR e.status = ?6)
             ORDER BY w.rowid DESC"
        );
        let mut statement = reader.statement(&sql)?;
        let status = status.map(Status::as_str);
        let mut rows = statement.query((query, first, last, organization, range.before, status))?;
        while let Some(row) = rows.next()? {
            if !take_matching(summary(row)?)? {
                break;
            }
        }
    }
    Ok(read)
}

/// Adds the next emails of an organization to the index. Returns whether it has all of them.
pub(crate) fn extend(tx: &mut Tx<'_>, organization: i64) -> Result<bool, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM email e INDEXED BY email_organization
         WHERE e.organization = ?1 AND e.id > ?2 ORDER BY e.id"
    );
    INDEX.extend(tx, organization, &sql, |row| {
        let email = summary(row)?;
        let words = words(&email);
        Ok((email.id, words))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::emails::{self, PAST_EVERY_ID};
    use crate::store::word_index::MAX_TEXT;
    use crate::store::{Location, Store};

    const SUBJECTS: [&str; 4] = ["Your order 123", "", "GRÜSSE aus Köln", "say \"hi\" AND* NOT"];

    /// Stores an email with texts by its number; every third one bounced.
    fn store(tx: &Tx<'_>, organization: i64, number: usize) -> Result<(), ApiError> {
        let mut subject = SUBJECTS[number % SUBJECTS.len()].to_owned();
        if number == 40 {
            subject = format!("long {}", "x".repeat(2 * MAX_TEXT));
        }
        let meta = json!({
            "from": "\"b, c\" <Bob+1@x.test>", "to": [format!("Ada <ada{}@x.test>", number % 5)],
            "cc": ["ADA9@x.test"], "bcc": [format!("hidden{}@x.test", number % 7)], "replyTo": [],
            "subject": subject, "tags": {"campaign": format!("C{}", number % 2), "n": number % 3},
            "templateId": null, "domain": "x.test",
        });
        let status = if number.is_multiple_of(3) { "bounced" } else { "delivered" };
        tx.execute(
            "INSERT INTO email (id, organization, status, created_at, updated_at, meta)
             VALUES (?1, ?2, ?3, 0, 0, ?4)",
            (format!("eml_{number:06}"), organization, status, meta.to_string()),
        )?;
        Ok(())
    }

    /// What each search finds, with the search as text.
    fn results(reader: Reader<'_>) -> Result<Vec<(String, Vec<String>)>, ApiError> {
        let addresses = [None, Some("ada1@X.test"), Some("bob+1@x.test")];
        let subjects = [None, Some("order"), Some("grüsse"), Some("xx")];
        let tags = [None, Some("campaign"), Some("campaign=C1"), Some("n=2")];
        let mut results = Vec::new();
        for address in addresses {
            for subject in subjects {
                for tag in tags {
                    for status in [None, Some(Status::Delivered), Some(Status::Bounced)] {
                        let [address, subject, tag] =
                            [address, subject, tag].map(|text| text.map(str::to_owned));
                        let wanted = Wanted { address, subject, tag };
                        let all = ("", PAST_EVERY_ID, 100);
                        for (after, before, limit) in
                            [all, ("", PAST_EVERY_ID, 2), ("eml_000007", "eml_000033", 100)]
                        {
                            let mut found = Vec::new();
                            let take = |email: EmailSummary| {
                                found.push(email.id);
                                Ok(found.len() < limit)
                            };
                            let range = Range { after, before, newer_than: None };
                            each_matching(reader, 1, &range, status, &wanted, take)?;
                            results.push((format!("{wanted:?} {status:?} {limit}"), found));
                        }
                    }
                }
            }
        }
        Ok(results)
    }

    /// Every search finds the same emails, in the same order, before and after they are in the
    /// index, and when some of them were deleted.
    #[tokio::test]
    async fn the_index_finds_what_reading_all_emails_finds() {
        let (database, _) = Store::open(&Location::Memory, None).unwrap();
        let fill = |tx: &mut Tx<'_>| {
            (0..48).try_for_each(|number| store(tx, 1, number))?;
            (50..60).try_for_each(|number| store(tx, 2, number))
        };
        database.write(fill).await.unwrap();
        let before = database.read(results).await.unwrap();
        assert!(before.iter().filter(|(_, found)| !found.is_empty()).count() > 50);

        let extend_all = |tx: &mut Tx<'_>| Ok(extend(tx, 1)? && extend(tx, 2)?);
        assert!(database.write(extend_all).await.unwrap());
        assert_eq!(database.read(results).await.unwrap(), before);
        let read = database.read(|reader| {
            let range = Range { after: "", before: PAST_EVERY_ID, newer_than: None };
            let wanted = Wanted { subject: Some("order".to_owned()), ..Wanted::default() };
            each_matching(reader, 1, &range, None, &wanted, |_| Ok(true))
        });
        assert_eq!(read.await.unwrap(), 0, "emails were read one by one");

        // Newer emails are found, although the index does not have them yet.
        let newer = |tx: &mut Tx<'_>| (60..70).try_for_each(|number| store(tx, 1, number));
        database.write(newer).await.unwrap();
        let mixed = database.read(results).await.unwrap();
        assert_ne!(mixed, before);
        database.write(|tx| extend(tx, 1)).await.unwrap();
        assert_eq!(database.read(results).await.unwrap(), mixed);

        database.write(|tx| emails::delete_next(tx, 1)).await.unwrap();
        assert_ne!(database.read(results).await.unwrap(), mixed);
        let indexed = |reader: Reader<'_>| {
            let sql = "SELECT COUNT(*) FROM email_indexed WHERE organization = 1";
            Ok(reader.find(sql, [], |row| row.get::<_, i64>(0))?)
        };
        assert_eq!(database.read(indexed).await.unwrap(), Some(57));
    }
}
