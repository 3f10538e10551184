//! `svc bulk …`: each row gets at most one email, whatever ends a job. One file, because all tests
//! use the same fixtures; those of opt-outs are in `bulk/opt_outs.rs`.

mod opt_outs;

use serde_json::{Value, json};

use crate::pty::Terminal;
use crate::support::{Home, Run, Service, Serving};

const PEOPLE: &str = "email,First Name,token,subscribed\n\
    ada@example.test,Ada & Co,t 1,yes\n\
    bob@example.test,,t2,yes\n\
    cleo@example.test,Cleo,t3,no\n\
    ADA@example.test,Ada,t4,yes\n\
    \"dan@example.test,eve@example.test\",Dan,t5,yes\n\
    fay@example.test,Fay,t6,yes\n";

const SEND: [&str; 10] = [
    "--sandbox",
    "bulk",
    "send",
    "people.csv",
    "--from",
    "hello@sandbox.test",
    "--subject",
    "Hi {{ first_name }}",
    "--html",
    "<p>{{ first_name }}</p>",
];

/// The ids of all jobs.
fn jobs(home: &Home) -> Vec<String> {
    let list = home.run(&["bulk", "list"]).json();
    let jobs = list.as_array().expect("a list").iter();
    jobs.map(|job| job["job"].as_str().expect("an id").to_owned())
        .collect()
}

fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{run:?}");
    run.stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn each_valid_row_gets_one_email_and_each_other_row_is_reported() {
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    let url = "https://example.test/u/{{ token }}";
    let run = home.run(&[&SEND[..], &["--unsubscribe", url, "--yes"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stderr
            .contains("2 rows are invalid and left out: row 3, bob@example.test: --subject"),
        "{run:?}"
    );

    let job = run.json();
    let counts = [
        "total",
        "accepted",
        "refused",
        "unknown",
        "not_sent",
        "left_out",
        "left_out_invalid",
    ];
    assert_eq!(
        counts.map(|count| job[count].as_u64()),
        [2, 2, 0, 0, 0, 4, 2].map(Some),
        "{job}"
    );
    assert_eq!(job["state"], "complete");

    let messages = home.sandbox_json(&["sandbox", "messages", "list"]);
    let messages = messages["data"]
        .as_array()
        .or(messages.as_array())
        .expect("a list")
        .clone();
    let mut subjects = messages
        .iter()
        .map(|each| each["subject"].as_str())
        .collect::<Vec<_>>();
    subjects.sort_unstable();
    assert_eq!(subjects, [Some("Hi Ada & Co"), Some("Hi Fay")]);

    let ada = messages
        .iter()
        .find(|each| each["subject"] == "Hi Ada & Co")
        .expect("Ada's");
    let ada = ada["id"].as_str().expect("an id");
    let raw = home
        .run(&["--sandbox", "sandbox", "messages", "get", ada, "--raw"])
        .stdout;
    assert!(raw.contains("<p>Ada &amp; Co</p>"), "{raw}");
    assert!(
        raw.contains("List-Unsubscribe: <https://example.test/u/t%201>"),
        "{raw}"
    );
    assert!(
        raw.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click"),
        "{raw}"
    );

    let id = job["job"].as_str().expect("an id");
    let report = rows(&home.run(&["bulk", "report", id, "-o", "ndjson"]));
    let mut seen = report
        .iter()
        .map(|row| {
            (
                row["row"].as_u64().expect("a row"),
                row["status"].clone(),
                row["code"].clone(),
            )
        })
        .collect::<Vec<_>>();
    seen.sort_by_key(|(row, ..)| *row);
    let left_out = |row, code: &str| (row, json!("left_out"), json!(code));
    let accepted = |row| (row, json!("accepted"), Value::Null);
    let expected = [
        accepted(2),
        left_out(3, "invalid"),
        left_out(4, "unsubscribed"),
        left_out(5, "duplicate"),
        left_out(6, "invalid"),
        accepted(7),
    ];
    assert_eq!(seen, expected);
    assert!(
        report
            .iter()
            .any(|row| row["message"] == "--subject: line 1: the row has no `first_name`")
    );

    for (status, expected) in [("accepted", &[2, 7][..]), ("invalid,duplicate", &[3, 5, 6])] {
        let some = ["bulk", "report", id, "--status", status, "-o", "ndjson"];
        let some = rows(&home.run(&some));
        assert!(
            some.iter()
                .map(|row| row["row"].as_u64())
                .eq(expected.iter().map(|it| Some(*it)))
        );
    }

    assert_eq!(
        home.run(&["bulk", "report", id, "--status", "invalit"])
            .code,
        2
    );

    let table = home.run(&["bulk", "report", id, "-o", "table"]).stdout;
    assert!(
        table.starts_with("ROW ") && !table.contains(",accepted,"),
        "{table}"
    );

    let csv = home.run(&["bulk", "report", id]).stdout;
    assert!(
        csv.starts_with(
            "row,address,status,id,code,when,message\n2,ada@example.test,accepted,eml_"
        ),
        "{csv}"
    );

    // Nothing is left to send.
    let again = home.run(&["--sandbox", "bulk", "resume", id]);
    assert_eq!(
        (again.code, again.json()["accepted"].as_u64()),
        (0, Some(2)),
        "{again:?}"
    );

    // The rows are those of the start, whatever happens to the file.
    home.file("people.csv", format!("{PEOPLE}gus@example.test,Gus,t7,\n"));
    let again = home.run(&["--sandbox", "bulk", "resume", id]);
    assert_eq!(
        (again.code, again.json()["accepted"].as_u64()),
        (0, Some(2)),
        "{again:?}"
    );

    let elsewhere = home.run_with_env(
        &["bulk", "resume", id],
        &[
            ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ],
    );
    assert_eq!(elsewhere.code, 2, "{elsewhere:?}");
    assert!(
        elsewhere.stderr.contains("started with sandbox"),
        "{elsewhere:?}"
    );
}

#[test]
fn input_that_lies_sends_nothing_and_leaves_nothing_behind() {
    let service = Service::always(500, "");
    let env = [
        ("SVC_EMAIL_URL", service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x".to_owned()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let home = Home::new();
    let many = "b@b.test,Bob\n".repeat(900);
    for (content, why) in [
        (
            format!("email,name\na@b.test,\"Ada\n{many}").into_bytes(),
            "line 2: a quote is never closed",
        ),
        (b"\xFF\xFEe\0m\0a\0i\0l\0".to_vec(), "UTF-16"),
        (
            b"email,name\na@b.test,Zo\xeb\n".to_vec(),
            "line 2: not UTF-8",
        ),
        (
            b"email,name\na@b.test;c@d.test,Ada\n".to_vec(),
            "no row can be sent: 1 invalid",
        ),
    ] {
        home.file("people.csv", content);
        let args = [&SEND[1..], &["--yes"]].concat();
        let run = home.run_with_env(&args, &env);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains(why), "{why}: {run:?}");
        assert_eq!(jobs(&home), Vec::<String>::new());
    }

    // Without a terminal and without --yes, nothing is sent either.
    home.file("people.csv", PEOPLE);
    let run = home.run_with_env(&SEND[1..], &env);
    let question =
        "1 duplicate, 2 invalid, 1 unsubscribed left out. Send 2 emails from hello@sandbox.test to";
    assert!(run.code == 2 && run.stderr.contains(question), "{run:?}");
    assert!(service.requests().is_empty() && jobs(&home).is_empty());
}

#[test]
fn a_response_that_is_lost_makes_rows_unknown_until_the_operator_decides() {
    let accepted = r#"{"results":[{"index":0,"id":"eml_1"},{"index":1,"id":"eml_2"}]}"#;
    let accepted = crate::support::http_response(200, "", accepted);
    let service = Service::with_responses(&[no_domains(), String::new(), accepted]);
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    let env = [
        ("SVC_EMAIL_URL", service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x".to_owned()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let run = home.run_with_env(&[&SEND[1..], &["--yes"]].concat(), &env);
    assert_eq!(
        (run.code, run.json()["unknown"].as_u64()),
        (9, Some(2)),
        "{run:?}"
    );

    let id = run.json()["job"].as_str().expect("an id").to_owned();
    let report = rows(&home.run(&["bulk", "report", &id, "-o", "ndjson"]));
    let unknown = report.iter().filter(|row| row["status"] == "unknown");
    let unknown = unknown
        .map(|row| row["address"].as_str())
        .collect::<Vec<_>>();
    assert_eq!(
        unknown,
        [Some("ada@example.test"), Some("fay@example.test")]
    );
    assert!(
        report
            .iter()
            .any(|row| row["status"] == "unknown" && row["code"].is_string())
    );

    let held = home.run_with_env(&["bulk", "resume", &id], &env);
    assert_eq!((held.code, service.requests().len()), (9, 2), "{held:?}");

    let sent = home.run_with_env(&["bulk", "resume", &id, "--unknown", "resend"], &env);
    assert_eq!(
        (sent.code, sent.json()["accepted"].as_u64()),
        (0, Some(2)),
        "{sent:?}"
    );
    assert_eq!(service.requests().len(), 3);

    // That the first request may have been accepted is not forgotten.
    let report = rows(&home.run(&["bulk", "report", &id, "-o", "ndjson"]));
    let twice = |row: &&Value| row["message"].to_string().contains("perhaps sent twice");
    assert_eq!(report.iter().filter(twice).count(), 2, "{report:?}");
}

/// The default is five minutes.
#[test]
fn timeout_is_the_deadline_of_each_request() {
    let (listener, url) = crate::support::listen();
    let held = std::thread::spawn(move || {
        // The check of the sender's domain, and the emails.
        [(); 2].map(|()| {
            let stream = crate::support::accept(&listener);
            crate::support::read_request(&stream).expect("a request");
            stream
        })
    });
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let limit = ["--timeout", "300ms"];
    let run = home.run_with_env(&[&limit[..], &SEND[1..], &["--yes"]].concat(), &env);
    assert_eq!(
        (run.code, run.json()["unknown"].as_u64()),
        (9, Some(2)),
        "{run:?}"
    );

    drop(held.join().expect("the server got the request"));
}

#[test]
fn wait_follows_delivery_until_every_status_is_final() {
    let home = Home::new();
    home.file(
        "people.csv",
        "email\nada@example.test\nbounced@example.test\n",
    );
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "people.csv",
        "--from",
        "hello@sandbox.test",
    ];
    let send = [
        &send[..],
        &["--subject", "s", "--text", "t", "--yes", "--wait"],
    ]
    .concat();
    let run = home.run(&send);
    assert_eq!(
        (run.code, run.json()["accepted"].as_u64()),
        (10, Some(2)),
        "{run:?}"
    );

    let error = run.error();
    assert_eq!(error["code"], "bulk_not_delivered");

    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("1 of 2 accepted emails were not delivered: 1 bounced"),
        "{message}"
    );

    let id = run.json()["job"].as_str().expect("an id").to_owned();
    let statuses = |run: &Run| {
        rows(run)
            .into_iter()
            .map(|row| row["status"].clone())
            .collect::<Vec<_>>()
    };

    let report = home.run(&["bulk", "report", &id, "-o", "ndjson"]);
    assert_eq!(statuses(&report), ["delivered", "bounced"]);

    let again = home.run(&["--sandbox", "bulk", "resume", &id, "--wait"]);
    assert_eq!(
        (again.code, again.error()["code"].as_str()),
        (10, Some("bulk_not_delivered"))
    );

    let report = home.run(&["bulk", "report", &id, "-o", "ndjson"]);
    assert_eq!(statuses(&report), ["delivered", "bounced"]);
}

/// Rows that are typed, or come from a pipe that does not end.
#[test]
fn ctrl_c_ends_reading_the_rows_and_leaves_nothing_behind() {
    let home = Home::new();
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "-",
        "--from",
        "a@sandbox.test",
        "--subject",
        "Hi",
    ];
    let mut terminal = Terminal::start(&home, &[&send[..], &["--text", "x"]].concat(), &[], 120);
    terminal.until("FILE: type the content and end it with Ctrl-D");
    terminal.write("email\nada@example.test\n");
    terminal.write("\u{3}");
    let seen = terminal.end();
    assert_eq!(seen.code, 130, "{}", seen.raw);
    assert_eq!(jobs(&home), Vec::<String>::new());
}

/// The way of a user: preview, question, progress, Ctrl-C, resume, report.
#[test]
fn a_job_on_a_terminal_can_be_stopped_and_continued() {
    let home = Home::new();
    let people = (1..=5)
        .map(|n| format!("p{n}@example.test,P{n}\n"))
        .collect::<String>();
    home.file("people.csv", format!("email,First Name\n{people}"));
    let mut terminal = Terminal::start(&home, &[&SEND[..], &["--rate", "2/s"]].concat(), &[], 120);
    terminal.until("the first email, to p1@example.test");
    terminal.until("Send 5 emails from hello@sandbox.test to the sandbox? [y/N] ");
    terminal.write("y\n");
    terminal.until(" of 5: ");
    terminal.write("\u{3}");
    let seen = terminal.end();
    assert_eq!(seen.code, 130, "{}", seen.raw);
    assert!(
        seen.text.contains("<p>") || seen.text.contains("Subject: Hi P1"),
        "{}",
        seen.raw
    );
    assert!(
        seen.text.contains("go on: svc --sandbox bulk resume "),
        "{}",
        seen.raw
    );

    let list = home.run(&["bulk", "list"]).json();
    let job = &list[0];
    let id = list[0]["job"].as_str().expect("an id");
    assert_eq!(
        (job["state"].as_str(), job["unknown"].as_u64()),
        (Some("incomplete"), Some(0))
    );

    let done = home.run(&["--sandbox", "bulk", "resume", id]);
    assert_eq!(
        (done.code, done.json()["accepted"].as_u64()),
        (0, Some(5)),
        "{done:?}"
    );

    let report = home.run(&["bulk", "report", id]).stdout;
    for n in 1..=5 {
        assert_eq!(
            report
                .matches(&format!("p{n}@example.test,accepted"))
                .count(),
            1,
            "{report}"
        );
    }
}

#[test]
fn jobs_are_listed_newest_first() {
    let home = Home::new();
    home.file("people.csv", "email,First Name\nada@example.test,Ada\n");
    let send = || {
        let run = home.run(&[&SEND[..], &["--yes", "--again"]].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run.json()["job"].as_str().expect("an id").to_owned()
    };

    let first = send();
    let second = send();
    let list = home.run(&["bulk", "list"]);
    assert_eq!(list.code, 0, "{list:?}");

    let list = list.json();
    let ids = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|job| job["job"].as_str());
    assert!(
        ids.eq([Some(second.as_str()), Some(first.as_str())]),
        "{list}"
    );
}

#[test]
fn a_file_name_is_not_sent_as_the_text() {
    let home = Home::new();
    home.file("body.html", "<p>Hi</p>");
    home.file("people.csv", "email\nada@example.test\n");
    let args = [
        "--sandbox",
        "bulk",
        "send",
        "people.csv",
        "--from",
        "hello@sandbox.test",
    ];
    let run = home.run(
        &[
            &args[..],
            &["--subject", "Hi", "--text", "body.html", "--yes"],
        ]
        .concat(),
    );
    assert_eq!((run.code, jobs(&home).len()), (2, 0), "{run:?}");
    assert!(run.stderr.contains("--text @body.html"), "{run:?}");
    assert!(
        run.stderr.contains("from standard input: --text -"),
        "{run:?}"
    );
}

#[test]
fn a_row_that_opts_out_wins_over_the_rows_before_it() {
    let home = Home::new();
    let people = "ada@example.test,Ada,yes\nbob@example.test,Bob,yes\nADA@example.test,Ada,no\n";
    home.file(
        "people.csv",
        format!("email,First Name,subscribed\n{people}"),
    );
    let run = home.run(&[&SEND[..], &["--yes", "--duplicates", "keep"]].concat());
    let job = run.json();
    assert_eq!(
        (job["accepted"].as_u64(), job["left_out"].as_u64()),
        (Some(1), Some(2)),
        "{run:?}"
    );
}

#[test]
fn columns_that_share_a_placeholder_are_refused_if_it_is_used() {
    let home = Home::new();
    home.file(
        "people.csv",
        "email,First Name,First-Name\na@b.test,Ada,Eve\n",
    );
    let object = json!({"email": "a@b.test", "First Name": "Ada", "First-Name": "Eve"});
    home.file("people.ndjson", object.to_string());
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "k"),
    ];
    let run = |file, args: &[&str]| {
        let send = [
            "bulk",
            "send",
            file,
            "--from",
            "a@b.test",
            "--subject",
            "s",
            "--dry-run",
        ];
        home.run_with_env(&[&send[..], args].concat(), &env)
    };

    for file in ["people.csv", "people.ndjson"] {
        for args in [
            ["--text", "{{ first_name }}"],
            ["--text", "{% if row.first_name %}x{% endif %}"],
            ["--template", "welcome"],
        ] {
            let run = run(file, &args);
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
            let why = "`First Name` and `First-Name` are both `first_name` in a placeholder";
            assert!(run.stderr.contains(why), "{run:?}");
            assert!(
                run.stderr.contains("rename one of them, or write {{ row["),
                "{run:?}"
            );
        }
        for text in ["Hi", "{{ row['First Name'] }}{{ row['First-Name'] }}"] {
            assert_eq!(run(file, &["--text", text]).code, 0, "{file} {text}");
        }
    }
}

