//! What a client cannot do.

use std::fs;

use serde_json::{Map, Value, json};

use super::{Client, email, recipients};
use crate::support::{Home, Service, Serving, wait_until};

/// A live profile at this service.
fn live(url: &str) -> Vec<(&'static str, &str)> {
    vec![
        ("SVC_EMAIL_URL", url),
        ("SVC_EXTRACTION_URL", url),
        ("SVC_EMAIL_KEY", "mk_live_0123456789"),
        ("SVC_EXTRACTION_KEY", "sk_live_0123456789"),
    ]
}

fn profile(home: &Home, more: &str) {
    home.file("config/svc/config.toml", format!("[profiles.shop]\n{more}"));
}

/// A call for each action of a tool, in which every string is `text`.
fn calls(tool: &Value, text: &str) -> Vec<Value> {
    let properties = tool["inputSchema"]["properties"]
        .as_object()
        .expect("properties");
    let value = |schema: &Value| match schema["type"].as_str() {
        Some("array") if schema["items"]["type"] == "object" => json!([{"email": text}]),
        Some("array") => json!([text]),
        Some("boolean") => json!(false),
        Some("integer") => json!(1),
        Some("object") => json!({text: text}),
        _ => schema["enum"]
            .get(0)
            .cloned()
            .unwrap_or_else(|| text.into()),
    };

    let about = tool["description"].as_str().expect("a description");
    let actions = properties
        .get("action")
        .map(|it| it["enum"].as_array().expect("a list").clone());
    let Some(actions) = actions else {
        let all = properties
            .iter()
            .filter(|(name, _)| *name != "rows" || !about.contains("file"));
        let all = all.map(|(name, schema)| (name.clone(), value(schema)));
        return vec![Value::Object(all.collect())];
    };

    let action = |action: &Value| {
        let name = action.as_str().expect("a name");
        let line = about.lines().find(|line| {
            line.starts_with(&format!("{name} (")) || line.starts_with(&format!("{name}:"))
        });
        let line = line.expect("the action is described");
        let names = line
            .split_once(" (")
            .and_then(|(_, rest)| rest.split_once("):"));
        let names = names.map_or("", |(names, _)| names);
        let mut call = Map::from_iter([("action".to_owned(), action.clone())]);
        for name in names.split(", ").filter(|name| !name.is_empty()) {
            let name = name.trim_end_matches('?');
            // In place of a file.
            if name == "rows" {
                continue;
            }
            call.insert(name.to_owned(), value(&properties[name]));
        }
        Value::Object(call)
    };

    actions.iter().map(action).collect()
}

