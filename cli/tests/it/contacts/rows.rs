//! What `svc contacts import` makes of each row: nothing of it is lost without being said.

use serde_json::{Value, json};

use super::{AUDIENCE, audience, results};
use crate::support::{Home, Service, http_response};

fn contacts(home: &Home, audience: &str) -> Vec<Value> {
    let all = home.sandbox_json(&["contacts", "list", audience, "--all"]);
    let mut all = all.as_array().expect("a list").clone();
    all.sort_by_key(|contact| contact["email"].to_string());
    all
}

/// Whatever the order of the rows, and even if the row that says so is invalid or a duplicate.
#[test]
fn an_opt_out_in_any_row_of_an_address_wins() {
    let home = Home::new();
    let audience = audience(&home);
    let file = home.file(
        "people.csv",
        "email,name,subscribed,metadata\n\
         a@x.test,A,yes,\nb@x.test,B,no,\nA@x.test,Again,no,\nb@x.test,B,yes,\n\
         c@x.test,C,yes,\nc@x.test,C,no,not JSON\nd@x.test,D,yes,\nd@x.test,D,,\n",
    );
    let import = ["--sandbox", "contacts", "import", &audience, &file];
    let dry = home.run(&[&import[..], &["--dry-run", "-o", "ndjson"]].concat());
    assert_eq!(dry.code, 11, "{dry:?}");

    let message = "not applied in full: 8 rows, 1 failed";
    assert_eq!(dry.error()["message"], message, "{dry:?}");

    let run = home.run(&import);
    let created = "created";
    let expected = [
        created,
        created,
        "duplicate",
        "duplicate",
        created,
        "failed",
        created,
        "duplicate",
    ];
    assert_eq!(
        (run.code, results(&run)),
        (11, expected.map(str::to_owned).into()),
        "{run:?}"
    );

    let report = run.json();
    assert_eq!(
        (&report[2]["row"], &report[2]["email"]),
        (&json!(4), &json!("A@x.test"))
    );

    // Why contacts are unsubscribed although their rows say yes.
    let why = [0, 1, 2, 4, 6].map(|row: usize| report[row]["why"].as_str());
    let expected = [
        Some("row 4 unsubscribes the contact"),
        None,
        Some("the address is already in row 2"),
        Some("row 7 unsubscribes the contact"),
        None,
    ];
    assert_eq!(why, expected, "{report}");
    assert_eq!(run.error()["message"], message, "{run:?}");

    let shown = contacts(&home, &audience);
    let shown = shown
        .iter()
        .map(|contact| (&contact["name"], &contact["subscribed"]));
    let expected = [("A", false), ("B", false), ("C", false), ("D", true)];
    let expected = expected.map(|(name, subscribed)| (json!(name), json!(subscribed)));
    assert!(
        shown.eq(expected.iter().map(|(name, is)| (name, is))),
        "{run:?}"
    );

    let table = home.run(&[&import[..], &["-o", "table"]].concat());
    assert!(
        table.stdout.contains("4 skipped, 3 duplicate, 1 failed"),
        "{table:?}"
    );
}

/// Too few values, an unknown word, or another value that the service refuses.
#[test]
fn a_row_that_fails_subscribes_nobody_and_loses_no_opt_out() {
    let home = Home::new();
    let audience = audience(&home);
    home.sandbox_json(&[
        "contacts",
        "create",
        &audience,
        "ann@x.test",
        "--name",
        "Ann",
    ]);
    // The service refuses the update of Ann's first row.
    home.sandbox_json(&[
        "sandbox",
        "faults",
        "add",
        "--operation",
        "contacts.update",
        "--status",
        "422",
    ]);
    let file = home.file(
        "people.csv",
        "email,name,subscribed\na@x.test,false\nb@x.test,B,maybe\nb@x.test,B,yes\n\
         ann@x.test,A,yes\nann@x.test,Ann,no\n",
    );
    let run = home.run(&[
        "--sandbox",
        "contacts",
        "import",
        &audience,
        &file,
        "--existing",
        "update",
    ]);
    let expected = ["failed", "failed", "created", "failed", "duplicate"];
    assert_eq!(
        (run.code, results(&run)),
        (11, expected.map(str::to_owned).into()),
        "{run:?}"
    );

    let shown = contacts(&home, &audience);
    let shown = shown
        .iter()
        .map(|contact| (&contact["email"], &contact["subscribed"]));
    let expected = [
        (json!("ann@x.test"), json!(false)),
        (json!("b@x.test"), json!(false)),
    ];
    assert!(
        shown.eq(expected.iter().map(|(email, is)| (email, is))),
        "{run:?}"
    );
}

