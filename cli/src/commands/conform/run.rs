//! Runs the steps of `steps.toml`, one after the other. Most are requests; the others find
//! out how the service takes the key, a cursor and a batch, make something, or wait for a delivery.
//! Later steps use the ids that earlier ones have found.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use svc_sdk::email::Email;
use svc_sdk::{Dialect, Point};
use tokio::time::{Instant, timeout};

use super::Level;
use super::examiner::Examiner;
use super::made::Kind;
use crate::failure::{Failure, Kind as FailureKind};
use crate::settings::Key;

/// How long an email may take until it is sent.
const SENT_WITHIN: Duration = Duration::from_secs(20);

/// The steps of each level.
pub(super) static STEPS: LazyLock<BTreeMap<Level, Vec<Step>>> = LazyLock::new(|| {
    toml::from_str(include_str!("steps.toml")).expect("a test reads the declarations")
});

/// A request, or something that a request does not express. `{STEP}` in its texts is the id that this
/// step has found.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Step {
    pub(super) name: String,
    /// The step without whose id this one is left out.
    needs: String,
    /// A method and a path.
    request: String,
    /// JSON, or nothing.
    body: String,
    /// Sends the request until this filter gives true.
    until: Option<String>,
    /// The step whose thing the request removes.
    ends: String,
    pub(super) makes: Option<Kind>,
    /// The name, URL, address or idempotency key, or the URL at which a delivery is received.
    pub(super) with: String,
    pub(super) events: Vec<String>,
    pub(super) subject_length: usize,
    does: Option<Act>,
    /// The attempts, one after the other.
    tries: Vec<String>,
    /// The step whose delivery should be repeated.
    repeats: String,
    /// The status of our endpoint from this step on.
    answers: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    FindKey,
    FindAudience,
    UseWrongKey,
    FollowCursor,
    WalkList,
    SendBatch,
    Receive,
}

