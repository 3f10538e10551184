//! The effect of each setting in a profile.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use crate::pty::Terminal;
use crate::support::{Home, Run, Service, http_response};

/// A home directory with these settings in the default profile.
fn home(lines: &str) -> Home {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        format!("[profiles.default]\n{lines}\n"),
    );
    home
}

fn run(home: &Home, service: &Service, args: &[&str]) -> Run {
    home.run_with_env(
        args,
        &[
            ("SVC_EMAIL_URL", &service.url()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ],
    )
}

/// A base URL that was edited by hand does not get the key of the old one.
#[test]
fn a_stored_key_is_not_sent_to_an_edited_base_url() {
    let own = Service::always(200, "[]");
    let other = Service::always(200, "[]");
    let home = Home::new();
    let login = home.run_with_input(&["login", "--email-url", &own.url()], "mk_test_stored");
    assert_eq!(login.code, 0, "{login:?}");

    let path = home.path("config/svc/config.toml");
    let config = std::fs::read_to_string(&path).expect("read");
    home.file(
        "config/svc/config.toml",
        config.replace(&own.url(), &other.url()),
    );
    let run = home.run(&["audiences", "list", "--json"]);
    assert_eq!(run.code, 2, "{run:?}");

    let error = run.error();
    assert_eq!(error["code"], "key_for_another_url", "{error}");

    let way_out = format!(
        "svc login --service email --profile default --email-url {}",
        other.url()
    );
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains(&way_out)),
        "{error}"
    );
    assert_eq!(other.requests(), [""; 0]);

    let login = home.run_with_input(&["login", "--profile", "default"], "mk_test_new");
    assert_eq!(login.code, 0, "{login:?}");
    assert_eq!(home.run(&["audiences", "list", "--json"]).code, 0);
}

/// A login does not replace the base URL and the key of a profile in silence.
#[test]
fn a_login_at_another_base_url_needs_a_confirmation() {
    let own = Service::always(200, "[]");
    let other = Service::always(200, "[]");
    let home = Home::new();
    let login = |more: &[&str]| {
        home.run_with_input(
            &[&["login"], more].concat(),
            format!("mk_test_{}", more.len()),
        )
    };

    assert_eq!(login(&["--email-url", &own.url()]).code, 0);
    // Another key at the same base URL.
    assert_eq!(login(&["--email-url", &format!("{}/", own.url())]).code, 0);

    let file = |name: &str| {
        std::fs::read_to_string(home.path(&format!("config/svc/{name}.toml"))).expect("read")
    };
    let before = (file("config"), file("credentials"));
    let run = login(&["--email-url", &other.url()]);
    let error = run.error();
    assert_eq!(
        (run.code, &error["code"]),
        (2, &Value::from("profile_in_use")),
        "{run:?}"
    );

    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("`default`") && message.contains(&own.url()),
        "{message}"
    );
    assert!(message.contains("and its key"), "{message}");

    let hint = error["hint"].as_str().expect("a hint");
    assert!(
        hint.contains("--profile NAME") && hint.contains(" --yes"),
        "{hint}"
    );
    assert_eq!((file("config"), file("credentials")), before);
    assert_eq!(other.requests(), [""; 0]);

    // On a terminal, a question is asked before the key.
    let words = ["login", "--email-url", &other.url()];
    let mut terminal = Terminal::start(&home, &words, &[("NO_COLOR", "1")], 200);
    terminal.until("base URL and its key. Replace? [y/N] ");
    terminal.write("n\n");
    assert_eq!(terminal.end().code, 2);
    assert_eq!((file("config"), file("credentials")), before);

    assert_eq!(
        login(&["--profile", "new", "--email-url", &other.url()]).code,
        0
    );
    assert_eq!(login(&["--yes", "--email-url", &other.url()]).code, 0);
    assert!(
        !file("credentials").contains(&own.url()),
        "the old key is gone"
    );
}