#[test]
fn a_failed_row_is_reported_with_its_address_as_it_is_in_the_file() {
    let home = Home::new();
    let audience = audience(&home);
    let csv = b"email,subscribed,metadata\nAda@X.test,maybe,\nb@x.test,,[1]\nc@x.test,,,no\n\
        not-an-address,,\n,yes,\n";
    let ndjson =
        b"{\"email\":\"Ada@X.test\",\"subscribed\":\"?\"}\n{\"email\":7}\n{\"name\":\"N\"}\n7\n";
    let addresses = [json!("Ada@X.test"), json!("b@x.test"), json!("c@x.test")];
    let csv_addresses = [&addresses[..], &[json!("not-an-address"), Value::Null]];
    let ndjson_addresses = [addresses[0].clone(), json!("7"), Value::Null, Value::Null];
    for (name, content, expected) in [
        ("a.csv", &csv[..], csv_addresses.concat()),
        ("a.ndjson", &ndjson[..], ndjson_addresses.into()),
    ] {
        let file = home.file(name, content);
        let run = home.run(&["--sandbox", "contacts", "import", &audience, &file]);
        assert_eq!(run.code, 11, "{run:?}");
        let report = run.json();
        let report = report.as_array().expect("a list");
        let shown = report
            .iter()
            .map(|row| (row["email"].clone(), row["row"].clone()));
        let first = if name == "a.csv" { 2 } else { 1 };
        let expected = expected
            .into_iter()
            .zip((first..).map(|row: u64| json!(row)));
        assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(
            report.iter().all(|row| row["result"] == "failed"),
            "{run:?}"
        );
    }
}

#[test]
fn values_that_would_be_changed_or_lost_fail_their_row() {
    let home = Home::new();
    let audience = audience(&home);
    let csv = "email,metadata,plan\n\
        a@x.test,\"{\"\"n\"\":18446744073709551615,\"\"d\"\":0.1}\",pro\n\
        c@x.test,\"{\"\"plan\"\":\"\"free\"\"}\",pro\n";
    let run = home.run_with_input(&["--sandbox", "contacts", "import", &audience, "-"], csv);
    assert_eq!(results(&run), ["created", "failed"], "{run:?}");

    let why = |row: usize| run.json()[row]["error"]["message"].to_string();
    assert!(why(1).contains("different values for `plan`"), "{run:?}");

    let list = home.run(&["--sandbox", "contacts", "list", &audience, "-o", "ndjson"]);
    assert!(list.stdout.contains("18446744073709551615"), "{list:?}");

    let create = ["contacts", "create", &audience, "e@x.test", "--meta"];
    let create = |meta| home.run(&[&["--sandbox"], &create[..], &[meta]].concat());
    assert_eq!(
        create("n:=9007199254740993").json()["metadata"],
        json!({"n": 9_007_199_254_740_993_u64})
    );
}

/// Files of spreadsheets in UTF-16 or with a lone carriage return are refused, not misread.
#[test]
fn a_file_that_is_not_text_is_refused() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    for (content, why) in [
        (&b"\xFF\xFEe\0m\0a\0i\0l\0\n\0"[..], "UTF-16"),
        (
            b"email,name\na@b.test,A\rc@d.test,C\n",
            "line 2: a value looks like several rows",
        ),
        (
            b"email,name\na@b.test,A\nc@d.test,Zo\xeb\n",
            "line 3: not UTF-8",
        ),
        (b"{\"email\":\"a@b.test\"}\n{\"email\n", "at line 2 column"),
        (
            b"email,n\na@b.test,\"A\nc@d.test,B\"\n",
            "line 2: a value looks like several rows",
        ),
        (b"", "the file is empty"),
        (
            b"email,name,Full Name\na@b.test,A,\nc@d.test,B,C\n",
            "people.csv: several columns map to the field of `Full Name`",
        ),
    ] {
        let file = home.file("people.csv", content);
        let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
        assert!(run.code == 2 && run.stderr.contains(why), "{run:?}");
    }
}

