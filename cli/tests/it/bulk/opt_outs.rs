//! Who gets no email of `svc bulk send`, because a row of the address may say so.

use crate::support::{Home, Run};

fn send(home: &Home, rows: &str, more: &[&str]) -> Run {
    let send = ["--sandbox", "bulk", "send", "-", "--yes", "--from", "hello@sandbox.test"];
    let text = ["--subject", "s", "--text", "t"];
    home.run_with_input(&[&send[..], &text, more].concat(), rows)
}

/// How many emails are accepted, and how many rows are left out, of these as invalid.
fn counts(run: &Run) -> [u64; 3] {
    let job = run.json();
    ["accepted", "left_out", "left_out_invalid"].map(|name| job[name].as_u64().expect("a count"))
}

#[test]
fn two_columns_that_say_who_is_subscribed_refuse_the_file() {
    let home = Home::new();
    for header in [
        "Subscribed,subscribed",
        "SUBSCRIBED,subscribed",
        "subscribed,\"Subscribed \"",
        "subscribed,is_subscribed",
    ] {
        let run = send(&home, &format!("email,{header}\na@example.test,no,yes\n"), &[]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains("only you can know which of them says who"), "{run:?}");
    }
}

#[test]
fn two_keys_that_say_who_is_subscribed_make_the_address_invalid() {
    let home = Home::new();
    let rows = "{\"email\":\"a@example.test\",\"subscribed\":true,\"Subscribed\":false}\n\
        {\"email\":\"A@example.test\",\"subscribed\":true}\n\
        {\"email\":\"b@example.test\",\"Subscribed\":true}\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 2]), "{run:?}");
    assert!(run.stderr.contains("row 1: `subscribed` and `Subscribed` may both say"), "{run:?}");
    assert!(run.stderr.contains("row 2: row 1 has the same address"), "{run:?}");
}

/// As an import does. An empty cell only makes its own row invalid.
#[test]
fn an_address_whose_subscription_is_unclear_in_a_row_gets_no_email() {
    let home = Home::new();
    let rows = "email,subscribed\nb@example.test,yes\na@example.test,yes\nA@example.test,maybe\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 2]), "{run:?}");
    assert!(run.stderr.contains("row 3: row 4 has the same address"), "{run:?}");
    assert_eq!(send(&home, rows, &["--strict"]).code, 2);
    let twice = "{\"email\":\"a@b.test\",\"subscribed\":false,\"subscribed\":true}\n\
        {\"email\":\"a@b.test\",\"subscribed\":true}\n";
    assert_eq!(send(&home, twice, &[]).code, 2);

    let run = send(&home, "email,subscribed\na@example.test,yes\na@example.test,\n", &[]);
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
        let why = format!("not subscribed, as the column `{column}` says");
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
    let text = ["--from", "hello@sandbox.test", "--subject", "s", "--text", "t"];
    let run = home.run(&[&send[..], &text].concat());
    assert_eq!((run.code, counts(&run)), (0, [1, 0, 0]), "{run:?}");
}
