//! The SDK reads the same, whichever dialect the server speaks: every choice of every point alone,
//! and many combinations.

use std::fmt::Debug;
use std::time::Duration;

use svc_sdk::email::{Email, NewContact, NewWebhook};
use svc_sdk::{Dialect, Error, Point};

use crate::world::World;

/// What a point that takes any text is set to.
fn free_choice(point: Point) -> &'static str {
    match point {
        Point::KeyHeader => "x-secret",
        Point::KeyScheme => "ApiKey",
        Point::IdHeader => "x-reference",
        Point::EventHeader => "x-happened",
        Point::BatchBody => "messages",
        Point::ListItems => "rows",
        Point::OptOut => "!silent",
        Point::DomainRecords => "entries",
        Point::CancelledWord => "withdrawn",
        Point::ScheduledWord => "parked",
        Point::IdField => "ref_no",
        Point::StatusField => "phase",
        Point::CursorParam => "position",
        Point::TestStatusField => "answered",
        Point::MetadataField => "extra_data",
        _ => "custom_name",
    }
}

fn choices(point: Point) -> Vec<&'static str> {
    let mut all: Vec<&str> = point.choices().iter().map(|choice| choice.name).collect();
    all.extend(point.free_text().map(|_| free_choice(point)));
    all
}

/// What a test sees of a service, by way of the SDK.
#[derive(Default)]
struct Seen(Vec<String>);

impl Seen {
    fn note(&mut self, what: &str, value: impl Debug) {
        self.0.push(format!("{what}: {value:?}"));
    }
}

fn kind<T: Debug>(result: Result<T, Error>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.kind().name().to_owned(),
    }
}

/// Goes through the operations whose responses a dialect changes.
async fn look(world: &World, is_whole: bool) -> Result<Seen, Error> {
    let mut seen = Seen::default();
    let client = &world.email;

    for name in ["a", "b", "c"] {
        seen.note("audience", client.audiences().create(name).await?.name);
    }

    let audiences = client.audiences().stream().page_size(2).into_list().await?;
    let names: Vec<_> = audiences.iter().map(|audience| &audience.name).collect();
    seen.note("audiences", (names, audiences.is_complete()));

    let audience = &audiences[0].id;
    let people = ["ada@x.test", "bob@x.test", "eve@x.test"];
    for address in people {
        let contact = NewContact::new(address)
            .metadata("plan", "pro")
            .topic("news");
        let contact = client.contacts().create(audience, contact).await?;
        seen.note("contact", (contact.email, contact.metadata, contact.topics));
    }

    let mut contacts = client.contacts().stream(audience).page_size(2);
    while let Some(contact) = contacts.try_next().await? {
        seen.note(
            "contact",
            (&contact.email, contact.name, contact.subscribed),
        );
        let update = svc_sdk::email::ContactUpdate::new().subscribed(false);
        let updated = client.contacts().update(&contact.id, update).await?;
        seen.note("opted out", updated.subscribed);
    }

    let domain = client.domains().create("new.test").await?;
    seen.note(
        "domain",
        (&domain.name, domain.is_verified(), domain.mx_verified),
    );
    for record in domain.dns_records() {
        // The selector of a key is random.
        let name = record.name.as_deref().unwrap_or_default();
        let name = name
            .split_once("._domainkey.")
            .map_or(name, |(_, domain)| domain);
        let type_and_name = (&record.record_type, name);
        seen.note("record", (&record.kind, type_and_name, record.priority));
        assert!(record.value.is_some());
    }

    let checked = client.domains().verify(&domain.id).await?;
    seen.note("checked", (checked.verified, checked.dkim_verified));
    seen.note(
        "domains",
        client.domains().stream().into_list().await?.len(),
    );

    world.verified_domain("shop.test").await;
    let email = Email::new("hello@shop.test", "ada@x.test", "Hi").text("Hello");
    let accepted = client.emails().send(&email).await?;
    assert!(accepted.id.starts_with("eml_"), "{}", accepted.id);

    let wait = client.emails().wait(&accepted.id);
    let [first, most] = [10, 50].map(Duration::from_millis);
    let found = wait.poll_interval(first, most).await?;
    seen.note(
        "email",
        (found.status, found.subject, found.created_at.is_some()),
    );

    let later = email.clone().scheduled_at("2999-01-01T00:00:00Z");
    let scheduled = client.emails().send(&later).await?;
    seen.note("scheduled", scheduled.scheduled_at);
    client.emails().cancel(&scheduled.id).await?;
    let cancelled = client.emails().get(&scheduled.id).await?;
    seen.note("cancelled", (cancelled.status, cancelled.scheduled_at));

    let other = Email::new("hello@other.test", "ada@x.test", "Hi").text("Hello");
    let batch = client.emails().send_batch(&[email.clone(), other]).await;
    // All are refused with the one; otherwise, the one is.
    let indices = if is_whole {
        batch.expect_err("the batch is refused");
        (true, vec![Some(0)], vec![Some(1)])
    } else {
        let batch = batch?;
        let accepted = batch.accepted().map(|(index, _)| index).collect();
        let refused = batch.refused().map(|(index, _)| index).collect();
        (batch.is_complete(), accepted, refused)
    };
    seen.note("batch", indices);

    let hook = NewWebhook::new("http://127.0.0.1:9/", ["email.sent"]);
    let webhook = client.webhooks().create(hook).await?;
    seen.note("webhook", (webhook.url, webhook.events, webhook.active));
    assert!(webhook.signing_secret.is_some());

    let tested = client.webhooks().test(&webhook.id).await?;
    seen.note("test", (tested.status, tested.is_known()));
    client.webhooks().delete(&webhook.id).await?;

    let missing = client.audiences().get("aud_none").await;
    seen.note("missing", kind(missing));
    let invalid = client.audiences().create("").await;
    seen.note("invalid", kind(invalid));
    Ok(seen)
}