/// Names that spreadsheets, CSV and terminals treat in their own way survive both formats.
#[test]
fn odd_names_and_nested_metadata_survive_export_and_import() {
    let home = Home::new();
    let from = audience(&home);
    let names = [
        "=1+1",
        "+49 30",
        "-x",
        "@a",
        "\"q\" 'r'",
        "a\nb",
        "a\r\nb",
        "Zoë 名前 🦀",
        ",;\t|",
    ];
    let lines = names.iter().enumerate().map(|(n, name)| {
        let metadata = json!({"a": {"b": [1, null, {"c": name}]}, (*name): "", "f": 0.1});
        let contact = json!({"email": format!("p{n}@x.test"), "name": name, "metadata": metadata});
        format!("{contact}\n")
    });
    let import = |audience: &str, input: &str| {
        home.run_with_input(&["--sandbox", "contacts", "import", audience, "-"], input)
    };
    let run = import(&from, &lines.collect::<String>());
    assert_eq!(run.code, 0, "{run:?}");

    let kept = |audience: &str| {
        let all = contacts(&home, audience);
        let keys = ["email", "name", "topics", "subscribed", "metadata"];
        all.into_iter()
            .map(|c| keys.map(|key| c[key].clone()))
            .collect::<Vec<_>>()
    };

    let expected = kept(&from);
    assert_eq!(expected.iter().map(|c| &c[1]).collect::<Vec<_>>(), names);

    for format in ["csv", "ndjson"] {
        let to = audience(&home);
        let file = home.run(&[
            "--sandbox",
            "contacts",
            "list",
            &from,
            "--all",
            "-o",
            format,
        ]);
        let run = import(&to, &file.stdout);
        assert_eq!(run.code, 0, "{format}: {run:?} {file:?}");
        assert_eq!(kept(&to), expected, "{format}");
    }
}

/// A new contact is subscribed, so a row without a value beside rows with one is left out.
#[test]
fn a_row_that_does_not_say_who_is_subscribed_is_left_out_if_others_do() {
    let home = Home::new();
    let csv = "email,subscribed\na@x.test,yes\nb@x.test,\nc@x.test,no\n";
    let ndjson = "{\"email\":\"a@x.test\",\"subscribed\":true}\n{\"email\":\"b@x.test\"}\n\
        {\"email\":\"c@x.test\",\"subscribed\":false}\n";
    let array = format!("[{}]", ndjson.trim().replace('\n', ","));
    for content in [csv, ndjson, &array] {
        let audience = audience(&home);
        let run = home.run_with_input(
            &["--sandbox", "contacts", "import", &audience, "-"],
            content,
        );
        assert_eq!(run.code, 11, "{run:?}");
        assert_eq!(results(&run), ["created", "failed", "created"], "{run:?}");
        assert!(
            run.json()[1]["error"]["message"]
                .to_string()
                .contains("does not say whether")
        );
        let kept = contacts(&home, &audience);
        let kept = kept
            .iter()
            .map(|contact| contact["email"].clone())
            .collect::<Vec<_>>();
        assert_eq!(kept, ["a@x.test", "c@x.test"]);
    }

    // Nobody has opted out of a file that does not say so.
    let audience = audience(&home);
    let run = home.run_with_input(
        &["--sandbox", "contacts", "import", &audience, "-"],
        "{\"email\":\"a@x.test\",\"subscribed\":null}\n{\"email\":\"b@x.test\"}\n",
    );
    assert_eq!(run.code, 0, "{run:?}");
}

/// The opt-out reaches every contact of the mailbox.
#[test]
fn both_forms_of_a_domain_are_one_contact() {
    let home = Home::new();
    let audience = audience(&home);
    let unicode = "ü@bücher.test";
    let ascii = "ü@xn--bcher-kva.test";
    home.sandbox_json(&["contacts", "create", &audience, unicode]);
    let opt_out = |existing: &str| {
        let import = [
            "--sandbox",
            "contacts",
            "import",
            &audience,
            "-",
            "--existing",
            existing,
        ];
        home.run_with_input(&import, format!("email,subscribed\n{ascii},no\n"))
    };

    let run = opt_out("skip");
    assert_eq!(
        (run.code, results(&run)[0].as_str()),
        (11, "remains_subscribed"),
        "{run:?}"
    );
    assert_eq!(
        (opt_out("update").code, contacts(&home, &audience).len()),
        (0, 1)
    );
    assert_eq!(contacts(&home, &audience)[0]["subscribed"], false);

    // The service sees one contact, too.
    let again = home.run(&["--sandbox", "contacts", "create", &audience, ascii]);
    assert_eq!(
        (again.code, again.error()["code"].clone()),
        (6, "conflict".into()),
        "{again:?}"
    );
}