/// A stored key is sent only to the base URL that it was stored for.
/// It would replace the key of the other service, and be sent to it.
#[test]
fn a_login_is_at_the_service_of_its_url() {
    let home = home("");
    let store = |args: &[&str], key: &str| {
        let login = ["login", "--store-only"];
        home.run_with_input(&[&login[..], args].concat(), key)
    };

    let email = ["--email-url", "https://mail.test"];
    assert_eq!(store(&email, "mk_test_x").code, 0);

    let extraction = ["--extraction-url", "https://extract.test"];
    let run = store(&extraction, "sk_test_x");
    assert_eq!(
        (run.code, &run.json()["service"]),
        (0, &"extraction".into())
    );

    let credentials = std::fs::read_to_string(home.path("config/svc/credentials.toml"));
    let credentials = credentials.expect("read");
    assert!(
        credentials.contains("email_key = \"mk_test_x\"")
            && credentials.contains("extraction_key = \"sk_test_x\""),
        "{credentials}"
    );

    let both = [email, extraction].concat();
    assert_eq!(store(&both, "mk_test_x").code, 2);

    let other = [&["--service", "email"], &extraction[..]].concat();
    assert_eq!(store(&other, "mk_test_x").code, 2);
}

#[test]
fn a_stored_key_is_not_sent_to_another_base_url() {
    let own = Service::always(200, "[]");
    let other = Service::always(200, "[]");
    let home = Home::new();
    let login = home.run_with_input(&["login", "--email-url", &own.url()], "mk_test_stored");
    assert_eq!(login.code, 0, "{login:?}");

    let list = ["audiences", "list", "--json"];

    let by_option = home.run(&[&list[..], &["--email-url", &other.url()]].concat());
    let by_variable = home.run_with_env(&list, &[("SVC_EMAIL_URL", &other.url())]);
    for run in [by_option, by_variable] {
        assert_eq!(run.code, 2, "{run:?}");
        let error = run.error();
        assert_eq!(error["code"], "key_for_another_url", "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.contains(&own.url()) && message.contains(&other.url()),
            "{message}"
        );
        assert!(!run.stderr.contains("mk_test_stored"), "{run:?}");
    }

    assert!(other.requests().is_empty(), "{:?}", other.requests());

    // The same base URL in another form, and a key of its own, are fine.
    let same = format!("{}/", own.url());
    assert_eq!(
        home.run(&[&list[..], &["--email-url", &same]].concat())
            .code,
        0
    );

    let env = [
        ("SVC_EMAIL_URL", other.url()),
        ("SVC_EMAIL_KEY", "mk_test_other".to_owned()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(home.run_with_env(&list, &env).code, 0);
    assert!(
        other.requests()[0].contains("Bearer mk_test_other"),
        "{:?}",
        other.requests()
    );
}

#[test]
fn key_header_and_scheme() {
    for (config, header) in [
        ("", "authorization: Bearer mk_test_x\r\n"),
        (
            "dialect.key-header = \"X-Api-Key\"",
            "x-api-key: mk_test_x\r\n",
        ),
        (
            "dialect.key-scheme = \"token\"",
            "authorization: Token mk_test_x\r\n",
        ),
        (
            "dialect.key-header = \"X-Key\"\ndialect.key-scheme = \"v1\"",
            "x-key: v1 mk_test_x\r\n",
        ),
    ] {
        let service = Service::always(200, "[]");
        assert_eq!(run(&home(config), &service, &["audiences", "list"]).code, 0);
        assert!(
            service.requests()[0].contains(header),
            "{config}: {:?}",
            service.requests()
        );
    }
}

#[test]
fn event_header() {
    let event = |config: &str, header: &str, body: &str| {
        let home = home(config);
        home.file("secret", "whsec_3f1c");
        let secret = webhook_verify::Secret::new("whsec_3f1c").expect("a secret");
        let signature =
            webhook_verify::Signature::sign(webhook_verify::Service::Email, &secret, body);
        let mut child = home
            .command(&["listen", "--secret-file", "secret", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let _watchdog = crate::support::Watchdog::start(&child);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut next = || -> Value {
            serde_json::from_str(&lines.next().expect("a line").expect("UTF-8")).expect("JSON")
        };
        let address = next()["listening"]
            .as_str()
            .expect("an address")
            .replace("http://", "");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\n{header}: email.sent\r\nMail-Signature: {signature}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        crate::support::limit_time(&stream);
        stream.read_to_end(&mut Vec::new()).expect("a response");
        let seen = next()["event"].clone();
        child.kill().expect("killed");
        child.wait().expect("ends");
        seen
    };

    assert_eq!(event("", "Mail-Event", "{}"), "email.sent");
    assert_eq!(
        event("dialect.event-header = \"X-Evt\"", "X-Evt", "{}"),
        "email.sent"
    );
    assert_eq!(
        event("dialect.event-header = \"X-Evt\"", "Mail-Event", "{}"),
        Value::Null
    );
    assert_eq!(event("", "X-Evt", "{}"), Value::Null);

    // The signed body takes precedence over the header.
    let both = r#"{"type":"second","event":"first"}"#;
    assert_eq!(event("", "Mail-Event", both), "first");
    assert_eq!(event("", "Mail-Event", r#"{"type":"second"}"#), "second");
}

#[test]
fn first_page() {
    // Bare arrays, without a page number.
    let pages =
        [r#"[{"id":"con_1"}]"#, r#"[{"id":"con_2"}]"#, "[]"].map(|b| http_response(200, "", b));
    for (config, second, third) in [
        ("", "page=2", "page=3"),
        ("dialect.first-page = 0", "page=1", "page=2"),
    ] {
        for args in [
            &[
                "contacts",
                "list",
                "aud_019a0b1c-0000-7000-8000-000000000001",
                "--all",
            ][..],
            &[
                "contacts",
                "list",
                "aud_019a0b1c-0000-7000-8000-000000000001",
                "--all",
                "--json",
            ],
            &[
                "api",
                "GET",
                "/api/v1/audiences/aud_019a0b1c-0000-7000-8000-000000000001/contacts",
                "--all",
            ],
        ] {
            let service = Service::with_responses(&pages);
            let run = run(&home(config), &service, args);
            assert_eq!(
                (run.code, run.json().as_array().map(Vec::len)),
                (0, Some(2)),
                "{run:?}"
            );
            let asked = service.requests();
            let first = asked[0].replace("?pageSize=100", "");
            assert!(
                first.starts_with(
                    "GET /api/v1/audiences/aud_019a0b1c-0000-7000-8000-000000000001/contacts HTTP"
                ),
                "{asked:?}"
            );
            assert!(
                asked[1].contains(second) && asked[2].contains(third),
                "{config}: {asked:?}"
            );
        }
    }
}

#[test]
fn webhook_urls_without_tls() {
    let args = [
        "webhooks",
        "create",
        "http://in.example",
        "--event",
        "email.sent",
        "--dry-run",
    ];
    let https = |config: &str| {
        let home = home(config);
        let base = [
            ("SVC_EMAIL_URL", "https://mail.example"),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ];
        home.run_with_env(&args, &base)
    };

    let refused = https("");
    assert_eq!(
        (refused.code, refused.error()["kind"].clone()),
        (2, "invalid_input".into())
    );

    let hint = refused.error()["hint"].as_str().expect("a hint").to_owned();
    assert!(hint.contains("webhook-urls=any"), "{hint}");
    assert_eq!(https("dialect.webhook-urls = \"any\"").code, 0);

    // A service without TLS, such as a sandbox, decides itself.
    let service = Service::always(201, r#"{"id":"whk_1"}"#);
    let taken = run(&home(""), &service, &args[..5]);
    assert_eq!((taken.code, service.requests().len()), (0, 1), "{taken:?}");
}

/// The value of a header that begins so.
fn header(request: &str, name: &str) -> Option<String> {
    let line = request.lines().find(|line| line.starts_with(name))?;
    Some(line[name.len()..].to_owned())
}

#[test]
fn honors_idempotency_key() {
    let send = [
        "emails",
        "send",
        "--from=a@b.test",
        "--to=c@d.test",
        "--subject=s",
        "--text=t",
    ];
    let key = ["--idempotency-key", "once"];
    let responses = [
        http_response(503, "", "{}"),
        http_response(202, "", r#"{"id":"eml_1"}"#),
    ];
    for (config, args, code, sent) in [
        ("", [&send[..], &key].concat(), 9, 1),
        (
            "dialect.idempotency = \"honored\"",
            [&send[..], &key].concat(),
            0,
            2,
        ),
        // Without one from the user, the SDK makes one for each send.
        ("dialect.idempotency = \"honored\"", send.to_vec(), 0, 2),
        ("", send.to_vec(), 9, 1),
    ] {
        let service = Service::with_responses(&responses);
        let run = run(&home(config), &service, &args);
        assert_eq!(
            (run.code, service.requests().len()),
            (code, sent),
            "{config}: {run:?}"
        );
        let keys = service
            .requests()
            .iter()
            .map(|request| header(request, "idempotency-key: "))
            .collect::<Vec<_>>();
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        if args.contains(&"once") {
            assert_eq!(keys[0].as_deref(), Some("once"));
        } else {
            assert_eq!(keys[0].is_some(), !config.is_empty(), "{config}: {keys:?}");
        }
    }
}

#[test]
fn batch_body_and_limits() {
    let bad = r#"{"from":"not an address","to":"c@d.test","subject":"s","text":"t"}"#;
    let service = Service::always(200, r#"[{"id":"eml_1"}]"#);
    let home = home("dialect.batch-body = \"emails\"\ndialect.limits = \"other\"");
    let file = home.file("emails.json", format!("[{bad}]"));
    assert_eq!(run(&home, &service, &["emails", "batch", &file]).code, 0);
    assert!(service.requests()[0].contains(r#"{"emails":[{"from":"not an address""#));

    let plain = Home::new();
    let file = plain.file("emails.json", format!("[{bad}]"));
    assert_eq!(run(&plain, &service, &["emails", "batch", &file]).code, 2);
    assert_eq!(service.requests().len(), 1);
}

#[test]
fn output_timeout_and_retries() {
    let service = Service::always(503, "{}");
    let shown = run(
        &home("retries = 0x4\noutput = \"ndjson\""),
        &service,
        &["audiences", "list"],
    );
    assert_eq!((shown.code, service.requests().len()), (8, 5), "{shown:?}");

    let service = Service::always(200, r#"[{"id":"aud_1"}]"#);
    let lines = run(
        &home("output = \"ndjson\""),
        &service,
        &["audiences", "list"],
    );
    assert_eq!(lines.stdout, "{\"id\":\"aud_1\"}\n");

    // Accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let late = home("timeout = \"200ms\"").run_with_env(&["audiences", "list"], &env);
    assert_eq!(late.code, 8, "{late:?}");
}

#[test]
fn a_setting_of_the_wrong_type_is_reported() {
    for (config, key) in [
        ("dialect.first-page = \"one\"", "first-page"),
        ("dialect.webhook-urls = 2", "webhook-urls"),
        ("dialect.event-header = true", "event-header"),
        ("timeout = \"soon\"", "timeout"),
    ] {
        let run = home(config).run(&["audiences", "list"]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(
            run.error()["message"]
                .as_str()
                .is_some_and(|m| m.contains(key)),
            "{run:?}"
        );
    }
}

/// The help of `svc config show` documents the settings of a profile.
#[test]
fn the_help_lists_every_profile_setting() {
    let help = Home::new().run(&["config", "show", "--help"]).stdout;
    let lines = help
        .lines()
        .skip_while(|line| !line.contains("[profiles.staging]"));
    let example = lines
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>();
    let home = Home::new();
    home.file("config/svc/config.toml", example.join("\n"));
    let rows = home.run(&["config", "show", "--profile", "staging"]).json();
    let is_set = |row: &Value| row["from"] == "profile" && !row["value"].is_null();
    // These are not settings of a profile.
    let others = ["profile", "sandbox", "email_key", "extraction_key"];
    for row in rows.as_array().expect("a list") {
        let name = row["setting"].as_str().expect("a name");
        assert!(
            is_set(row) || others.contains(&name),
            "{name} is not in the example: {row}"
        );
        assert_eq!(
            help.contains(&format!("\n  {name} = ")),
            is_set(row),
            "{row}"
        );
    }
}
