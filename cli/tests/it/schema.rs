//! `svc schema` says the truth: every leaf's real answer fits it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Home, Run, Service};

/// Runs commands in a sandbox of its own and holds each answer to its schema.
struct Walk {
    home: Home,
    schemas: HashMap<String, Value>,
    seen: Vec<String>,
}

impl Walk {
    fn new() -> Self {
        let home = Home::new();
        let all = home.run(&["schema"]).json();
        let schemas = all.as_array().expect("a list").iter().map(|one| {
            let path = one["command"].as_str().expect("a name").to_owned();
            (path, one.clone())
        });
        Self { schemas: schemas.collect(), home, seen: Vec::new() }
    }

    /// The command must succeed, unless another code is given.
    fn run(&mut self, line: &str) -> Value {
        self.run_words(&line.split(' ').collect::<Vec<_>>(), 0)
    }

    fn run_words(&mut self, words: &[&str], code: i32) -> Value {
        let run = self.home.run(&[words, &["--json"]].concat());
        assert_eq!(run.code, code, "{words:?}: {run:?}");
        let answer = run.json();
        self.check(words, &answer);
        answer
    }

    fn run_with_input(&mut self, words: &[&str], input: &str) {
        let run = self.home.run_with_input(&[words, &["--json"]].concat(), input);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
        self.check(words, &run.json());
    }

    fn check(&mut self, words: &[&str], answer: &Value) {
        let path = self.path(words);
        valid(&self.schemas[&path]["answer"], answer, &path);
        self.seen.push(path);
    }

    /// The command must fail with this code, and its error must fit.
    fn fail(&mut self, line: &str, code: i32) {
        let words = line.split(' ').collect::<Vec<_>>();
        let run = self.home.run(&[&words[..], &["--json"]].concat());
        assert_eq!(run.code, code, "{line}: {run:?}");
        let error = serde_json::from_str(&run.stderr).expect("an object");
        let path = self.path(&words);
        valid(&self.schemas[&path]["errors"], &error, &path);
    }

    /// The longest leaf that the words begin with, options left out.
    fn path(&self, words: &[&str]) -> String {
        let words = words.iter().filter(|word| !word.starts_with('-')).copied();
        let line = words.collect::<Vec<_>>().join(" ");
        let begins = |path: &&String| line == **path || line.starts_with(&format!("{path} "));
        self.schemas.keys().filter(begins).max_by_key(|path| path.len()).expect("a leaf").clone()
    }
}

#[track_caller]
fn valid(schema: &Value, instance: &Value, what: &str) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let problems = validator.iter_errors(instance).map(|e| format!("{e}")).collect::<Vec<_>>();
    assert!(problems.is_empty(), "`{what}` does not fit its schema: {problems:?}\n{instance:#}");
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
fn the_answer_of_every_leaf_fits_its_schema() {
    let mut walk = Walk::new();
    let dir = walk.home.path("data/svc/sandbox").display().to_string();
    let words = ["sandbox", "serve", "--addr", "127.0.0.1:0"];
    let mut serving = walk
        .home
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let mut ready = BufReader::new(serving.stdout.take().expect("piped"));
    ready.read_line(&mut line).expect("a line");
    walk.check(&words, &serde_json::from_str(&line).expect("JSON"));
    assert!(line.contains(&dir));

    emails(&mut walk);
    contacts(&mut walk);
    domains(&mut walk);
    webhooks(&mut walk);
    deliveries(&mut walk);
    this_machine(&mut walk);
    local_server(&mut walk);

    walk.run("sandbox stop");
    serving.wait().expect("ends");
    walk.run("sandbox stop");
    walk.run("sandbox status");
    for leaf in svc_cli::COMMANDS {
        assert!(walk.seen.iter().any(|path| path == leaf.path), "`{}` was not run", leaf.path);
    }
}

const SEND: &str =
    "--sandbox emails send --from hello@sandbox.test --to ada@example.test --subject s --text t";