async fn observe(dialect: &[String]) -> Vec<String> {
    let settings: Vec<&str> = dialect.iter().map(String::as_str).collect();
    let world = World::with(&settings).await;
    let is_whole = settings.contains(&"batch-mode=all-or-nothing");
    let seen = look(&world, is_whole).await;
    let seen = seen.unwrap_or_else(|error| panic!("{settings:?}: {error:?} {:?}", body(&error)));
    seen.0
}

/// What one of them has and the other has not.
fn different<'s>(seen: &'s [String], expected: &'s [String]) -> Vec<&'s String> {
    let only = |one: &'s [String], other: &'s [String]| {
        one.iter()
            .filter(|line| !other.contains(line))
            .collect::<Vec<_>>()
    };
    [only(seen, expected), only(expected, seen)].concat()
}

fn body(error: &Error) -> String {
    String::from_utf8_lossy(error.body()).into_owned()
}

/// Whether everything is tried, as the tests that need databases do, and not a part of it.
fn is_everything() -> bool {
    std::env::var_os("SVC_TEST_EVERYTHING").is_some()
}

/// Every choice: the first ones of all points together, then the second ones, and so on, or each alone.
#[tokio::test]
async fn every_choice_is_read_alike() {
    let expected = observe(&[]).await;
    let mut rounds: Vec<Vec<String>> = Vec::new();
    for point in Dialect::points() {
        for (round, choice) in choices(*point).into_iter().enumerate() {
            let setting = format!("{point}={choice}");
            match rounds.get_mut(round) {
                Some(settings) if !is_everything() => settings.push(setting),
                _ => rounds.push(vec![setting]),
            }
        }
    }

    for settings in rounds {
        let seen = observe(&settings).await;
        let differing = different(&seen, &expected);
        assert!(differing.is_empty(), "{settings:?}: {differing:?}");
    }
}

#[tokio::test]
async fn combinations_of_choices_are_read_alike() {
    let expected = observe(&[]).await;
    let mut random = Random(47);
    let count = if is_everything() { 300 } else { 10 };
    for _ in 0..count {
        let mut settings = Vec::new();
        for point in Dialect::points() {
            let all = choices(*point);
            if random.below(3) == 0 {
                settings.push(format!("{point}={}", all[random.below(all.len())]));
            }
        }
        let seen = observe(&settings).await;
        let differing = different(&seen, &expected);
        assert!(differing.is_empty(), "{settings:?}: {differing:?}");
    }
}

/// The table of the book says of each point what its declaration says.
#[test]
fn the_book_lists_every_point() {
    let book = include_str!("../../docs/undocumented/README.md");
    for point in Dialect::points() {
        let default = point.default_choice();
        let named = point.choices().iter().map(|choice| choice.name);
        let named = named.filter(|name| *name != default);
        let mut others: Vec<String> = named.map(|name| format!("`{name}`")).collect();
        others.extend(point.free_text().map(str::to_owned));
        let question = point.question();
        let others = others.join(", ");
        let row = format!("| `{point}` | {question} | `{default}` | {others} |\n");
        assert!(
            book.contains(&row),
            "docs/undocumented/README.md lacks {row}"
        );
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}
