//! The sources and the precedence of settings.

use serde_json::{Value, json};

use crate::support::{Home, Service};

const CONFIG: &str = "[profiles.default]\nemail_url = \"http://profile.example\"\n\
                      [profiles.other]\nemail_url = \"http://other.example\"\nretries = 5\n";

fn shown(run: &crate::support::Run, setting: &str) -> (Value, Value) {
    assert_eq!(run.code, 0, "{run:?}");
    let all = run.json();
    let rows = all.as_array().expect("a list");
    let row = rows
        .iter()
        .find(|row| row["setting"] == setting)
        .expect("the setting");
    (row["value"].clone(), row["from"].clone())
}

#[test]
fn precedence_is_option_environment_file_profile_default() {
    let home = Home::new();
    home.file("config/svc/config.toml", CONFIG);
    let env_file = home.file("vars", "SVC_EMAIL_URL=http://file.example\n");
    let show = |args: &[&str], env: &[(&str, &str)]| {
        let (value, from) = shown(
            &home.run_with_env(&[&["config", "show"], args].concat(), env),
            "email_url",
        );
        (
            value.as_str().map(str::to_owned),
            from.as_str().map(str::to_owned),
        )
    };

    let pair = |value: &str, from: &str| (Some(value.to_owned()), Some(from.to_owned()));
    let file = ["--env-file", env_file.as_str()];
    let env = [("SVC_EMAIL_URL", "http://env.example")];
    assert_eq!(show(&[], &[]), pair("http://profile.example", "profile"));
    assert_eq!(
        show(&file, &[]),
        pair("http://file.example", "--env-file SVC_EMAIL_URL")
    );
    assert_eq!(
        show(&file, &env),
        pair("http://env.example", "environment SVC_EMAIL_URL")
    );

    let option = ["--email-url", "http://option.example"];
    assert_eq!(
        show(&[&file[..], &option].concat(), &env),
        pair("http://option.example", "--email-url")
    );

    let other = home.run_with_env(&["config", "show"], &[("SVC_PROFILE", "other")]);
    assert_eq!(shown(&other, "email_url").0, "http://other.example");
    assert_eq!(shown(&other, "retries").0, 5);
}

#[test]
fn a_dot_env_file_is_read_only_with_env_file() {
    let home = Home::new();
    home.file(".env", "SVC_EMAIL_URL=http://file.example\n");
    assert_eq!(
        shown(&home.run(&["config", "show"]), "email_url").0,
        Value::Null
    );
    let named = home.run(&["config", "show", "--env-file", ".env"]);
    assert_eq!(shown(&named, "email_url").0, "http://file.example");
}

#[test]
fn login_checks_and_stores_the_key_and_logout_removes_it() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let run = home.run_with_input(
        &["login", "--email-url", &service.url()],
        "mk_live_secret42\n",
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(service.requests()[0].starts_with("GET /api/v1/audiences HTTP/1.1"));
    assert!(service.requests()[0].contains("Bearer mk_live_secret42"));
    assert_eq!(run.json()["mode"], "live");

    let list = home.run(&["audiences", "list"]);
    assert_eq!(
        (list.code, list.json()),
        (0, serde_json::json!([])),
        "{list:?}"
    );

    let profiles = home.run(&["profiles", "list"]).json();
    assert_eq!(profiles[0]["email_key"], "mk_live_…");

    assert_eq!(
        home.run(&["logout"]).json()["deleted"],
        serde_json::json!(["email"])
    );

    let list = home.run(&["audiences", "list"]);
    assert_eq!(
        (list.code, list.error()["code"].as_str()),
        (3, Some("no_key")),
        "{list:?}"
    );
}

#[test]
fn login_rejects_a_key_that_the_service_refuses() {
    let home = Home::new();
    let body = r#"{"error":{"code":"unauthorized","message":"no"}}"#;
    let service = Service::always(401, body);
    let run = home.run_with_input(&["login", "--email-url", &service.url()], "mk_test_wrong");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(!home.path("config/svc/credentials.toml").exists());
}

