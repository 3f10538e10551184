//! The output of every command matches the schema that `svc schema` prints for it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Home, Run, Service};

/// Runs commands in a sandbox and validates each output against its schema.
struct Checker {
    home: Home,
    schemas: HashMap<String, Value>,
    seen: Vec<String>,
}

impl Checker {
    fn new() -> Self {
        let home = Home::new();
        let all = home.run(&["schema"]).json();
        let schemas = all.as_array().expect("a list").iter().map(|one| {
            let path = one["command"].as_str().expect("a name").to_owned();
            (path, one.clone())
        });
        Self {
            schemas: schemas.collect(),
            home,
            seen: Vec::new(),
        }
    }

    /// Runs a command that must succeed, and validates its output.
    fn run(&mut self, line: &str) -> Value {
        self.run_words(&line.split(' ').collect::<Vec<_>>(), 0)
    }

    fn run_words(&mut self, words: &[&str], code: i32) -> Value {
        let run = self.home.run(&[words, &["--json"]].concat());
        assert_eq!(run.code, code, "{words:?}: {run:?}");
        let output = run.json();
        self.check(words, &output);
        output
    }

    fn run_with_input(&mut self, words: &[&str], input: &str) {
        let run = self
            .home
            .run_with_input(&[words, &["--json"]].concat(), input);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
        self.check(words, &run.json());
    }

    fn check(&mut self, words: &[&str], output: &Value) {
        let path = self.path(words);
        valid(&self.schemas[&path]["output"], output, &path);
        self.seen.push(path);
    }

    /// Runs a command that must fail with this code, and validates its error.
    fn fail(&mut self, line: &str, code: i32) {
        let words = line.split(' ').collect::<Vec<_>>();
        let run = self.home.run(&[&words[..], &["--json"]].concat());
        assert_eq!(run.code, code, "{line}: {run:?}");
        let error = serde_json::from_str(&run.stderr).expect("an object");
        let path = self.path(&words);
        valid(&self.schemas[&path]["errors"], &error, &path);
    }

    /// The longest command path that the words begin with, ignoring options.
    fn path(&self, words: &[&str]) -> String {
        let words = words.iter().filter(|word| !word.starts_with('-')).copied();
        let line = words.collect::<Vec<_>>().join(" ");
        let begins = |path: &&String| line == **path || line.starts_with(&format!("{path} "));
        self.schemas
            .keys()
            .filter(begins)
            .max_by_key(|path| path.len())
            .expect("a command")
            .clone()
    }
}

#[track_caller]
fn valid(schema: &Value, instance: &Value, what: &str) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let problems = validator
        .iter_errors(instance)
        .map(|e| format!("{e}"))
        .collect::<Vec<_>>();
    assert!(
        problems.is_empty(),
        "`{what}` does not match its schema: {problems:?}\n{instance:#}"
    );
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
fn the_output_of_every_command_matches_its_schema() {
    let mut checker = Checker::new();
    let dir = checker.home.path("data/svc/sandbox").display().to_string();
    let words = ["sandbox", "serve", "--addr", "127.0.0.1:0"];
    let mut serving = checker
        .home
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let mut ready = BufReader::new(serving.stdout.take().expect("piped"));
    ready.read_line(&mut line).expect("a line");
    checker.check(&words, &serde_json::from_str(&line).expect("JSON"));
    assert!(line.contains(&dir));

    emails(&mut checker);
    contacts(&mut checker);
    domains(&mut checker);
    webhooks(&mut checker);
    deliveries(&mut checker);
    this_machine(&mut checker);
    local_server(&mut checker);

    checker.run("sandbox stop");
    serving.wait().expect("ends");
    checker.run("sandbox stop");
    checker.run_words(&["sandbox", "status", "--url", "http://127.0.0.1:1"], 1);
    // The first speaks a protocol: `mcp.rs`. A release needs a relay. The others need a job that runs or has unknown rows:
    // `bulk.rs`.
    let needs_more = |path: &str| {
        matches!(
            path,
            "mcp" | "bulk pause" | "bulk settle" | "bulk work" | "sandbox messages release"
        )
    };

    for spec in svc_cli::commands()
        .into_iter()
        .filter(|spec| !needs_more(&spec.path))
    {
        assert!(
            checker.seen.contains(&spec.path),
            "`{}` was not run",
            spec.path
        );
    }
}