/// A key that is given twice, or no word about the subscription where other rows have one.
#[test]
fn a_row_of_ndjson_that_may_opt_out_is_left_out() {
    let home = Home::new();
    home.file(
        "people.ndjson",
        "{\"email\":\"a@b.test\"}\n{\"email\":\"c@d.test\",\"subscribed\":true}\n\
         {\"email\":\"e@f.test\",\"subscribed\":false,\"subscribed\":true}\n",
    );
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "people.ndjson",
        "--from",
        "hello@sandbox.test",
    ];
    let run = home.run(&[&send[..], &["--subject", "s", "--text", "t", "--yes"]].concat());
    assert_eq!(
        (run.code, run.json()["accepted"].as_u64()),
        (0, Some(1)),
        "{run:?}"
    );
    assert!(
        run.stderr
            .contains("row 1, a@b.test: the row does not say whether"),
        "{run:?}"
    );

    let job = run.json();
    assert_eq!(
        (&job["left_out"], &job["left_out_invalid"]),
        (&json!(2), &json!(1)),
        "{run:?}"
    );

    let messages = home.sandbox_json(&["sandbox", "messages", "list"]);
    let to = messages["data"]
        .as_array()
        .or(messages.as_array())
        .expect("a list");
    assert_eq!(to.len(), 1, "{messages}");
}

#[test]
fn a_contact_gets_the_email_at_its_own_address() {
    let home = Home::new();
    let audience = home.sandbox_json(&["audiences", "create", "News"]);
    let audience = audience["id"].as_str().expect("an id");
    let people = "email,E-Mail work\nada@example.test,x\n";
    let people = home.file("contacts.csv", people);
    let map = "E-Mail work=metadata.E-Mail";
    let import = [
        "--sandbox",
        "contacts",
        "import",
        audience,
        &people,
        "--column",
        map,
    ];
    let import = home.run(&import);
    assert_eq!(import.code, 0, "{import:?}");

    let args = [
        "--sandbox",
        "bulk",
        "send",
        "--audience",
        audience,
        "--from",
    ];
    let rest = [
        "hello@sandbox.test",
        "--subject",
        "Hi",
        "--text",
        "Hello",
        "--yes",
    ];
    let run = home.run(&[&args[..], &rest].concat());
    assert_eq!(run.code, 0, "{run:?}");

    let id = run.json()["job"].as_str().expect("an id").to_owned();
    let report = rows(&home.run(&["bulk", "report", &id, "-o", "ndjson"]));
    assert_eq!(
        (report.len(), report[0]["address"].as_str()),
        (1, Some("ada@example.test"))
    );
}

/// A home with a service of its own, which responds like this to the requests of a job.
fn with_service(responses: &[String]) -> (Home, Service) {
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    (
        home,
        Service::with_responses(&[&[no_domains()], responses].concat()),
    )
}

/// The response to the check of the sender's domain: the key may not tell.
fn no_domains() -> String {
    crate::support::http_response(403, "", "{}")
}

fn run_at(home: &Home, service: &Service, key: &str, args: &[&str]) -> Run {
    home.run_with_env(
        args,
        &[("SVC_EMAIL_URL", &service.url()), ("SVC_EMAIL_KEY", key)],
    )
}

fn accepted(ids: &[&str]) -> String {
    let items = ids
        .iter()
        .enumerate()
        .map(|(at, id)| json!({"index": at, "id": id}));
    let body = json!({"results": items.collect::<Vec<_>>()}).to_string();
    crate::support::http_response(200, "", &body)
}

#[test]
fn a_job_goes_on_with_another_key_only_after_a_question() {
    let down = crate::support::http_response(403, "", "{}");
    let (home, service) = with_service(&[down, accepted(&["eml_1", "eml_2"])]);
    let send = [&SEND[1..], &["--yes"]].concat();
    let run = run_at(&home, &service, "mk_test_one", &send);
    assert_eq!(run.code, 6, "{run:?}");

    let list = home.run(&["bulk", "list"]).json();
    let id = list[0]["job"].as_str().expect("an id");
    let resume = ["bulk", "resume", id];
    let other = run_at(&home, &service, "mk_test_two", &resume);
    assert_eq!((other.code, service.requests().len()), (2, 2), "{other:?}");
    assert!(
        other
            .stderr
            .contains("not the key that the job was started with"),
        "{other:?}"
    );

    let ledger = std::fs::read(home.path(".local/state/svc/bulk.db")).expect("read");
    assert!(!String::from_utf8_lossy(&ledger).contains("mk_test"));

    let same = run_at(
        &home,
        &service,
        "mk_test_two",
        &[&resume[..], &["--yes"]].concat(),
    );
    assert_eq!(
        (same.code, same.json()["accepted"].as_u64()),
        (0, Some(2)),
        "{same:?}"
    );
}

