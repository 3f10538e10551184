//! Everything that a run has seen, and what the checks of `checks.toml` tell of it. They are jq filters,
//! compiled as one program with the definitions of `checks.jq`. Nothing here sends a request.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};
use svc_sdk::{Dialect, Point};

use super::Level;
use super::exchange::Exchange;
use super::report::Grade;
use crate::failure::Failure;
use crate::output::Filter;

/// The definitions that the filters of the checks use.
const DEFINITIONS: &str = include_str!("checks.jq");

pub(super) static CHECKS: LazyLock<Checks> = LazyLock::new(|| {
    toml::from_str(include_str!("checks.toml")).expect("a test reads the declarations")
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checks {
    /// The statements of the reference.
    pub(super) group: Vec<Group>,
    /// The points that it leaves open, by their name.
    pub(super) point: BTreeMap<String, PointCheck>,
}

/// Statements about one service that one level tries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) service: String,
    pub(super) level: Level,
    /// Whether deliveries have to be received.
    #[serde(default)]
    pub(super) listen: bool,
    pub(super) statements: Vec<Statement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) step: String,
    expect: String,
    /// The problem, if the filter gives false.
    #[serde(default)]
    problem: String,
}

/// How a point is found out.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PointCheck {
    /// The level that tries it. `None`: none does.
    pub(super) level: Option<Level>,
    pub(super) listen: bool,
    pub(super) step: String,
    /// Which responses count: success, error or any.
    of: String,
    find: String,
    /// A choice, and the filter that finds it.
    choices: Vec<[String; 2]>,
    /// Whether the client reads the response although no choice describes it.
    is_read: String,
}

impl Default for PointCheck {
    fn default() -> Self {
        Self {
            level: None,
            listen: false,
            step: String::new(),
            of: "success".to_owned(),
            find: "empty".to_owned(),
            choices: Vec::new(),
            is_read: "false".to_owned(),
        }
    }
}

/// The verdict of a check.
#[derive(Deserialize)]
pub(super) struct Verdict {
    pub(super) result: Option<Grade>,
    pub(super) found: Option<String>,
    /// The choice that was found for a point.
    pub(super) choice: Option<String>,
    /// The step whose exchange shows it.
    pub(super) step: Option<String>,
}

/// The verdicts on all statements and on all points, in their order.
#[derive(Deserialize)]
pub(super) struct Verdicts {
    pub(super) statements: Vec<Verdict>,
    pub(super) points: Vec<Verdict>,
}

#[derive(Default)]
pub(super) struct Seen {
    /// The last exchange of each step.
    pub(super) exchanges: BTreeMap<&'static str, Exchange>,
    /// The scheme with which the service takes the key.
    pub(super) key: Option<Dialect>,
    /// The ids that the client has read, by their step, and the name of the run.
    pub(super) ids: BTreeMap<&'static str, String>,
    /// The signing secrets of webhooks, by the step that created them.
    pub(super) secrets: BTreeMap<&'static str, String>,
}

impl Seen {
    /// Judges all statements and points.
    pub(super) fn verdicts(&self) -> Result<Verdicts, Failure> {
        let statements = CHECKS.group.iter().flat_map(|group| &group.statements);
        let statements = list(statements.map(Statement::filter));
        let points = list(Dialect::points().iter().map(|point| filter(*point)));
        let told = self.ask(&format!("{{statements: {statements}, points: {points}}}"))?;
        serde_json::from_value(told).map_err(|error| Failure::other(error.to_string()))
    }

    /// Whether the last response to a step is a success that says nothing else.
    pub(super) fn is_ok(&self, step: &str) -> Result<bool, Failure> {
        Ok(self.ask(&format!("$seen.at[{}] | ok", quoted(step)))? == true)
    }

    /// The result of a filter, in which everything of `checks.jq` is defined.
    pub(super) fn ask(&self, filter: &str) -> Result<Value, Failure> {
        let at = self.exchanges.iter();
        let key = self.key.as_ref().map(|dialect| {
            let points = [Point::KeyHeader, Point::KeyScheme, Point::KeyUser];
            BTreeMap::from(points.map(|point| (point.as_str(), dialect.choice(point))))
        });
        let seen = json!({
            "at": at.map(|(step, it)| (*step, it.to_json(&self.secrets))).collect::<BTreeMap<_, _>>(),
            "run": self.ids.get("run"),
            "key": key,
            "ids": self.ids,
            "secrets": self.secrets,
        });
        let mut told = Value::Null;
        Filter::compile(&format!("{DEFINITIONS}\n{filter}"))?.run(&seen, |value| {
            told = value;
            Ok(())
        })?;
        Ok(told)
    }
}