const SEND: &str =
    "--sandbox emails send --from hello@sandbox.test --to ada@example.test --subject s --text t";

fn emails(checker: &mut Checker) {
    let sent = checker.run(SEND);
    checker.run(&format!(
        "--sandbox emails get {} --wait",
        text(&sent, "/id")
    ));
    let later = checker.run(&format!("{SEND} --at +2h"));
    checker.run(&format!("--sandbox emails cancel {}", text(&later, "/id")));
    let good = r#"{"from":"hello@sandbox.test","to":"a@b.test","subject":"s","text":"t"}"#;
    let bad = r#"{"from":"hello@nobody.test","to":"a@b.test","subject":"s","text":"t"}"#;
    let file = checker
        .home
        .file("emails.ndjson", format!("{good}\n{bad}\n"));
    checker.run_words(&["--sandbox", "emails", "batch", &file], 11);
    checker
        .home
        .file("people.csv", "email\nada@example.test\nnobody\n");
    let send = "bulk send people.csv --from hello@sandbox.test --subject s --text t --yes";
    let job = checker.run(&format!("--sandbox {send}"));
    let job = text(&job, "/job");
    checker.run(&format!("--sandbox bulk resume {job}"));
    for line in [
        "bulk list".to_owned(),
        format!("bulk status {job}"),
        format!("bulk report {job}"),
    ] {
        checker.run(&line);
    }

    checker.fail(&format!("bulk pause {job}"), 6);
    checker.run("bulk forget --yes");
    checker.fail(&format!("bulk settle {job} --resend 2"), 2);
    let later = checker.run(&format!("--sandbox {send} --at +2h --again"));
    checker.run(&format!("--sandbox bulk cancel {}", text(&later, "/job")));
    checker.run(&format!("bulk remove {job} --yes"));
    checker.fail("bulk status missing", 5);
    checker.fail("--sandbox emails get eml_missing", 5);
    checker.fail("--sandbox emails send --from x --to y --subject s", 2);
    checker.fail(
        "--sandbox emails send --from a@nobody.test --to c@d.test --subject s --text t",
        6,
    );
}

fn contacts(checker: &mut Checker) {
    let audience = checker.run("--sandbox audiences create News");
    let audience = text(&audience, "/id");
    checker.run(&format!("--sandbox audiences get {audience}"));
    checker.run("--sandbox audiences list");
    let contact = checker.run(&format!(
        "--sandbox contacts create {audience} ada@example.test"
    ));
    let contact = text(&contact, "/id");
    checker.run(&format!(
        "--sandbox contacts update {contact} --name Ada --topic x"
    ));
    checker.run(&format!("--sandbox contacts list {audience}"));
    checker.run("--sandbox contacts get ada@example.test");
    let file = checker.home.file(
        "people.csv",
        "email\nada@example.test\nbob@example.test\nbad\n",
    );
    checker.run_words(&["--sandbox", "contacts", "import", audience, &file], 11);
    checker.run(&format!("--sandbox contacts delete {contact} --yes"));
    checker.run(&format!("--sandbox audiences delete {audience} --yes"));
    checker.fail(&format!("--sandbox audiences delete {audience}"), 2);
}

fn domains(checker: &mut Checker) {
    let domain = checker.run("--sandbox domains create shop.test");
    let id = text(&domain, "/id").to_owned();
    checker.run("--sandbox domains list");
    checker.run(&format!("--sandbox domains records {id}"));
    checker.run(&format!("--sandbox domains get {id}"));
    checker.run_words(&["--sandbox", "domains", "verify", &id], 10);
    checker.run("sandbox dns publish shop.test");
    checker.run(&format!("--sandbox domains verify {id}"));
    checker.run("sandbox dns withdraw shop.test spf");
    checker.run(&format!("--sandbox domains delete {id} --yes"));
}