fn emails(walk: &mut Walk) {
    let sent = walk.run(SEND);
    walk.run(&format!("--sandbox emails get {} --wait", text(&sent, "/id")));
    let later = walk.run(&format!("{SEND} --at +2h"));
    walk.run(&format!("--sandbox emails cancel {}", text(&later, "/id")));
    let good = r#"{"from":"hello@sandbox.test","to":"a@b.test","subject":"s"}"#;
    let bad = r#"{"from":"hello@nobody.test","to":"a@b.test","subject":"s"}"#;
    let file = walk.home.file("emails.ndjson", format!("{good}\n{bad}\n"));
    walk.run_words(&["--sandbox", "emails", "batch", &file], 11);
    walk.fail("--sandbox emails get eml_nope", 5);
    walk.fail("--sandbox emails send --from x --to y --subject s", 2);
    walk.fail("--sandbox emails send --from a@nobody.test --to c@d.test --subject s", 6);
}

fn contacts(walk: &mut Walk) {
    let audience = walk.run("--sandbox audiences create News");
    let audience = text(&audience, "/id");
    walk.run(&format!("--sandbox audiences get {audience}"));
    walk.run("--sandbox audiences list");
    let contact = walk.run(&format!("--sandbox contacts create {audience} ada@example.test"));
    let contact = text(&contact, "/id");
    walk.run(&format!("--sandbox contacts update {contact} --name Ada --topic x"));
    walk.run(&format!("--sandbox contacts list {audience}"));
    let file = walk.home.file("people.csv", "email\nada@example.test\nbob@example.test\nbad\n");
    walk.run_words(&["--sandbox", "contacts", "import", audience, &file], 11);
    walk.run(&format!("--sandbox contacts export {audience}"));
    walk.run(&format!("--sandbox contacts delete {contact} --yes"));
    walk.run(&format!("--sandbox audiences delete {audience} --yes"));
    walk.fail(&format!("--sandbox audiences delete {audience}"), 2);
}

fn domains(walk: &mut Walk) {
    let domain = walk.run("--sandbox domains create shop.test");
    let id = text(&domain, "/id").to_owned();
    walk.run("--sandbox domains list");
    walk.run(&format!("--sandbox domains records {id}"));
    walk.run(&format!("--sandbox domains records {id} --format json"));
    walk.run_words(&["--sandbox", "domains", "verify", &id], 10);
    walk.run("sandbox dns publish shop.test");
    walk.run(&format!("--sandbox domains verify {id}"));
    walk.run("sandbox dns withdraw shop.test spf");
    walk.run(&format!("--sandbox domains delete {id} --yes"));
}

fn webhooks(walk: &mut Walk) {
    let app = Service::always(200, "{}");
    let create = format!("--sandbox webhooks create {} --event email.delivered", app.url());
    let webhook = walk.run(&create);
    let id = text(&webhook, "/id");
    walk.run("--sandbox webhooks list");
    walk.run(&format!("--sandbox webhooks test {id}"));
    walk.run(&format!("--sandbox webhooks update {id} --active true"));
    let extraction = walk.run(&format!(
        "--sandbox extraction webhooks create {} --event extraction.completed",
        app.url()
    ));
    walk.run("--sandbox extraction webhooks list");
    walk.run("--sandbox extraction me");
    walk.run("sandbox extraction completed");
    let email = walk.run(&format!("{SEND} --wait"));
    walk.run(&format!("sandbox event {} opened", text(&email, "/id")));
    let deliveries = walk.run("sandbox deliveries list");
    let delivery = text(&deliveries, "/0/id");
    walk.run(&format!("sandbox deliveries get {delivery}"));
    walk.run(&format!("sandbox deliveries replay {delivery}"));
    walk.run(&format!("--sandbox webhooks delete {id} --yes"));
    let id = text(&extraction, "/id");
    walk.run(&format!("--sandbox extraction webhooks delete {id} --yes"));
}