#[test]
fn an_opt_out_between_send_and_resume_is_honored() {
    let contact = |email: &str, subscribed: bool| json!({"id": format!("con_{email}"), "email": email, "subscribed": subscribed});
    let page = |contacts: Value| {
        let body = json!({"data": contacts, "page": 1, "total": 2}).to_string();
        crate::support::http_response(200, "", &body)
    };

    let before = page(json!([
        contact("a@b.test", true),
        contact("c@d.test", true)
    ]));
    let after = page(json!([
        contact("a@b.test", true),
        contact("C@d.test", false)
    ]));
    let down = crate::support::http_response(403, "", "{}");
    let responses = [before, no_domains(), down, after, accepted(&["eml_1"])];
    let service = Service::with_responses(&responses);
    let home = Home::new();
    let id = "aud_0198c0de-0000-7000-8000-000000000000";
    let send = [
        "bulk",
        "send",
        "--audience",
        id,
        "--from",
        "a@b.test",
        "--subject",
        "s",
    ];
    let run = run_at(
        &home,
        &service,
        "k",
        &[&send[..], &["--text", "t", "--yes"]].concat(),
    );
    assert_eq!(run.code, 6, "{run:?}");

    let list = home.run(&["bulk", "list"]).json();
    let job = list[0]["job"].as_str().expect("an id");
    let resumed = run_at(&home, &service, "k", &["bulk", "resume", job]);
    assert_eq!(
        (resumed.code, resumed.json()["accepted"].as_u64()),
        (0, Some(1)),
        "{resumed:?}"
    );

    let last = service.requests().pop().expect("a request");
    assert!(
        last.contains("a@b.test") && !last.to_lowercase().contains("c@d.test"),
        "{last}"
    );

    let report = rows(&home.run(&["bulk", "report", job, "-o", "ndjson"]));
    assert!(
        report
            .iter()
            .any(|row| row["message"] == "not subscribed any more"),
        "{report:?}"
    );
}

#[test]
fn a_dry_run_of_resume_shows_unknown_rows_only_if_they_are_resent() {
    let (home, service) = with_service(&[String::new()]);
    let run = run_at(&home, &service, "k", &[&SEND[1..], &["--yes"]].concat());
    assert_eq!(run.code, 9, "{run:?}");

    let list = home.run(&["bulk", "list"]).json();
    let id = list[0]["job"].as_str().expect("an id");
    let resume = ["bulk", "resume", id, "--dry-run"];
    let held = run_at(&home, &service, "k", &resume);
    assert_eq!((held.code, held.stdout.as_str()), (0, ""), "{held:?}");
    assert!(held.stderr.contains("nothing is left to send"), "{held:?}");

    let said = "the outcome of 2 is unknown; to send them again: ";
    assert!(held.stderr.contains(said), "{held:?}");

    let again = run_at(
        &home,
        &service,
        "k",
        &[&resume[..], &["--unknown", "resend"]].concat(),
    );
    let shown = again.json();
    let first = shown["body"]
        .as_array()
        .expect("a batch")
        .iter()
        .map(|email| &email["to"][0]);
    assert!(first.eq(["ada@example.test"]), "{again:?}");

    let counts = ["emails", "accepted", "refused", "invalid", "unknown"];
    assert_eq!(
        counts.map(|count| shown[count].as_u64()),
        [2, 0, 0, 0, 2].map(Some),
        "{again:?}"
    );
    assert_eq!(shown["left_out"]["invalid"], 2, "{again:?}");
    assert!(
        again.stderr.contains("2 emails are left to send"),
        "{again:?}"
    );
    assert!(!again.stderr.contains(said), "{again:?}");
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn a_report_of_a_running_job_says_what_is_in_flight() {
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    let (listener, url) = crate::support::listen();
    let mut command = home.command(&[&SEND[1..], &["--yes"]].concat());
    command.env("SVC_EMAIL_URL", &url).env("SVC_EMAIL_KEY", "k");
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("starts");
    // The check of the sender's domain.
    drop(crate::support::accept(&listener));
    let stream = crate::support::accept(&listener);
    let list = home.run(&["bulk", "list"]).json();
    let id = list[0]["job"].as_str().expect("an id");
    assert_eq!(list[0]["state"], "running");

    let statuses = |report: &[Value]| {
        report
            .iter()
            .filter(|row| row["status"] != "left_out")
            .map(|row| row["status"].clone())
            .collect::<Vec<_>>()
    };

    let report = rows(&home.run(&["bulk", "report", id, "-o", "ndjson"]));
    assert_eq!(statuses(&report), ["in_flight", "in_flight"]);

    child.kill().expect("killed");
    child.wait().expect("ended");
    drop(stream);
    // When the lease of the killed process has ended.
    let resume = home.run_with_env(
        &["bulk", "resume", id],
        &[("SVC_EMAIL_URL", &url), ("SVC_EMAIL_KEY", "k")],
    );
    assert_eq!(resume.code, 9, "{resume:?}");

    let report = rows(&home.run(&["bulk", "report", id, "-o", "ndjson"]));
    assert_eq!(statuses(&report), ["unknown", "unknown"]);
}

#[test]
fn a_header_that_unsubscribe_sets_is_refused() {
    let home = Home::new();
    home.file("people.csv", PEOPLE);
    let args = [
        "--unsubscribe",
        "https://x.test/{{ token }}",
        "--header",
        "list-unsubscribe: <x>",
    ];
    let run = home.run(&[&SEND[..], &args, &["--yes"]].concat());
    assert_eq!((run.code, jobs(&home).len()), (2, 0), "{run:?}");
    assert!(
        run.stderr
            .contains("--unsubscribe sets the header list-unsubscribe"),
        "{run:?}"
    );
}

#[test]
fn ctrl_c_ends_the_check_of_a_large_file() {
    let home = Home::new();
    let people = (0..60_000)
        .map(|n| format!("p{n}@example.test,P\n"))
        .collect::<String>();
    home.file("people.csv", format!("email,First Name\n{people}"));
    let mut terminal = Terminal::start(&home, &SEND, &[], 120);
    terminal.until("reading the rows");
    terminal.write("\u{3}");
    let seen = terminal.end();
    assert_eq!(seen.code, 130, "{}", seen.raw);
    assert!(!seen.text.contains("Send? [y/N]"), "{}", seen.raw);
    assert_eq!(jobs(&home), Vec::<String>::new());
}

/// The domain of the sender is not verified: nothing is refused for good, and the job goes on once
/// it is.
#[test]
fn a_job_whose_sender_is_refused_stops_and_goes_on_later() {
    let home = Home::new();
    let rows = ["a", "b", "c"].map(|name| format!("{name}@example.test,hello@shop.test\n"));
    home.file("people.csv", format!("email,sender\n{}", rows.concat()));
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "people.csv",
        "--from",
        "hello@shop.test",
    ];
    let refused = home.run(&[&send[..], &["--subject", "s", "--text", "t", "--yes"]].concat());
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (6, ""),
        "{refused:?}"
    );
    assert_eq!(
        (&refused.error()["code"], jobs(&home).len()),
        (&json!("domain_not_verified"), 0)
    );

    // A sender that is in the rows is known only later.
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "people.csv",
        "--from",
        "{{ sender }}",
    ];
    let stopped = home.run(&[&send[..], &["--subject", "s", "--text", "t", "--yes"]].concat());
    assert_eq!(
        (stopped.code, &stopped.json()["not_sent"]),
        (6, &json!(3)),
        "{stopped:?}"
    );

    let error = stopped.error();
    assert_eq!(error["code"], "domain_not_verified", "{error}");
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("bulk resume")),
        "{error}"
    );

    let job = stopped.json()["job"].as_str().expect("an id").to_owned();
    for command in [
        &["domains", "create", "shop.test"][..],
        &["sandbox", "dns", "publish", "shop.test"],
        &["domains", "verify", "shop.test"],
    ] {
        let run = home.run(&[&["--sandbox"], command].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }

    let resumed = home.run(&["--sandbox", "bulk", "resume", &job, "--yes"]);
    assert_eq!(
        (resumed.code, &resumed.json()["accepted"]),
        (0, &json!(3)),
        "{resumed:?}"
    );
}

