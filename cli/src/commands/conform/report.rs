//! The result of a run of `svc conform`. `Report::new` takes the verdict on every statement and every
//! point, and adds the dialect that follows. `compare` finds what changed since the report of
//! `--baseline`, and leaves out what this run could not try. `toml` writes the dialect for `--save`. A
//! statement that differs and a change since the baseline are failures; a point has no right answer.
//! No secret is in a shown exchange.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Dialect, Point};

use super::Level;
use super::examiner::Examiner;
use super::exchange::Shown;
use super::run::pin;
use super::seen::{CHECKS, PointCheck, Verdict};
use crate::failure::Failure;
use crate::output::{Column, View};

pub(super) const VIEW: View = View(&[
    Column::status("RESULT", "/result"),
    Column::id("CHECK", "/id"),
    Column::prose("ABOUT", "/about").droppable(),
    Column::prose("FOUND", "/found"),
    Column::below_row("REQUEST", "/exchange/request"),
    Column::below_row("RESPONSE", "/exchange/body"),
]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    Agrees,
    Differs,
    NotTried,
    /// The choice of a point cannot be told from what was seen.
    Ambiguous,
}

/// The result of a statement or a point.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) result: Grade,
    /// The statement, or the question of the point.
    about: String,
    /// The finding, or why it was not tried.
    found: Option<String>,
    /// The choice that was found for a point.
    pub(super) choice: Option<String>,
    /// The level that tries it. None does if it is absent.
    level: Option<Level>,
    exchange: Option<Shown>,
}

#[derive(Serialize, JsonSchema)]
pub struct Report {
    email_url: Option<String>,
    extraction_url: Option<String>,
    level: Level,
    pub(super) statements: Vec<Row>,
    pub(super) points: Vec<Row>,
    /// Since the report of --baseline.
    pub(super) changes: Vec<Change>,
    /// The dialect that --save writes.
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub(super) dialect: Dialect,
}

/// A statement or a point whose result is another one than before.
#[derive(Serialize, JsonSchema)]
pub(super) struct Change {
    id: String,
    before: String,
    now: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} changed: {}, before {}",
            self.id, self.now, self.before
        )
    }
}

/// An earlier report.
#[derive(Deserialize)]
pub(super) struct Baseline {
    statements: Vec<OldRow>,
    points: Vec<OldRow>,
}

#[derive(Deserialize)]
struct OldRow {
    id: String,
    result: Grade,
    choice: Option<String>,
}

impl Report {
    pub(super) fn new(examiner: &Examiner<'_>, level: Level) -> Result<Self, Failure> {
        let target = &examiner.target;
        let run = Run {
            examiner,
            level,
            secrets: examiner.secrets(),
        };
        let mut report = Self {
            email_url: target.email_url.clone(),
            extraction_url: target.extraction_url.clone(),
            level,
            statements: Vec::new(),
            points: Vec::new(),
            changes: Vec::new(),
            dialect: Dialect::default(),
        };
        let verdicts = examiner.seen.verdicts()?;
        let mut of_statements = verdicts.statements.into_iter();
        for group in &CHECKS.group {
            let is_set_up = match group.service.as_str() {
                "email" => target.email_url.is_some(),
                _ => target.extraction_url.is_some(),
            };
            for (statement, verdict) in group.statements.iter().zip(&mut of_statements) {
                let about = (statement.id.as_str(), statement.text.as_str());
                if is_set_up {
                    let row = run.row(about, Some(group.level), group.listen, verdict);
                    report.statements.push(row);
                }
            }
        }

        if target.email_url.is_some() {
            for (point, verdict) in Dialect::points().iter().zip(verdicts.points) {
                let row = run.point(*point, verdict);
                report.keep(*point, &row);
                report.points.push(row);
            }
        }

        Ok(report)
    }

    /// The dialect has what a client cannot assume.
    fn keep(&mut self, point: Point, row: &Row) {
        let Some(choice) = &row.choice else {
            return;
        };
        if choice != point.default_choice() || point == Point::Idempotency {
            pin(&mut self.dialect, point, choice);
        }
    }

    /// The ids of the statements that the service breaks.
    pub(super) fn broken(&self) -> Vec<&str> {
        let broken = self
            .statements
            .iter()
            .filter(|row| row.result == Grade::Differs);
        broken.map(|row| row.id.as_str()).collect()
    }

