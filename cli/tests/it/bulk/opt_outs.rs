//! Who gets no email of `svc bulk send`, because a row of the address may say so.

use crate::support::{Home, Run};

fn send(home: &Home, rows: &str, more: &[&str]) -> Run {
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "-",
        "--yes",
        "--again",
        "--from",
        "hello@sandbox.test",
    ];
    let text = ["--subject", "s", "--text", "t"];
    home.run_with_input(&[&send[..], &text, more].concat(), rows)
}

/// How many emails are accepted, and how many rows are left out, of these as invalid.
fn counts(run: &Run) -> [u64; 3] {
    let job = run.json();
    ["accepted", "left_out", "left_out_invalid"].map(|name| job[name].as_u64().expect("a count"))
}

#[test]
fn of_two_columns_that_say_who_is_subscribed_any_one_is_enough() {
    let home = Home::new();
    for header in ["Subscribed,subscribed", "subscribed,is_subscribed"] {
        let rows = format!("email,{header}\na@example.test,no,yes\nb@example.test,yes,yes\n");
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
    }
    let run = send(
        &home,
        "email,subscribed,subscribed\na@example.test,no,yes\n",
        &[],
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    assert!(
        run.stderr.contains("two columns are named `subscribed`"),
        "{run:?}"
    );
    let rows = "{\"email\":\"a@example.test\",\"subscribed\":true,\"Subscribed\":false}\n\
        {\"email\":\"A@example.test\",\"subscribed\":true}\n\
        {\"email\":\"b@example.test\",\"Subscribed\":true}\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
}

/// The words that were mailed once.
#[test]
fn a_value_about_opting_out_that_cannot_be_read_sends_nothing() {
    let home = Home::new();
    for (column, value, left_out) in [
        ("unsubscribed", "x", [1, 1, 0]),
        ("unsubscribed", "✓", [1, 1, 0]),
        ("unsubscribed", "ja", [1, 1, 0]),
        ("unsubscribed", "opted out", [1, 1, 0]),
        ("unsubscribed", "2026-01-02", [1, 1, 0]),
        ("unsubscribed", "perhaps", [1, 1, 1]),
        ("unsubscribed_at", "2026-01-02", [1, 1, 0]),
        ("status", "cleaned", [1, 1, 0]),
        ("abgemeldet", "ja", [1, 1, 0]),
        ("unsubscribed", "-1", [1, 1, 1]),
    ] {
        for header in [
            format!("email,subscribed,{column}"),
            format!("email,plan,{column}"),
        ] {
            let rows = format!("{header}\na@example.test,yes,{value}\nb@example.test,yes,\n");
            let run = send(&home, &rows, &[]);
            assert_eq!((run.code, counts(&run)), (0, left_out), "{rows} {run:?}");
        }
    }
    let run = send(
        &home,
        "email,newsletter,status\na@b.test,,active\nb@b.test,yes,active\n",
        &[],
    );
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 1]), "{run:?}");
    let run = send(
        &home,
        "email,no_newsletter\na@example.test,yes\nb@example.test,no\n",
        &[],
    );
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
    let run = send(
        &home,
        "email,x,dnc\na@b.test,1,perhaps\nb@b.test,,?\nc@d.test,,\n",
        &[],
    );
    let hint = "; if `dnc` says something else: --column 'dnc=ignore'";
    assert_eq!(
        (run.code, run.stderr.matches(hint).count()),
        (0, 1),
        "{run:?}"
    );
    let run = send(
        &home,
        "email,State\na@example.test,bounced\nb@example.test,NY\n",
        &[],
    );
    assert!(
        run.stderr
            .contains("who has opted out is read from `State`"),
        "{run:?}"
    );
    let trial = "email,status\na@example.test,trial\n";
    let run = send(&home, trial, &[]);
    assert_eq!(
        (run.code, run.error()["code"].as_str()),
        (2, Some("opt_outs_unclear")),
        "{run:?}"
    );
    let hint = run.error()["hint"].as_str().expect("a hint").to_owned();
    assert!(
        hint.starts_with("if these people are subscribed: --column 'status=status'"),
        "{hint}"
    );
    let run = send(&home, trial, &["--column", "status=ignore"]);
    assert_eq!((run.code, counts(&run)), (0, [1, 0, 0]), "{run:?}");
    let mixed = format!("{trial}b@example.test,bounced\n");
    let run = send(&home, &mixed, &["--column", "status=status"]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
}

