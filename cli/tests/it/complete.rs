//! Shell completion: ids and names from a service, and no output other than candidates.

use std::process::Command;

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use serde_json::json;

use crate::support::{Home, Run, Service, Serving, http_response};

/// A time limit that no test reaches, however busy the machine is.
const NO_LIMIT: (&str, &str) = ("SVC_COMPLETE_TIMEOUT", "10m");

/// Requests candidates as fish does. The last word is the one being completed.
fn request(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Run {
    let args = [&["--", "svc"], words].concat();
    let run = home.run_with_env(
        &args,
        &[&[("SVC_COMPLETE", "fish"), NO_LIMIT], env].concat(),
    );
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, ""),
        "{words:?}: {run:?}"
    );
    run
}

/// The candidates with their descriptions.
fn found(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Vec<(String, String)> {
    let text = request(home, words, env).stdout;
    let pairs = text
        .lines()
        .map(|line| line.split_once('\t').unwrap_or((line, "")));
    pairs
        .map(|(value, about)| (value.to_owned(), about.to_owned()))
        .collect()
}

/// The candidates without descriptions and options.
fn values(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    let found = found(home, words, env).into_iter().map(|(value, _)| value);
    found.filter(|value| !value.starts_with('-')).collect()
}

#[test]
fn completes_jobs_of_this_machine_and_senders_of_own_domains() {
    let home = Home::new();
    let _serving = Serving::start(&home);
    home.sandbox_json(&["domains", "create", "shop.test"]);
    home.file("people.csv", "email\nada@example.test\n");
    let send =
        "--sandbox bulk send people.csv --from hello@sandbox.test --subject s --text t --yes";
    let job = home.run(&send.split(' ').collect::<Vec<_>>()).json()["job"].clone();
    for command in ["status", "report", "resume", "settle", "remove"] {
        let found = values(
            &home,
            &["bulk", command, &job.as_str().expect("an id")[..6]],
            &[],
        );
        assert_eq!(found, [job.as_str().expect("an id")], "{command}");
    }

    for command in [&["emails", "send"][..], &["bulk", "send", "people.csv"]] {
        let words = [&["--sandbox"], command, &["--from", "me@sh"]].concat();
        assert_eq!(values(&home, &words, &[]), ["me@shop.test"]);
    }
}

fn id(value: &serde_json::Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

#[test]
fn completes_ids_and_names_from_the_sandbox() {
    let home = Home::new();
    let serving = Serving::start(&home);
    let audience = id(&home.sandbox_json(&["audiences", "create", "News & \u{1b}[2Jmore"]));
    let contact = id(&home.sandbox_json(&["contacts", "create", &audience, "ada@example.test"]));
    let domain = id(&home.sandbox_json(&["domains", "create", "shop.test"]));
    let hook = [
        "webhooks",
        "create",
        "http://127.0.0.1:9/x",
        "--event",
        "email.sent",
    ];
    let webhook = id(&home.sandbox_json(&hook));
    let email = [
        "emails",
        "send",
        "--from",
        "hello@sandbox.test",
        "--to",
        "a@b.test",
        "--subject=s",
        "--text=t",
    ];
    let email = id(&home.sandbox_json(&email));

    let one = |words: &[&str], id: &str| {
        let found = found(&home, &[&["--sandbox"], words].concat(), &[]);
        let about = found.into_iter().find(|(value, _)| value == id);
        about.unwrap_or_else(|| panic!("{words:?} has no {id}")).1
    };

    assert_eq!(
        one(&["audiences", "get", ""], &audience),
        "News & \\u{1b}[2Jmore"
    );
    assert_eq!(
        one(&["contacts", "import", "aud_"], &audience),
        "News & \\u{1b}[2Jmore"
    );
    assert_eq!(
        one(&["contacts", "delete", ""], &contact),
        "ada@example.test"
    );
    assert_eq!(one(&["domains", "verify", ""], &domain), "shop.test");
    assert_eq!(one(&["domains", "records", "sh"], "shop.test"), domain);
    assert_eq!(
        one(&["webhooks", "test", ""], &webhook),
        "http://127.0.0.1:9/x"
    );
    assert_eq!(one(&["emails", "get", ""], &email), "s");
    assert_eq!(one(&["sandbox", "dns", "publish", ""], "shop.test"), domain);

    let message = home.run(&["sandbox", "messages", "list", "--jq", ".[0].id"]);
    assert_eq!(
        one(&["sandbox", "messages", "get", ""], message.stdout.trim()),
        "s"
    );
    assert_eq!(one(&["sandbox", "emails", "story", ""], &email), "s");
    assert!(values(&home, &["sandbox", "event", ""], &[]).contains(&email));

    home.run(&["sandbox", "templates", "put", "welcome", "--subject", "Hi"]);
    assert_eq!(one(&["sandbox", "templates", "get", "w"], "welcome"), "Hi");
    // Options are recognized at any position, and a partial word filters the candidates.
    assert_eq!(
        values(&home, &["audiences", "get", "--sandbox", ""], &[]),
        [audience.as_str()]
    );
    assert!(values(&home, &["--sandbox", "audiences", "get", "dom_"], &[]).is_empty());

    // No server is started for it.
    drop(serving);
    assert!(values(&home, &["--sandbox", "audiences", "get", ""], &[]).is_empty());
}

#[test]
fn completes_ids_and_names_from_the_service_of_the_profile() {
    let home = Home::new();
    let service = Service::always(
        200,
        r#"[{"id":"aud_1","name":"One"},{"id":"aud_2","name":"Two"},{"id":"aud_3","name":"Same"},{"id":"aud_4","name":"Same"}]"#,
    );
    let profile = format!("[profiles.staging]\nemail_url = \"{}\"\n", service.url());
    home.file("config/svc/config.toml", profile);
    let keys = home.file(
        "config/svc/credentials.toml",
        "[profiles.staging]\nemail_key = \"mk_test_x\"\n",
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).expect("set");
    }
    let words = ["audiences", "delete", "--profile", "staging", ""];
    assert_eq!(
        values(&home, &words, &[]),
        ["One", "Two", "aud_1", "aud_2", "aud_3", "aud_4"]
    );
    assert_eq!(
        found(&home, &["--profile=staging", "audiences", "get", "T"], &[])[0].1,
        "aud_2"
    );
    assert_eq!(
        values(
            &home,
            &["--profile=staging", "audiences", "get", "aud_2"],
            &[]
        ),
        ["aud_2"]
    );
    assert!(service.requests()[0].contains("Bearer mk_test_x"));
    assert_eq!(values(&home, &["--profile", ""], &[]), ["staging"]);
    assert_eq!(
        found(&home, &["profiles", "use", "st"], &[])[0].1,
        service.url()
    );
    assert!(values(&home, &["--profile", "nope", "audiences", "get", ""], &[]).is_empty());
}

#[test]
fn sends_nothing_to_a_service_that_is_not_configured() {
    let service = Service::always(200, r#"[{"id":"aud_1"}]"#);
    let home = Home::new();
    let url = service.url();
    let words = ["audiences", "get", ""];
    assert!(
        values(&home, &words, &[("SVC_EMAIL_URL", &url)]).is_empty(),
        "without a key"
    );
    assert!(values(&home, &words, &[("SVC_EMAIL_KEY", "mk_test_x")]).is_empty());

    // There is no prompt for a key, and standard input is not read.
    let stdin = [
        "--email-url",
        &url,
        "--key-file",
        "-",
        "audiences",
        "get",
        "",
    ];
    assert!(values(&home, &stdin, &[]).is_empty());
    #[cfg(unix)]
    {
        let pipe = home.path("pipe").display().to_string();
        let made = Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        let waits = [
            "--email-url",
            &url,
            "--key-file",
            &pipe,
            "audiences",
            "get",
            "",
        ];
        assert!(values(&home, &waits, &[]).is_empty());
    }
    // Without --sandbox, its emails are not meant.
    assert!(values(&home, &["emails", "get", ""], &[("SVC_SANDBOX_URL", &url)]).is_empty());
    assert!(service.requests().is_empty());
    // Completion does not create a sandbox.
    assert!(values(&home, &["--sandbox", "audiences", "get", ""], &[]).is_empty());
    assert!(!home.path("data/svc/sandbox").exists());
}

#[test]
fn failures_are_silent() {
    let home = Home::new();
    let refused = Service::always(401, r#"{"error":{"code":"unauthorized","message":"no"}}"#);
    let odd = Service::always(200, "<html>");
    // A server that accepts the request and never responds: the time limit applies.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silence = format!("http://{}", silent.local_addr().expect("an address"));
    for url in [
        refused.url(),
        odd.url(),
        silence,
        "http://127.0.0.1:9".into(),
        "no url".into(),
    ] {
        let env = [
            ("SVC_EMAIL_URL", url.as_str()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
            ("SVC_COMPLETE_TIMEOUT", "200ms"),
        ];
        assert!(
            values(&home, &["audiences", "get", ""], &env).is_empty(),
            "{url}"
        );
    }

    home.file("config/svc/config.toml", "not toml");
    assert!(values(&home, &["--sandbox", "audiences", "get", ""], &[]).is_empty());
}

#[test]
fn values_from_a_service_cannot_inject_shell_commands() {
    let ids = [
        "aud_1",
        "$(touch x)",
        "`id`",
        "a;b",
        "--yes",
        "a b",
        "a\nb",
        "",
    ];
    let list = ids.map(|id| json!({"id": id, "name": "x\ty\nz"}));
    let service = Service::with_responses(&[http_response(200, "", &json!(list).to_string())]);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let found = found(&Home::new(), &["audiences", "get", ""], &env);
    assert_eq!(found, [("aud_1".to_owned(), "x\\ty\\nz".to_owned())]);
}

#[test]
fn completes_static_values_without_a_service() {
    let home = Home::new();
    let values = |words: &[&str]| values(&home, words, &[]);
    assert_eq!(values(&["trigger", "email.b"]), ["email.bounced"]);
    assert_eq!(
        values(&["webhooks", "create", "u", "--event", "email.d"]),
        ["email.delivered"]
    );
    assert_eq!(
        values(&["webhooks", "create", "u", "--event", "email.sent,email.d"]),
        ["email.sent,email.delivered"]
    );
    assert_eq!(
        values(&["extraction", "webhooks", "create", "u", "--event", ""]).len(),
        2
    );
    assert_eq!(
        values(&["listen", "--route", "email.b"]),
        ["email.bounced="]
    );
    assert_eq!(
        values(&["sandbox", "keys", "create", "--scope", "emails:"]).len(),
        2
    );
    assert_eq!(
        values(&["sandbox", "faults", "add", "--operation", "emails.c"]),
        ["emails.cancel"]
    );
    assert_eq!(values(&["completions", "fi"]), ["fish"]);
    assert!(values(&["api", "GET", "/api/v1/aud"]).contains(&"/api/v1/audiences".to_owned()));

    home.file("mail.html", "<p>");
    assert_eq!(values(&["emails", "send", "--html", "@ma"]), ["@mail.html"]);
    assert_eq!(values(&["emails", "batch", "mail"]), ["mail.html"]);
}

/// Runs the completion script in bash and returns the candidates for the last word.
#[cfg(unix)]
fn in_bash(home: &Home, words: &[&str]) -> Vec<String> {
    let script = home.run(&["completions", "bash"]).stdout;
    let quoted = words
        .iter()
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(" ");
    let at = words.len() - 1;
    let last = words[words.len() - 1];
    let program = format!(
        "{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={at}; COMP_TYPE=9\n\
         _clap_complete_svc svc '{last}' && printf '%s\\n' \"${{COMPREPLY[@]}}\"; complete -p svc"
    );
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_svc"))
        .parent()
        .expect("a directory");
    let svc = home.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &program]).env_clear();
    bash.envs(
        svc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    bash.envs([NO_LIMIT])
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .current_dir(home.path(""));
    let run = Run::of(bash.output().expect("bash runs"));
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, ""),
        "{words:?}: {run:?}"
    );

    let mut lines = run.stdout.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(
        lines
            .pop()
            .is_some_and(|last| last.contains("-F _clap_complete_svc svc")),
        "{run:?}"
    );

    lines
}

#[cfg(unix)]
#[test]
fn bash_offers_ids() {
    let home = Home::new();
    let _serving = Serving::start(&home);
    let one = id(&home.sandbox_json(&["audiences", "create", "One"]));
    let typed = ["svc", "--sandbox", "audiences", "get", "aud"];
    assert_eq!(in_bash(&home, &typed), [one.as_str()]);
    let two = id(&home.sandbox_json(&["audiences", "create", "Two"]));
    assert_eq!(in_bash(&home, &typed), [one, two]);
}

#[test]
fn every_argument_that_takes_an_id_is_completed() {
    let mut tree = svc_cli::command();
    tree.build();
    for spec in svc_cli::commands() {
        let command = spec
            .path
            .split(' ')
            .try_fold(&tree, |at, name| at.find_subcommand(name));
        for arg in command.expect("a command").get_arguments() {
            let is_id = matches!(
                arg.get_id().as_str(),
                "id" | "ids" | "audience" | "profile" | "event"
            );
            let completed = arg.get::<ArgValueCandidates>().is_some()
                || arg.get::<ArgValueCompleter>().is_some()
                || !arg.get_possible_values().is_empty();
            assert!(
                !is_id || completed,
                "`{}`: {} is not completed",
                spec.path,
                arg.get_id()
            );
        }
    }
}