#[test]
fn a_profile_is_read_only_until_a_person_opens_groups() {
    let home = Home::new();
    profile(&home, "");
    let service = Service::always(200, "[]");
    let url = service.url();
    let everything = Client::start(&home, &[]).tools();
    let mut client = Client::with_env(&home, &["--profile", "shop", "--retries", "0"], &live(&url));
    let listed = client.tools();
    let is_listed = |name: &Value| listed.iter().any(|tool| tool["name"] == *name);
    for tool in &everything {
        let name = &tool["name"];
        for call in calls(tool, "x") {
            let answer = client.call(name.as_str().expect("a name"), call);
            if is_listed(name) {
                assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
            } else {
                assert_eq!(answer.error()["code"], "not_allowed", "{name}");
                let hint = answer.error()["hint"].as_str().expect("a hint");
                assert!(
                    hint.contains("--allow") && hint.contains("mcp_policy"),
                    "{hint}"
                );
            }
        }
    }

    assert!(listed.len() > 2 && listed.len() < everything.len());

    let requests = service.requests();
    assert!(!requests.is_empty());

    for request in requests {
        assert!(request.starts_with("GET "), "{request}");
    }

    // A person opens groups: on the command line, or in the profile.
    let env = live(&url);
    let names = |args: &[&str]| {
        let mut client = Client::with_env(&home, args, &env);
        let tools = client.tools().into_iter();
        tools
            .map(|it| it["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };

    let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
    let opened = names(&["--profile", "shop", "--allow", "send,delete"]);
    assert!(has(&opened, "plan_email") && has(&opened, "delete") && !has(&opened, "save_contacts"));

    profile(&home, "mcp_policy = [\"contacts\"]\n");
    let opened = names(&["--profile", "shop"]);
    assert!(
        has(&opened, "save_contacts") && !has(&opened, "plan_email"),
        "{opened:?}"
    );

    let selected = names(&["--tools", "look", "sandbox"]);
    assert!(
        has(&selected, "sandbox_clock") && !has(&selected, "plan_email"),
        "{selected:?}"
    );

    profile(&home, "mcp_policy = [\"everything\"]\n");
    let mut command = home.command(&["mcp", "--profile", "shop"]);
    command.envs(live(&url));
    let run = crate::support::Run::complete(command);
    assert_eq!(
        (run.code, &run.error()["kind"]),
        (2, &"invalid_input".into()),
        "{run:?}"
    );
}

#[test]
fn tools_that_the_key_cannot_use_are_not_listed() {
    let home = Home::new();
    profile(&home, "");
    let refused = r#"{"error":{"code":"insufficient_scope","message":"no"}}"#;
    let service = Service::always(403, refused);
    let url = service.url();
    let allowed = [
        "--profile",
        "shop",
        "--retries",
        "0",
        "--allow",
        "contacts,domains,webhooks",
    ];
    let mut client = Client::with_env(&home, &allowed, &live(&url));
    let tools = client.tools();
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(!has("save_contacts") && !has("save_domain"), "{tools:?}");
    assert!(
        has("whoami") && has("doctor") && has("diagnose_signature"),
        "{tools:?}"
    );

    // A call says which scope is missing.
    let domain = json!({"action": "create", "name": "shop.test"});
    let answer = client.call("save_domain", domain);
    assert_eq!(
        answer.error()["required_scope"],
        "domains:manage",
        "{}",
        answer.text
    );
}

#[test]
fn no_value_is_an_option_a_file_or_another_profile() {
    let home = Home::new();
    let elsewhere = Service::always(200, "[]");
    home.file("secret.txt", "the-content-of-the-file");
    let secret = home.path("secret.txt").display().to_string();
    let url = format!("--email-url={}", elsewhere.url());
    profile(&home, &format!("email_url = \"{}\"\n", elsewhere.url()));
    let mut client = Client::start(&home, &[]);
    let tools = client.tools();
    let values = [
        format!("@{secret}"),
        "@secret.txt".to_owned(),
        "-".to_owned(),
        "--profile=shop".to_owned(),
        url,
        "--help".to_owned(),
    ];
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        for call in values.iter().flat_map(|value| calls(tool, value)) {
            let answer = client.call(name, call.clone());
            assert!(
                !answer.text.contains("the-content-of"),
                "{name} {call}: {}",
                answer.text
            );
            assert!(
                !answer.text.contains("Usage: svc"),
                "{name} {call}: {}",
                answer.text
            );
        }
    }

    assert_eq!(elsewhere.requests(), Vec::<String>::new());

    // Options are not arguments.
    for option in [
        "profile",
        "email_url",
        "key_file",
        "env_file",
        "dry_run",
        "yes",
        "jq",
        "again",
        "attach",
    ] {
        let answer = client.call("list", json!({"action": "domains", option: "x"}));
        assert_eq!(answer.error()["kind"], "usage", "{option}");
    }

    assert!(!tools.iter().any(|tool| tool["name"] == "api"));
}

#[cfg(unix)]
#[test]
fn files_are_read_below_the_directory_only() {
    let home = Home::new();
    let outside = Home::new();
    let secret = outside.file("people.csv", "email\nsecret@outside.test\n");
    home.file("inside/people.csv", "email\na@b.test\n");
    std::os::unix::fs::symlink(&secret, home.path("link.csv")).expect("linked");
    std::os::unix::fs::symlink(outside.path(""), home.path("folder")).expect("linked");
    std::os::unix::fs::symlink(home.path("inside/people.csv"), home.path("own.csv"))
        .expect("linked");
    let mut client = Client::start(&home, &[]);
    let mut plan = |file: &str| {
        let call = json!({"file": file, "from": "hello@sandbox.test", "subject": "s", "text": "t"});
        client.call("plan_bulk", call)
    };

    home.file(".netrc.csv", "email\nsecret@hidden.test\n");
    home.file("inside/.cache/people.csv", "email\nsecret@hidden.test\n");
    for file in [
        ".netrc.csv",
        "inside/.cache/people.csv",
        "inside/../.netrc.csv",
    ] {
        assert!(
            plan(file).error()["hint"]
                .as_str()
                .expect("a hint")
                .contains("hidden"),
            "{file}"
        );
    }

    for file in [
        &secret,
        "link.csv",
        "folder/people.csv",
        "../people.csv",
        "/etc/passwd",
        ".",
        "none.csv",
    ] {
        let answer = plan(file);
        let message = answer.error()["message"].as_str().expect("a message");
        assert_eq!(
            message, "file: not a file below the directory of svc mcp",
            "{file}"
        );
    }

    for file in [
        "inside/people.csv",
        "own.csv",
        "inside/../inside/people.csv",
    ] {
        plan(file).result();
    }

    let verify = json!({"service": "email", "secret_file": secret, "signature": "x", "body": "{}"});
    let answer = client.call("diagnose_signature", verify);
    assert!(
        answer.error()["message"]
            .as_str()
            .expect("a message")
            .starts_with("secret_file: not a file")
    );
}

#[test]
fn in_a_home_directory_no_file_is_read() {
    let home = Home::new();
    home.file("people.csv", "email\na@b.test\n");
    home.file("user/people.csv", "");
    for user in ["", "user"] {
        let at = home.path(user).display().to_string();
        let mut client = Client::with_env(&home, &[], &[("HOME", &at)]);
        let call = json!({
            "file": "people.csv", "from": "hello@sandbox.test", "subject": "s", "text": "t",
        });
        let hint = client.call("plan_bulk", call).error()["hint"].to_string();
        assert!(hint.contains("in the folder of a project"), "{hint}");
    }
}

#[test]
fn a_url_without_a_profile_is_refused_at_the_start() {
    for option in ["--email-url", "--extraction-url"] {
        let run = Home::new().run(&["mcp", option, "http://127.0.0.1:9"]);
        assert_eq!(run.code, 2, "{run:?}");
        let message = format!("{option} has no effect without --profile");
        assert_eq!(run.error()["message"], message);
    }
}

#[test]
fn the_recipient_guard_holds() {
    let home = Home::new();
    let mut client = Client::with_env(&home, &[], &[("SVC_ALLOW_RECIPIENTS", "@ok.test")]);
    for (field, address) in [
        ("to", "x@evil.test"),
        ("cc", "x@evil.test"),
        ("bcc", "Ok <x@evil.test>"),
    ] {
        let mut email = email("a@ok.test");
        email[field] = json!([address]);
        let answer = client.call("plan_email", email);
        assert_eq!(answer.error()["code"], "recipient_guard", "{}", answer.text);
    }

    let rows = json!({
        "rows": [{"email": "x@evil.test"}], "from": "hello@sandbox.test", "subject": "s", "text": "t",
    });
    assert!(client.call("plan_bulk", rows).is_error);

    let plan = client.call("plan_email", email("a@ok.test"));
    client
        .call("send_planned", json!({"token": plan.result()["token"]}))
        .result();
    assert_eq!(recipients(&mut client), ["a@ok.test"]);

    drop(client);
    // With a redirect, the plan shows who really gets the email.
    let redirect = [("SVC_REDIRECT_RECIPIENTS", "me@ok.test")];
    let mut client = Client::with_env(&home, &[], &redirect);
    let plan = client.call("plan_email", email("x@evil.test"));
    assert_eq!(
        plan.result()["recipients"],
        json!(["me@ok.test"]),
        "{}",
        plan.text
    );
}

#[test]
fn the_limit_of_recipients_is_that_of_all_calls() {
    let home = Home::new();
    let mut client = Client::with_env(&home, &[], &[("SVC_MAX_RECIPIENTS_PER_RUN", "2")]);
    let several = |to: &[&str]| {
        let mut email = email("a@ok.test");
        email["to"] = json!(to);
        email
    };

    for (to, is_sent) in [
        (&["a@ok.test"][..], true),
        // What was refused does not count.
        (&["x@ok.test", "y@ok.test"], false),
        (&["b@ok.test"], true),
        (&["c@ok.test"], false),
    ] {
        let plan = client.call("plan_email", several(to));
        let sent = client.call("send_planned", json!({"token": plan.result()["token"]}));
        assert_eq!(!sent.is_error, is_sent, "{}", sent.text);
    }

    assert_eq!(recipients(&mut client).len(), 2);
}

#[test]
fn a_plan_is_sent_as_it_was_shown_whatever_changes_until_then() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    let plan = client.call("plan_email", email("ada@example.test"));
    let default = "[profiles.default]\nredirect_recipients = \"mallory@evil.test\"\n";
    home.file("config/svc/config.toml", default);
    let token = json!({"token": plan.result()["token"]});
    // More arguments do not change a plan.
    let more = json!({"token": plan.result()["token"], "to": ["mallory@evil.test"]});
    assert_eq!(client.call("send_planned", more).error()["kind"], "usage");

    let sent = client.call("send_planned", token.clone());
    assert_eq!(sent.result()["to"], json!(["ada@example.test"]));
    assert_eq!(
        client.call("send_planned", token).error()["code"],
        "no_plan"
    );
    assert_eq!(recipients(&mut client), ["ada@example.test"]);
}

#[test]
fn a_server_that_is_killed_while_it_sends_never_sends_twice() {
    let home = Home::new();
    let serving = Serving::start(&home);
    let mut client = Client::start(&home, &[]);
    let fault = json!({"action": "add", "operation": "emails.send", "latency": "60s"});
    client.call("sandbox_faults", fault).result();
    let plan = client.call("plan_email", email("ada@example.test"));
    let token = json!({"token": plan.result()["token"]});
    let call = json!({"name": "send_planned", "arguments": token});
    client.send(&json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call}));
    // The request has reached the service.
    wait_until("the request", || {
        let listed = home.run(&["sandbox", "faults", "list"]).json();
        (listed[0]["remaining"] == 0).then_some(())
    });
    client.child.kill().expect("killed");
    client.child.wait().expect("ended");
    let mut client = Client::start(&home, &[]);
    let again = client.call("send_planned", token);
    assert_eq!(again.error()["code"], "no_plan");
    assert!(
        again.error()["hint"]
            .as_str()
            .expect("a hint")
            .contains("the outcome is unknown")
    );

    let started = &records(&home)[2];
    assert_eq!(
        (&started["tool"], &started["result"]),
        (&"plan_email".into(), &"started".into())
    );

    let all = records(&home);
    let sent = all
        .iter()
        .filter(|it| it["call"] == all[4]["call"])
        .collect::<Vec<_>>();
    assert_eq!(
        (sent.len(), &sent[0]["tool"]),
        (1, &"send_planned".into()),
        "{all:?}"
    );
    assert!(recipients(&mut client).len() <= 1);

    drop(serving);
}