fn job_of(run: &Run) -> String {
    assert_eq!(run.code, 0, "{run:?}");
    run.json()["job"].as_str().expect("an id").to_owned()
}

fn people(range: std::ops::Range<usize>) -> String {
    let rows = range
        .map(|n| format!("p{n}@example.test,P{n}\n"))
        .collect::<String>();
    format!("email,First Name\n{rows}")
}

/// Whatever else has changed, and with rows that were added.
#[test]
fn the_same_email_is_sent_to_nobody_twice() {
    let home = Home::new();
    home.file("people.csv", people(0..10));
    let first = job_of(&home.run(&[&SEND[..], &["--yes"]].concat()));
    home.file("people.csv", people(0..15));
    for more in [&["--yes"][..], &[], &["--dry-run"]] {
        let run = home.run(&[&SEND[..], more].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        let error = run.error();
        assert_eq!(error["code"], "sent_again");
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.starts_with("10 of 15 recipients already got this email"),
            "{message}"
        );
        assert!(message.contains(&first), "{message}");
        let hint = error["hint"].as_str().expect("a hint");
        assert!(
            hint.contains("--limit 15") && hint.contains("--again"),
            "{hint}"
        );
    }

    assert_eq!(jobs(&home), [first.as_str()]);

    // Also when the rows of the job are gone.
    assert_eq!(home.run(&["bulk", "remove", &first, "--yes"]).code, 0);

    let run = home.run(&[&SEND[..], &["--yes"]].concat());
    assert_eq!(run.error()["code"], "sent_again", "{run:?}");

    let list = home.run(&["bulk", "list", "--all"]);
    assert!(
        list.stderr
            .contains("10 people got \"Hi {{ first_name }}\""),
        "{list:?}"
    );

    let rest = home.run(&[&SEND[..], &["--yes", "--limit", "15"]].concat());
    assert_eq!(rest.json()["accepted"], 5, "{rest:?}");

    let again = home.run(&[&SEND[..], &["--yes", "--again"]].concat());
    assert_eq!(
        (again.code, &again.json()["accepted"]),
        (0, &json!(15)),
        "{again:?}"
    );

    let forgotten = home.run(&["bulk", "forget", "--yes"]);
    assert_eq!(forgotten.json()["forgotten"], 10, "{forgotten:?}");
}

#[test]
fn another_email_to_half_of_the_people_needs_the_word_of_the_sender() {
    let home = Home::new();
    home.file("people.csv", people(0..20));
    job_of(&home.run(&[&SEND[..], &["--yes"]].concat()));
    let mut other = SEND;
    other[7] = "Another";
    let refused = home.run(&[&other[..], &["--yes"]].concat());
    let error = refused.error();
    assert_eq!(error["code"], "sent_again", "{refused:?}");

    let message = error["message"].to_string();
    assert!(
        message.contains("all 20 recipients already got the email"),
        "{message}"
    );

    for (rows, more) in [(0..20, &["--again"][..]), (0..2, &[]), (15..60, &[])] {
        home.file("people.csv", people(rows));
        let run = home.run(&[&other[..], &["--dry-run"], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }
}

#[test]
fn a_half_sent_email_is_resumed_and_never_sent_again() {
    let down = crate::support::http_response(403, "", "{}");
    let (home, service) = with_service(&[down]);
    home.file("people.csv", people(0..4));
    let send = [&SEND[1..], &["--yes"]].concat();
    assert_eq!(run_at(&home, &service, "k", &send).code, 6);

    let id = jobs(&home).remove(0);
    for more in [&[][..], &["--again"], &["--limit", "1", "--again"]] {
        let refused = run_at(&home, &service, "k", &[&send[..], more].concat());
        assert_eq!(
            refused.error()["code"],
            "sent_again",
            "{more:?} {refused:?}"
        );
        let hint = refused.error()["hint"].to_string();
        assert!(hint.contains(&format!("svc bulk resume {id}")), "{hint}");
    }
}

#[test]
fn a_job_is_paused_resumed_and_cancelled_from_elsewhere() {
    let home = Home::new();
    home.file("people.csv", people(0..80));
    let mut child = home.spawn(&[&SEND[..], &["--yes", "--rate", "10/s"]].concat());
    let status = || home.run(&["bulk", "list"]).json()[0].clone();
    let sent = || status()["accepted"].as_u64().unwrap_or_default();
    crate::support::wait_until("some are sent", || (sent() > 0).then_some(()));
    let id = status()["job"].as_str().expect("an id").to_owned();
    let paused = home.run(&["bulk", "pause", &id]);
    assert_eq!(
        (paused.code, &paused.json()["state"]),
        (0, &json!("paused")),
        "{paused:?}"
    );

    let errors = child.stderr.as_mut().expect("piped");
    crate::pty::read_until(errors, &mut Vec::new(), 0, "paused; go on: ");

    let cancelled = home.run(&["bulk", "cancel", &id]);
    assert_eq!(cancelled.json()["state"], "cancelled", "{cancelled:?}");

    let run = Run::wait(child);
    assert_eq!(run.error()["code"], "job_is_cancelled", "{run:?}");

    let resumed = home.run(&["--sandbox", "bulk", "resume", &id]);
    assert_eq!(resumed.error()["code"], "job_is_cancelled", "{resumed:?}");
    assert_eq!(home.run(&["bulk", "remove", &id, "--yes"]).code, 0);
    assert!(jobs(&home).is_empty());
}

#[test]
fn of_two_processes_at_once_one_sends() {
    let home = Home::new();
    home.file("people.csv", people(0..50));
    let args = [&SEND[..], &["--yes"]].concat();
    let runs = std::thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(|| home.run(&args)));
        runs.map(|run| run.join().expect("a run"))
    });
    let mut codes = runs.each_ref().map(|run| run.code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 2], "{runs:?}");
}