/// `listen`, `trigger`, `replay`, `sign`, `verify`, one after the other.
fn deliveries(walk: &mut Walk) {
    let app = Service::always(200, "{}");
    let secret = walk.home.file("secret", "whsec_1");
    let words = ["listen", "--secret-file", &secret, "--forward-to", &app.url()];
    let args = [&words[..], &["--json"]].concat();
    let mut child = walk.home.command(&args).stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("UTF-8");
        serde_json::from_str(&line).expect("JSON")
    };
    let ready = next();
    walk.check(&words, &ready);
    let to = text(&ready, "/listening").to_owned();
    walk.run_words(&["trigger", "email.bounced", "--to", &to, "--secret-file", &secret], 0);
    let seen = next();
    walk.check(&words, &seen);
    let forged = walk.home.file("forged", "whsec_2");
    walk.run_words(&["trigger", "email.bounced", "--to", &to, "--secret-file", &forged], 10);
    walk.check(&words, &next());
    child.kill().expect("killed");
    child.wait().expect("ends");

    walk.run(&format!("replay {}", text(&seen, "/id")));
    walk.run_words(&["replay", "--since", "1h", "--to", "http://127.0.0.1:9"], 8);
    let body = walk.home.file("body", "{}");
    let sign = ["sign", "--service", "email", "--secret-file", &secret, &body];
    let signed = walk.run_words(&sign, 0);
    let signature = text(&signed, "/signature").to_owned();
    let verify = |signature: &str| {
        let words = ["verify", "--service", "email", "--secret-file", &secret, "--signature"];
        [&words[..], &[signature, &body]].concat().join(" ")
    };
    walk.run(&verify(&signature));
    walk.fail(&verify(&"0".repeat(64)), 10);
}

fn this_machine(walk: &mut Walk) {
    walk.run("config path");
    walk.run("config show");
    walk.run("--sandbox whoami");
    walk.run("--sandbox doctor");
    walk.run("--sandbox api GET /api/v1/audiences");
    walk.run("completions fish");
    walk.run("man");
    let pages = walk.home.path("pages").display().to_string();
    walk.run_words(&["man", &pages], 0);
    walk.run("schema");
    walk.run("schema emails send");
    let service = Service::always(200, "[]");
    walk.run_with_input(&["login", "--email-url", &service.url()], "mk_test_x");
    walk.run("profiles list");
    walk.run("profiles use default");
    walk.run("whoami");
    walk.run("logout");
    walk.run("profiles remove default --yes");
    walk.fail("audiences list", 3);
}

fn local_server(walk: &mut Walk) {
    walk.run("sandbox status");
    walk.run("sandbox organizations create --name Acme");
    walk.run("sandbox organizations list");
    let key = walk.run("sandbox keys create --service email --scope emails:send");
    walk.run("sandbox keys list");
    walk.run(&format!("sandbox keys delete {} --yes", text(&key, "/id")));
    walk.run("sandbox templates put welcome --subject Hi");
    walk.run("sandbox templates get welcome");
    walk.run("sandbox templates delete welcome --yes");
    walk.run(
        "sandbox inbound --from a@b.test --to hello@sandbox.test --subject s --html <p>Hi</p>",
    );
    let messages = walk.run("sandbox messages list");
    let id = text(&messages, "/0/id");
    walk.run("sandbox messages wait");
    for part in ["", " --raw", " --html", " --links"] {
        walk.run(&format!("sandbox messages get {id}{part}"));
    }
    for command in ["show", "freeze", "advance 1s", "resume"] {
        walk.run(&format!("sandbox clock {command}"));
    }
    let fault = walk.run("sandbox faults add --operation emails.send --status 503");
    walk.run("sandbox faults list");
    walk.run(&format!("sandbox faults get {}", text(&fault, "/id")));
    walk.fail(SEND, 9);
    walk.run("sandbox faults remove");
    walk.run("sandbox reset --yes");
}

#[test]
fn the_schemas_are_schemas() {
    for command in Home::new().run(&["schema"]).json().as_array().expect("a list") {
        for part in ["input", "answer", "errors"] {
            assert!(jsonschema::meta::is_valid(&command[part]), "{}", command["command"]);
        }
    }
    let run: Run = Home::new().run(&["schema", "listen", "--jq", ".answer.oneOf[1].required[0]"]);
    assert_eq!(run.stdout, "at\n");
}