#[test]
fn a_profile_refuses_the_key_of_another_organization() {
    let home = Home::new();
    let me = |id: &str| {
        Service::always(
            200,
            &format!(
                r#"{{"organization":{{"id":"{id}","name":"N","balance_cents":5}},
                "auth":{{"method":"api_key","scope":"full","key_id":"key_1"}}}}"#
            ),
        )
    };

    let first = me("org_1");
    let second = me("org_2");
    let login = |service: &Service| {
        let url = service.url();
        home.run_with_input(
            &[
                "login",
                "--yes",
                "--service",
                "extraction",
                "--extraction-url",
                &url,
            ],
            "sk_test_a",
        )
    };

    assert_eq!(login(&first).code, 0);

    let refused = login(&second);
    assert_eq!(refused.code, 10, "{refused:?}");
    assert_eq!(refused.error()["code"], "wrong_organization");

    let who = home.run(&["whoami"]);
    assert_eq!(
        who.json()["extraction"]["organization"]["id"],
        "org_1",
        "{who:?}"
    );

    // A key from the environment, which `svc login` has not checked.
    let create = [
        "extraction",
        "webhooks",
        "create",
        "https://a.test",
        "--event",
        "extraction.failed",
    ];
    let other = [
        ("SVC_EXTRACTION_URL", &*second.url()),
        ("SVC_EXTRACTION_KEY", "sk_test_b"),
    ];
    let refused = home.run_with_env(&create, &other);
    assert_eq!(
        (refused.code, &refused.error()["code"]),
        (10, &"wrong_organization".into())
    );
    assert!(
        second
            .requests()
            .iter()
            .all(|request| request.starts_with("GET /v1/me "))
    );

    let same = [("SVC_EXTRACTION_KEY", "sk_test_b")];
    home.run_with_env(&create, &same);
    let sent = first.requests().pop().expect("a request");
    assert!(sent.starts_with("POST /v1/webhooks "), "{sent}");
}

#[test]
fn whoami_fails_for_an_unknown_profile() {
    let run = Home::new().run(&["whoami", "--profile", "nope"]);
    assert_eq!(
        (run.code, &run.error()["message"]),
        (2, &"profile `nope` does not exist".into())
    );
}

#[test]
fn profiles_are_used_and_removed() {
    let home = Home::new();
    home.file("config/svc/config.toml", CONFIG);
    assert_eq!(home.run(&["profiles", "use", "nope"]).code, 2);
    assert_eq!(home.run(&["profiles", "use", "other"]).code, 0);
    assert_eq!(
        shown(&home.run(&["config", "show"]), "email_url").0,
        "http://other.example"
    );
    assert_eq!(
        home.run(&["profiles", "remove", "other"]).code,
        2,
        "needs confirmation"
    );
    assert_eq!(home.run(&["profiles", "remove", "other", "--yes"]).code, 0);
    assert_eq!(
        shown(&home.run(&["config", "show"]), "email_url").0,
        "http://profile.example"
    );
}

#[test]
fn a_profile_holds_the_dialect() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    home.file(
        "config/svc/config.toml",
        format!(
            "[profiles.default]\nemail_url = \"{}\"\ndialect.key-header = \"X-Api-Key\"\n\
             dialect.batch-body = \"emails\"\ndialect.limits = \"other\"\n",
            service.url()
        ),
    );
    let email = r#"{"from":"not an address","to":"c@d.test","subject":"s","text":"t"}"#;
    let file = home.file("emails.json", format!("[{email}]"));
    home.run_with_env(
        &["emails", "batch", &file],
        &[("SVC_EMAIL_KEY", "mk_test_x")],
    );
    let request = &service.requests()[0];
    assert!(request.contains("x-api-key: mk_test_x\r\n"), "{request}");
    assert!(
        request.contains(r#"{"emails":[{"from":"not an address""#),
        "{request}"
    );
}

/// What was probably meant by an entry in the wrong place of `config.toml`.
#[test]
fn misplaced_settings_are_explained() {
    for (config, explanation) in [
        (
            "retries = 3",
            "retries belongs in a profile: [profiles.NAME]",
        ),
        (
            "[profile.work]\nretries = 3",
            "a profile is [profiles.NAME]",
        ),
    ] {
        let home = Home::new();
        home.file("config/svc/config.toml", config);
        let run = home.run(&["config", "show"]);
        assert!(run.stderr.contains(explanation), "{run:?}");
    }
}

#[test]
fn concurrent_logins_do_not_lose_updates() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let names = (0..8)
        .map(|number| format!("p{number}"))
        .collect::<Vec<_>>();
    let logins = names.iter().map(|name| {
        let args = ["login", "--profile", name, "--email-url", &service.url()];
        let mut child = home.spawn(&args);
        let mut stdin = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut stdin, b"mk_test_x").expect("taken");
        child
    });
    for login in logins.collect::<Vec<_>>() {
        let run = crate::support::Run::wait(login);
        assert_eq!(run.code, 0, "{run:?}");
    }

    let stored = home
        .run(&["profiles", "list", "--jq", ".[] | select(.email_key).name"])
        .stdout;
    let mut stored = stored.lines().collect::<Vec<_>>();
    stored.sort_unstable();
    assert_eq!(stored, names);
}