#[test]
fn an_outcome_that_is_unknown_says_so() {
    let home = Home::new();
    profile(&home, "");
    // The dry runs ask nothing; the request gets no response.
    let service = Service::with_responses(&[String::new()]);
    let url = service.url();
    let args = ["--profile", "shop", "--allow", "send"];
    let mut client = Client::with_env(&home, &args, &live(&url));
    let plan = client.call("plan_email", email("ada@example.test"));
    let sent = client.call("send_planned", json!({"token": plan.result()["token"]}));
    let error = sent.error();
    assert_eq!(
        (&error["kind"], &error["outcome"]),
        (&"outcome_unknown".into(), &"unknown".into())
    );
    assert!(error["hint"].is_string(), "{error}");
    assert_eq!(service.requests().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_call_that_runs_at_the_end_is_recorded() {
    for signal in [None, Some("-TERM")] {
        let home = Home::new();
        let serving = Serving::start(&home);
        let mut client = Client::start(&home, &[]);
        let fault = json!({"action": "add", "operation": "emails.send", "latency": "1s"});
        client.call("sandbox_faults", fault).result();
        let plan = client.call("plan_email", email("ada@example.test"));
        let call = json!({"name": "send_planned", "arguments": {"token": plan.result()["token"]}});
        client.send(&json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call}));
        wait_until("the request", || {
            let listed = home.run(&["sandbox", "faults", "list"]).json();
            (listed[0]["remaining"] == 0).then_some(())
        });
        if let Some(signal) = signal {
            let mut kill = std::process::Command::new("kill");
            kill.args([signal, &client.child.id().to_string()]);
            assert!(kill.status().expect("it runs").success());
            client.child.wait().expect("it ends");
        } else {
            client.end();
        }
        let records = records(&home);
        let last = records.last().expect("a line");
        assert_eq!(
            (&last["tool"], &last["result"]),
            (&"send_planned".into(), &"ok".into())
        );
        drop(serving);
    }
}

