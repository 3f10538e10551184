//! Usage errors: exit code 2, and an error object in JSON output.

use crate::support::{Home, Service};

#[test]
fn usage_errors_are_error_objects_when_piped() {
    let home = Home::new();
    for args in [
        &["emails", "snd"][..],
        &["emails", "send"],
        &["emails", "get"],
        &["emails", "get", "x", "--no-such-option"],
        &["--output", "xml", "config", "path"],
        &["--timeout", "soon", "config", "path"],
        &["config", "path", "--jq", ".["],
        &["emails", "get", "x", "--idempotency-key", "k"],
        &["config", "path", "--dry-run"],
        &["--sandbox", "--email-url", "http://x", "audiences", "list"],
        &["--sandbox", "--key-file", "k", "audiences", "list"],
        &[],
    ] {
        let run = home.run(args);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{args:?}: {run:?}"
        );
        assert_eq!(run.error()["kind"], "usage", "{args:?}: {run:?}");
    }
}

#[test]
fn usage_errors_are_text_in_table_output() {
    for options in [
        &["-o", "table"][..],
        &["--output=table"],
        &["-otable"],
        &["-qo", "table"],
    ] {
        // The options count also after the mistake, beside others that do not exist.
        for args in [
            [options, &["emails", "snd"]],
            [&["emails", "snd", "--nope"], options],
        ] {
            let run = Home::new().run(&args.concat());
            assert_eq!(run.code, 2);
            assert!(
                run.stderr
                    .starts_with("error: unrecognized subcommand 'snd'"),
                "{run:?}"
            );
            assert!(
                run.stderr.contains("a similar subcommand exists: 'send'"),
                "{run:?}"
            );
        }
    }
}

#[test]
fn an_unknown_command_says_what_is_known() {
    let stderr = |args: &[&str]| Home::new().run(&[&["-o", "table"], args].concat()).stderr;
    assert_eq!(
        stderr(&["emails", "list"]),
        "error: unrecognized subcommand 'list'\n  \
         the service does not list emails; one email: svc emails get ID\n  \
         those of the sandbox: svc sandbox emails list\n"
    );
    assert_eq!(
        stderr(&["sandbox", "clock", "wind"]),
        "error: unrecognized subcommand 'wind'\n  list the commands: svc sandbox clock --help\n"
    );
    assert_eq!(
        stderr(&["qqq"]),
        "error: unrecognized subcommand 'qqq'\n  list the commands: svc --help\n"
    );
}