impl Examiner<'_> {
    pub(super) async fn follow(&mut self, level: Level) -> Result<(), Failure> {
        for step in STEPS.get(&level).into_iter().flatten() {
            if !step.needs.is_empty() && self.seen.id(&step.needs).is_none() {
                continue;
            }
            if let (Some(status), Some(receiver)) = (step.answers, &self.receiver) {
                receiver.respond(status);
            }
            match (step.does, step.makes) {
                (_, Some(kind)) => self.make(kind, step).await?,
                (None, None) => self.request_until(step).await?,
                (Some(Act::FindKey), _) => self.find_key(step).await?,
                (Some(Act::FindAudience), _) => self.find_audience(step).await?,
                (Some(Act::UseWrongKey), _) => self.use_wrong_key(step).await?,
                (Some(Act::FollowCursor), _) => self.follow_cursor(step).await?,
                (Some(Act::WalkList), _) => self.walk_list(step).await?,
                (Some(Act::SendBatch), _) => self.send_batch(step).await?,
                (Some(Act::Receive), _) => {
                    let url = self.seen.filled(&step.with).unwrap_or_default();
                    self.receive(&step.name, &url, &step.repeats).await?;
                }
            }
        }
        Ok(())
    }

    async fn request_until(&mut self, step: &'static Step) -> Result<(), Failure> {
        let until = Instant::now() + SENT_WITHIN;
        let mut pause = Duration::from_millis(50);
        while let Some(call) = self.request(&step.request, &step.body) {
            let is_success = self.call(&step.name, call).await?.is_some();
            if let (true, Some(made)) = (is_success, &mut self.made) {
                made.remove(&step.ends)?;
            }
            let is_done = match &step.until {
                Some(filter) => self.seen.ask(filter)? == true,
                None => true,
            };
            if is_done || Instant::now() > until {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Sends a GET for each scheme until one is accepted, those that `WWW-Authenticate` names first.
    async fn find_key(&mut self, step: &'static Step) -> Result<(), Failure> {
        let known = self.context.clients.dialect().clone();
        let with = |header: &str, scheme: &str| {
            let mut dialect = known.clone();
            pin(&mut dialect, Point::KeyHeader, header);
            pin(&mut dialect, Point::KeyScheme, scheme);
            dialect
        };

        let scheme_of = |dialect: &Dialect| dialect.choice(Point::KeyScheme).to_owned();
        let mut left = vec![known.clone()];
        for (header, scheme) in step.tries.iter().filter_map(|it| it.split_once(' ')) {
            let is_known = known.is(Point::KeyHeader, header) && known.is(Point::KeyScheme, scheme);
            if !is_known {
                left.push(with(header, scheme));
            }
        }

        let mut refused: Vec<(u16, Dialect)> = Vec::new();
        while !left.is_empty() {
            let dialect = left.remove(0);
            self.speak(dialect.clone())?;
            let Some(list) = self.request(&step.request, "") else {
                return Ok(());
            };
            let accepted = self.call(&step.name, list).await?;
            let answer = self.seen.exchanges.get(step.name.as_str());
            let status = answer.map_or(0, |it| it.status);
            let is_scope = status == 403 && answer.is_some_and(|it| is_about_scope(&it.text()));
            if (accepted.is_some() && self.seen.is_ok(&step.name)?) || is_scope {
                self.seen.key = Some(dialect);
                return Ok(());
            }
            // The word as the service spells it; what has a name of its own, under that.
            let challenge = answer
                .and_then(|it| it.header("www-authenticate"))
                .unwrap_or_default();
            let word = challenge.split([' ', ',']).next().unwrap_or_default();
            if !word.is_empty() {
                let named = with("authorization", word);
                let scheme = scheme_of(&named);
                left.sort_by_key(|it| scheme_of(it) != scheme);
                let tried = refused.iter().map(|(_, it)| it).chain([&dialect]);
                if !tried.chain(&left).any(|it| scheme_of(it) == scheme) {
                    left.insert(0, named);
                }
            }
            // Some name the header instead: `ApiKey name="X-Key", type="header"`.
            let header = challenge.split_once("name=\"");
            if let Some((header, _)) = header.and_then(|(_, rest)| rest.split_once('"')) {
                let named = with(header, "bare");
                if !refused.iter().any(|(_, it)| *it == named) && dialect != named {
                    left.insert(0, named);
                }
            }
            refused.push((status, dialect));
        }

        // A key without the scope is refused, too, but otherwise than one that is not read.
        let mut odd = refused.iter().filter(|(status, _)| *status == 403);
        if let (Some((_, dialect)), None) = (odd.next(), odd.next()) {
            self.seen.key = Some(dialect.clone());
            return self.speak(dialect.clone());
        }

        let tried = step.tries.join(", ").replace(' ', ": ").replace(",:", ",");
        Err(Failure::new(
            FailureKind::Unauthenticated,
            "the email service accepts the key in none of the usual ways",
        )
        .code("key_not_accepted")
        .hint(format!(
            "check the key; tried were {tried}\nif the service has another way: {}",
            self.context
                .svc("config set dialect key-header=NAME,key-scheme=bare", &[])
        )))
    }

    async fn find_audience(&mut self, step: &'static Step) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let audiences = self.call(&step.name, email.audiences().list()).await?;
        if let Some(first) = audiences.and_then(|list| list.items.into_iter().next()) {
            self.keep_id(&step.name, &first.id);
        }
        Ok(())
    }

    async fn use_wrong_key(&mut self, step: &'static Step) -> Result<(), Failure> {
        let Some(url) = self.target.extraction_url.clone() else {
            return Ok(());
        };
        let key = Key::parse("svc-conform-is-not-a-key", "conform")?;
        let own = self.extraction.replace(self.extraction_client(&url, &key)?);
        let asked = self.request_until(step).await;
        self.extraction = own;
        asked
    }

    /// Tries the names that the parameter for a cursor usually has, if the page has a cursor.
    async fn follow_cursor(&mut self, step: &'static Step) -> Result<(), Failure> {
        let page = r#"$seen.at["contacts.page"]"#;
        let cursor = self.seen.ask(&format!("{page} | .body | cursor"))?;
        let Some(cursor) = cursor.as_str() else {
            return Ok(());
        };

        for name in &step.tries {
            let Some(call) = self.request(&step.request, "") else {
                return Ok(());
            };
            let next = self
                .call(&step.name, call.query(name.as_str(), cursor))
                .await?;
            let first = self.seen.exchanges.get("contacts.page");
            if next.is_some_and(|next| first.is_some_and(|first| next.body[..] != first.body[..])) {
                self.keep_id("cursor", name);
                break;
            }
        }
        Ok(())
    }

    /// Reads the list of audiences to its end, as every command that needs all of it does.
    async fn walk_list(&mut self, step: &'static Step) -> Result<(), Failure> {
        let known = self.target.dialect.clone();
        let mut dialect = known.clone();
        if let Some(cursor) = self.seen.id("cursor") {
            pin(&mut dialect, Point::CursorParam, cursor);
        }
        self.speak(dialect)?;
        let Some(email) = self.email.clone() else {
            return Ok(());
        };

        let _progress = self.context.out.progress(&step.name);
        let reading = email.audiences().stream().into_list();
        let read = timeout(self.context.settings.timeout.value, reading).await;
        self.drop_exchanges();
        if let Ok(Ok(list)) = read
            && list.is_complete()
        {
            let mut names = list.iter().map(|audience| audience.name.as_deref());
            let has_ours = names.any(|name| name == Some(self.run()));
            self.keep_id(&step.name, if has_ours { "found" } else { "whole" });
        }

        self.speak(known)
    }

    /// Finds out from whom emails can be sent. Returns whether there is a sender.
    pub(super) fn prepare_email(
        &mut self,
        from: Option<&str>,
        to: &[String],
    ) -> Result<bool, Failure> {
        let sender = match (from, self.seen.ask("verified_domain")?) {
            (Some(from), _) => from.to_owned(),
            (None, Value::String(domain)) => format!("svc-conform@{domain}"),
            _ => {
                if self.email.is_some() {
                    self.context.out.warning("no email was sent: the service lists no verified domain; --from names the sender");
                }
                return Ok(false);
            }
        };
        let subject = format!("Test by svc conform ({})", self.run());
        let email = Email::new(sender, to, subject).text("svc conform tests this email service.");
        self.template = Some(email);
        Ok(self.email.is_some())
    }

    /// Sends a batch with an email whose sender cannot be verified, in each of the usual bodies until
    /// one is understood.
    async fn send_batch(&mut self, step: &'static Step) -> Result<(), Failure> {
        let Some(email) = self.template.clone() else {
            return Ok(());
        };

        let mut unverified = email.clone();
        unverified.from = format!("svc-conform@{}.invalid", self.run());
        let emails = [email, unverified];
        let known = self.target.dialect.clone();
        let first = known.choice(Point::BatchBody).to_owned();
        let others = step.tries.iter().filter(|name| **name != first);
        for body in std::iter::once(&first).chain(others) {
            let mut dialect = known.clone();
            pin(&mut dialect, Point::BatchBody, body);
            self.speak(dialect)?;
            let Some(email) = &self.email else {
                break;
            };
            let batch = email.emails().send_batch(&emails);
            let sent = self.call(&step.name, batch).await?;
            let Some(answer) = self.seen.exchanges.get(step.name.as_str()) else {
                break;
            };
            // A service that refuses the sender has understood the body.
            let text = answer.text().to_lowercase();
            let words = ["from", "sender", "verified", "domain"];
            let names_sender = words.iter().any(|word| text.contains(word));
            if self.seen.is_ok(&step.name)? || names_sender {
                let accepted = sent.map_or(0, |batch| batch.accepted().count());
                self.keep_id("batch-body", body);
                self.keep_id("batch-accepted", &accepted.to_string());
                break;
            }
        }

        self.speak(known)
    }
}

/// Whether a response to a valid key says that it lacks a scope.
fn is_about_scope(text: &str) -> bool {
    let words = [
        "scope",
        "permission",
        "restricted",
        "privilege",
        "ability",
        "role",
    ];
    words.iter().any(|word| text.to_lowercase().contains(word))
}

/// Sets a choice that is valid.
pub(super) fn pin(dialect: &mut Dialect, point: Point, choice: &str) {
    // Free text of a service may be no choice.
    let _ = dialect.pin(point, choice);
}