fn webhooks(checker: &mut Checker) {
    let app = Service::always(200, "{}");
    let create = format!(
        "--sandbox webhooks create {} --event email.delivered",
        app.url()
    );
    let webhook = checker.run(&create);
    let id = text(&webhook, "/id");
    checker.run("--sandbox webhooks list");
    checker.run(&format!("--sandbox webhooks get {id}"));
    checker.run(&format!("--sandbox webhooks test {id}"));
    checker.run(&format!("--sandbox webhooks update {id} --active true"));
    let extraction = checker.run(&format!(
        "--sandbox extraction webhooks create {} --event extraction.completed",
        app.url()
    ));
    checker.run("--sandbox extraction webhooks list");
    checker.run(&format!("--sandbox extraction webhooks get {}", app.url()));
    checker.run("sandbox extraction completed");
    let email = checker.run(&format!("{SEND} --wait"));
    checker.run(&format!("sandbox event {} opened", text(&email, "/id")));
    let deliveries = checker.run("sandbox deliveries list");
    let delivery = text(&deliveries, "/0/id");
    checker.run(&format!("sandbox deliveries get {delivery}"));
    checker.run(&format!("sandbox deliveries replay {delivery}"));
    checker.run(&format!("--sandbox webhooks delete {id} --yes"));
    let id = text(&extraction, "/id");
    checker.run(&format!("--sandbox extraction webhooks delete {id} --yes"));
}

/// `listen`, `trigger`, `replay`, `sign` and `verify`.
fn deliveries(checker: &mut Checker) {
    let app = Service::always(200, "{}");
    let secret = checker.home.file("secret", "whsec_1");
    let words = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &app.url(),
    ];
    let args = [&words[..], &["--json"]].concat();
    let mut child = checker
        .home
        .command(&args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("UTF-8");
        serde_json::from_str(&line).expect("JSON")
    };

    let ready = next();
    checker.check(&words, &ready);
    let to = text(&ready, "/listening").to_owned();
    checker.run_words(
        &[
            "trigger",
            "email.bounced",
            "--to",
            &to,
            "--secret-file",
            &secret,
        ],
        0,
    );
    let seen = next();
    checker.check(&words, &seen);
    let forged = checker.home.file("forged", "whsec_2");
    checker.run_words(
        &[
            "trigger",
            "email.bounced",
            "--to",
            &to,
            "--secret-file",
            &forged,
        ],
        10,
    );
    checker.check(&words, &next());
    child.kill().expect("killed");
    child.wait().expect("ends");

    let certify = [
        "certify",
        &app.url(),
        "--service",
        "email",
        "--secret-file",
        &secret,
        "--only",
    ];
    checker.run_words(&[&certify[..], &["good-delivery"]].concat(), 0);
    checker.run_words(&[&certify[..], &["wrong-secret"]].concat(), 10);
    checker.run(&format!("replay {}", text(&seen, "/id")));
    checker.run_words(
        &["replay", "--since", "1h", "--to", "http://127.0.0.1:9"],
        8,
    );
    let body = checker.home.file("body", "{}");
    let sign = [
        "sign",
        "--service",
        "email",
        "--secret-file",
        &secret,
        &body,
    ];
    let signed = checker.run_words(&sign, 0);
    let signature = text(&signed, "/signature").to_owned();
    let verify = |signature: &str| {
        let words = [
            "verify",
            "--service",
            "email",
            "--secret-file",
            &secret,
            "--signature",
        ];
        [&words[..], &[signature, &body]].concat().join(" ")
    };

    checker.run(&verify(&signature));
    checker.fail(&verify(&"0".repeat(64)), 10);
}