/// Only the user can know which column decides.
#[test]
fn columns_that_contradict_each_other_refuse_the_file() {
    let home = Home::new();
    let audience = audience(&home);
    let import = |content: &str, more: &[&str]| {
        let import = ["--sandbox", "contacts", "import", &audience, "-", "--yes"];
        home.run_with_input(&[&import[..], more].concat(), content)
    };

    let csv = "email,subscribed,unsubscribed\na@x.test,no,yes\nb@x.test,yes,yes\n";
    for content in [
        csv,
        "{\"email\":\"b@x.test\",\"subscribed\":true,\"unsubscribed\":true}",
    ] {
        let run = import(content, &[]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        let error = run.error();
        assert_eq!(error["code"], "columns_contradict");
        let hint = error["hint"].as_str().expect("a hint");
        let keep = "let everybody opt out whom `unsubscribed` opts out: --opt-out unsubscribed\n";
        assert!(hint.starts_with(keep), "{hint}");
    }

    assert_eq!(contacts(&home, &audience), [Value::Null; 0]);

    let status = "email,Status,Opt In\nb@x.test,active,no\n";
    let hint = import(status, &[]).error()["hint"].to_string();
    assert!(hint.contains("opts out: --opt-in 'Opt In'"), "{hint}");
    assert_eq!(import(csv, &["--opt-out", "unsubscribed"]).code, 0);

    let reason = "email,subscribed,bounced\na@x.test,yes,1\nb@x.test,yes,\n";
    let hint = import(reason, &[]).error()["hint"].to_string();
    assert!(hint.contains("--opt-out bounced"), "{hint}");

    let update = ["--opt-out", "bounced", "--existing", "update"];
    assert_eq!(import(reason, &update).code, 0);

    let kept = contacts(&home, &audience);
    assert!(kept.len() == 2 && kept.iter().all(|contact| contact["subscribed"] == false));
}

/// A key that is given twice says both.
#[test]
fn a_row_that_contradicts_itself_opts_out_in_the_other_rows_of_the_address() {
    let home = Home::new();
    let audience = audience(&home);
    let ndjson = "{\"email\":\"a@x.test\",\"subscribed\":true}\n\
        {\"email\":\"a@x.test\",\"subscribed\":false,\"subscribed\":true}\n";
    let import = [
        "--sandbox",
        "contacts",
        "import",
        &audience,
        "-",
        "-o",
        "table",
    ];
    let run = home.run_with_input(&import, ndjson);
    assert_eq!(run.code, 11, "{run:?}");
    assert!(
        run.stdout.contains("row 2 unsubscribes the contact"),
        "{run:?}"
    );

    let contacts = contacts(&home, &audience);
    assert_eq!(
        (contacts.len(), &contacts[0]["subscribed"]),
        (1, &json!(false))
    );
}

#[test]
fn a_key_that_is_given_twice_fails_its_row() {
    let home = Home::new();
    let audience = audience(&home);
    let ndjson = "{\"email\":\"a@x.test\",\"subscribed\":false}\n\
        {\"email\":\"b@x.test\",\"subscribed\":false,\"subscribed\":true}\n";
    let import = ["--sandbox", "contacts", "import", &audience, "-"];
    let run = home.run_with_input(&import, ndjson);
    assert_eq!(
        (run.code, results(&run)),
        (11, vec!["created".into(), "failed".into()]),
        "{run:?}"
    );

    let why = run.json()[1]["error"]["message"].to_string();
    assert!(why.contains("the key `subscribed` is given twice"), "{why}");

    let array = "[{\"email\":\"b@x.test\",\n\"email\":\"c@x.test\"}]";
    let run = home.run_with_input(&import, array);
    assert_eq!(
        (run.code, results(&run)),
        (11, vec!["failed".into()]),
        "{run:?}"
    );
}

/// One rule for bulk sending and imports.
#[test]
fn every_column_about_opting_out_is_read() {
    let home = Home::new();
    for (column, opted_out, others) in [
        ("unsubscribed", "x", "no"),
        ("unsubscribed_at", "2026-01-02", ""),
        ("bounced", "1", "0"),
        ("opt_in", "no", "yes"),
        ("Status", "cleaned", "active"),
    ] {
        let audience = audience(&home);
        let csv = format!("email,{column}\na@x.test,{opted_out}\nb@x.test,{others}\n");
        let run = home.run_with_input(&["--sandbox", "contacts", "import", &audience, "-"], csv);
        assert_eq!(run.code, 0, "{run:?}");
        let kept = contacts(&home, &audience);
        let kept = kept
            .iter()
            .map(|contact| contact["subscribed"].clone())
            .collect::<Vec<_>>();
        assert_eq!(kept, [false, true], "{column}");
    }

    let audience = audience(&home);
    let import = |content: &str, more: &[&str]| {
        let import = ["--sandbox", "contacts", "import", &audience, "-"];
        home.run_with_input(&[&import[..], more].concat(), content)
    };

    let run = import("email,unsubscribed\na@x.test,perhaps\n", &[]);
    assert_eq!(
        (run.code, results(&run)),
        (11, vec!["failed".into()]),
        "{run:?}"
    );

    // A word that is not known is asked about.
    let trial = "email,status,State\na@x.test,trial,NY\n";
    for more in [&[][..], &["--yes"]] {
        let run = import(trial, more);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (2, &json!("opt_outs_unclear")),
            "{run:?}"
        );
        assert!(run.stderr.contains("--ignore status"), "{run:?}");
    }

    assert_eq!(contacts(&home, &audience), [Value::Null; 0]);

    let run = import(
        "email,no_newsletter\n",
        &["--dry-run", "--column", "no_newsletter=status"],
    );
    assert!(
        run.stderr
            .contains("no_newsletter → metadata.no_newsletter"),
        "{run:?}"
    );

    let run = import(trial, &["--column", "status=metadata.plan"]);
    assert_eq!(run.code, 0, "{run:?}");

    let metadata = json!({"plan": "trial", "State": "NY"});
    assert_eq!(contacts(&home, &audience)[0]["metadata"], metadata);

    let run = import("email,plan\nc@x.test,yes\n", &["--opt-out", "Plan"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("no column `Plan`") && run.stderr.contains("did you mean `plan`?"));

    let run = import("email,plan\nc@x.test,yes\n", &["--opt-out", "plan"]);
    assert_eq!(
        (run.code, &contacts(&home, &audience)[1]["subscribed"]),
        (0, &json!(false))
    );
}

/// The service may have created the contact, so the exit code is not that of a refused row.
#[test]
fn an_import_with_a_row_of_unknown_outcome_has_its_own_exit_code() {
    let home = Home::new();
    let file = home.file("people.csv", "email\nada@example.test\nno address\n");
    let empty = http_response(200, "", r#"{"data":[],"total":0}"#);
    let refused = http_response(422, "", r#"{"error":{"message":"no"}}"#);
    let service = Service::with_responses(&[empty, String::new(), refused]);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
    let mut reported = results(&run);
    reported.sort_unstable();
    assert_eq!(
        (run.code, reported),
        (9, vec!["failed".into(), "unknown".into()]),
        "{run:?}"
    );

    let error = run.error();
    assert_eq!(error["code"], "import_outcome_unknown");
    assert_eq!(
        error["message"],
        "not applied in full: 2 rows, 1 failed, 1 unknown"
    );

    // Even if the service fails afterwards, so that the import ends early.
    let file = home.file("people.csv", "email,subscribed\na@x.test,no\nb@x.test,no\n");
    let created = r#"{"id":"con_1","email":"x","subscribed":true}"#;
    let service = Service::with_responses(&[
        http_response(200, "", r#"{"data":[],"total":0}"#),
        String::new(),
        http_response(201, "", created),
        http_response(503, "", "{}"),
    ]);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(
        &["--retries=0", "contacts", "import", AUDIENCE, &file],
        &env,
    );
    assert_eq!(
        (run.code, &run.error()["kind"]),
        (9, &json!("outcome_unknown")),
        "{run:?}"
    );
}

/// The contact is there already, and only the file's row spells its address in another way.
#[test]
fn an_opt_out_finds_its_contact_however_the_row_spells_the_address() {
    let home = Home::new();
    let audience = audience(&home);
    for address in ["ann@x.test", "bob@x.test", "eve@x.test"] {
        home.sandbox_json(&["contacts", "create", &audience, address]);
    }

    let file = home.file(
        "people.csv",
        "email,unsubscribed\nmailto:ann@x.test,yes\n\"bob@x.test; eve@x.test\",yes\n",
    );

    let import = [
        "contacts",
        "import",
        &audience,
        &file,
        "--existing",
        "update",
    ];
    let run = home.run(&[&["--sandbox"], &import[..]].concat());

    assert_eq!(run.code, 0, "{run:?}");

    let shown = contacts(&home, &audience);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(
        shown.iter().all(|contact| contact["subscribed"] == false),
        "{shown:?}"
    );
}