    pub(super) fn count(&self, grade: Grade) -> usize {
        let rows = self.statements.iter().chain(&self.points);
        rows.filter(|row| row.result == grade).count()
    }

    /// Compares the checks that both reports have tried, and those that only the earlier one could try.
    pub(super) fn compare(&mut self, baseline: &Baseline) {
        let old = baseline.statements.iter().chain(&baseline.points);
        for old in old {
            let mut now = self.statements.iter().chain(&self.points);
            let Some(now) = now.find(|row| row.id == old.id) else {
                continue;
            };
            let is_above = now.level.is_none_or(|level| level > self.level);
            let was = told(old.result, old.choice.as_deref());
            let is = told(now.result, now.choice.as_deref());
            if was != is && !is_above && old.result != Grade::NotTried {
                self.changes.push(Change {
                    id: old.id.clone(),
                    before: was,
                    now: is,
                });
            }
        }
    }

    /// The dialect as TOML, with the points that stayed ambiguous as comments.
    pub(super) fn toml(&self) -> Result<String, Failure> {
        let mut text =
            String::from("# Found by svc conform. Points with the default choice are left out.\n");
        for (point, choice) in self.dialect.iter() {
            let value = toml_edit::Value::from(choice);
            let _ = writeln!(text, "{point} ={}", value.decorated(" ", ""));
        }

        for row in self
            .points
            .iter()
            .filter(|row| row.result == Grade::Ambiguous)
        {
            let _ = writeln!(
                text,
                "# {} is ambiguous: {}",
                row.id,
                row.found.as_deref().unwrap_or_default()
            );
        }
        Ok(text)
    }
}

/// A result in one word: of a point, its choice.
fn told(grade: Grade, choice: Option<&str>) -> String {
    match (choice, grade) {
        (Some(choice), _) => choice.to_owned(),
        (None, Grade::Agrees) => "agrees".to_owned(),
        (None, Grade::Differs) => "differs".to_owned(),
        (None, Grade::NotTried) => "not tried".to_owned(),
        (None, Grade::Ambiguous) => "ambiguous".to_owned(),
    }
}

struct Run<'a> {
    examiner: &'a Examiner<'a>,
    level: Level,
    secrets: Vec<String>,
}

impl Run<'_> {
    fn point(&self, point: Point, mut verdict: Verdict) -> Row {
        let never = PointCheck::default();
        let check = CHECKS.point.get(point.as_str()).unwrap_or(&never);
        let known = self.examiner.context.clients.dialect().choice(point);
        if let Some(choice) = &verdict.choice {
            verdict.found = Some(format!("{point} = {choice}"));
            verdict.result = Some(if choice.eq_ignore_ascii_case(known) {
                Grade::Agrees
            } else {
                Grade::Differs
            });
        }

        let about = (point.as_str(), point.question());
        self.row(about, check.level, check.listen, verdict)
    }

    fn row(
        &self,
        (id, about): (&str, &str),
        level: Option<Level>,
        listen: bool,
        verdict: Verdict,
    ) -> Row {
        let result = verdict.result.unwrap_or(Grade::NotTried);
        let mut row = Row {
            id: id.to_owned(),
            result,
            about: about.to_owned(),
            found: verdict.found.filter(|found| !found.is_empty()),
            choice: verdict.choice,
            level,
            exchange: None,
        };
        if let Some(why) = self.not_tried(level, listen) {
            row.result = Grade::NotTried;
            row.found = Some(why);
        }
        if row.result != Grade::NotTried {
            let exchanges = &self.examiner.seen.exchanges;
            let shown = verdict.step.and_then(|step| exchanges.get(step.as_str()));
            row.exchange = shown.map(|it| it.shown(&self.secrets));
        }
        row
    }

    /// Why this run could not try something.
    fn not_tried(&self, level: Option<Level>, listen: bool) -> Option<String> {
        match level {
            None => Some("no level tries it".to_owned()),
            Some(level) if level > self.level => Some(if listen {
                format!("--level {level} with --listen tries it")
            } else {
                format!("--level {level} tries it")
            }),
            Some(_) if listen && self.examiner.receiver.is_none() => {
                Some("--listen tries it".to_owned())
            }
            Some(_) => None,
        }
    }
}