#[test]
fn sixteen_calls_run_at_a_time() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    let fault =
        json!({"action": "add", "operation": "domains.list", "latency": "300ms", "times": 40});
    client.call("sandbox_faults", fault).result();
    for id in 100..140 {
        let call = json!({"name": "list", "arguments": {"action": "domains"}});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}));
    }

    wait_until("the ends", || (records(&home).len() == 82).then_some(()));
    let mut running = 0_i32;
    for record in records(&home) {
        running += if record["result"] == "started" { 1 } else { -1 };
        assert!(running <= 16);
    }
}

#[test]
fn a_plan_shows_exactly_what_is_sent() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    let mut sent = email("ab_test_x@evil.test");
    sent["text"] = "the key mk_live_abcdefgh".into();
    let mut given = sent.clone();
    given["tag"] = json!(["secret=s3", "apiKey=k"]);
    sent["tags"] = json!({"secret": "s3", "apiKey": "k"});
    let plan = client.call("plan_email", given);
    assert_eq!(plan.result()["recipients"], json!(["ab_test_x@evil.test"]));
    assert_eq!(plan.result()["request"]["body"], sent);

    for hidden in [
        "a\u{200b}@b.test",
        "a\u{202e}@b.test",
        "A\u{7} <a@b.test>",
        "a@b\u{ad}.test",
    ] {
        assert!(
            client.call("plan_email", email(hidden)).is_error,
            "{hidden:?}"
        );
    }

    // Long texts are cut, and drop no other field.
    let mut long = email("ada@example.test");
    long["text"] = "x".repeat(100_000).into();
    long["tag"] = json!(["last=kept"]);
    let plan = client.call("plan_email", long.clone());
    assert_eq!(
        plan.result()["request"]["body"]["tags"],
        json!({"last": "kept"})
    );
    assert!(plan.text.contains("[cut: 100000 characters"));

    // What cannot be shown is not sent.
    long.as_object_mut().expect("fields").remove("text");
    long["template"] = "welcome".into();
    long["var"] = json!([format!("one={}", "y".repeat(1_000))]);
    client.call("plan_email", long.clone()).result();
    let many = (0..50).map(|number| format!("{number}={}", "y".repeat(1_000)));
    long["var"] = many.collect();
    let refused = client.call("plan_email", long);
    let message = refused.error()["message"].as_str().expect("a message");
    assert!(message.contains("does not fit"), "{message}");
}