#[test]
fn files_with_entries_of_the_wrong_type_are_not_changed() {
    let service = Service::always(200, "[]");
    for content in [
        "profiles = 5\n",
        "[[profiles]]\nemail_url = \"x\"\n",
        "[profiles]\ndefault = 7\n",
        "[[profiles.default]]\na = 7\n",
        "profile = 5\n",
    ] {
        for name in ["config.toml", "credentials.toml"] {
            let home = Home::new();
            let path = home.file(&format!("config/svc/{name}"), content);
            #[cfg(unix)]
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .expect("changed");
            let run = home.run_with_input(&["login", "--email-url", &service.url()], "mk_test_x");
            assert_eq!(run.code, 2, "{name}: {content}: {run:?}");
            assert!(
                run.stderr.contains(name) && run.stderr.contains("profile"),
                "{run:?}"
            );
            assert_eq!(std::fs::read_to_string(&path).expect("read"), content);
        }
    }
}

#[test]
fn the_environment_overrides_the_file_for_the_sandbox() {
    let home = Home::new();
    let file = home.file("vars", "SVC_SANDBOX=1\n");
    let args = ["--env-file", &file, "--dry-run", "audiences", "list"];
    assert_eq!(home.run(&args).code, 0);

    let off = home.run_with_env(&args, &[("SVC_SANDBOX", "0")]);
    assert_eq!(
        (off.code, &off.error()["code"]),
        (3, &"not_set_up".into()),
        "{off:?}"
    );
}

/// An invalid value must not fall back to another source.
#[cfg(unix)]
#[test]
fn variables_that_are_not_utf8_are_rejected() {
    use std::os::unix::ffi::OsStrExt as _;

    let home = Home::new();
    let service = Service::always(200, "[]");
    assert_eq!(
        home.run_with_input(&["login", "--email-url", &service.url()], "mk_test_x")
            .code,
        0
    );

    let asked = service.requests().len();
    for (name, value) in [
        ("SVC_EMAIL_KEY", &b"mk_live_\xff"[..]),
        ("SVC_EMAIL_URL", b"http://\xff/"),
        ("SVC_PROFILE", b"\xff"),
        ("SVC_OUTPUT", b"\xff"),
    ] {
        let mut command = home.command(&["audiences", "list"]);
        command.env(name, std::ffi::OsStr::from_bytes(value));
        let run = crate::support::Run::of(command.output().expect("svc runs"));
        assert_eq!(run.code, 2, "{name}: {run:?}");
    }

    assert_eq!(service.requests().len(), asked);
}

#[test]
fn whoami_does_not_let_a_response_replace_the_url_and_key() {
    let body =
        r#"{"organization":{"id":"org_1","name":"Ada"},"url":"https://other.test","key":"k"}"#;
    let service = Service::always(200, body);
    let env = [
        ("SVC_EXTRACTION_URL", &*service.url()),
        ("SVC_EXTRACTION_KEY", "sk_test_x"),
    ];
    let who = Home::new().run_with_env(&["whoami"], &env).json();
    assert_eq!(who["extraction"]["url"], service.url());
    assert_eq!(who["extraction"]["key"], "sk_test_…");
}

#[test]
fn unknown_entries_and_time_zones_are_reported() {
    let home = Home::new();
    home.file(
        "config/svc/config.toml",
        "colour = 1\n[profiles.default]\ntimout = \"2s\"\n",
    );
    let shown = home.run(&["config", "show", "-o", "table"]);
    assert_eq!(shown.code, 0, "{shown:?}");

    let warning =
        "`timout` in profile `default` is unknown and has no effect; did you mean timeout?";
    assert!(shown.stderr.contains(warning), "{shown:?}");
    assert!(
        shown.stderr.contains("`colour` in config.toml is unknown"),
        "{shown:?}"
    );

    let checked = home.run(&["doctor"]).json();
    let found = checked.as_array().expect("findings").iter();
    let found = found
        .filter(|finding| finding["check"] == "configuration")
        .count();
    assert_eq!(found, 2, "{checked}");

    // Images without tzdata know no zone. Only what depends on one fails.
    let env = [("TZ", "Europe/Berln")];
    assert_eq!(home.run_with_env(&["version"], &env).code, 0);

    let run = home.run_with_env(&["replay", "--since", "yesterday"], &env);
    assert_eq!(
        (run.code, run.error()["kind"].clone()),
        (2, json!("usage")),
        "{run:?}"
    );
}

