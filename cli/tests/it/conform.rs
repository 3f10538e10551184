//! `svc conform` against the sandbox: as it is, with each of forty changes by a proxy, and killed at
//! each of its requests.

mod proxy;

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json as object};
use svc_reference_server::Server;
use svc_sdk::{Dialect, Point};
use tokio::runtime::Runtime;

use self::proxy::{Change, Message};
use crate::support::{Home, Run, is_everything};

const TO: &str = "ada@sandbox.test";

/// A sandbox with something of each kind, and its address.
struct Sandbox {
    home: Home,
    child: Child,
    url: String,
}

impl Sandbox {
    fn start() -> Self {
        Self::with(&[])
    }

    /// A sandbox that speaks a dialect, given as `POINT=CHOICE`.
    fn with(settings: &[String]) -> Self {
        let set = settings.iter().map(|setting| format!("--set={setting}"));
        let sandbox = Self::serve(&set.collect::<Vec<_>>());
        let dialect = settings.join(",");
        if !dialect.is_empty() {
            let run = sandbox.svc(&sandbox.url, &["config", "set", "dialect", &dialect]);
            assert_eq!(run.code, 0, "{run:?}");
        }
        sandbox.fill();
        sandbox
    }

    /// An empty sandbox with these options.
    fn serve(options: &[String]) -> Self {
        let home = Home::new();
        let mut serve = vec!["sandbox", "serve", "--addr", "127.0.0.1:0", "--in-memory"];
        serve.extend(options.iter().map(String::as_str));
        let mut serve = home.command(&serve);
        // Nobody reads its log.
        serve.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = serve.spawn().expect("svc starts");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut ready)
            .expect("it serves");
        let ready: Value = serde_json::from_str(&ready).expect("JSON");
        let url = ready["http"].as_str().expect("a URL").to_owned();
        Self { home, child, url }
    }

    fn fill(&self) {
        for args in [
            &["audiences", "create", "News"][..],
            &[
                "contacts",
                "create",
                "News",
                "grace@example.com",
                "--name",
                "Grace",
            ],
            &[
                "webhooks",
                "create",
                "https://hooks.example/a",
                "--event",
                "email.sent",
            ],
            &[
                "extraction",
                "webhooks",
                "create",
                "https://hooks.example/b",
                "--event",
                "extraction.completed",
            ],
        ] {
            let run = self.svc(&self.url, args);
            assert_eq!(run.code, 0, "{run:?}");
        }
    }

    fn command(&self, url: &str, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command
            .env("SVC_EMAIL_URL", url)
            .env("SVC_EXTRACTION_URL", url)
            .env("SVC_EMAIL_KEY", "mk_test_sandbox")
            .env("SVC_EXTRACTION_KEY", "sk_test_sandbox");
        command
    }

    fn svc(&self, url: &str, args: &[&str]) -> Run {
        Run::complete(self.command(url, args))
    }

    /// What is left of runs of `svc conform`, and the emails that wait for their date.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for args in [
            &["audiences", "list"][..],
            &["domains", "list"],
            &["webhooks", "list"],
            &["extraction", "webhooks", "list"],
            &["api", "GET", "/_sandbox/emails?status=queued"],
        ] {
            let run = self.svc(&self.url, args);
            if run.stdout.contains("svc-conform") {
                left.push(run.stdout);
            }
        }
        left
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The ids of the rows with a result.
fn with_result(report: &Value, table: &str, result: &str) -> Vec<String> {
    let rows = report[table].as_array().expect("rows").iter();
    let rows = rows.filter(|row| row["result"] == result);
    rows.map(|row| row["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// A run at a level, with deliveries through a proxy of their own.
fn conform(sandbox: &Sandbox, level: &str, api: Change, deliveries: Change) -> Run {
    let url = proxy::start(&sandbox.url, api);
    let port = free_port();
    let listen = proxy::start(&format!("127.0.0.1:{port}"), deliveries);
    let port = port.to_string();
    let mut args = vec!["conform", "--level", level, "--yes", "-o", "json"];
    if level != "read" {
        args.extend(["--listen", &listen, "--port", &port]);
    }
    if level == "send" {
        args.extend(["--to", TO]);
    }
    sandbox.svc(&url, &args)
}

/// A port below those that systems give to connections, so that none takes it meanwhile.
fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize % 10_000;
    loop {
        let offset = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + u16::try_from(offset % 12_000).expect("a small number");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn unchanged() -> Change {
    Arc::new(Mutex::new(|_: &mut Message, _: Option<&mut Message>| {}))
}

#[test]
fn the_sandbox_agrees_with_every_statement_that_a_run_can_try() {
    let sandbox = Sandbox::start();
    let run = conform(&sandbox, "send", unchanged(), unchanged());
    let report = run.json();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        with_result(&report, "statements", "not_tried"),
        Vec::<String>::new()
    );
    assert_eq!(
        with_result(&report, "points", "differs"),
        Vec::<String>::new()
    );
    assert_eq!(
        with_result(&report, "points", "ambiguous"),
        Vec::<String>::new()
    );
    assert_eq!(sandbox.left(), Vec::<String>::new());

    for key in ["mk_test_sandbox", "sk_test_sandbox"] {
        assert!(!run.stdout.contains(key), "{key} is shown");
    }
}

/// A change of the responses to some requests, and the statements that it breaks.
struct Mutation {
    level: &'static str,
    /// The method, and a part of the path. An id is `*`.
    target: &'static str,
    change: fn(&mut Message, &Message),
    breaks: &'static [&'static str],
}

const fn api(
    level: &'static str,
    target: &'static str,
    breaks: &'static [&'static str],
    change: fn(&mut Message, &Message),
) -> Mutation {
    Mutation {
        level,
        target,
        change,
        breaks,
    }
}

/// Changes the JSON of a response.
fn json(response: &mut Message, change: impl Fn(&mut Value)) {
    let mut body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    change(&mut body);
    response.set_body(body.to_string());
}

/// Changes every item of a list, whether it is in pages or not.
fn items(response: &mut Message, change: impl Fn(&mut Value)) {
    json(response, |body| {
        let list = match body {
            Value::Array(_) => body,
            _ => &mut body["data"],
        };
        list.as_array_mut().into_iter().flatten().for_each(&change);
    });
}

fn remove(value: &mut Value, name: &str) {
    value.as_object_mut().expect("an object").remove(name);
}

const MUTATIONS: [Mutation; 40] = [
    api(
        "read",
        "GET /api/v1/audiences",
        &["audiences.list"],
        |response, _| {
            response.set_body(r#"{"audience":{"id":"x"}}"#);
        },
    ),
    api(
        "read",
        "GET /api/v1/audiences",
        &["audiences.name"],
        |response, _| {
            items(response, |it| remove(it, "name"));
        },
    ),
    api(
        "read",
        "GET /api/v1/audiences/*",
        &["audiences.get"],
        |response, _| json(response, |it| remove(it, "name")),
    ),
    api(
        "read",
        "GET /api/v1/audiences/*/contacts",
        &["contacts.email"],
        |response, _| {
            items(response, |it| remove(it, "email"));
        },
    ),
    api(
        "read",
        "GET /api/v1/domains",
        &["domains.flags"],
        |response, _| items(response, |it| remove(it, "spf_verified")),
    ),
    api(
        "read",
        "GET /api/v1/domains",
        &["domains.flags"],
        |response, _| items(response, |it| it["verified"] = "yes".into()),
    ),
    api(
        "read",
        "GET /api/v1/domains",
        &["domains.verified"],
        |response, _| items(response, |it| it["verified"] = false.into()),
    ),
    api(
        "read",
        "GET /api/v1/webhooks",
        &["webhooks.fields"],
        |response, _| items(response, |it| remove(it, "events")),
    ),
    api(
        "read",
        "GET /api/v1/webhooks",
        &["webhooks.no-secret"],
        |response, _| {
            items(response, |it| {
                it["signingSecret"] = "whsec_0123456789".into();
            });
        },
    ),
    api("read", "GET /v1/me", &["me"], |response, request| {
        if !request
            .header("authorization")
            .is_some_and(|key| key.contains("not-a-key"))
        {
            response.set_status(201);
        }
    }),
    api(
        "read",
        "GET /v1/me",
        &["me.organization"],
        |response, request| {
            me(response, request, |it| {
                remove(&mut it["organization"], "name");
            });
        },
    ),
    api(
        "read",
        "GET /v1/me",
        &["me.balance"],
        |response, request| {
            me(response, request, |it| {
                it["organization"]["balance_cents"] = "1".into();
            });
        },
    ),
    api("read", "GET /v1/me", &["me.method"], |response, request| {
        me(response, request, |it| it["auth"]["method"] = "key".into());
    }),
    api("read", "GET /v1/me", &["me.scope"], |response, request| {
        me(response, request, |it| it["auth"]["scope"] = "admin".into());
    }),
    api("read", "GET /v1/me", &["me.key"], |response, request| {
        me(response, request, |it| remove(&mut it["auth"], "key_id"));
    }),
    api("read", "GET /v1/me", &["unauthorized"], |response, _| {
        if response.line.contains("401") {
            response.set_status(400);
        }
    }),
    api(
        "read",
        "GET /v1/me",
        &["unauthorized.body"],
        |response, _| {
            if response.line.contains("401") {
                response.set_body(r#"{"code":"unauthorized"}"#);
            }
        },
    ),
    api(
        "read",
        "GET /v1/webhooks",
        &["extraction.webhooks.no-secret"],
        |response, _| {
            items(response, |it| it["secret"] = "0123456789abcdef".into());
        },
    ),
    api(
        "write",
        "DELETE /api/v1/audiences/*",
        &["audiences.delete"],
        |response, _| {
            response.set_status(200);
            response.set_body("{}");
        },
    ),
    api(
        "write",
        "DELETE /api/v1/contacts/*",
        &["contacts.delete"],
        |response, _| response.set_status(200),
    ),
    api(
        "write",
        "DELETE /api/v1/webhooks/*",
        &["webhooks.delete"],
        |response, _| response.set_status(202),
    ),
    api(
        "write",
        "DELETE /api/v1/domains/*",
        &["domains.delete"],
        |response, _| response.set_body("{}"),
    ),
    api(
        "write",
        "DELETE /api/v1/domains/*",
        &["domains.delete"],
        |response, _| {
            response.set_status(204);
            response.set_body("");
        },
    ),
    api(
        "write",
        "GET /api/v1/audiences/*/contacts",
        &["contacts.name"],
        |response, _| {
            items(response, |it| {
                if it["name"] == "Svc Conform" {
                    it["name"] = Value::Null;
                }
            });
        },
    ),
    api(
        "write",
        "GET /api/v1/audiences/*/contacts",
        &["contacts.metadata", "contacts.merge"],
        |response, _| {
            items(response, |it| it["metadata"] = object!({}));
        },
    ),
    api(
        "write",
        "GET /api/v1/audiences/*/contacts",
        &["contacts.merge"],
        |response, _| {
            items(response, |it| {
                if it["metadata"].get("added").is_some() {
                    remove(&mut it["metadata"], "kept");
                }
            });
        },
    ),
    api(
        "write",
        "GET /api/v1/audiences/*/contacts",
        &["contacts.subscribed"],
        |response, _| {
            items(response, |it| {
                it["subscribed"] = true.into();
                it["updatedAt"] = Value::Null;
            });
        },
    ),
    api(
        "write",
        "PATCH /api/v1/contacts/*",
        &["contacts.update"],
        |response, request| {
            if request.text().contains("offers") {
                response.set_status(500);
            }
        },
    ),
    api(
        "write",
        "POST /api/v1/domains",
        &["domains.records"],
        |response, _| {
            json(response, |it| {
                it["records"]
                    .as_array_mut()
                    .expect("records")
                    .retain(|record| record["kind"] != "dkim");
            });
        },
    ),
    api(
        "write",
        "POST /api/v1/domains/*/verify",
        &["domains.verify"],
        |response, _| json(response, |it| remove(it, "dmarc_verified")),
    ),
    api(
        "write",
        "POST /api/v1/domains/*/verify",
        &["domains.verify.verified"],
        |response, _| json(response, |it| it["verified"] = true.into()),
    ),
    api(
        "write",
        "POST /api/v1/webhooks",
        &["webhooks.secret"],
        |response, request| {
            if !request.text().contains("http://svc") {
                json(response, |it| it["signingSecret"] = "".into());
            }
        },
    ),
    api(
        "write",
        "PATCH /api/v1/webhooks/*",
        &["webhooks.active"],
        |_, _| {},
    ),
    api(
        "write",
        "POST /api/v1/webhooks/*/test",
        &["webhooks.test"],
        |response, _| json(response, |it| it["statusCode"] = 200.into()),
    ),
    api(
        "write",
        "POST /v1/webhooks",
        &["extraction.webhooks.create"],
        |response, _| json(response, |it| remove(it, "status")),
    ),
    api(
        "write",
        "POST /v1/webhooks",
        &["extraction.webhooks.status"],
        |response, _| json(response, |it| it["status"] = "new".into()),
    ),
    api(
        "write",
        "DELETE /v1/webhooks/*",
        &["extraction.webhooks.delete"],
        |response, _| fails(response),
    ),
    api(
        "send",
        "GET /api/v1/emails/*",
        &["emails.status"],
        |response, _| {
            json(response, |it| {
                if it["status"] == "delivered" {
                    it["status"] = "done".into();
                }
            });
        },
    ),
    api(
        "send",
        "POST /api/v1/emails/batch",
        &["emails.batch"],
        |response, _| {
            json(response, |it| {
                it["results"].as_array_mut().expect("results").pop();
            });
        },
    ),
    api(
        "send",
        "PATCH /api/v1/emails/*/cancel",
        &["emails.cancel"],
        |response, _| fails(response),
    ),
];

/// A request that succeeded is said to have failed.
fn fails(response: &mut Message) {
    if response.line.contains(" 2") {
        response.set_status(500);
    }
}

fn me(response: &mut Message, request: &Message, change: impl Fn(&mut Value)) {
    if !request
        .header("authorization")
        .is_some_and(|key| key.contains("not-a-key"))
    {
        json(response, change);
    }
}

/// `GET /api/v1/audiences/aud_1?page=2` as `GET /api/v1/audiences/*`.
fn shape(target: &str) -> String {
    let target = target.split('?').next().unwrap_or_default();
    let is_id = |part: &&str| part.len() > 20;
    let parts = target
        .split('/')
        .map(|part| if is_id(&part) { "*" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Changes that are made in one run: at one level, and each of other responses. Some leave nothing to
/// try others with, and are made alone.
fn groups() -> Vec<Vec<&'static Mutation>> {
    let mut groups: Vec<Vec<&Mutation>> = Vec::new();
    for mutation in &MUTATIONS {
        let is_free = |group: &&mut Vec<&Mutation>| {
            let is_other =
                |it: &&Mutation| it.level == mutation.level && it.target != mutation.target;
            !is_everything()
                && !ALONE.contains(&mutation.breaks[0])
                && group.iter().all(is_other)
                && !ALONE.contains(&group[0].breaks[0])
        };
        match groups.iter_mut().find(is_free) {
            Some(group) => group.push(mutation),
            None => groups.push(vec![mutation]),
        }
    }
    groups
}

/// What is broken by changes after which others cannot be tried.
const ALONE: [&str; 1] = ["audiences.list"];

#[test]
fn each_of_forty_changes_is_reported_and_nothing_else() {
    let sandbox = Sandbox::start();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let groups = groups();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = examine(&sandbox, group);
                    let broken = group.iter().flat_map(|it| it.breaks).copied();
                    let broken = broken.map(str::to_owned).collect::<BTreeSet<_>>();
                    if found != broken {
                        let targets = group.iter().map(|it| it.target).collect::<Vec<_>>();
                        let line = format!("{targets:?}: {broken:?}, not {found:?}");
                        wrong.lock().expect("no panic").push(line);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn examine(sandbox: &Sandbox, mutations: &[&'static Mutation]) -> BTreeSet<String> {
    let changes = mutations.to_vec();
    let api: Change = Arc::new(Mutex::new(
        move |request: &mut Message, mut response: Option<&mut Message>| {
            let target = shape(&request.target());
            for mutation in changes.iter().filter(|it| it.target == target) {
                let is_disable = mutation.breaks == ["webhooks.active"];
                match &mut response {
                    Some(response) => (mutation.change)(response, request),
                    // The request to disable the webhook does nothing.
                    None if is_disable && request.text().contains("active") => {
                        request.set_body("{}");
                    }
                    None => {}
                }
            }
        },
    ));
    let run = conform(sandbox, mutations[0].level, api, unchanged());
    assert!(
        matches!(run.code, 0 | 10),
        "{}: {run:?}",
        mutations[0].target
    );

    let differing = with_result(&run.json(), "statements", "differs");
    differing.into_iter().collect()
}

/// Only a refusal of what is accepted otherwise shows what a service minds.
#[test]
fn a_refusal_of_everything_says_nothing_about_the_odd_part() {
    let points = |refused: &'static [&'static str]| {
        let sandbox = Sandbox::start();
        let refuse: Change = Arc::new(Mutex::new(
            move |request: &mut Message, response: Option<&mut Message>| {
                if let Some(response) = response
                    && refused.contains(&&*shape(&request.target()))
                {
                    response.set_status(422);
                    response.set_body(r#"{"error":{"code":"invalid","message":"no"}}"#);
                }
            },
        ));
        let report = conform(&sandbox, "send", refuse, unchanged()).json();
        ["unknown-fields", "limits", "webhook-urls"].map(|point| {
            let rows = report["points"].as_array().expect("rows");
            let row = rows.iter().find(|row| row["id"] == point).expect("a row");
            (row["choice"].clone(), row["result"].clone())
        })
    };

    for (choice, result) in points(&[]) {
        assert!(choice.is_string(), "{result}");
    }

    let refused = &[
        "PATCH /api/v1/contacts/*",
        "POST /api/v1/emails",
        "POST /api/v1/webhooks",
    ];
    for (choice, result) in points(refused) {
        assert_eq!((choice, result), (Value::Null, "ambiguous".into()));
    }
}

/// The points that a run cannot find out, and the settings without which a choice has no effect.
fn needs(point: Point) -> Option<&'static [&'static str]> {
    Some(match point {
        // A user name cannot be guessed.
        Point::ScopeStatus | Point::LimitHeaders | Point::ExtractionError | Point::KeyUser => {
            return None;
        }
        Point::IdHeader => &["id-place=header"],
        Point::CursorParam => &["list-pages=cursor"],
        _ => &[],
    })
}

/// The named choices, and one of any other text.
fn choices(point: Point) -> Vec<String> {
    let mut choices: Vec<_> = point
        .choices()
        .iter()
        .map(|it| it.name.to_owned())
        .collect();
    match point {
        Point::KeyHeader => choices.push("x-api-key".to_owned()),
        Point::CursorParam => choices.push("pageToken".to_owned()),
        Point::IdField => choices.push("emailId".to_owned()),
        Point::IdHeader => choices.push("x-email-id".to_owned()),
        Point::StatusField => choices.push("state".to_owned()),
        Point::BatchBody => choices.push("emails".to_owned()),
        Point::KeyScheme => choices.push("Secret".to_owned()),
        _ if point.free_text().is_some() => {
            choices.push(format!("x_{}", point.as_str().replace('-', "_")));
        }
        _ => {}
    }
    choices
}

/// What a run finds for each point, from address and key alone, and the dialect that it would save.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    points: Vec<String>,
    dialect: Dialect,
}

/// How much a run has to do to see the points of a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Depth {
    level: &'static str,
    listens: bool,
}

/// What was found before: of many combinations, some are the same.
type Known = Mutex<HashMap<(String, Depth), Found>>;

fn find(runtime: &Runtime, known: &Known, dialect: &Dialect, depth: Depth) -> Found {
    let settings = serde_json::to_string(dialect).expect("JSON");
    let case = (settings, depth);
    if let Some(found) = known.lock().expect("no panic").get(&case) {
        return found.clone();
    }

    let builder = Server::builder().in_memory().dialect(dialect.clone());
    let server = runtime.block_on(builder.start()).expect("it starts");
    let url = server.base_url();
    let home = Home::new();
    let listen = format!("http://127.0.0.1:{}", free_port());
    let mut args = vec!["conform", "--level", depth.level, "--yes", "-o", "json"];
    if depth.level == "send" {
        args.extend(["--to", TO]);
    }
    if depth.listens {
        args.extend(["--listen", &listen]);
    }
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_sandbox"),
    ];
    let run = home.run_with_env(&args, &env);
    runtime.block_on(server.stop());
    assert!(matches!(run.code, 0 | 10), "{dialect:?}: {run:?}");

    let report = run.json();
    let rows = report["points"].as_array().expect("rows").iter();
    let points = rows.map(|row| {
        let found = row["choice"].as_str().or(row["result"].as_str());
        format!("{}: {}", row["id"], found.expect("a result"))
    });
    let found = Found {
        points: points.collect(),
        dialect: serde_json::from_value(report["dialect"].clone()).expect("a dialect"),
    };
    let mut known = known.lock().expect("no panic");
    known.insert(case, found.clone());
    found
}

/// The level that a point needs, as the report of a run says.
fn depth_of(report: &Value, point: Point) -> Depth {
    let rows = report["points"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["id"] == point.as_str());
    let row = row.expect("a row");
    let level = match row["level"].as_str() {
        Some("send") => "send",
        Some("write") => "write",
        _ => "read",
    };
    let found = row["found"].as_str().unwrap_or_default();
    Depth {
        level,
        listens: found.contains("--listen"),
    }
}

/// What a run at the level `read` says about each point.
fn report_of_reading(runtime: &Runtime) -> Value {
    let server = runtime.block_on(Server::builder().in_memory().start());
    let server = server.expect("it starts");
    let url = server.base_url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_sandbox"),
    ];
    let run = Home::new().run_with_env(&["conform", "--yes", "-o", "json"], &env);
    runtime.block_on(server.stop());
    run.json()
}

/// A dialect of a sandbox, and how much a run has to do to find it.
struct Case {
    dialect: Dialect,
    depth: Depth,
    /// What the run has to find.
    named: Option<String>,
    /// Whether a sandbox like what was found is examined, too.
    again: bool,
}

/// A sandbox like the dialect that a run found gives the same again.
fn is_found_again(runtime: &Runtime, cases: &[Case]) {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let known = Known::default();
    let examine = |case: &Case| {
        let first = find(runtime, &known, &case.dialect, case.depth);
        if let Some(named) = &case.named
            && !first.points.contains(named)
        {
            return Some(format!("{named} is not found: {:?}", first.points));
        }
        if !case.again {
            return None;
        }
        let again = find(runtime, &known, &first.dialect, case.depth);
        let mut pairs = first.points.iter().zip(&again.points);
        let differing = pairs.find(|(one, other)| one != other);
        (again != first).then(|| format!("{:?}: {differing:?}", case.dialect))
    };

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wrong.lock().expect("no panic").extend(examine(case));
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_choice_is_named_and_a_sandbox_like_it_gives_the_same_again() {
    let runtime = Runtime::new().expect("a runtime");
    let report = report_of_reading(&runtime);
    let mut cases = Vec::new();
    for point in Dialect::points() {
        let Some(needed) = needs(*point) else {
            continue;
        };
        for choice in choices(*point) {
            let mut dialect = Dialect::with(needed.iter().copied()).expect("valid choices");
            dialect.pin(*point, &choice).expect("a valid choice");
            cases.push(Case {
                dialect,
                depth: depth_of(&report, *point),
                named: Some(format!("{}: {choice}", Value::from(point.as_str()))),
                again: is_everything() || cases.len().is_multiple_of(20),
            });
        }
    }

    let mut index = 0;
    cases.retain(|_| {
        index += 1;
        is_everything() || index % 10 == 1
    });
    is_found_again(&runtime, &cases);
}

#[test]
fn a_sandbox_like_a_combination_that_was_found_gives_the_same_again() {
    const LEVELS: [&str; 3] = ["read", "write", "send"];

    let runtime = Runtime::new().expect("a runtime");
    let report = report_of_reading(&runtime);
    let mut random = 47_u64;
    let mut below = |end: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(random >> 33).expect("31 bits") % end
    };

    let mut cases = Vec::new();
    let count = if is_everything() { 300 } else { 5 };
    for number in 0..count {
        // Reading is enough for the points that it shows, and quick.
        let level = match number % 30 {
            0 => "send",
            1..=5 => "write",
            _ => "read",
        };
        let rank = |level| LEVELS.iter().position(|each| *each == level);
        let mut dialect = Dialect::new();
        for point in Dialect::points() {
            let shown = depth_of(&report, *point);
            let is_shown = needs(*point).is_some() && rank(shown.level) <= rank(level);
            if is_shown && !shown.listens && below(2) == 0 {
                let all = choices(*point);
                let choice = &all[below(all.len())];
                dialect.pin(*point, choice).expect("a valid choice");
            }
        }
        // No service has a header of its own and a scheme in it.
        if dialect.pinned(Point::KeyHeader).is_some() {
            dialect.pin(Point::KeyScheme, "auto").expect("a choice");
        }
        let listens = false;
        cases.push(Case {
            dialect,
            depth: Depth { level, listens },
            named: None,
            again: true,
        });
    }

    is_found_again(&runtime, &cases);
}

#[test]
fn what_a_run_saves_a_profile_and_a_sandbox_take() {
    let set = ["key-scheme=token", "list-items=rows", "opt-out=!silent"].map(str::to_owned);
    let sandbox = Sandbox::with(&set);
    let _ = sandbox.svc(&sandbox.url, &["config", "unset", "dialect"]);
    let save = [
        "conform",
        "--level",
        "write",
        "--yes",
        "--save",
        "found.toml",
    ];
    let run = sandbox.svc(&sandbox.url, &save);
    assert_eq!(run.code, 0, "{run:?}");

    let run = sandbox.svc(&sandbox.url, &["config", "set", "--from", "found.toml"]);
    assert_eq!(run.code, 0, "{run:?}");

    let listed = sandbox.svc(&sandbox.url, &["audiences", "list"]);
    assert_eq!(listed.json()[0]["name"], "News", "{listed:?}");

    let found = sandbox.home.path("found.toml");
    let like = Sandbox::serve(&["--like".to_owned(), found.display().to_string()]);
    let refused = like.svc(&like.url, &["audiences", "list"]);
    assert_eq!(refused.code, 3, "{refused:?}");

    let dialect = like.svc(
        &like.url,
        &["config", "set", "--from", &found.display().to_string()],
    );
    assert_eq!(dialect.code, 0, "{dialect:?}");

    let listed = like.svc(&like.url, &["audiences", "list"]);
    assert_eq!(listed.stdout, "[]\n", "{listed:?}");
}

#[test]
fn a_wrong_delivery_is_reported() {
    let sandbox = Sandbox::start();
    // The body is written again with the same meaning, so that the signature is not of its bytes.
    let again: Change = Arc::new(Mutex::new(
        |delivery: &mut Message, response: Option<&mut Message>| {
            if response.is_none() {
                let body: Value = serde_json::from_slice(&delivery.body).expect("JSON");
                delivery.set_body(format!("{body:#}"));
            }
        },
    ));
    let run = conform(&sandbox, "send", unchanged(), again);
    let expected = [
        "webhooks.test.signature",
        "deliveries.signature",
        "deliveries.retry.signature",
    ];
    assert_eq!(
        with_result(&run.json(), "statements", "differs"),
        expected,
        "{}",
        run.stderr
    );
    assert_eq!(run.code, 10);
}

#[test]
fn whatever_a_killed_run_has_left_is_removed_and_no_other_address_gets_an_email() {
    let sandbox = Sandbox::start();
    let step = if is_everything() { 1 } else { 16 };
    for level in ["write", "send"] {
        let mut requests = 1;
        loop {
            let killed = stopped_at(&sandbox, level, requests, "-KILL");
            if killed.status.code().is_some() {
                break;
            }
            let run = sandbox.svc(&killed.url, &["conform", "--clean-up", "--yes"]);
            assert_eq!(run.code, 0, "{level}, request {requests}: {run:?}");
            let left = sandbox.left();
            assert_eq!(left, Vec::<String>::new(), "{level}, request {requests}");
            requests += step;
        }
        assert!(requests > 30, "{level} has {requests} requests");
    }

    let emails = sandbox.svc(
        &sandbox.url,
        &[
            "api",
            "GET",
            "/_sandbox/emails?limit=100",
            "--jq",
            ".data[].to[]",
        ],
    );
    let others = emails
        .stdout
        .lines()
        .filter(|address| address.trim_matches('"') != TO);
    assert_eq!(others.count(), 0, "{emails:?}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    let sandbox = Sandbox::start();
    for at in [20, 40, 60] {
        let run = stopped_at(&sandbox, "send", at, "-INT");
        assert_eq!(run.status.code(), Some(130), "request {at}");
        assert_eq!(sandbox.left(), Vec::<String>::new(), "request {at}");
    }
}

/// How a run ended, and the URL at which it reached the sandbox.
struct Stopped {
    status: ExitStatus,
    url: String,
}

/// Sends a signal to a run once the service has processed a request, and returns how it ended.
fn stopped_at(sandbox: &Sandbox, level: &str, at: usize, signal: &'static str) -> Stopped {
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let victim = Arc::clone(&child);
    let mut count = 0;
    let stop: Change = Arc::new(Mutex::new(
        move |_: &mut Message, response: Option<&mut Message>| {
            count += usize::from(response.is_some());
            if response.is_none() || count != at {
                return;
            }
            let victim = victim.lock().expect("no panic");
            let id = victim.as_ref().expect("it runs").id().to_string();
            let sent = Command::new("kill").args([signal, &id]).status();
            assert!(sent.expect("kill runs").success());
        },
    ));
    let url = proxy::start(&sandbox.url, stop);
    let mut args = vec!["conform", "--level", level, "--yes", "-o", "json"];
    if level == "send" {
        args.extend(["--to", TO]);
    }
    let mut command = sandbox.command(&url, &args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = child.lock().expect("no panic");
    *running = Some(command.spawn().expect("svc starts"));
    drop(running);
    loop {
        let mut running = child.lock().expect("no panic");
        let ended = running.as_mut().expect("it runs").try_wait();
        drop(running);
        if let Some(status) = ended.expect("a status") {
            return Stopped { status, url };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