#[test]
fn options_say_who_gets_no_email() {
    let home = Home::new();
    let rows = "email,gone\na@example.test,yes\nb@example.test,no\nc@example.test,\n";
    let run = send(&home, rows, &["--opt-out", "gone"]);
    assert_eq!((run.code, counts(&run)), (0, [2, 1, 0]), "{run:?}");
    assert!(
        run.stderr.contains("who has opted out is read from `gone`"),
        "{run:?}"
    );
    for content in [
        "B@example.test\n\nx@example.test\n",
        "name,email\nBob,b@example.test\n",
    ] {
        let file = home.file("suppress", content);
        let run = send(&home, rows, &["--suppress", &file]);
        assert_eq!((run.code, counts(&run)), (0, [2, 1, 0]), "{run:?}");
        let job = run.json()["job"].as_str().expect("an id").to_owned();
        let report = home.run(&["bulk", "report", &job]).stdout;
        assert!(
            report.contains("b@example.test,left_out,,suppressed,"),
            "{report}"
        );
    }
    let file = home.file("suppress", "name\nBob\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 2 && run.stderr.contains("`name` is not an address"),
        "{run:?}"
    );
    for content in [
        "a@example.test,b@example.test\n",
        "a@example.test\nx;b@example.test\n",
    ] {
        let file = home.file("suppress", content.replace(';', ","));
        let run = send(&home, rows, &["--suppress", &file]);
        assert!(
            run.code == 2 && run.stderr.contains("b@example.test` is not an address"),
            "{run:?}"
        );
    }
    let file = home.file("suppress", "*@example.test\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 2 && run.stderr.contains("`*@example.test` is not an address"),
        "{run:?}"
    );
    let file = home.file("suppress", "other@example.test\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 0 && run.stderr.contains("--suppress has no effect"),
        "{run:?}"
    );
    let run = send(&home, rows, &["--opt-out", "Gone"]);
    assert!(
        run.code == 2 && run.stderr.contains("did you mean `gone`?"),
        "{run:?}"
    );
}

/// As an import does. An empty cell only makes its own row invalid.
#[test]
fn an_address_whose_subscription_is_unclear_in_a_row_gets_no_email() {
    let home = Home::new();
    let rows = "email,subscribed\nb@example.test,yes\na@example.test,yes\nA@example.test,maybe\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 2]), "{run:?}");
    assert!(
        run.stderr.contains("row 3: row 4 has the same address"),
        "{run:?}"
    );
    let twice = "{\"email\":\"a@b.test\",\"subscribed\":false,\"subscribed\":true}\n\
        {\"email\":\"a@b.test\",\"subscribed\":true}\n";
    assert_eq!(send(&home, twice, &[]).code, 2);

    let run = send(
        &home,
        "email,subscribed\na@example.test,yes\na@example.test,\n",
        &[],
    );
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 1]), "{run:?}");
}

#[test]
fn a_column_beside_subscribed_that_says_who_has_opted_out_counts() {
    let home = Home::new();
    for (column, opted_out, others) in [
        ("unsubscribed", "yes", "no"),
        ("bounced", "1", "0"),
        ("opt_in", "no", "yes"),
        ("status", "Unsubscribed", "subscribed"),
        ("dnc", "true", ""),
    ] {
        let rows = format!(
            "email,subscribed,{column}\na@example.test,yes,{opted_out}\nb@example.test,yes,{others}\n"
        );
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
        let job = run.json()["job"].as_str().expect("an id").to_owned();
        let report = home.run(&["bulk", "report", &job]);
        let why = format!("not subscribed, as `{column}` says");
        assert!(report.stdout.contains(&why), "{report:?}");
    }
    let rows = "{\"email\":\"a@example.test\",\"subscribed\":true,\"bounced\":true}\n\
        {\"email\":\"b@example.test\",\"subscribed\":true,\"bounced\":false}\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
}

#[test]
fn both_forms_of_a_domain_are_one_address() {
    let home = Home::new();
    let (unicode, ascii) = ("ü@bücher.test", "ü@xn--bcher-kva.test");
    let rows = format!("email,subscribed\n{unicode},no\n{ascii},yes\nb@example.test,yes\n");
    let run = send(&home, &rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
    let run = send(&home, &format!("email\n{unicode}\n{ascii}\n"), &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
}

/// The metadata of a contact are not what the service says about it.
#[test]
fn only_the_service_says_which_contacts_are_subscribed() {
    let home = Home::new();
    let name = "people";
    home.sandbox_json(&["audiences", "create", name]);
    let create = [
        "contacts",
        "create",
        name,
        "a@example.test",
        "--meta",
        "Subscribed=no",
        "--meta",
        "unsubscribed=yes",
    ];
    home.sandbox_json(&create);
    let send = ["--sandbox", "bulk", "send", "--audience", name, "--yes"];
    let text = [
        "--from",
        "hello@sandbox.test",
        "--subject",
        "s",
        "--text",
        "t",
    ];
    let run = home.run(&[&send[..], &text].concat());
    assert_eq!((run.code, counts(&run)), (0, [1, 0, 0]), "{run:?}");
}