/// With `SVC_SANBOX=1`, an email would leave, and with `SVC_EMAIL_ULR`, go to another service.
#[test]
fn a_misspelled_variable_is_refused() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"queued"}"#);
    let url = service.url();
    let base = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let send = [
        "emails",
        "send",
        "--from=a@b.test",
        "--to=c@d.test",
        "--subject=s",
        "--text=t",
    ];
    for (name, meant) in [
        ("SVC_SANBOX", "SVC_SANDBOX"),
        ("SVC_EMAIL_ULR", "SVC_EMAIL_URL"),
        ("SVC_EMAILKEY", "SVC_EMAIL_KEY"),
        ("SVC_PROFLIE", "SVC_PROFILE"),
    ] {
        let run = home.run_with_env(&send, &[&base[..], &[(name, "1")]].concat());
        assert_eq!(
            (run.code, &run.error()["code"]),
            (2, &"misspelled_variable".into()),
            "{run:?}"
        );
        assert!(
            run.error()["message"]
                .as_str()
                .is_some_and(|m| m.contains(meant)),
            "{run:?}"
        );
        let file = home.file(".env", format!("{name}=1\n"));
        let run = home.run_with_env(&[&send[..], &["--env-file", &file]].concat(), &base);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (2, &"misspelled_variable".into()),
            "{run:?}"
        );
    }

    assert_eq!(service.requests(), [""; 0]);

    // Those of other programs are named.
    let others = [
        ("SVC_HOME", "1"),
        ("SVC_TOKEN", "1"),
        ("SVC_EMAIL_URL_OLD", "1"),
        ("SVC", "1"),
    ];
    let run = home.run_with_env(&send, &[&base[..], &others].concat());
    let named = "warning: ignoring unknown variables: SVC_EMAIL_URL_OLD, SVC_HOME, SVC_TOKEN";
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.lines().any(|line| line == named), "{run:?}");
}

/// `SVC_SANDBOX=False` once selected the sandbox, so that a live email stayed there.
#[test]
fn booleans_are_read_without_regard_to_case() {
    let home = Home::new();
    let sandbox = |value: &str| home.run_with_env(&["config", "show"], &[("SVC_SANDBOX", value)]);
    for value in ["False", "FALSE", "No", "OFF", "0"] {
        assert_eq!(shown(&sandbox(value), "sandbox").0, false, "{value}");
    }

    for value in ["True", "YES", "on", "1"] {
        assert_eq!(shown(&sandbox(value), "sandbox").0, true, "{value}");
    }

    let run = sandbox("maybe");
    assert_eq!(
        (run.code, &run.error()["kind"]),
        (2, &json!("usage")),
        "{run:?}"
    );
}

/// A secret that a CI system does not have is an empty variable.
#[test]
fn a_variable_that_is_set_and_empty_is_refused() {
    let home = Home::new();
    home.file("config/svc/config.toml", CONFIG);
    for name in [
        "SVC_EMAIL_KEY",
        "SVC_EXTRACTION_KEY_FILE",
        "SVC_PROFILE",
        "SVC_OUTPUT",
    ] {
        let run = home.run_with_env(&["audiences", "list"], &[(name, "")]);
        assert_eq!(
            (run.code, &run.error()["kind"]),
            (2, &json!("usage")),
            "{name}: {run:?}"
        );
        let message = format!("environment {name}: it is empty");
        assert_eq!(run.error()["message"], message, "{name}");
    }

    // No key is used.
    for args in [
        &["version"][..],
        &["help"],
        &["completions", "bash"],
        &["config", "path"],
    ] {
        assert_eq!(
            home.run_with_env(args, &[("SVC_EMAIL_KEY", "")]).code,
            0,
            "{args:?}"
        );
    }

    // The sandbox does not use the keys of a service.
    let run = home.run_with_env(&["--sandbox", "config", "show"], &[("SVC_EMAIL_KEY", "")]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_key_can_be_in_a_file_that_a_variable_names() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let url = service.url();
    home.file("key", "mk_test_infile\n");
    let base = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY_FILE", "key"),
    ];
    assert_eq!(home.run_with_env(&["audiences", "list"], &base).code, 0);
    assert!(
        service.requests()[0].contains("Bearer mk_test_infile"),
        "{:?}",
        service.requests()
    );

    let from = shown(&home.run_with_env(&["config", "show"], &base), "email_key").1;
    assert_eq!(from, "environment SVC_EMAIL_KEY_FILE");

    let both = [&base[..], &[("SVC_EMAIL_KEY", "mk_test_x")]].concat();
    let run = home.run_with_env(&["audiences", "list"], &both);
    assert_eq!(
        (run.code, &run.error()["kind"]),
        (2, &json!("usage")),
        "{run:?}"
    );

    let missing = [base[0], ("SVC_EMAIL_KEY_FILE", "nowhere")];
    assert_eq!(home.run_with_env(&["audiences", "list"], &missing).code, 2);
}