impl Statement {
    fn filter(&self) -> String {
        let step = quoted(&self.step);
        let problem = quoted(&self.problem);
        format!("judged({step}; {problem}; {})", self.expect)
    }
}

fn filter(point: Point) -> String {
    let unknown = PointCheck::default();
    let check = CHECKS.point.get(point.as_str()).unwrap_or(&unknown);
    let choice =
        |[name, filter]: &[String; 2]| format!("(select(is_so({filter})) | {}),", quoted(name));
    let find = if check.choices.is_empty() {
        check.find.clone()
    } else {
        let choices: String = check.choices.iter().map(choice).collect();
        format!("first({choices} none_of_them({}))", check.is_read)
    };
    let [step, of, default] = [&*check.step, &*check.of, point.default_choice()].map(quoted);
    format!("pointed({step}; {of}; {default}; {find})")
}

fn list(filters: impl Iterator<Item = String>) -> String {
    format!("[{}]", filters.collect::<Vec<_>>().join(",\n"))
}

/// A text in a filter.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::run::{STEPS, Step};
    use super::*;

    /// The steps that a run at a level takes.
    fn up_to(level: Level) -> impl Iterator<Item = &'static Step> {
        STEPS.range(..=level).flat_map(|(_, steps)| steps)
    }

    fn statements() -> impl Iterator<Item = &'static Statement> {
        CHECKS.group.iter().flat_map(|group| &group.statements)
    }

    #[test]
    fn every_point_is_declared_and_every_check_has_a_step_of_its_level() {
        let declared: BTreeSet<&str> = CHECKS.point.keys().map(String::as_str).collect();
        let points = Dialect::points().iter().map(|point| point.as_str());
        assert_eq!(declared, points.collect());
        let of_statements = CHECKS.group.iter().flat_map(|group| {
            let steps = group.statements.iter().map(|it| it.step.as_str());
            steps.map(|step| (group.level, step))
        });
        let of_points = CHECKS.point.values();
        let of_points = of_points.filter_map(|it| Some((it.level?, it.step.as_str())));
        for (level, step) in of_statements.chain(of_points) {
            let is_taken = up_to(level).any(|known| known.name == step);
            assert!(is_taken, "no step at {level} is called {step}");
        }
    }

    /// All steps were answered with the same response.
    fn seen(status: u16, body: &str) -> Seen {
        let mut seen = Seen::default();
        for step in up_to(Level::Send) {
            let request_body =
                format!(r#"{{"url": "https://a.example", "step": "{}"}}"#, step.name);
            let exchange = Exchange {
                status,
                body: body.as_bytes().to_vec(),
                request_body: request_body.into_bytes(),
                is_delivery: step.name.starts_with("delivery."),
                ..Exchange::default()
            };
            seen.exchanges.insert(&step.name, exchange);
        }

        seen.ids.insert("run", "run".to_owned());
        seen.ids.insert("batch-accepted", "2".to_owned());
        for webhook in [
            "webhooks.create",
            "webhooks.events",
            "extraction.webhooks.create",
        ] {
            seen.secrets.insert(webhook, "whsec_12345678".to_owned());
        }

        seen
    }

    fn answered(seen: &mut Seen, step: &'static str, status: u16, body: &str) {
        let exchange = Exchange {
            status,
            body: body.as_bytes().to_vec(),
            ..Exchange::default()
        };
        seen.exchanges.insert(step, exchange);
    }

    fn verdict_on(seen: &Seen, point: &str) -> (Option<Grade>, Option<String>) {
        let verdicts = seen.verdicts().expect("verdicts").points;
        let mut points = Dialect::points().iter().zip(verdicts);
        let found = points.find(|(known, _)| known.as_str() == point);
        let (_, verdict) = found.expect("a point");
        (verdict.result, verdict.choice)
    }

    #[test]
    fn a_point_is_not_ambiguous_where_the_client_reads_the_answer() {
        let mut seen = Seen::default();
        answered(
            &mut seen,
            "audiences.missing",
            404,
            r#"{"message":"audience not found"}"#,
        );
        assert_eq!(
            verdict_on(&seen, "error-format"),
            (Some(Grade::Agrees), None)
        );
        answered(&mut seen, "audiences.missing", 404, r#"{"why":7}"#);
        assert_eq!(
            verdict_on(&seen, "error-format"),
            (Some(Grade::Ambiguous), None)
        );

        answered(
            &mut seen,
            "audiences.created",
            200,
            r#"{"ok":{"audience":{"name":"run"}}}"#,
        );
        assert_eq!(
            verdict_on(&seen, "resource-shape"),
            (Some(Grade::Ambiguous), None)
        );
        answered(
            &mut seen,
            "audiences.list",
            200,
            r#"{"_embedded":{"audiences":[{"id":1}]}}"#,
        );
        answered(
            &mut seen,
            "domains.list",
            200,
            r#"{"_embedded":{"domains":[{"id":1}]}}"#,
        );
        assert_eq!(
            verdict_on(&seen, "list-items"),
            (Some(Grade::Ambiguous), None)
        );
        seen.ids.insert("audiences.create", "1".to_owned());
        assert_eq!(
            verdict_on(&seen, "resource-shape"),
            (Some(Grade::Agrees), None)
        );
        assert_eq!(verdict_on(&seen, "list-items"), (Some(Grade::Agrees), None));
    }

    #[test]
    fn a_list_that_does_not_end_tells_nothing_of_its_pages() {
        let mut seen = Seen::default();
        let page = r#"{"audiences":[],"paging":{"next":"/api/v1/audiences?page=2"}}"#;
        answered(&mut seen, "contacts.page", 200, page);
        answered(&mut seen, "audiences.list.created", 200, page);
        assert_eq!(
            verdict_on(&seen, "list-pages"),
            (Some(Grade::Ambiguous), None)
        );
        seen.ids.insert("audiences.walk", "found".to_owned());
        assert_eq!(verdict_on(&seen, "list-pages").1.as_deref(), Some("link"));
    }

    #[test]
    fn a_field_inside_another_is_found_by_the_way_to_it() {
        let mut seen = Seen::default();
        seen.ids.insert("run", "run".to_owned());
        for (step, state) in [
            ("contacts.list.updated", "subscribed"),
            ("contacts.opt-out", "unsubscribed"),
            ("contacts.list.opted-out", "unsubscribed"),
        ] {
            let body = format!(
                r#"{{"contacts":[{{"email":"run-1@example.com","consent":{{"state":"{state}"}}}}]}}"#
            );
            answered(&mut seen, step, 200, &body);
        }

        let (_, choice) = verdict_on(&seen, "opt-out");
        assert_eq!(choice.as_deref(), Some("consent.state"));

        let delivery =
            r#"{"signature":{"t":1},"event-data":{"event":"email.sent","to":"a@b.test"}}"#;
        let exchange = Exchange {
            request_body: delivery.as_bytes().to_vec(),
            is_delivery: true,
            ..Exchange::default()
        };
        seen.exchanges.insert("delivery.event", exchange);
        let (_, choice) = verdict_on(&seen, "delivery-event");
        assert_eq!(choice.as_deref(), Some("event-data.event"));
    }

    #[test]
    fn every_statement_can_be_broken() {
        let mine = r#"[
            {"name": "run", "active": true, "signingSecret": "whsec_12345678", "secret": "whsec_12345678"},
            {"email": "run-1@example.com"}, {"email": "run-2@example.com"}, {"name": "run.example"},
            {"url": "https://a.example", "events": ["email.delivered"], "active": true},
            {"mx_verified": true, "spf_verified": 1, "dkim_verified": true, "dmarc_verified": true, "verified": false},
            {"status": "sent"}
        ]"#;
        let mut left: BTreeSet<&str> = statements().map(|it| it.id.as_str()).collect();
        let mut no_delivery = seen(200, "{}");
        no_delivery
            .exchanges
            .insert("delivery.test", Exchange::default());
        let odd = seen(200, r#"{"a": {"status": "odd"}}"#);
        for seen in [seen(500, ""), seen(200, mine), no_delivery, odd] {
            let verdicts = seen.verdicts().expect("verdicts").statements;
            for (statement, verdict) in statements().zip(verdicts) {
                if verdict.result == Some(Grade::Differs) {
                    left.remove(statement.id.as_str());
                }
            }
        }

        assert_eq!(left, BTreeSet::new(), "nothing breaks them");
    }
}