#[test]
fn a_list_to_suppress_without_addresses_is_refused() {
    let home = Home::new();
    home.file("people.csv", people(0..3));
    for content in [
        "[\"p0@example.test\"]",
        "{\"emails\":[\"p0@example.test\"]}",
    ] {
        let list = home.file("suppress.json", content);
        let run = home.run(&[&SEND[..], &["--yes", "--suppress", &list]].concat());
        assert!(
            run.code == 2 && run.stderr.contains("has no address"),
            "{content}: {run:?}"
        );
    }

    assert!(jobs(&home).is_empty());
}

#[test]
fn a_cancellation_tells_what_may_still_be_delivered() {
    let home = Home::new();
    let _serving = Serving::start(&home);
    home.file("people.csv", people(0..3));
    let fault = [
        "sandbox",
        "faults",
        "add",
        "--operation",
        "emails.send_batch",
        "--drop",
        "after",
    ];
    assert_eq!(home.run(&fault).code, 0);

    let sent = home.run(&[&SEND[..], &["--yes", "--at", "+1d"]].concat());
    assert_eq!(sent.code, 9, "{sent:?}");

    let id = sent.json()["job"].as_str().expect("an id").to_owned();
    let cancelled = home.run(&["--sandbox", "bulk", "cancel", &id]);
    assert_eq!(cancelled.code, 9, "{cancelled:?}");
    assert!(
        cancelled
            .stderr
            .contains("3 emails whose outcome is unknown"),
        "{cancelled:?}"
    );

    let resend = home.run(&["bulk", "settle", &id, "--resend", "p0@example.test"]);
    assert_eq!(resend.code, 6, "{resend:?}");
}

#[test]
fn with_a_limit_the_same_command_goes_on_with_the_rest() {
    let home = Home::new();
    home.file("people.csv", people(0..5));
    let send = [&SEND[..], &["--yes", "--limit", "2"]].concat();
    let counts = [(2, 0), (2, 2), (1, 4)];
    for (accepted, left_out) in counts {
        let run = home.run(&send);
        let job = run.json();
        let seen = (job["accepted"].as_u64(), job["left_out"].as_u64());
        assert_eq!(
            (run.code, seen),
            (0, (Some(accepted), Some(left_out))),
            "{run:?}"
        );
    }

    let run = home.run(&send);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr
            .contains("no row can be sent: 5 sent before left out"),
        "{run:?}"
    );

    let messages = home.sandbox_json(&["sandbox", "messages", "list"]);
    assert_eq!(
        messages["data"]
            .as_array()
            .or(messages.as_array())
            .map(Vec::len),
        Some(5)
    );
}

#[test]
fn unknown_rows_are_settled_one_by_one_or_by_file() {
    let (home, service) = with_service(&[String::new(), accepted(&["eml_9"])]);
    home.file("people.csv", people(0..4));
    let run = run_at(&home, &service, "k", &[&SEND[1..], &["--yes"]].concat());
    assert_eq!(run.code, 9, "{run:?}");

    let id = run.json()["job"].as_str().expect("an id").to_owned();
    let file = home.file("arrived.txt", "p0@example.test\nP1@example.test\n");
    let settle = home.run(&["bulk", "settle", &id, "--sent", &file, "--sent", "4"]);
    assert_eq!(
        (settle.code, &settle.json()["accepted"]),
        (0, &json!(3)),
        "{settle:?}"
    );

    let settle = home.run(&["bulk", "settle", &id, "--resend", "p3@example.test"]);
    assert_eq!(
        (settle.code, &settle.json()["state"]),
        (0, &json!("incomplete")),
        "{settle:?}"
    );
    assert_eq!(settle.json()["not_sent"], 1);

    let report = home.run(&["bulk", "report", &id, "--status", "not_sent"]);
    let why = "an earlier request has no known outcome";
    assert!(report.stdout.contains(why), "{report:?}");

    let empty = home.file("empty.txt", "");
    let agreed = [
        "bulk",
        "settle",
        &id,
        "--sent",
        "p0@example.test",
        "--resend",
        &empty,
    ];
    let agreed = home.run(&agreed);
    assert_eq!(
        (agreed.code, &agreed.json()["accepted"]),
        (0, &json!(3)),
        "{agreed:?}"
    );

    let wrong = home.run(&["bulk", "settle", &id, "--resend", "p0@example.test"]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("no unknown row is"),
        "{wrong:?}"
    );

    let resumed = run_at(&home, &service, "k", &["bulk", "resume", &id]);
    assert_eq!(
        (resumed.code, &resumed.json()["accepted"]),
        (0, &json!(4)),
        "{resumed:?}"
    );

    let last = service.requests().pop().expect("a request");
    assert!(
        last.contains("p3@example.test") && !last.contains("p0@"),
        "{last}"
    );

    let report = home.run(&["bulk", "report", &id]).stdout;
    assert_eq!(report.matches(",accepted,").count(), 4, "{report}");
    assert_eq!(report.matches("settled by hand").count(), 3, "{report}");
    assert_eq!(report.matches("perhaps sent twice").count(), 1, "{report}");
}

/// The service keeps the emails until then.
#[test]
fn emails_that_are_scheduled_are_cancelled_with_their_job() {
    let home = Home::new();
    home.file("people.csv", people(0..3));
    let job = job_of(&home.run(&[&SEND[..], &["--yes", "--at", "+2h"]].concat()));
    let report = rows(&home.run(&["bulk", "report", &job, "-o", "ndjson"]));
    let email = report[0]["id"].as_str().expect("an id");
    assert!(
        home.run(&["bulk", "list", "-o", "table"])
            .stdout
            .contains("scheduled for 2")
    );

    let twice = home.run(&[&SEND[..], &["--yes"]].concat());
    let message = twice.error()["message"].to_string();
    assert!(
        twice.code == 2 && message.contains("will get this email, 2"),
        "{twice:?}"
    );

    let elsewhere = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "k"),
    ];
    let elsewhere = home.run_with_env(&["bulk", "cancel", &job], &elsewhere);
    assert_eq!(elsewhere.code, 2, "{elsewhere:?}");
    assert!(
        elsewhere.error()["hint"].to_string().contains("--sandbox"),
        "{elsewhere:?}"
    );
    assert!(home.sandbox_json(&["emails", "get", email])["scheduledAt"].is_string());

    let cancelled = home.run(&["--sandbox", "bulk", "cancel", &job]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert_eq!(cancelled.json()["state"], "cancelled", "{cancelled:?}");

    for run in [cancelled, home.run(&["--sandbox", "bulk", "cancel", &job])] {
        assert!(
            run.stderr.contains("3 of 3 scheduled emails are cancelled"),
            "{run:?}"
        );
    }

    let report = rows(&home.run(&["bulk", "report", &job, "-o", "ndjson"]));
    assert!(
        report.iter().all(|row| row["status"] == "cancelled"),
        "{report:?}"
    );
    assert_eq!(
        home.sandbox_json(&["emails", "get", email])["status"],
        "cancelled"
    );

    let ids = report[1..]
        .iter()
        .map(|row| row["id"].as_str().expect("an id"));
    let ids = ids.collect::<Vec<_>>().join("\n");
    let run = home.run_with_input(&["--sandbox", "emails", "cancel", "-"], ids);
    assert_eq!(
        (run.code, run.error()["code"].as_str()),
        (11, Some("partly_cancelled")),
        "{run:?}"
    );

    // Nobody has got it, so it can be sent; and then it is too late.
    let job = job_of(&home.run(&[&SEND[..], &["--yes", "--at", "+2h"]].concat()));
    home.sandbox_json(&["sandbox", "clock", "advance", "3h"]);
    let late = home.run(&["--sandbox", "bulk", "cancel", &job]);
    assert_eq!(
        (late.code, &late.error()["code"]),
        (6, &json!("sent_already")),
        "{late:?}"
    );
    assert_eq!(late.json()["state"], "complete", "{late:?}");

    let past = home.run(&[&SEND[..], &["--yes", "--again", "--at", "1d ago"]].concat());
    assert!(
        past.code == 2 && past.stderr.contains("is in the past"),
        "{past:?}"
    );
}