#[test]
fn config_set_changes_a_setting_of_a_profile() {
    let home = Home::new();
    home.file("config/svc/config.toml", format!("# mine\n{CONFIG}"));
    assert_eq!(home.run(&["config", "set", "retries", "5"]).code, 0);

    let list = [
        "config",
        "set",
        "allow_recipients",
        "@a.test, b@c.test",
        "--profile",
        "other",
    ];
    assert_eq!(
        home.run(&list).json()["value"],
        json!(["@a.test", "b@c.test"])
    );

    let file = std::fs::read_to_string(home.path("config/svc/config.toml")).expect("read");
    assert!(
        file.starts_with("# mine\n") && file.contains("retries = 5\n"),
        "{file}"
    );
    assert_eq!(
        shown(&home.run(&["config", "show"]), "retries"),
        (json!(5), json!("profile"))
    );

    for (name, value) in [
        ("retries", "many"),
        ("output", "xml"),
        ("sandbox", "true"),
        ("x", "1"),
        ("email_url", "mail"),
        ("allow_recipients", "*@example.test"),
        ("redirect_recipients", "nonsense"),
        ("mcp_policy", "foo"),
        ("dialect", "key-header=X Y"),
        ("ca_bundle", "/nope"),
    ] {
        let run = home.run(&["config", "set", name, value]);
        assert_eq!(
            (run.code, &run.error()["kind"]),
            (2, &json!("usage")),
            "{name}: {run:?}"
        );
    }

    assert_eq!(
        home.run(&["config", "set", "dialect", "key-scheme=token,first-page=0"])
            .json()["value"],
        json!({"key-scheme": "token", "first-page": "0"})
    );
    // The other points stay.
    assert_eq!(
        home.run(&["config", "set", "dialect", "first-page=auto"])
            .json()["value"],
        json!({"key-scheme": "token"})
    );

    let file = home.file("dialect.toml", "[dialect]\nlist-items = \"rows\"\n");
    assert_eq!(
        home.run(&["config", "set", "--from", &file]).json()["value"],
        json!({"list-items": "rows"})
    );
    assert_eq!(
        home.run(&["--profile", "new", "config", "set", "retries", "1"])
            .code,
        0
    );

    let one = home.run(&[
        "--profile",
        "new",
        "config",
        "get",
        "retries",
        "--jq",
        ".[].value",
    ]);
    assert_eq!(one.stdout, "1\n", "{one:?}");
    assert_eq!(home.run(&["config", "get", "nothing"]).code, 2);

    let state = home.run(&["config", "path"]).json()["state"].clone();
    assert!(
        state
            .as_str()
            .is_some_and(|path| path.ends_with("state/svc")),
        "{state}"
    );
    // A part of a second is written as it is read.
    assert_eq!(
        home.run(&["config", "set", "timeout", "1500ms"]).json()["value"],
        "1500ms"
    );

    let timeout = shown(&home.run(&["config", "show"]), "timeout");
    assert_eq!(timeout, (json!("1500ms"), json!("profile")));
}

#[test]
fn whoami_names_what_is_missing() {
    let env = [("SVC_EMAIL_URL", "http://127.0.0.1:9")];
    let run = Home::new().run_with_env(&["whoami"], &env);
    assert_eq!(
        (run.code, &run.error()["code"]),
        (3, &json!("no_key")),
        "{run:?}"
    );
}

/// The book names every setting and every variable.
#[test]
fn the_book_names_every_setting() {
    let book = include_str!("../../../docs/commands/README.md");
    let help = Home::new().run(&["config", "show", "--json"]).json();
    for row in help.as_array().expect("a list") {
        let name = row["setting"].as_str().expect("a name");
        let is_key = ["email_key", "extraction_key"].contains(&name);
        assert!(is_key || book.contains(name), "{name}");
    }

    for name in [
        "SVC_EMAIL_KEY_FILE",
        "SVC_EXTRACTION_KEY_FILE",
        "SVC_COMPLETE_TIMEOUT",
    ] {
        assert!(book.contains(name), "{name}");
    }
}
