//! The table `fault`: a fault affects the next matching requests, or steps of SMTP sessions
//! (`docs/control-interface.md#faults`).

use regex_lite::Regex;
use rusqlite::Row as Columns;
use svc_sdk::Operation;

use crate::faults::fault_wire::{Fault, FaultHit, NewFault, SmtpStep, operation as named};
use crate::model::{Code, Failure, Result, id};
use crate::store::{Reader, Row, Tx, json};

/// Maximum number of faults of an organization, and of the bytes of their definitions together: a
/// list has all of them (`reference-server/LIMITS.md`).
const MAX_FAULTS: i64 = 200;
const MAX_DEFINITIONS: i64 = 16 << 20;

/// Maximum number of hits saved for one fault. Further hits are not saved.
const MAX_HITS: usize = 1000;

impl Row for Fault {
    const TABLE: &'static str = "fault";
}

impl NewFault {
    /// Whether it affects the next one that it matches, after so many of them.
    fn is_turn(&self, before: i64) -> bool {
        let share = self.share.unwrap_or(1.0);
        // So that three tenths are 3 of 10.
        let affected = |count: i64| (count as f64 * share + 1e-9).floor();
        affected(before + 1) > affected(before)
    }

    /// How many it affects.
    pub(crate) fn limit(&self) -> u32 {
        let is_unlimited = self.share.is_some() || self.greylist == Some(true);
        self.times
            .unwrap_or(if is_unlimited { u32::MAX } else { 1 })
    }
}