#[test]
fn usage_errors_have_at_most_five_lines() {
    for args in [
        &["emails", "send"][..],
        &["emails", "get", "x", "--no-such"],
        &["--timeout", "x", "config", "path"],
    ] {
        let run = Home::new().run(&[&["-o", "table"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(
            run.stderr.starts_with("error: ") && run.stderr.lines().count() <= 5,
            "{run:?}"
        );
    }
    let run = Home::new().run(&["-o", "table", "emails", "get"]);
    assert_eq!(
        run.stderr,
        "error: the following required arguments were not provided: <ID>\n  usage: svc emails get <ID>\n"
    );
}

#[test]
fn sandbox_from_the_environment_refuses_base_urls_too() {
    let args = ["--email-url", "http://live.example", "audiences", "list"];
    let run = Home::new().run_with_env(&args, &[("SVC_SANDBOX", "1")]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["message"]
            .as_str()
            .is_some_and(|m| m.contains("--email-url"))
    );
}

#[test]
fn without_configuration_the_error_suggests_the_sandbox_and_login() {
    let home = Home::new();
    let run = home.run(&["-o", "table", "audiences", "list"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(
        run.stderr,
        "error: the email service is not set up: no base URL and no key\n  \
         try it on this machine: svc --sandbox -o table audiences list\n  \
         set it up: svc login --service email\n"
    );
    assert_eq!(
        home.run(&["extraction", "webhooks", "list"]).error()["code"],
        "not_set_up"
    );

    // The sandbox refuses this option.
    let error = home
        .run(&[
            "--email-url=http://127.0.0.1:9",
            "extraction",
            "webhooks",
            "list",
        ])
        .error();
    assert_eq!(error["hint"], "set it up: svc login --service extraction");
}

#[test]
fn rejects_an_unknown_profile() {
    let run = Home::new().run(&["--profile", "tpyo", "audiences", "list"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.error()["code"], "unknown_profile");
}

#[test]
fn checks_limits_before_sending() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let many = vec!["c@d.test"; 51];
    let args = [
        &[
            "emails",
            "send",
            "--from=a@b.test",
            "--subject=s",
            "--text=t",
            "--to",
        ],
        &many[..],
    ]
    .concat();
    let run = home.run_with_env(&args, &env);
    assert_eq!(run.code, 2, "{run:?}");

    let error = run.error();
    assert_eq!(error["kind"], "invalid_input");
    assert_eq!(error["outcome"], "not_sent");
    assert_eq!(error["fields"][0]["field"], "to");
}

#[test]
fn deleting_without_a_terminal_requires_yes() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    for args in [
        [
            "audiences",
            "delete",
            "aud_019a0b1c-0000-7000-8000-000000000001",
        ],
        [
            "contacts",
            "delete",
            "con_019a0b1c-0000-7000-8000-000000000001",
        ],
        [
            "domains",
            "delete",
            "dom_019a0b1c-0000-7000-8000-000000000001",
        ],
        [
            "webhooks",
            "delete",
            "whk_019a0b1c-0000-7000-8000-000000000001",
        ],
    ] {
        let run = home.run_with_env(&args, &env);
        assert_eq!(run.code, 2, "{run:?}");
        assert_eq!(run.error()["hint"], "add --yes to confirm");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let home = Home::new();
    for args in [
        &["--help"][..],
        &["-h"],
        &["emails", "--help"],
        &["emails", "send", "-h"],
    ] {
        let run = home.run(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        assert!(run.stdout.contains("Usage: svc"), "{run:?}");
    }

    let run = home.run(&["--version"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, concat!("svc ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}

#[test]
fn standard_input_can_be_read_only_once() {
    let args = [
        "--email-url",
        "http://127.0.0.1:9",
        "emails",
        "send",
        "--from",
        "a@b.test",
        "--to",
        "c@d.test",
        "--subject",
        "s",
        "--html",
        "-",
        "--text",
        "-",
    ];
    let run = Home::new().run_with_input(&args, "x");
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["message"]
            .as_str()
            .is_some_and(|m| m.contains("--html already reads it"))
    );
}

#[test]
fn handles_ambiguous_and_skipped_local_times() {
    let zone = "CET-1CEST,M3.5.0,M10.5.0/3";
    let at = |words: &str| {
        let send = [
            "emails",
            "send",
            "--from=a@b.test",
            "--to=c@d.test",
            "--subject=s",
            "--text=t",
        ];
        let args = [&["--sandbox", "--dry-run"], &send[..], &["--at", words]].concat();
        Home::new().run_with_env(&args, &[("TZ", zone)])
    };

    let instant = |words: &str| at(words).json()["body"]["scheduledAt"].clone();
    assert_eq!(instant("2027-10-31 01:59"), "2027-10-30T23:59:00.000Z");
    assert_eq!(
        instant("2027-10-31 02:30"),
        "2027-10-31T00:30:00.000Z",
        "the first of the two"
    );
    assert_eq!(instant("2027-10-31 03:00"), "2027-10-31T02:00:00.000Z");

    let skipped = at("2027-03-28 02:30");
    assert_eq!(skipped.code, 2, "{skipped:?}");

    let message = skipped.error()["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(
        message.ends_with("does not exist in this time zone: the clock skips it"),
        "{message}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn file_names_need_not_be_utf8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let home = Home::new();
    let dir = home.path("x").with_file_name(OsStr::from_bytes(b"h\xff"));
    std::fs::create_dir(&dir).expect("made");
    let file = dir.join(OsStr::from_bytes(b"s\xe9.txt"));
    std::fs::write(&file, "whsec_0123456789abcdef").expect("written");
    let run = |args: &[&str], files: &[&OsStr]| {
        let mut command = home.command(args);
        command
            .args(files)
            .env("HOME", &dir)
            .env_remove("XDG_CONFIG_HOME");
        crate::support::Run::of(command.output().expect("svc runs"))
    };

    let name = file.as_os_str();
    let signed = run(
        &["sign", "--service", "email", "--secret-file"],
        &[name, name],
    );
    assert_eq!(signed.code, 0, "{signed:?}");

    let paths = run(&["config", "path"], &[]);
    assert_eq!(paths.code, 0, "{paths:?}");
    assert!(
        paths.json()["config"]
            .as_str()
            .is_some_and(|path| path.contains("h\u{fffd}"))
    );

    let send = [
        "--sandbox",
        "emails",
        "send",
        "--from",
        "hello@sandbox.test",
        "--to",
        "a@b.test",
    ];
    let content = ["--subject", "s", "--text", "t", "--attach"];
    let sent = run(&[&send[..], &content].concat(), &[name]);
    assert_eq!(sent.code, 0, "{sent:?}");

    let got = home.sandbox_json(&["emails", "get", sent.json()["id"].as_str().expect("an id")]);
    assert_eq!(got["attachments"][0]["filename"], "s\u{fffd}.txt");
}

#[test]
fn suggests_https_for_a_base_url_without_a_scheme() {
    let env = [
        ("SVC_EMAIL_URL", "mail.example.com"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = Home::new().run_with_env(&["audiences", "list"], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(
        run.error()["hint"],
        "did you mean https://mail.example.com?"
    );

    // Neither a password nor the value of a header is repeated, whatever is wrong with it.
    let env = [
        ("SVC_EMAIL_URL", "htp//user:hidden@h"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let header = ["emails", "send", "--header", "X-Secret: hid\n\nhidden"];
    for args in [&["audiences", "list"], &header[..]] {
        let run = Home::new().run_with_env(args, &env);
        assert!(run.code == 2 && !run.stderr.contains("hid"), "{run:?}");
    }
}

#[test]
fn an_endless_input_does_not_exhaust_memory() {
    let run = Home::new().run(&["--sandbox", "emails", "batch", "/dev/zero", "--json"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(
        run.error()["message"],
        "FILE: /dev/zero: larger than 256 MiB"
    );
}

/// `--html body.html` without `@` would send the words "body.html".
#[test]
fn a_file_name_in_place_of_content_is_refused() {
    let home = Home::new();
    for name in [
        "notes",
        "my letter",
        "body.html",
        "email.json",
        "vars.json",
        "t.html",
    ] {
        home.file(name, "some text");
    }

    let send = [
        "--sandbox",
        "emails",
        "send",
        "--from",
        "a@sandbox.test",
        "--to",
        "b@x.test",
    ];
    let send = [&send[..], &["--subject", "s"]].concat();
    for (option, value) in [
        ("--html", "body.html"),
        ("--html", "./t.html"),
        ("--text", "notes"),
        ("--body", "email.json"),
        ("--vars", "vars.json"),
    ] {
        let run = home.run(&[&send[..], &[option, value]].concat());
        assert_eq!(run.code, 2, "{run:?}");
        let hint = run.error()["hint"].as_str().expect("a hint").to_owned();
        assert!(hint.contains(&format!("{option} @{value}")), "{hint}");
    }

    // Every command with such an option.
    let inbound = [
        "sandbox",
        "inbound",
        "--from=a@b.test",
        "--to=c@sandbox.test",
        "--subject=s",
        "--text",
    ];
    let fault = ["sandbox", "faults", "add", "--status", "503", "--body"];
    for (args, file) in [
        (
            &["api", "POST", "/api/v1/audiences", "-d"][..],
            "./email.json",
        ),
        (&inbound, "notes"),
        (&inbound[..], "my letter"),
        (&["sandbox", "templates", "put", "t", "--html"], "t.html"),
        (
            &["sandbox", "extraction", "completed", "--data"],
            "vars.json",
        ),
        (&fault, "email.json"),
    ] {
        let run = home.run(&[&["--sandbox"], args, &[file]].concat());
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert!(
            run.stderr
                .contains(&format!("`{file}` is the name of a file")),
            "{run:?}"
        );
    }

    let variables = home.run(&[&send[..], &["--text", "t", "--var", "name=Ada"]].concat());
    assert_eq!(variables.code, 2, "{variables:?}");
    assert!(
        variables.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("--template"))
    );

    let empty = home.run(&send);
    assert_eq!(empty.code, 2, "{empty:?}");
    assert_eq!(empty.error()["message"], "the email has no content");
    assert_eq!(home.run(&[&send[..], &["--text", ""]].concat()).code, 0);
    // The name of a file in a sentence is text.
    assert_eq!(
        home.run(&[&send[..], &["--text", "see body.html"]].concat())
            .code,
        0
    );
}

/// All options with a time or a duration have one grammar, and take a value that begins with a dash.
#[test]
fn an_invalid_time_or_duration_is_explained() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let send = [
        "--dry-run",
        "emails",
        "send",
        "--from=a@b.test",
        "--to=c@d.test",
        "--subject=s",
    ];
    let at = [&send[..], &["--text=t", "--at"]].concat();
    let timeout = &["config", "path", "--timeout"][..];
    for (args, value, problem) in [
        (timeout, "5 parsecs", "use whole numbers with ms, s, m"),
        (timeout, "-5", "use whole numbers with ms, s, m"),
        (timeout, "-5s", "use whole numbers with ms, s, m"),
        (
            timeout,
            "1M",
            "months and years are not supported, `m` means minutes",
        ),
        (timeout, "9999999w", "not a duration up to 36525d"),
        (timeout, "0s", "`0s` leaves no time for a request"),
        (
            &at,
            "1M",
            "months and years are not supported, `m` means minutes",
        ),
        (&at, "9999999w", "the longest offset is 36525d"),
        (&at, "-1h", "is in the past"),
        (
            &["replay", "--since"],
            "1M",
            "months and years are not supported, `m` means minutes",
        ),
        (&["replay", "--since"], "+1h", "is in the future"),
    ] {
        let run = home.run_with_env(&[args, &[value]].concat(), &env);
        assert_eq!(run.code, 2, "{args:?} {value}: {run:?}");
        let message = run.error()["message"]
            .as_str()
            .expect("a message")
            .to_owned();
        assert!(message.contains(problem), "{value}: {message}");
    }

    for args in [
        ["config", "path", "--timeout", "1 min"],
        ["replay", "--list", "--since", "-1h"],
    ] {
        assert_eq!(home.run(&args).code, 0, "{args:?}");
    }
}

/// A time in the past would send at once what was meant for later.
#[test]
fn an_email_scheduled_for_the_past_is_not_sent() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"queued"}"#);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let email = r#"{"from":"a@b.test","to":"c@d.test","subject":"s","text":"t","scheduledAt":"2026-01-01T00:00:00Z"}"#;
    let body = home.file("email.json", email);
    let at_body = format!("@{body}");
    let run = home.run_with_env(&["emails", "send", "--body", &at_body], &env);
    assert_eq!(run.code, 2, "{run:?}");

    let message = run.error()["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(message.starts_with("scheduledAt: 2026-01-01"), "{message}");

    let run = home.run_with_env(&["emails", "batch", &body], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.error()["fields"][0]["field"], "emails[0].scheduledAt");
    assert_eq!(service.requests(), [""; 0]);

    // The option overrides the time of the body.
    let later = ["emails", "send", "--at", "+1h", "--body", &at_body];
    assert_eq!(home.run_with_env(&later, &env).code, 0);
}

#[test]
fn commands_as_directories_and_urls_without_a_scheme_are_recognized() {
    let home = Home::new();
    for (args, hint) in [
        (
            &["man", "emails"][..],
            "the help of the command: svc help emails",
        ),
        (
            &["listen", "--forward-to", "localhost:3000"],
            "did you mean http://localhost:3000?",
        ),
        (
            &["trigger", "email.sent", "--to", "3000"],
            "did you mean http://localhost:3000?",
        ),
        (
            &["webhooks", "create", "x.test/h", "--event", "email.sent"],
            "did you mean https://x.test/h?",
        ),
    ] {
        let run = home.run(args);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert_eq!(run.error()["hint"], hint, "{args:?}");
    }
}

/// A person sees what `--yes` deletes; a script gets no additional request.
#[test]
fn a_deletion_by_id_names_what_is_deleted() {
    let home = Home::new();
    let service = Service::always(
        200,
        r#"[{"id":"dom_019a0b1c-0000-7000-8000-000000000001","name":"shop.test"}]"#,
    );
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let delete = [
        "domains",
        "delete",
        "dom_019a0b1c-0000-7000-8000-000000000001",
        "--yes",
        "-o",
    ];
    assert_eq!(
        home.run_with_env(&[&delete[..], &["json"]].concat(), &env)
            .code,
        0
    );
    assert_eq!(service.requests().len(), 1);

    let run = home.run_with_env(&[&delete[..], &["table"]].concat(), &env);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (
            0,
            "deleted domain shop.test (dom_019a0b1c-0000-7000-8000-000000000001)\n"
        )
    );
}

/// The output of a command that failed is not sent as an empty email.
#[test]
fn empty_files_and_empty_standard_input_are_not_sent() {
    let home = Home::new();
    let service = Service::always(202, r#"{"id":"eml_1","status":"queued"}"#);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    home.file("blank.txt", " \n");
    let send = [
        "emails",
        "send",
        "--from",
        "a@b.test",
        "--to",
        "c@d.test",
        "--subject",
        "Hi",
    ];
    for (option, value) in [("--text", "-"), ("--html", "-"), ("--text", "@blank.txt")] {
        let run = home.run_with_env(&[&send[..], &[option, value]].concat(), &env);
        assert_eq!(run.code, 2, "{run:?}");
        let error = run.error();
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|m| m.ends_with("is empty")),
            "{error}"
        );
    }

    let without_content = r#"{"from":"a@b.test","to":["c@d.test"],"subject":"s"}"#;
    let batch = home.file("emails.ndjson", without_content);
    let run = home.run_with_env(&["emails", "batch", &batch], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.error()["fields"][0]["field"], "emails[0].text");
    assert_eq!(service.requests(), [""; 0]);

    // The mark with which some editors begin a file is not a part of the text.
    home.file("marked.txt", "\u{feff}Hello");
    let run = home.run_with_env(
        &[&send[..], &["--text", "@marked.txt", "--dry-run"]].concat(),
        &env,
    );
    assert_eq!(run.json()["body"]["text"], "Hello", "{run:?}");

    // An empty text on purpose is sent.
    let run = home.run_with_env(&[&send[..], &["--text", ""]].concat(), &env);
    assert_eq!(run.code, 0, "{run:?}");
}

/// A key may be typed where another value belongs. Errors are copied into logs and tickets.
#[test]
fn a_key_on_the_command_line_is_not_repeated() {
    let home = Home::new();
    let secret = "4f9aQx77Kd03mZb1";
    let live = format!("mk_live_{secret}");
    let webhook = format!("whsec_{secret}");
    for args in [
        &["login", &live][..],
        &["login", secret],
        &["login", &secret[..8]],
        &["--key-file", &live, "domains", "list"],
        &["--key-file", secret, "domains", "list"],
        &["--profile", &live, "domains", "list"],
        &["profiles", "use", &live],
        &["whoami", &live],
        &["sign", "--service", "email", "--secret-file", secret, "-"],
        &["sign", "--service", "email", "--secret-file", &webhook, "-"],
        &[
            "trigger",
            "email.sent",
            "--to",
            "http://127.0.0.1:9",
            &webhook,
        ],
        &[&live],
    ] {
        for format in ["table", "json"] {
            let env = [("SVC_EMAIL_URL", "http://127.0.0.1:9")];
            let run = home.run_with_env(&[&["-o", format], args].concat(), &env);
            assert_eq!(run.code, 2, "{run:?}");
            assert!(run.stderr.contains("error"), "{run:?}");
            let shown = format!("{}{}", run.stdout, run.stderr);
            assert!(!shown.contains(&secret[..8]), "{args:?}: {run:?}");
        }
    }

    let run = home.run(&["-o", "table", "login", secret]);
    assert!(run.stderr.contains("--key-file PATH"), "{run:?}");
}

/// The recipient guard is a part of the profile, in the sandbox too.
#[test]
fn a_misspelled_profile_is_refused_by_every_command() {
    let home = Home::new();
    home.file("config/svc/config.toml", "[profiles.prod]\n");
    for (args, env) in [
        (
            &["--sandbox", "--profile", "pord", "domains", "list"][..],
            None,
        ),
        (
            &["--sandbox", "domains", "list"],
            Some(("SVC_PROFILE", "pord")),
        ),
        (&["--sandbox", "--profile", "pord", "doctor"], None),
        (&["--profile", "pord", "config", "show"], None),
        (&["--profile", "pord", "sandbox", "status"], None),
        (&["--profile", "pord", "bulk", "list"], None),
    ] {
        let run = home.run_with_env(args, env.as_slice());
        assert_eq!(
            (run.code, &run.error()["code"]),
            (2, &"unknown_profile".into()),
            "{run:?}"
        );
    }

    assert_eq!(
        home.run(&["--sandbox", "--profile", "prod", "domains", "list"])
            .code,
        0
    );
}

#[test]
fn an_invalid_status_names_the_valid_ones() {
    for status in ["-1", "99", "600", "70000"] {
        let run = Home::new().run(&["sandbox", "faults", "add", "--status", status]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains("is not in 200..=599"), "{run:?}");
    }
}