fn this_machine(checker: &mut Checker) {
    checker.run("config path");
    checker.run("config set retries 3");
    checker.run("config unset retries");
    checker.run("config show");
    checker.run("--sandbox whoami");
    checker.run("--sandbox doctor");
    checker.run("--sandbox conform --yes");
    checker.run("--sandbox api GET /api/v1/audiences");
    checker.run("agent setup zed");
    checker.run("agent setup");
    checker.run("completions fish");
    checker.run("help emails send");
    checker.run("version");
    checker.run("man");
    let pages = checker.home.path("pages").display().to_string();
    checker.run_words(&["man", &pages], 0);
    checker.run("schema");
    checker.run("schema emails send");
    let service = Service::always(200, "[]");
    checker.run_with_input(&["login", "--email-url", &service.url()], "mk_test_x");
    checker.run("profiles list");
    checker.run("profiles use default");
    checker.run("whoami");
    checker.run("logout");
    checker.run("profiles remove default --yes");
    checker.fail("audiences list", 3);
}

fn local_server(checker: &mut Checker) {
    checker.run("sandbox status");
    checker.run("sandbox export");
    checker.run("sandbox organizations create --name Acme");
    checker.run("sandbox organizations list");
    let key = checker.run("sandbox keys create --service email --scope emails:send");
    checker.run("sandbox keys list");
    checker.run(&format!("sandbox keys delete {} --yes", text(&key, "/id")));
    checker.run("sandbox templates put welcome --subject Hi");
    checker.run("sandbox templates get welcome");
    checker.run("sandbox templates list");
    checker.run("sandbox templates render welcome");
    checker.run("sandbox templates delete welcome --yes");
    checker.run(
        "sandbox inbound --from a@b.test --to hello@sandbox.test --subject s --html <p>Hi</p>",
    );
    let messages = checker.run("sandbox messages list");
    let id = text(&messages, "/0/id");
    checker.run("sandbox messages wait");
    checker.run("sandbox settle");
    let words = ["sandbox", "exec", "--", "true"];
    assert_eq!(checker.home.run(&words).code, 0);

    checker.check(&words, &Value::Null);
    for part in ["", " --raw", " --html", " --links", " --attachments saved"] {
        checker.run(&format!("sandbox messages get {id}{part}"));
    }

    checker.run(&format!("sandbox messages check {id} --program Gmail"));
    // With a format, the URL is in an object.
    checker.run("sandbox open");
    checker.run(&format!("sandbox messages open {id}"));
    let emails = checker.run("sandbox emails list --status delivered");
    checker.run(&format!("sandbox emails story {}", text(&emails, "/0/id")));
    let requests = checker.run("sandbox requests list --operation emails.send --status 2xx");
    checker.run(&format!(
        "sandbox requests get {}",
        text(&requests, "/0/id")
    ));
    watch(checker, &["watch"]);
    for command in ["show", "freeze", "advance 1s", "resume", "real"] {
        checker.run(&format!("sandbox clock {command}"));
    }

    checker.run("sandbox due");
    let fault = checker.run("sandbox faults add --operation emails.send --status 503");
    checker.run("sandbox faults list");
    checker.run(&format!("sandbox faults get {}", text(&fault, "/id")));
    checker.fail(SEND, 9);
    checker.run("sandbox faults remove");
    checker.run("sandbox messages delete --yes");
    checker.run("sandbox reset --yes");
}

/// A command that prints what changes until it is stopped.
fn watch(checker: &mut Checker, words: &[&str]) {
    let command = &mut checker.home.command(&[words, &["--json"]].concat());
    let mut watching = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    checker.check(words, &serde_json::from_str(&next()).expect("JSON"));
    checker.run("--sandbox audiences list");
    let event = loop {
        let event = serde_json::from_str::<Value>(&next()).expect("JSON");
        checker.check(words, &event);
        if event["type"] == "request" {
            break event;
        }
    };
    assert_eq!(event["operation"], "audiences.list");

    let pid = watching.id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(killed.expect("kill runs").success());
    assert!(watching.wait().expect("ends").success());
}

#[test]
fn the_schemas_are_valid() {
    for command in Home::new()
        .run(&["schema"])
        .json()
        .as_array()
        .expect("a list")
    {
        for part in ["input", "output", "errors"] {
            assert!(
                jsonschema::meta::is_valid(&command[part]),
                "{}",
                command["command"]
            );
        }
    }
    let run: Run = Home::new().run(&["schema", "listen", "--jq", ".output.anyOf[1].required[0]"]);
    assert_eq!(run.stdout, "at\n");
}