/// Stores a fault.
pub(crate) fn add(tx: &Tx<'_>, organization: i64, new: NewFault) -> Result<Fault> {
    let fault = Fault {
        id: id::new(id::FAULT),
        remaining: new.limit(),
        definition: new,
        hits: Vec::new(),
    };
    tx.insert(organization, &fault)?;
    let sql = "SELECT COUNT(*), SUM(octet_length(data) - coalesce(octet_length(data -> 'hits'), 0))
               FROM fault WHERE organization = ?1";
    let present: Option<(i64, i64)> = tx
        .reader()
        .find(sql, [organization], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if present.is_some_and(|(count, size)| count > MAX_FAULTS || size > MAX_DEFINITIONS) {
        let message = format!(
            "an organization can have at most {MAX_FAULTS} faults with {} MiB; remove some",
            MAX_DEFINITIONS >> 20
        );
        return Err(Failure::new(Code::Conflict, message)
            .with(|details| details.limit = Some(MAX_FAULTS as usize)));
    }

    Ok(fault)
}

/// Applies the faults to a request. Returns the ID of the one that takes effect, and what it does.
pub(crate) fn trigger(
    tx: &Tx<'_>,
    organization: i64,
    operation: Operation,
) -> Result<Option<(String, NewFault)>> {
    let hit = FaultHit {
        at: tx.now.into(),
        operation: operation.to_string(),
        from: None,
        to: Vec::new(),
    };
    let is_met = |fault: &Fault| {
        let wanted = fault.definition.operation.as_deref().and_then(named);
        fault.definition.smtp.is_none() && wanted.is_none_or(|wanted| wanted == operation)
    };
    apply(tx, Some(organization), &hit, is_met)
}

/// Applies the faults of an organization, or before it is known of all, to a step of an SMTP session.
pub(crate) fn trigger_smtp(
    tx: &Tx<'_>,
    organization: Option<i64>,
    step: SmtpStep,
    from: Option<String>,
    to: Vec<String>,
) -> Result<Option<NewFault>> {
    let hit = FaultHit {
        at: tx.now.into(),
        operation: format!("smtp {step}"),
        from,
        to,
    };
    let is_met = |fault: &Fault| {
        let NewFault {
            smtp,
            from,
            to,
            greylist,
            ..
        } = &fault.definition;
        let is_from = from.as_ref().is_none_or(|pattern| {
            let sender = hit.from.as_deref().unwrap_or_default();
            matches(pattern, sender)
        });
        let is_to = to
            .as_ref()
            .is_none_or(|pattern| hit.to.iter().any(|to| matches(pattern, to)));
        let is_known = |past: &FaultHit| past.from == hit.from && past.to == hit.to;
        let is_over = *greylist == Some(true) && fault.hits.iter().any(is_known);
        *smtp == Some(step) && is_from && is_to && !is_over
    };
    Ok(apply(tx, organization, &hit, is_met)?.map(|(_, fault)| fault))
}

/// The oldest fault that is met and not used up takes effect.
fn apply(
    tx: &Tx<'_>,
    organization: Option<i64>,
    hit: &FaultHit,
    is_met: impl Fn(&Fault) -> bool,
) -> Result<Option<(String, NewFault)>> {
    let sql = "SELECT data, skip, organization FROM fault
               WHERE (?1 IS NULL OR organization = ?1) AND times > 0 ORDER BY id";
    let read = |row: &Columns<'_>| Ok((json(row, 0)?, row.get(1)?, row.get(2)?));
    let faults: Vec<(Fault, i64, i64)> = tx.reader().all(sql, [organization], read)?;
    for (mut fault, skip, organization) in faults {
        if !is_met(&fault) {
            continue;
        }
        let affected = fault.definition.limit() - fault.remaining;
        if skip > 0 || !fault.definition.is_turn(i64::from(affected) - skip) {
            tx.execute(
                "UPDATE fault SET skipped = skipped + 1 WHERE id = ?1",
                [&fault.id],
            )?;
            continue;
        }
        fault.remaining -= 1;
        if fault.hits.len() < MAX_HITS {
            fault.hits.push(hit.clone());
        }
        tx.update(organization, &mut fault)?;
        return Ok(Some((fault.id, fault.definition)));
    }
    Ok(None)
}

/// Whether an address is like a pattern, in which `*` stands for any text.
fn matches(pattern: &str, address: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let parts: Vec<_> = pattern.split('*').map(regex_lite::escape).collect();
    let pattern = Regex::new(&format!("(?s)^{}$", parts.join(".*")));
    pattern.is_ok_and(|pattern| pattern.is_match(&address.to_lowercase()))
}

/// Whether any organization has a fault that is not used up.
pub(crate) fn exist(reader: Reader<'_>) -> Result<bool> {
    Ok(reader
        .find(
            "SELECT 1 FROM fault WHERE times > 0 LIMIT 1",
            [],
            |_| Ok(()),
        )?
        .is_some())
}

/// Removes all faults of an organization.
pub(crate) fn clear(tx: &Tx<'_>, organization: i64) -> Result<()> {
    tx.execute("DELETE FROM fault WHERE organization = ?1", [organization])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::organizations::organization_rows;
    use crate::store::Store;

    #[tokio::test]
    async fn hits_do_not_count_for_the_limit() {
        let (store, _) = Store::open(None, None, svc_sdk::Dialect::default()).unwrap();
        let written = store.write(|tx| {
            let organization = organization_rows::insert(tx, None, 0)?.number;
            add(tx, organization, NewFault::default())?;
            let hits = "UPDATE fault SET data = json_set(data, '$.hits[0]', ?1)";
            tx.execute(hits, ["x".repeat(17 << 20)])?;
            add(tx, organization, NewFault::default())?;
            let large = "UPDATE fault SET data = json_set(data, '$.body', ?1)";
            tx.execute(large, ["x".repeat(17 << 20)])?;
            add(tx, organization, NewFault::default())
        });
        assert_eq!(written.await.unwrap_err().code(), Code::Conflict);
    }

    #[test]
    fn a_star_in_a_pattern_is_any_text() {
        for (pattern, address, expected) in [
            ("ada@a.test", "Ada@A.test", true),
            ("ada@a.test", "ada@a.test.example", false),
            ("*@slow.test", "bo@slow.test", true),
            ("*@slow.test", "bo@slow.test.example", false),
            ("a*a@*.test", "ada@b.test", true),
            ("a*a@*.test", "a@b.test", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, address), expected, "{pattern} {address}");
        }
    }

    #[test]
    fn a_share_is_spread_evenly() {
        for (share, expected) in [
            (0.5, "-x-x-x-x-x"),
            (0.3, "---x--x--x"),
            (1.0, "xxxxxxxxxx"),
        ] {
            let fault = NewFault {
                share: Some(share),
                ..NewFault::default()
            };
            let turns = (0..10).map(|before| if fault.is_turn(before) { 'x' } else { '-' });
            assert_eq!(turns.collect::<String>(), expected);
        }
    }
}