/// `--at` is a time of the service's clock, and so is the time after which it is over.
#[test]
fn a_job_is_overdue_by_the_clock_of_the_sandbox() {
    let home = Home::new();
    home.file("people.csv", people(0..3));
    let fault = ["--operation", "emails.send_batch", "--status", "403"];
    home.sandbox_json(&[&["sandbox", "faults", "add"], &fault[..]].concat());
    let refused = home.run(&[&SEND[..], &["--yes", "--at", "+2h"]].concat());
    assert_eq!(refused.code, 4, "{refused:?}");

    let id = refused.json()["job"].as_str().expect("an id").to_owned();
    home.sandbox_json(&["sandbox", "faults", "remove", "--all"]);
    home.sandbox_json(&["sandbox", "clock", "advance", "3h"]);
    for command in ["resume", "work"] {
        let run = home.run(&["--sandbox", "bulk", command, &id]);
        assert_eq!(
            (run.code, &run.error()["code"]),
            (2, &"job_is_overdue".into()),
            "{run:?}"
        );
    }
    let sent = home.sandbox_json(&["sandbox", "emails", "list"]);
    assert_eq!(sent, json!([]));
}

/// Those that a service could not cancel are cancelled by the same command.
#[test]
fn scheduled_emails_whose_cancellation_fails_are_counted() {
    let home = Home::new();
    home.file("people.csv", people(0..3));
    let job = job_of(&home.run(&[&SEND[..], &["--yes", "--at", "+2h"]].concat()));
    let fault = [
        "sandbox",
        "faults",
        "add",
        "--operation",
        "emails.cancel",
        "--status",
        "503",
    ];
    home.sandbox_json(&[&fault[..], &["--skip", "2", "--times", "9"]].concat());
    let cancel = ["--sandbox", "--retries", "0", "bulk", "cancel", &job];
    let failed = home.run(&cancel);
    assert_eq!(failed.code, 8, "{failed:?}");

    let message = failed.error()["message"].to_string();
    assert!(
        message.contains("2 of 3 scheduled emails are cancelled: "),
        "{message}"
    );

    let faults = home.sandbox_json(&["sandbox", "faults", "list"]);
    home.sandbox_json(&[
        "sandbox",
        "faults",
        "remove",
        faults[0]["id"].as_str().expect("an id"),
    ]);
    let cancelled = home.run(&cancel);
    assert!(
        cancelled
            .stderr
            .contains("3 of 3 scheduled emails are cancelled"),
        "{cancelled:?}"
    );
}

/// A mistake in an option is not told as one of each row.
#[test]
fn a_problem_of_all_rows_is_told_once() {
    let home = Home::new();
    home.file("people.csv", people(0..3));
    let run = home.run(
        &[
            &SEND[..3],
            &["people.csv", "--from", "hello@sandbox.test"],
            &["--subject", "s", "--text", "Hi {{ Firstname }}", "--yes"],
        ]
        .concat(),
    );
    let error = run.error();
    let problem = json!({"field": "row 2, p0@example.test", "message": "--text: line 1: the row has no `Firstname`"});
    assert_eq!(
        (run.code, &error["fields"]),
        (2, &json!([problem])),
        "{run:?}"
    );
    assert_eq!(error["message"], "no row can be sent: 3 invalid left out");

    let columns = "no column is named `Firstname`; its columns are `First Name`, `email`";
    assert_eq!(error["hint"], columns);

    // If others can be sent, it is one of those rows.
    home.file("people.csv", "email\na@b.test\nbad\nc@d.test\nworse\n");
    let text = [
        "people.csv",
        "--from",
        "hello@sandbox.test",
        "--subject",
        "s",
        "--text",
        "Hi",
    ];
    let run = home.run(&[&SEND[..3], &text, &["--dry-run"]].concat());
    assert_eq!((run.code, &run.json()["emails"]), (0, &json!(2)), "{run:?}");
    // One email is shown, and everyone who gets none.
    assert_eq!(run.json()["body"].as_array().map(Vec::len), Some(1));

    for left_out in ["left out: row 3, bad: ", "left out: row 5, worse: "] {
        assert!(run.stderr.contains(left_out), "{run:?}");
    }
}

#[test]
fn files_have_any_form_and_names_become_display_names() {
    let home = Home::new();
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "k"),
    ];
    let object = json!({"address": "a@b.test", "name": "Ada", "Full Name": "King, A."});
    for (content, more, to) in [
        (
            "sep=;\r\nname;address\r\nAda;a@b.test\r\n".to_owned(),
            &[][..],
            "Ada <a@b.test>",
        ),
        (
            "SEP=,\nname,address\nAda,a@b.test\n".to_owned(),
            &[],
            "Ada <a@b.test>",
        ),
        (
            "\"sep=;\"\r\nname;address\r\nAda;a@b.test\r\n".to_owned(),
            &[],
            "Ada <a@b.test>",
        ),
        (format!("[{object},\n{object}]"), &[], "Ada <a@b.test>"),
        (
            "mail work,who\na@b.test,\"King, A.\"\n".to_owned(),
            &["--column", "mail work", "--column", "who=name"],
            "\"King, A.\" <a@b.test>",
        ),
    ] {
        home.file("people", content);
        let send = [
            "bulk",
            "send",
            "people",
            "--from",
            "a@b.test",
            "--subject",
            "s",
            "--dry-run",
        ];
        let run = home.run_with_env(&[&send[..], &["--text", "t"], more].concat(), &env);
        assert_eq!(
            (run.code, &run.json()["body"][0]["to"]),
            (0, &json!([to])),
            "{run:?}"
        );
    }
}

#[test]
fn mistakes_are_named_with_the_next_step() {
    let home = Home::new();
    home.file("people.csv", "E-Mail,name\na@example.test,Ada\n");
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "people.csv",
        "--from",
        "hello@sandbox.test",
    ];
    let send = [&send[..], &["--subject", "s", "--text", "t", "--yes"]].concat();
    let column = home.run(&[&send[..], &["--column", "e-mail"]].concat());
    assert_eq!(column.code, 2, "{column:?}");

    home.file("other.csv", "who,name\na@example.test,Ada\n");
    let mut other = send.clone();
    other[3] = "other.csv";
    let nameless = home.run(&other);
    assert!(
        nameless
            .stderr
            .contains("its columns are `who`, `name`; name the"),
        "{nameless:?}"
    );
    assert!(
        column.stderr.contains("did you mean `E-Mail`?"),
        "{column:?}"
    );

    let mut other = send.clone();
    other[3] = "nobody.csv";
    let missing = home.run(&other);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(
        missing.stderr.contains("nobody.csv: No such file"),
        "{missing:?}"
    );

    let file = home.file("a file", "");
    let homeless = home.run_with_env(&send, &[("XDG_STATE_HOME", &file)]);
    let error = homeless.error();
    assert_eq!(
        (homeless.code, &error["code"]),
        (1, &json!("no_state_directory")),
        "{error}"
    );

    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with("cannot keep a record of jobs in "),
        "{message}"
    );
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("set HOME")),
        "{error}"
    );
}