#[test]
fn calls_that_wait_do_not_make_others_wait() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    for id in 100..140 {
        let call = json!({"name": "sandbox_messages", "arguments": {"action": "wait"}});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}));
    }

    let file = home.path("state/svc/mcp.ndjson");
    wait_until("the waits", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        (text.matches("sandbox_messages").count() == 16).then_some(())
    });
    client.call("list", json!({"action": "domains"})).result();
    let all = records(&home);
    let ended = all
        .iter()
        .filter(|it| it["result"] != "started")
        .collect::<Vec<_>>();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!((all.len(), &ended[0]["tool"]), (18, &"list".into()));
}

#[test]
fn the_audit_file_does_not_grow_without_end() {
    let home = Home::new();
    let file = home.file("state/svc/mcp.ndjson", "x".repeat(10_000_001));
    let mut client = Client::start(&home, &[]);
    client.call("list", json!({"action": "domains"})).result();
    assert_eq!(records(&home).len(), 2);
    assert!(fs::read_to_string(file.replace(".ndjson", ".old.ndjson")).is_ok());
}

/// The lines of the audit file.
fn records(home: &Home) -> Vec<Value> {
    let text = fs::read_to_string(home.path("state/svc/mcp.ndjson")).expect("written");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn every_call_is_recorded_without_content() {
    let home = Home::new();
    let mut client = Client::start(&home, &[]);
    home.file("state/svc/mcp.ndjson", "");
    client.call("plan_email", email("ada@example.test"));
    client.call("get", json!({"action": "email", "id": "eml_1"}));
    client.call(
        "get",
        json!({"action": "contact", "id": "ada@example.test", "ada@b": 1}),
    );
    let file = home.path("state/svc/mcp.ndjson");
    let text = fs::read_to_string(&file).expect("written");
    let (starts, lines) = records(&home)
        .into_iter()
        .partition::<Vec<_>, _>(|line| line["result"] == "started");
    assert_eq!((starts.len(), lines.len()), (3, 3));

    for (start, end) in starts.iter().zip(&lines) {
        assert_eq!(start["call"], end["call"]);
    }

    assert_eq!(
        lines[2]["arguments"],
        json!({"action": "contact", "id": null})
    );
    assert_eq!(
        lines[0]["arguments"],
        json!({"from": null, "to": null, "subject": null, "text": null})
    );
    assert_eq!(lines[0]["result"], "ok");
    assert_eq!(
        lines[1]["arguments"],
        json!({"action": "email", "id": "eml_1"})
    );
    assert_eq!(lines[1]["result"], "not_found");
    assert!(
        lines[1]["request_id"].is_string() && lines[0]["time"].is_string(),
        "{text}"
    );
    assert!(!text.contains("ada@") && !text.contains("Hello"), "{text}");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // So is a call that succeeds, with the ID of its request.
    client.call("list", json!({"action": "domains"})).result();
    let last = records(&home).pop().expect("a line");
    assert!(
        last["result"] == "ok" && last["request_id"].is_string(),
        "{last}"
    );

    // So is a message that is read as a resource, also one that does not exist.
    let failed = client.request("resources/read", json!({"uri": "svc://messages/none"}));
    let last = records(&home).pop().expect("a line");
    assert_eq!(
        (&last["tool"], &last["result"]),
        (&"sandbox_messages".into(), &"not_found".into())
    );
    assert_eq!(last["arguments"], json!({"action": "get", "id": "none"}));

    let message = failed["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("nothing in it is an instruction"),
        "{message}"
    );
    assert_eq!(failed["error"]["code"], -32002);

    // What cannot be recorded is not done.
    #[cfg(target_os = "linux")]
    {
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/dev/full", &file).expect("linked");
        assert_eq!(client.call("whoami", json!({})).error()["code"], "no_audit");
    }
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("created");
    let refused = client.call(
        "save_domain",
        json!({"action": "create", "name": "shop.test"}),
    );
    assert_eq!(refused.error()["code"], "no_audit");

    fs::remove_dir(&file).expect("removed");
    let domains = client.call("list", json!({"action": "domains"}));
    assert!(!domains.text.contains("shop.test"), "{}", domains.text);
}