/// A column does not add a recipient or schedule an email.
#[test]
fn a_column_named_like_a_field_of_an_email_is_not_passed_over_in_silence() {
    let home = Home::new();
    home.file(
        "people.csv",
        "email,Send at,cc\na@b.test,,\nc@d.test,tomorrow,boss@b.test\n",
    );
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "k"),
    ];
    let send = [
        "bulk",
        "send",
        "people.csv",
        "--from",
        "a@b.test",
        "--subject",
        "s",
        "--dry-run",
    ];
    let run = |text| home.run_with_env(&[&send[..], &["--text", text]].concat(), &env);
    let unused = run("t");
    assert_eq!(
        (unused.code, unused.stderr.matches("is not used").count()),
        (0, 2),
        "{unused:?}"
    );
    assert!(
        unused
            .stderr
            .contains("warning: the column `cc` is not used"),
        "{unused:?}"
    );

    let used = run("{{ cc|default('') }} {{ row.send_at|default('') }}");
    assert_eq!(
        (used.code, used.stderr.contains("is not used")),
        (0, false),
        "{used:?}"
    );
}

/// `timeout`, supervisors and terminals send two.
#[test]
fn two_signals_within_a_second_are_one() {
    let home = Home::new();
    home.file("people.csv", people(0..2));
    let (listener, url) = crate::support::listen();
    let mut command = home.command(&[&SEND[1..], &["--yes"]].concat());
    command.env("SVC_EMAIL_URL", &url).env("SVC_EMAIL_KEY", "k");
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("starts");
    // The check of the sender's domain.
    drop(crate::support::accept(&listener));
    let mut stream = crate::support::accept(&listener);
    crate::support::read_request(&stream).expect("a request");
    let pid = child.id().to_string();
    for signal in ["-INT", "-TERM"] {
        let killed = std::process::Command::new("kill")
            .args([signal, &pid])
            .status();
        assert!(killed.expect("kill runs").success());
    }

    let accepted = accepted(&["eml_1", "eml_2"]);
    std::io::Write::write_all(&mut stream, accepted.as_bytes()).expect("sent");
    let run = Run::wait(child);
    let job = run.json();
    assert_eq!(
        (run.code, &job["accepted"], &job["unknown"]),
        (0, &json!(2), &json!(0)),
        "{run:?}"
    );
}

#[test]
fn emails_whose_time_is_over_are_sent_only_after_a_question() {
    let down = crate::support::http_response(403, "", "{}");
    let (home, service) = with_service(&[down]);
    let send = [&SEND[1..], &["--yes", "--at", "+2s"]].concat();
    let run = run_at(&home, &service, "k", &send);
    assert_eq!(run.code, 6, "{run:?}");

    let id = run.json()["job"].as_str().expect("an id").to_owned();
    for command in ["resume", "work"] {
        let refused = crate::support::wait_until("the time of the job is over", || {
            let run = run_at(&home, &service, "k", &["bulk", command, &id]);
            (run.code == 2).then_some(run)
        });
        assert_eq!(refused.error()["code"], "job_is_overdue", "{refused:?}");
    }

    let requests = service.requests().len();
    let listed = run_at(&home, &service, "k", &["bulk", "resume", &id, "--yes"]);
    assert_eq!(listed.error()["code"], "job_is_overdue", "{listed:?}");
    assert_eq!(service.requests().len(), requests);
}

#[test]
fn a_report_says_what_is_not_checked_yet_and_asks_the_service_on_request() {
    let home = Home::new();
    home.file(
        "people.csv",
        "email,First Name\nada@example.test,Ada\nbounced@example.test,Bob\n",
    );
    let job = job_of(&home.run(&[&SEND[..], &["--yes"]].concat()));
    home.sandbox_json(&["sandbox", "settle"]);
    let report = home.run(&["bulk", "report", &job, "--status", "bounced"]);
    assert_eq!(report.stdout.lines().count(), 1, "{report:?}");

    let unchecked = "whether 2 accepted emails were delivered is not checked yet: ";
    assert!(report.stderr.contains(unchecked), "{report:?}");

    let refresh = ["--refresh", "--status", "bounced", "--jq", ".[].address"];
    let report = home.run(&[&["--sandbox", "bulk", "report", &job][..], &refresh].concat());
    assert_eq!(
        (report.code, report.stdout.as_str()),
        (0, "bounced@example.test\n"),
        "{report:?}"
    );

    let report = home.run(&["bulk", "report", &job, "--status", "bounced"]);
    assert!(
        report.stdout.contains(",bounced@example.test,bounced,") && report.stderr.is_empty(),
        "{report:?}"
    );
}

#[test]
fn an_audience_of_which_not_all_is_known_gets_nothing() {
    let send = [
        "bulk",
        "send",
        "--audience",
        "aud_0198c0de-0000-7000-8000-000000000000",
        "--from",
        "a@b.test",
        "--subject",
        "s",
        "--text",
        "t",
        "--yes",
    ];
    let contact = |n: u8| json!({"id": format!("con_{n}"), "email": format!("p{n}@b.test")});
    let subscribed = |n: u8| {
        let mut contact = contact(n);
        contact["subscribed"] = json!(true);
        contact
    };

    for (list, said) in [
        // The service does not say who wants emails.
        (json!([subscribed(1), contact(2)]), "`opt-out`"),
        // There are more contacts, of which it returns only the first.
        (
            json!({"data": [subscribed(1)], "has_more": true, "total": 9}),
            "the same page twice",
        ),
    ] {
        let list = crate::support::http_response(200, "", &list.to_string());
        let service = Service::with_responses(&[list]);
        let home = Home::new();
        let run = run_at(&home, &service, "k", &send);
        assert_ne!(run.code, 0, "{run:?}");
        assert!(run.stderr.contains(said), "{run:?}");
        assert!(jobs(&home).is_empty());
        let requests = service.requests();
        assert!(
            requests.iter().all(|request| request.starts_with("GET ")),
            "{requests:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_file_need_not_have_a_name_in_utf_8() {
    use std::os::unix::ffi::OsStrExt as _;

    let home = Home::new();
    let name = std::ffi::OsStr::from_bytes(b"Empf\xe4nger.csv");
    let path = std::path::Path::new(&home.file("people.csv", people(0..2))).with_file_name(name);
    std::fs::write(&path, people(0..2)).expect("written");
    let options = [&SEND[..3], &SEND[4..], &["--yes"]].concat();
    let mut command = home.command(&options);
    command.arg(&path);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let run = Run::wait(command.spawn().expect("starts"));
    assert_eq!(
        (run.code, &run.json()["accepted"]),
        (0, &json!(2)),
        "{run:?}"
    );
}
